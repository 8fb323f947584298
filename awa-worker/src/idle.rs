//! An idle worker: woken within milliseconds, and all but silent meanwhile.
//!
//! Polling is the truth: a pulse, about twice a second, sees whether anything was inserted. A wake-up only shortens the
//! wait. To be woken, the sleeper first takes the gate of each queue on its LISTEN connection, then polls once more, then
//! sleeps: a producer that finds the gate taken sends a notification, and one that had looked before the gate was taken
//! has its row seen by that poll or keeps the gate from being taken. While the gate is not to be had, a producer is in the
//! middle of its transaction: short polls go on until it is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use awa_model::QueueName;
use awa_storage::notify::Listener;
use tokio::select;

use crate::doze::{Dozer, Step};
use crate::engine::Engine;
use crate::flow::Pace;
use crate::jitter;

/// Pauses while the gates are not to be had; the last one repeats.
const UNGATED_PAUSES: [Duration; 5] = [
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];

/// Usual polls between two looks for gates that another sleeper had: it may have gone without a word.
const POLLS_PER_GATE: u32 = 10;

/// Waits for work on behalf of the dispatcher.
pub(crate) struct Sleeper {
    queues: Vec<QueueName>,
    /// `None` where LISTEN is switched off or cannot be had: then polling has to do.
    listener: Option<Arc<Listener>>,
    /// Whether gates may be held.
    asked: bool,
    /// Whether the last sleep ended because there may be work, or a claim has found some since.
    up: bool,
    dozer: Dozer,
}

impl Sleeper {
    pub(crate) fn new(queues: Vec<QueueName>, listener: Option<Arc<Listener>>) -> Self {
        Self { queues, listener, asked: false, up: true, dozer: Dozer::new(Instant::now()) }
    }

    /// Sleeps until there may be work, or the worker drains. Returns whether something was inserted or announced.
    pub(crate) async fn sleep(&mut self, engine: &Engine) -> bool {
        let mut night = Night { engine, polls: 0, ungated: 0, gated: false };
        self.up = night.pass(self).await;
        self.up
    }

    /// A claim has answered with so many jobs. A worker that is up gives the gates back, and dozes if jobs are rare.
    ///
    /// Called after the claim, not before it, and without waiting for the connection, to lose no time. Until then a wake-up too
    /// many may come.
    pub(crate) fn claimed(&mut self, got: usize) {
        let Some(listener) = &self.listener else { return };
        let (now, held) = (Instant::now(), listener.dozing());
        self.dozer.claimed(now, got);
        self.up |= got > 0;
        if !self.up {
            return;
        }
        let step = self.dozer.step(now, held, self.queues.len());
        if step != Some(Step::Doze) {
            if step == Some(Step::Stir) || self.asked {
                self.stir();
            }
        } else if listener.doze(&self.queues) {
            self.asked = false;
            self.dozer.dozes(now, held);
        }
    }

    /// No slot is free: what is announced is for others.
    pub(crate) fn full(&mut self) {
        if self.asked || self.dozer.may_doze() {
            self.stir();
        }
    }

    fn stir(&mut self) {
        if self.listener.as_ref().is_none_or(|listener| listener.stir()) {
            self.asked = false;
            self.dozer.stirs(Instant::now());
        }
    }

    /// Resolves when something was announced to this worker while it dozes.
    pub(crate) async fn stirred(&self) {
        match &self.listener {
            Some(listener) => listener.stirred().await,
            None => std::future::pending().await,
        }
    }

    /// Gives everything back and waits until that is done: producers need not send this worker anything any more.
    pub(crate) async fn rise(&mut self) {
        if (self.asked || self.dozer.may_doze())
            && let Some(listener) = &self.listener
            && let Err(error) = listener.release_gates(&self.queues).await
        {
            tracing::debug!(%error, "the gates are gone with their connection");
        }
        // After an answer there is room for this.
        self.full();
    }

    async fn try_gates(&mut self) -> bool {
        self.asked = true;
        self.dozer.sleeps();
        let Some(listener) = &self.listener else { return true };
        match listener.try_gates(&self.queues).await {
            Ok(all) => all,
            Err(error) => {
                tracing::debug!(%error, "the gates could not be asked for: polling goes on");
                false
            }
        }
    }

    /// Resolves when something was announced.
    async fn announced(&self) {
        match &self.listener {
            Some(listener) => listener.wait().await,
            None => std::future::pending().await,
        }
    }
}

/// One stretch of idleness.
struct Night<'a> {
    engine: &'a Engine,
    polls: u32,
    /// Polls since the gates were last to be had.
    ungated: usize,
    gated: bool,
}

impl Night<'_> {
    async fn pass(&mut self, sleeper: &mut Sleeper) -> bool {
        loop {
            if !self.gated || self.polls.is_multiple_of(POLLS_PER_GATE) {
                self.gated = sleeper.try_gates().await;
            }
            if let Some(woken) = self.poll().await {
                return woken;
            }
            let pause = self.pause();
            select! {
                () = sleeper.announced() => return self.wake(),
                () = tokio::time::sleep(pause) => {}
                () = self.engine.flow.told_to_claim() => return true,
                () = self.engine.draining.cancelled() => return false,
            }
        }
    }

    fn pause(&mut self) -> Duration {
        self.polls = self.polls.wrapping_add(1);
        let usual = jitter::lengthened(self.engine.config.poll_interval);
        if self.gated {
            self.ungated = 0;
            return usual;
        }
        let short = UNGATED_PAUSES[self.ungated.min(UNGATED_PAUSES.len() - 1)];
        self.ungated += 1;
        short.min(usual)
    }

    /// Asks once whether anything was inserted. `None` means: sleep on.
    async fn poll(&self) -> Option<bool> {
        if self.engine.draining.is_cancelled() {
            return Some(false);
        }
        match self.engine.bounded(self.engine.cursors.pulse(&self.engine.pool, false)).await {
            Ok(pulse) if pulse.moved => Some(self.wake()),
            // What is left to look at resolves without an insert: claim once, then sleep on.
            Ok(_) if self.engine.flow.pace() != Pace::Quiet && self.polls > 0 => Some(false),
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(%error, "an idle poll failed: trying again");
                None
            }
        }
    }

    fn wake(&self) -> bool {
        self.engine.flow.look();
        true
    }
}
