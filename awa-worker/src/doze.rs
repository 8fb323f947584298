//! Whether to ask for announcements while awake.
//!
//! Between two claims that leave slots free the dispatcher pauses. As long as jobs come one by one, it pays to be told of each:
//! the worker *dozes*. Once they come by the hundred a pause is full of them anyway, and announcements only cost.
//!
//! Of several processes one hears the announcements of a queue; the others keep to their pauses. It gives that up when it has no
//! slot left, and for a moment now and then, so that one process does not get all the work of a quiet queue for good.

use std::time::{Duration, Instant};

use crate::jitter;

/// Jobs a second below which each may be announced. A claim of one job takes about a millisecond, so up to here most of them get
/// a claim of their own, and not more claims are made than without announcements at twice the rate.
const RARE: f64 = 1_000.0;

/// Jobs a second above which none is. Apart from [`RARE`], so that a rate in between does not change its mind all the time.
const PLENTIFUL: f64 = 1_500.0;

/// Over how long the rate is taken: long against a pause, short against what anybody would notice.
const WINDOW: Duration = Duration::from_millis(100);

/// How long after asking for doze locks those that others have are asked for again, lengthened at random.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// How long doze locks are kept before others get a chance, lengthened at random.
const TURN: Duration = Duration::from_secs(1);

/// How long others get it for. They ask every [`ASK_AGAIN`]; meanwhile jobs wait for pauses, which the slowest hundredth of all
/// pick-ups must not show.
const CHANCE: Duration = Duration::from_millis(25);

/// What to ask of the connection that listens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Take the doze locks that are not held yet.
    Doze,
    /// Give all back.
    Stir,
}

/// The rate at which jobs are claimed, and what was asked for last.
#[derive(Debug)]
pub(crate) struct Dozer {
    window: Instant,
    /// Jobs claimed since the window began.
    claimed: usize,
    rare: bool,
    /// Until when doze locks are kept; nothing if none were asked for.
    until: Option<Instant>,
    /// Not to be asked for before.
    next: Instant,
}

impl Dozer {
    pub(crate) fn new(now: Instant) -> Self {
        Self { window: now, claimed: 0, rare: true, until: None, next: now }
    }

    /// A claim has answered with so many jobs.
    pub(crate) fn claimed(&mut self, now: Instant, got: usize) {
        let length = now.duration_since(self.window).max(WINDOW);
        self.claimed += got;
        #[allow(clippy::cast_precision_loss, reason = "a count of jobs")]
        let rate = self.claimed as f64 / length.as_secs_f64();
        // Plenty need not last a whole window.
        self.rare &= rate <= PLENTIFUL;
        if length > WINDOW {
            self.rare |= rate < RARE;
            (self.window, self.claimed) = (now, 0);
        }
    }

    /// What is to be asked now by a worker that holds `held` of `queues` doze locks.
    pub(crate) fn step(&self, now: Instant, held: usize, queues: usize) -> Option<Step> {
        let over = self.until.is_some_and(|until| held > 0 && now >= until);
        if over || !self.rare && self.until.is_some() {
            return Some(Step::Stir);
        }
        (self.rare && held < queues && now >= self.next).then_some(Step::Doze)
    }

    /// Doze locks were asked for by a worker that held `held` of them.
    pub(crate) fn dozes(&mut self, now: Instant, held: usize) {
        if held == 0 || self.until.is_none() {
            self.until = Some(now + jitter::lengthened(TURN));
        }
        self.next = now + jitter::lengthened(ASK_AGAIN);
    }

    /// They were given back, to sleep.
    pub(crate) fn sleeps(&mut self) {
        self.until = None;
    }

    /// They were given back, also to let others have them.
    pub(crate) fn stirs(&mut self, now: Instant) {
        self.until = None;
        self.next = now + CHANCE;
    }

    /// Whether doze locks may be held.
    pub(crate) fn may_doze(&self) -> bool {
        self.until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims `got` jobs every `pause` for half a second, from `now` on.
    fn claims(dozer: &mut Dozer, now: &mut Instant, got: usize, pause: Duration) {
        let end = *now + WINDOW * 5;
        while *now < end {
            *now += pause;
            dozer.claimed(*now, got);
        }
    }

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn rare_jobs_are_announced_and_plentiful_ones_are_not() {
        let mut now = Instant::now();
        let mut dozer = Dozer::new(now);
        claims(&mut dozer, &mut now, 1, 2 * MILLISECOND);
        assert_eq!(dozer.step(now, 0, 1), Some(Step::Doze));
        dozer.dozes(now, 0);
        assert_eq!(dozer.step(now, 1, 1), None, "500 a second");
        claims(&mut dozer, &mut now, 5, 4 * MILLISECOND);
        assert_eq!(dozer.step(now, 1, 1), None, "1,250 a second: as it was");
        claims(&mut dozer, &mut now, 2, MILLISECOND);
        assert_eq!(dozer.step(now, 1, 1), Some(Step::Stir), "2,000 a second");
        dozer.stirs(now);
        claims(&mut dozer, &mut now, 5, 4 * MILLISECOND);
        assert_eq!(dozer.step(now, 0, 1), None, "1,250 a second: as it was");
        claims(&mut dozer, &mut now, 1, 2 * MILLISECOND);
        assert_eq!(dozer.step(now, 0, 1), Some(Step::Doze), "500 a second");
    }

    #[test]
    fn one_claim_of_many_is_plenty_at_once() {
        let mut now = Instant::now();
        let mut dozer = Dozer::new(now);
        dozer.dozes(now, 0);
        now += MILLISECOND;
        dozer.claimed(now, 500);
        assert_eq!(dozer.step(now, 1, 1), Some(Step::Stir));
        dozer.stirs(now);
        now += WINDOW * 6;
        dozer.claimed(now, 1);
        assert_eq!(dozer.step(now, 0, 1), Some(Step::Doze));
    }

    #[test]
    fn what_others_have_is_asked_for_now_and_then_and_what_is_held_is_given_up_in_turn() {
        let now = Instant::now();
        let mut dozer = Dozer::new(now);
        dozer.dozes(now, 0);
        assert_eq!(dozer.step(now + ASK_AGAIN / 2, 1, 2), None);
        assert_eq!(dozer.step(now + ASK_AGAIN * 2, 1, 2), Some(Step::Doze));
        assert_eq!(dozer.step(now + ASK_AGAIN * 2, 2, 2), None);
        assert_eq!(dozer.step(now + TURN * 2, 2, 2), Some(Step::Stir));
        dozer.stirs(now + TURN * 2);
        assert_eq!(dozer.step(now + TURN * 2, 0, 2), None);
        assert_eq!(dozer.step(now + TURN * 2 + CHANCE, 0, 2), Some(Step::Doze));
        dozer.dozes(now, 0);
        assert_eq!(dozer.step(now + TURN * 3, 0, 2), Some(Step::Doze), "nothing is held, nothing to give back");
    }
}
