//! What the database says of callbacks in the model: what one look must show, and whether one may follow another.

use std::collections::BTreeMap;

use awa_model::{JobState, Transition};
use sqlx::PgPool;
use uuid::Uuid;

use super::table::{Allowed, Table};

/// One callback, in as much detail as is judged.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub(super) struct Callback {
    id: Uuid,
    pub(super) job_id: i64,
    pub(super) run_lease: i64,
    pub(super) parked: bool,
    pub(super) answer: Option<String>,
    /// What came with the answer, and what never changes.
    rest: String,
}

const CALLBACKS: &str = "
    select id, job_id, run_lease, parked, answer, md5(row (created_at, answered_at, payload, error)::text) as rest
      from awa.callbacks";

impl Callback {
    pub(super) fn belongs_to(&self, job: i64, run_lease: i64) -> bool {
        (self.job_id, self.run_lease) == (job, run_lease)
    }

    fn is_waited_for(&self) -> bool {
        self.parked && self.answer.is_none()
    }
}

pub(super) async fn look(pool: &PgPool) -> BTreeMap<Uuid, Callback> {
    let found: Vec<Callback> = sqlx::query_as(CALLBACKS).fetch_all(pool).await.expect(CALLBACKS);
    found.into_iter().map(|known| (known.id, known)).collect()
}

impl Table {
    /// Callbacks whose job is gone.
    pub(super) fn orphans(&self) -> impl Iterator<Item = &Callback> {
        self.callbacks.values().filter(|known| !self.jobs.contains_key(&known.job_id))
    }

    /// Nobody waits for ever, for two things, or for what an earlier attempt has opened; an attempt is ended once.
    pub(super) fn judge_callbacks_alone(&self) -> Result<(), String> {
        let mut waited_for: BTreeMap<(i64, i64), usize> = BTreeMap::new();
        let mut ended: BTreeMap<(i64, i64), &Callback> = BTreeMap::new();
        for known in self.callbacks.values() {
            let attempt = (known.job_id, known.run_lease);
            *waited_for.entry(attempt).or_default() += usize::from(known.is_waited_for());
            let job = self.jobs.get(&known.job_id);
            if job.is_some_and(|job| job.run_lease < known.run_lease) {
                return Err(format!("{known:?} is of an attempt that has never been: {job:?}"));
            }
            let is_final = matches!(known.answer.as_deref(), Some("complete" | "fail" | "timeout"));
            if is_final && let Some(other) = ended.insert(attempt, known) {
                return Err(format!("{known:?} and {other:?} have ended one attempt"));
            }
            if known.answer.as_deref() == Some("complete")
                && job.is_some_and(|job| (job.state, job.run_lease) != (JobState::Completed, known.run_lease))
            {
                return Err(format!("{known:?} has completed {job:?}"));
            }
        }
        for job in self.jobs.values().filter(|job| job.state == JobState::WaitingExternal) {
            let number = waited_for.get(&(job.id, job.run_lease)).copied().unwrap_or_default();
            if number != 1 {
                return Err(format!("{job:?} waits for {number} callbacks"));
            }
        }
        Ok(())
    }

