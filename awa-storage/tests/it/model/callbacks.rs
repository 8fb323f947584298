//! What attempts and the outside do about callbacks in the model: one step each, and what must have come of it.

use std::time::Duration;

use awa_model::{CallbackId, JobId, JobState, Transition};
use awa_storage::{
    Guarded, Lease,
    callback::{self, Answered, ExpireCursor, ForgetCursor},
    settle::{Settlement, Verdict},
};
use rand::RngExt as _;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::{
    actions::{Step, World},
    answers::Callback,
    table::{Allowed, Table},
};
use crate::{scene::run, waiting::Answer};

/// What somebody has answered: the same again is harmless.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Given {
    answer: Answer,
    with: Option<String>,
}

fn transition(answer: Answer) -> Transition {
    match answer {
        Answer::Complete => Transition::CompleteExternally,
        Answer::Resume => Transition::Resume,
        Answer::Fail => Transition::FailExternally,
    }
}

/// The attempt had nothing left to do but to wait, and what it waited for has come for good.
fn was_answered(before: &Table, lease: &Lease) -> bool {
    before.callbacks.values().any(|known| {
        known.belongs_to(lease.job_id().get(), lease.run_lease().get())
            && matches!(known.answer.as_deref(), Some("complete" | "fail"))
    })
}

/// Where an attempt that runs may go by parking, or what one that is lost may hear.
pub(super) fn parked_states(before: &Table, one: &Settlement, callback: CallbackId) -> Vec<JobState> {
    let own = before
        .callbacks
        .get(&callback.get())
        .filter(|known| known.belongs_to(one.lease.job_id().get(), one.lease.run_lease().get()));
    match own.map(|known| known.answer.is_some()) {
        Some(false) => vec![JobState::WaitingExternal, JobState::Cancelled],
        Some(true) => vec![JobState::Available, JobState::Cancelled],
        None => vec![JobState::Retryable, JobState::Failed, JobState::Cancelled],
    }
}

