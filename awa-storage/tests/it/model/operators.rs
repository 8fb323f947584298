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
    /// Some jobs, whatever state they are in, those that wait for the outside more often, and sometimes one that does not exist.
    fn some_jobs(&mut self, before: &Table) -> Vec<i64> {
        let waiting = self.rng.random_ratio(1, 3);
        let some = before.jobs.values().filter(|job| !waiting || job.state == JobState::WaitingExternal);
        let ids: Vec<i64> = some.map(|job| job.id).collect();
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

    /// Changes jobs by hand: by the function, by the view as a whole, and by the view as one who looked a while ago.
    pub(super) async fn edit(&mut self, before: &Table) -> Step {
        let id = self.some_jobs(before)[0];
        let statements = [
            format!("select awa.edit({id}, '{{\"priority\": 4, \"tags\": [\"edited\"]}}')"),
            format!("select awa.edit({id}, '{{\"run_in\": 60}}')"),
            format!("select awa.edit({id}, '{{\"queue\": \"other\", \"run_in\": 0}}')"),
            format!("select awa.edit({id}, '{{\"max_attempts\": 3}}')"),
            format!("update awa.jobs set priority = 1 + priority % 4 where id = {id}"),
            format!("update awa.jobs set metadata = '{{\"seen\": true}}' where id = {id}"),
            format!("update awa.jobs set state = 'cancelled' where id = {id}"),
            format!("update awa.jobs set state = 'available' where id = {id}"),
            format!("delete from awa.jobs where id = {id}"),
        ];
        let statement = &statements[self.rng.random_range(0..statements.len())];
        // Where the state forbids it the view answers with an error, and nothing is changed.
        let answer = sqlx::query(AssertSqlSafe(statement.clone())).execute(&self.pool).await;
        let told = answer.as_ref().map(sqlx::postgres::PgQueryResult::rows_affected).map_err(ToString::to_string);
        let by = [Transition::Cancel, Transition::OperatorRetry, Transition::RunNow];
        let allowed = match answer {
            Ok(_) => Allowed { deletes: true, ..Allowed::edits(&by) },
            Err(_) => Allowed::default(),
        };
        let mut step = Step::new(format!("{statement}: {told:?}"), allowed);
        let expected = answer.err().and_then(|error| error.into_database_error()?.code().map(String::from));
        // A unique key that another job holds, a change that the state forbids, bad input, a lock that was not to be had.
        if expected
            .as_deref()
            .is_some_and(|code| !["23505", "AWA02", "22023", "55000", "55P03", "23001"].contains(&code))
        {
            step.fault = Some(format!("{statement}: {told:?}"));
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