    /// May these callbacks come after those, when this was allowed in between?
    pub(super) fn judge_callbacks_after(&self, before: &Self, allowed: &Allowed) -> Result<(), String> {
        let mut effects: BTreeMap<i64, usize> = BTreeMap::new();
        for new in self.callbacks.values() {
            let Some(old) = before.callbacks.get(&new.id) else {
                let job = self.jobs.get(&new.job_id);
                let runs = job.is_some_and(|job| (job.state, job.run_lease) == (JobState::Running, new.run_lease));
                if allowed.opens && runs && !new.parked && new.answer.is_none() {
                    continue;
                }
                return Err(format!("{new:?} came from nowhere"));
            };
            self.judge_callback(before, old, new, allowed)?;
            if old.answer != new.answer && new.answer.as_deref() != Some("void") {
                *effects.entry(new.job_id).or_default() += 1;
            }
        }
        if let Some((job, number)) = effects.iter().find(|(_, number)| **number > 1) {
            return Err(format!("{number} callbacks of job {job} took effect at once"));
        }
        for old in before.jobs.values().filter(|old| old.state == JobState::WaitingExternal) {
            let Some(new) = self.jobs.get(&old.id).filter(|new| new.state != old.state) else { continue };
            // Whoever cancels or deletes needs no answer; nothing else ends the waiting without one.
            let called_off = new.state == JobState::Cancelled && allowed.by.contains(&Transition::Cancel);
            if !called_off && effects.get(&old.id) != Some(&1) {
                return Err(format!("nobody has answered: {old:?} became {new:?}"));
            }
        }
        self.judge_callbacks_gone(before, allowed)
    }

    fn judge_callback(&self, before: &Self, old: &Callback, new: &Callback, allowed: &Allowed) -> Result<(), String> {
        let fault = |what: &str| Err(format!("{what}: {old:?} became {new:?}"));
        if (old.job_id, old.run_lease) != (new.job_id, new.run_lease) {
            return fault("a callback belongs to one attempt");
        }
        if old.parked != new.parked && (old.parked || !allowed.by.contains(&Transition::Park)) {
            return fault("nobody has parked");
        }
        if old.answer == new.answer {
            return if old.rest == new.rest { Ok(()) } else { fault("an answer changed") };
        }
        let (was, is) = (before.jobs.get(&old.job_id), self.jobs.get(&old.job_id));
        let under_lease = |state: JobState| {
            was.is_some_and(|was| (was.state, was.run_lease) == (state, old.run_lease))
                && (state == JobState::Running || old.parked)
        };
        let (runs, waits) = (under_lease(JobState::Running), under_lease(JobState::WaitingExternal));
        let became = |states: &[JobState]| is.is_some_and(|is| states.contains(&is.state));
        let (by, right) = match new.answer.as_deref() {
            Some("complete") => (Transition::CompleteExternally, (runs || waits) && became(&[JobState::Completed])),
            Some("fail") => (Transition::FailExternally, (runs || waits) && became(&[JobState::Failed])),
            Some("resume") => {
                let next = if runs { &[JobState::Running][..] } else { &[JobState::Available, JobState::Cancelled] };
                (Transition::Resume, (runs || waits) && became(next))
            }
            Some("timeout") => {
                let next = [JobState::Retryable, JobState::Failed, JobState::Cancelled];
                (Transition::CallbackTimeout, waits && became(&next))
            }
            Some("void") => (Transition::CallbackTimeout, old.parked && !waits),
            _ => return fault("no answer is taken back"),
        };
        if old.answer.is_some() || !right || !allowed.by.contains(&by) {
            return fault(&format!("{was:?} became {is:?}, and"));
        }
        Ok(())
    }

    /// Callbacks go with their job, or after it where a segment went; old ones make room for new ones.
    fn judge_callbacks_gone(&self, before: &Self, allowed: &Allowed) -> Result<(), String> {
        for old in before.callbacks.values().filter(|old| !self.callbacks.contains_key(&old.id)) {
            let job = self.jobs.get(&old.job_id);
            let makes_room = allowed.opens && job.is_some_and(|job| job.run_lease > old.run_lease);
            if job.is_some() && !makes_room {
                return Err(format!("{old:?} is gone, and its job is {job:?}"));
            }
            let was_left = !before.jobs.contains_key(&old.job_id);
            if was_left && !allowed.forgets {
                return Err(format!("{old:?} is gone, and nobody looked"));
            }
        }
        for left in self.orphans() {
            let went = before.jobs.get(&left.job_id);
            if allowed.forgets || went.is_some_and(|job| !(allowed.recycles && job.state == JobState::Completed)) {
                return Err(format!("{left:?} is left behind by {went:?}"));
            }
        }
        Ok(())
    }
}