impl World<'_> {
    /// Whether a lost attempt that wants to park hears that all is as it wanted; the newest of a batch speaks alone.
    pub(super) fn parked_before(before: &Table, one: &Settlement, batch: &[Settlement]) -> bool {
        let newer = |other: &Settlement| {
            other.lease.job_id() == one.lease.job_id() && other.lease.run_lease() > one.lease.run_lease()
        };
        matches!(one.verdict, Verdict::Park { .. }) && was_answered(before, &one.lease) && !batch.iter().any(newer)
    }

    /// Mostly a callback of the attempt, where it has one; now and then one that is none of its own.
    pub(super) fn parking(&mut self, before: &Table, lease: &Lease) -> Option<Verdict> {
        let (job, run_lease) = (lease.job_id().get(), lease.run_lease().get());
        let all = before.callbacks.iter();
        let own: Vec<Uuid> = all.filter(|(_, known)| known.belongs_to(job, run_lease)).map(|(id, _)| *id).collect();
        let others: Vec<Uuid> = before.callbacks.keys().copied().collect();
        let from = if self.rng.random_ratio(1, 20) { others } else { own };
        if from.is_empty() || self.rng.random_ratio(1, 6) {
            return None;
        }
        let callback = CallbackId::new(from[self.rng.random_range(0..from.len())]);
        Some(Verdict::Park { callback })
    }

    pub(super) async fn open_callback(&mut self, before: &Table) -> Step {
        if self.held.is_empty() {
            return Step::new("nothing", Allowed::default());
        }
        let good: Vec<usize> = (0..self.held.len()).filter(|place| Self::is_good(before, &self.held[*place])).collect();
        let place = match good.as_slice() {
            good if !good.is_empty() && self.rng.random_ratio(5, 6) => good[self.rng.random_range(0..good.len())],
            _ => self.rng.random_range(0..self.held.len()),
        };
        let lease = &self.held[place];
        let good = Self::is_good(before, lease);
        let opened = callback::open(&self.pool, &lease.held(), Duration::from_secs(3600)).await;
        let mut step = Step::new(format!("open a callback for {lease:?}: {opened:?}"), Allowed::default());
        step.allowed.opens = true;
        match opened {
            Ok(opened) if opened.is_applied() == good => {}
            _ => step.fault = Some(format!("the lease is {good:?}, and the answer {opened:?}")),
        }
        step
    }

    /// One of an attempt that runs or waits, mostly; also one that is over, or that there has never been.
    fn some_callback(&mut self, before: &Table) -> Uuid {
        let open = self.rng.random_ratio(3, 4);
        let counts = |known: &Callback| {
            let job = before.jobs.get(&known.job_id).filter(|job| job.run_lease == known.run_lease);
            let lives = job.is_some_and(|job| matches!(job.state, JobState::Running | JobState::WaitingExternal));
            !open || (lives && known.answer.is_none())
        };
        let known = before.callbacks.iter();
        let some: Vec<Uuid> = known.filter(|(_, known)| counts(known)).map(|(id, _)| *id).collect();
        match some.as_slice() {
            [] => Uuid::from_u128(self.rng.random()),
            some => some[self.rng.random_range(0..some.len())],
        }
    }

    async fn give(&mut self, id: Uuid, given: &Given) -> Result<Answered, String> {
        let (callback, with) = (CallbackId::new(id), given.with.as_deref());
        if self.rng.random() {
            return match given.answer {
                Answer::Complete => callback::complete(&self.pool, callback, with).await,
                Answer::Resume => callback::resume(&self.pool, callback, with).await,
                Answer::Fail => callback::fail(&self.pool, callback, with.unwrap_or("wrong")).await,
            }
            .map_err(|error| error.to_string());
        }
        let call = match given.answer {
            Answer::Complete => "select * from awa.callback_complete($1, $2::jsonb)",
            Answer::Resume => "select * from awa.callback_resume($1, $2::jsonb)",
            Answer::Fail => "select * from awa.callback_fail($1, coalesce($2, 'wrong'))",
        };
        let (job, outcome, state): (Option<i64>, String, Option<JobState>) =
            sqlx::query_as(AssertSqlSafe(call)).bind(id).bind(with).fetch_one(&self.pool).await.expect(call);
        match (outcome.as_str(), job.map(JobId::new).zip(state)) {
            ("applied", Some((job, state))) => Ok(Answered::Applied { job, state }),
            ("unchanged", Some((job, state))) => Ok(Answered::Unchanged { job, state }),
            ("refused", Some((job, state))) => Ok(Answered::Refused { job, state }),
            ("busy", _) => Ok(Answered::Busy),
            ("not_found", None) => Ok(Answered::NotFound),
            other => Err(format!("{other:?} is no answer")),
        }
    }

    /// Somebody answers, by Rust or by SQL: in time, too early, too late, again, or what was never asked.
    pub(super) async fn answer(&mut self, before: &Table) -> Step {
        let id = self.some_callback(before);
        let answer = [Answer::Resume, Answer::Resume, Answer::Resume, Answer::Complete, Answer::Fail]
            [self.rng.random_range(0..5)];
        let with = [None, Some("null"), Some("{\"n\": 1}"), Some("{\"n\": 2}")][self.rng.random_range(0..4)];
        let given = Given { answer, with: with.map(str::to_owned) };
        let answered = self.give(id, &given).await;
        let by = [transition(answer), Transition::Displace];
        let mut step = Step::new(format!("{given:?} to callback {id}: {answered:?}"), Allowed::by(&by));
        if !answered.as_ref().is_ok_and(|answered| self.is_right(before, id, &given, *answered)) {
            step.fault = Some(format!("{answered:?} to {given:?} of {:?}", before.callbacks.get(&id)));
        }
        if let Ok(Answered::Applied { job, state }) = answered {
            step.must.push((job.get(), vec![state]));
            if answer == Answer::Resume {
                self.resumed.insert(job.get(), given.with.clone());
            }
            self.given.insert(id, given);
        }
        step
    }

    /// Is this what somebody must hear who answers like that?
    fn is_right(&self, before: &Table, id: Uuid, given: &Given, answered: Answered) -> bool {
        let known = before.callbacks.get(&id).and_then(|known| Some((known, before.jobs.get(&known.job_id)?)));
        let Some((known, job)) = known else { return answered == Answered::NotFound };
        let (named, now) = (JobId::new(job.id), job.state);
        if answered == Answered::Busy {
            return job.unique_key.is_some() && self.may_wait();
        }
        let waits = now == JobState::WaitingExternal && known.parked;
        if known.answer.is_some() {
            let again = self.given.get(&id) == Some(given);
            let (unchanged, refused) =
                (Answered::Unchanged { job: named, state: now }, Answered::Refused { job: named, state: now });
            return answered == if again { unchanged } else { refused };
        }
        if known.run_lease != job.run_lease || !(waits || now == JobState::Running) {
            return answered == Answered::Refused { job: named, state: now };
        }
        let state = match given.answer {
            Answer::Resume if !waits => JobState::Running,
            answer => answer.state(),
        };
        let displaced = given.answer == Answer::Resume && waits;
        answered == Answered::Applied { job: named, state }
            || displaced && answered == Answered::Applied { job: named, state: JobState::Cancelled }
    }

    /// Time passes for some callbacks, and the sweep comes.
    pub(super) async fn expire(&mut self, before: &Table, share: f64) -> Step {
        let due =
            format!("update awa.callbacks set due_at = now() - random() * interval '1 hour' where random() < {share}");
        run(&self.pool, &due).await;
        let late = "select job.id from awa.callbacks as open
                      join awa.jobs_hot as job on job.id = open.job_id and job.run_lease = open.run_lease
                     where open.parked and open.answered_at is null and open.due_at <= now()
                       and job.state = 'waiting_external'";
        let late: Vec<i64> = sqlx::query_scalar(late).fetch_all(&self.pool).await.expect("ids");
        let expired = callback::expire(&self.pool, ExpireCursor::default(), 1_000).await.expect("a pass");
        let by = [Transition::CallbackTimeout, Transition::Displace];
        let mut step = Step::new(format!("expire {late:?}: {expired:?}"), Allowed::by(&by));
        let mut told: Vec<i64> = expired.jobs.iter().map(|(id, _)| id.get()).collect();
        told.extend(expired.stuck.iter().map(|id| id.get()));
        told.sort_unstable();
        let stuck_for_nothing = expired
            .stuck
            .iter()
            .any(|id| !self.may_wait() || before.jobs.get(&id.get()).is_none_or(|job| job.unique_key.is_none()));
        let mut expected = late;
        expected.sort_unstable();
        if told != expected || stuck_for_nothing || expired.next.is_some() {
            step.fault = Some(format!("{expected:?} were late, and the pass answered {expired:?}"));
        }
        step.must.extend(expired.jobs.iter().map(|(id, state)| (id.get(), vec![*state])));
        step
    }

    /// What segments have left behind goes, and nothing else.
    pub(super) async fn forget(&mut self, before: &Table) -> Step {
        let mut from = Some(ForgetCursor::default());
        let mut forgotten = 0;
        while let Some(cursor) = from {
            let looked = callback::forget(&self.pool, cursor, 7).await.expect("a look");
            forgotten += looked.forgotten;
            from = looked.next;
        }
        let orphans = before.orphans().count();
        let mut step = Step::new(format!("forget {forgotten} callbacks"), Allowed::default());
        step.allowed.forgets = true;
        if forgotten != orphans {
            step.fault = Some(format!("{orphans} callbacks are of no job, and {forgotten} were forgotten"));
        }
        step
    }

    /// An attempt asks what it was resumed with.
    pub(super) async fn payload(&mut self, before: &Table) -> Step {
        let mut step = Step::new("ask for payloads", Allowed::default());
        for (job, expected) in self.resumed.iter().filter(|(job, _)| before.jobs.contains_key(job)) {
            let found = callback::payload(&self.pool, JobId::new(*job)).await.expect("an answer");
            if found != *expected {
                step.fault = Some(format!("job {job} was resumed with {expected:?}, and hears {found:?}"));
            }
        }
        step
    }

    /// Whether the answer to a settlement is one that parking can get.
    pub(super) fn judge_parking(step: &mut Step, before: &Table, one: &Settlement, answer: Guarded<JobState>) {
        if let (Verdict::Park { callback }, Guarded::Applied(state)) = (&one.verdict, answer)
            && Self::is_good(before, &one.lease)
            && !parked_states(before, one, *callback).contains(&state)
        {
            step.fault = Some(format!("{one:?} was answered {state}"));
        }
    }
}
