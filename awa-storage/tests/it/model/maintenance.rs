//! What maintenance does in the model: one step each, and what must have come of it.

use std::time::Duration;

use awa_model::{JobState, Transition};
use awa_storage::{
    audit::{AuditCursor, audit},
    promote::{PromoteCursor, promote, promote_others},
    prune::{PruneCursor, prune_parked},
    rescue::{RescueCursor, rescue},
    ring::{Recycled, empty_claims, look, recycle, rotate, switch_claims},
    workers::unregister,
};
use rand::RngExt as _;

use super::{
    actions::{Step, World, worker},
    table::{Allowed, Table},
};
use crate::scene::{LIMITS, count, run};

/// Attempts to empty a segment that nobody has locked.
const RECYCLES_MAX: u32 = 100;

impl World<'_> {
    pub(super) async fn promote(&mut self, before: &Table) -> Step {
        let due = "update awa.scheduled_jobs set run_at = now() - random() * interval '1 hour' where random() < 0.5";
        run(&self.pool, due).await;
        let now_due = "select id from awa.scheduled_jobs where run_at <= now()";
        let ids: Vec<i64> = sqlx::query_scalar(now_due).fetch_all(&self.pool).await.expect("ids");
        let mut cursor = PromoteCursor::default();
        // A small batch is a full one: then others follow, and the rest.
        if self.rng.random() {
            promote(&self.pool, &mut cursor, 2).await.expect("a batch");
            promote_others(&self.pool, &mut cursor, 3).await.expect("a look");
        }
        let done = promote(&self.pool, &mut cursor, 1_000).await.expect("a batch");
        let mut step =
            Step::new(format!("promote {ids:?}: {done:?}"), Allowed::by(&[Transition::Promote, Transition::Displace]));
        // I6: whatever is in the way of one is not in the way of another.
        let ends = vec![JobState::Available, JobState::Failed, JobState::Cancelled];
        for id in ids {
            let waits = self.may_wait() && before.jobs.get(&id).is_some_and(|job| job.unique_key.is_some());
            if !waits {
                step.must.push((id, ends.clone()));
            }
        }
        step
    }

    pub(super) async fn rescue(&mut self, before: &Table) -> Step {
        let place = self.rng.random_range(0..self.workers.len());
        let dead = self.workers[place].id;
        let silent = self.rng.random::<bool>();
        if silent {
            run(&self.pool, "update awa.active_claims set claimed_at = '2020-01-01'").await;
            let silence = format!(
                "update awa.jobs_hot set attempted_at = '2020-01-01', heartbeat_at = null
                  where state = 'running' and attempted_by = '{}'",
                dead.get()
            );
            run(&self.pool, &silence).await;
        } else {
            let _ = unregister(&self.pool, dead).await.expect("an answer");
            self.workers[place] = worker(&self.pool).await;
        }
        let rescued = rescue(&self.pool, &LIMITS, RescueCursor::default()).await.expect("a pass");
        let allowed = Allowed::by(&[Transition::Rescue, Transition::Displace]);
        let mut step = Step::new(format!("rescue from {dead} (silent: {silent}): {rescued:?}"), allowed);
        let ends = vec![JobState::Retryable, JobState::Failed, JobState::Cancelled];
        let running = before.jobs.values().filter(|job| job.state == JobState::Running);
        for job in running.filter(|job| job.attempted_by == Some(dead.get())) {
            if !self.may_wait() || job.unique_key.is_none() {
                step.must.push((job.id, ends.clone()));
            }
        }
        step
    }

    pub(super) async fn rotate(&mut self) -> Step {
        let needs = look(&self.pool).await.expect("a look");
        let rotated = rotate(&self.pool, needs.current).await.expect("an answer");
        Step::new(format!("rotate: {rotated}"), Allowed::default())
    }

    /// Time passes: some jobs that have ended are past every retention.
    pub(super) async fn age(&mut self) -> Step {
        let old = "update awa.jobs_hot set finalized_at = '2000-01-01'
                    where state in ('completed', 'failed', 'cancelled') and random() < 0.5";
        run(&self.pool, old).await;
        Step::new("time passes", Allowed::default())
    }

    pub(super) async fn recycle(&mut self) -> Step {
        for _ in 0..3 {
            self.mark.observe(&self.pool).await.expect("an observation");
        }
        let needs = look(&self.pool).await.expect("a look");
        let mut outcome = recycle(&self.pool, needs.oldest, self.mark.seq(), 10).await.expect("an answer");
        // The server itself may vacuum the long texts of a segment, for a moment. Whoever else had it would keep it.
        for _ in 0..RECYCLES_MAX {
            if outcome != Recycled::Locked || !self.open.is_empty() {
                break;
            }
            outcome = recycle(&self.pool, needs.oldest, self.mark.seq(), 10).await.expect("an answer");
        }
        let mut step = Step::new(format!("recycle {}: {outcome:?}", needs.oldest), Allowed::moves());
        if outcome == Recycled::Locked && self.open.is_empty() {
            step.fault = Some("nobody has the segment locked".to_owned());
        }
        step
    }

    pub(super) async fn prune(&mut self, before: &Table) -> Step {
        let state = [JobState::Completed, JobState::Failed, JobState::Cancelled][self.rng.random_range(0..3)];
        let due =
            format!("select count(*) from awa.jobs_hot_parked where state = '{state}' and finalized_at < '2001-01-01'");
        let due = count(&self.pool, &due).await;
        let pruned = prune_parked(&self.pool, state, PruneCursor::default(), 1_000).await.expect("a batch");
        let mut step = Step::new(format!("prune {state}: {pruned:?}"), Allowed::by(&[Transition::Prune]));
        if usize::try_from(due) != Ok(pruned.pruned) {
            step.fault = Some(format!("{due} were due, of {} jobs", before.jobs.len()));
        }
        step
    }

    pub(super) async fn turn_claims(&mut self) -> Step {
        let switched = switch_claims(&self.pool, 0, Duration::ZERO).await.expect("an answer");
        let emptied = empty_claims(&self.pool, 64).await.expect("an answer");
        Step::new(format!("claims: {switched} {emptied:?}"), Allowed::default())
    }

    pub(super) async fn audit(&mut self) -> Step {
        let mut step = Step::new("audit", Allowed::default());
        let mut from = AuditCursor::default();
        loop {
            let found = audit(&self.pool, from, 1_000, Duration::from_secs(90)).await.expect("an audit");
            if !found.passed_by.is_empty() || !found.unlisted.is_empty() || !found.doubled.is_empty() {
                step.fault = Some(format!("the audit found {found:?}"));
            }
            let Some(next) = found.next else { return step };
            from = next;
        }
    }
}
