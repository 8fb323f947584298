//! What people do in the model: functions and the view, on any job in any state.

use awa_model::{JobState, Transition};
use rand::RngExt as _;
use sqlx::AssertSqlSafe;

use super::{
    actions::{Step, World},
    table::{Allowed, Table},
};

/// An answer of an operator function.
#[derive(Debug, sqlx::FromRow)]
struct Operated {
    job_id: i64,
    outcome: String,
    state: Option<JobState>,
    holder: Option<i64>,
}

impl World<'_> {
    /// Some jobs, whatever state they are in, and sometimes one that does not exist.
    fn some_jobs(&mut self, before: &Table) -> Vec<i64> {
        let ids: Vec<i64> = before.jobs.keys().copied().collect();
        let number = self.rng.random_range(1..4);
        let some = (0..number).map(|_| match ids.as_slice() {
            [] => 1_000_000,
            ids => ids[self.rng.random_range(0..ids.len())],
        });
        some.collect()
    }

    pub(super) async fn operate(&mut self, before: &Table) -> Step {
        let (name, by, target) = [
            ("cancel_many", Some(Transition::Cancel), Some(JobState::Cancelled)),
            ("retry_many", Some(Transition::OperatorRetry), Some(JobState::Available)),
            ("run_now_many", Some(Transition::RunNow), Some(JobState::Available)),
            ("delete_jobs", None, None),
        ][self.rng.random_range(0..4)];
        let ids = self.some_jobs(before);
        let call = format!("select * from awa.{name}($1)");
        let answers: Vec<Operated> =
            sqlx::query_as(AssertSqlSafe(call.clone())).bind(&ids).fetch_all(&self.pool).await.expect(&call);
        let mut allowed = Allowed { moves: true, ..Allowed::by(by.as_slice()) };
        allowed.deletes = by.is_none();
        let mut step = Step::new(format!("{name} {ids:?}: {answers:?}"), allowed);
        for answer in answers {
            step.fault = step.fault.or(self.fault(before, &answer, by, target));
            if answer.outcome == "applied"
                && let Some(target) = target
            {
                step.must.push((answer.job_id, vec![target]));
            }
        }
        step
    }

    /// What is wrong with the answer, given how the job was.
    fn fault(
        &self,
        before: &Table,
        answer: &Operated,
        by: Option<Transition>,
        target: Option<JobState>,
    ) -> Option<String> {
        let job = before.jobs.get(&answer.job_id);
        let allowed = job.is_some_and(|job| by.is_none_or(|by| by.is_allowed_from(job.state)));
        let right = match answer.outcome.as_str() {
            "applied" => allowed && answer.state == target.or(answer.state),
            "unchanged" => job.map(|job| job.state) == target && target.is_some(),
            "refused" => job.is_some_and(|job| answer.state == Some(job.state)) && (!allowed || by.is_none()),
            "duplicate" => answer.holder.is_some_and(|holder| holder != answer.job_id) && allowed,
            "busy" => self.may_wait(),
            "not_found" => job.is_none(),
            _ => false,
        };
        (!right).then(|| format!("{by:?}: {answer:?} of {job:?}"))
    }
}
