//! Every state × every wish of an operator, through Rust and through SQL: the row goes where `EDGES` says, or is untouched.

use awa_model::{JobId, JobState, Plane, Transition};
use awa_storage::{
    Error,
    admin::{self, Operated},
    testing::TestDatabase,
};
use serde_json::Value;
use sqlx::PgPool;

use crate::scene::{changed, count, insert_full, row, run};

const WISHES: [Transition; 4] = [Transition::Cancel, Transition::OperatorRetry, Transition::RunNow, Transition::Delete];

/// How a wish is put.
#[derive(Clone, Copy, Debug)]
enum Path {
    Rust,
    RustMany,
    Sql,
    SqlMany,
}

fn function(wish: Transition) -> (&'static str, &'static str) {
    match wish {
        Transition::Cancel => ("cancel", "cancel_many"),
        Transition::OperatorRetry => ("retry", "retry_many"),
        Transition::RunNow => ("run_now", "run_now_many"),
        Transition::Delete => ("delete_job", "delete_jobs"),
        other => panic!("{other} is no wish of an operator"),
    }
}

async fn put(pool: &PgPool, wish: Transition, path: Path, id: JobId) -> Operated {
    let (one, many) = function(wish);
    match path {
        Path::Rust => rust(pool, wish, id).await.expect("an answer"),
        Path::RustMany => rust_many(pool, wish, id).await.expect("an answer"),
        Path::Sql => sql(pool, &format!("select * from awa.{one}({id})")).await,
        Path::SqlMany => sql(pool, &format!("select * from awa.{many}(array[{id}])")).await,
    }
}

async fn rust(pool: &PgPool, wish: Transition, id: JobId) -> Result<Operated, Error> {
    match wish {
        Transition::Cancel => admin::cancel(pool, id, None).await,
        Transition::OperatorRetry => admin::retry(pool, id).await,
        Transition::RunNow => admin::run_now(pool, id).await,
        _ => admin::delete(pool, id).await,
    }
}

async fn rust_many(pool: &PgPool, wish: Transition, id: JobId) -> Result<Operated, Error> {
    let answers = match wish {
        Transition::Cancel => admin::cancel_many(pool, &[id], None).await,
        Transition::OperatorRetry => admin::retry_many(pool, &[id]).await,
        Transition::RunNow => admin::run_now_many(pool, &[id]).await,
        _ => admin::delete_many(pool, &[id]).await,
    }?;
    assert_eq!(answers.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [id]);
    Ok(answers[0].1)
}

/// The answer of a function of the database, as Rust words it.
pub(crate) async fn sql(pool: &PgPool, statement: &str) -> Operated {
    let (_, outcome, state, holder): (Option<i64>, String, Option<JobState>, Option<i64>) =
        sqlx::query_as(sqlx::AssertSqlSafe(statement.to_owned())).fetch_one(pool).await.expect(statement);
    assert_eq!(holder.is_some(), outcome == "duplicate");
    match outcome.as_str() {
        "applied" => Operated::Applied,
        "unchanged" => Operated::Unchanged,
        "refused" => Operated::Refused { state: state.expect("a state") },
        "duplicate" => Operated::Duplicate { holder: JobId::new(holder.expect("a holder")) },
        "busy" => Operated::Busy,
        "not_found" => Operated::NotFound,
        other => panic!("{other} is no outcome"),
    }
}

/// Where a job of this state is kept.
pub(crate) fn relation(state: JobState) -> &'static str {
    match (state.plane(), state) {
        (Plane::Deferred, _) => "scheduled_jobs",
        (Plane::Hot, JobState::Available | JobState::Running | JobState::Completed) => "jobs_hot",
        (Plane::Hot, _) => "jobs_hot_parked",
    }
}

/// The columns that a wish changes beside the state, in a row that has all of them set.
fn effects(wish: Transition, from: JobState) -> &'static [&'static str] {
    match (wish, from) {
        (Transition::Cancel, JobState::Running) => {
            &["attempted_by", "deadline_at", "finalized_at", "heartbeat_at", "state"]
        }
        (Transition::Cancel, _) => &["finalized_at", "state"],
        (Transition::OperatorRetry, _) => &["attempt", "finalized_at", "run_at", "state"],
        _ => &["state"],
    }
}

async fn scene(pool: &PgPool, state: JobState) -> (JobId, Value) {
    let id = insert_full(pool, relation(state), state.as_str()).await;
    if state == JobState::Running {
        run(
            pool,
            "update awa.jobs_hot set attempted_by = gen_random_uuid(), heartbeat_at = '2020-01-04', deadline_at = '2020-01-05'",
        )
        .await;
    }
    if state.is_terminal() {
        run(pool, "update awa.jobs_hot set finalized_at = now() - interval '1 minute'").await;
    }
    (JobId::new(id), row(pool, id).await)
}

#[tokio::test]
async fn every_wish_takes_a_job_along_its_edge_or_leaves_the_row_untouched() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for state in JobState::ALL {
        for wish in WISHES {
            for path in [Path::Rust, Path::RustMany, Path::Sql, Path::SqlMany] {
                let case = format!("{wish} of a job that is {state}, by {path:?}");
                let (id, before) = scene(&pool, state).await;
                let answer = put(&pool, wish, path, id).await;
                let edge = wish.edges_from(state).next();
                match edge.map(|edge| edge.to) {
                    Some(Some(next)) => {
                        assert_eq!(answer, Operated::Applied, "{case}");
                        let after = row(&pool, id.get()).await;
                        assert_eq!(after["state"], next.as_str(), "{case}");
                        assert_eq!(changed(&before, &after), effects(wish, state), "{case}");
                    }
                    Some(None) => {
                        assert_eq!(answer, Operated::Applied, "{case}");
                        assert_eq!(count(&pool, "select count(*) from awa.jobs").await, 0, "{case}");
                        assert_eq!(put(&pool, wish, path, id).await, Operated::NotFound, "{case}");
                    }
                    None => {
                        let is_so = target(wish) == Some(state);
                        let expected = if is_so { Operated::Unchanged } else { Operated::Refused { state } };
                        assert_eq!(answer, expected, "{case}");
                        assert_eq!(changed(&before, &row(&pool, id.get()).await), [""; 0], "{case}");
                    }
                }
                run(&pool, "delete from awa.jobs_hot").await;
                run(&pool, "delete from awa.scheduled_jobs").await;
                assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 0, "{case} (I4)");
            }
        }
    }
}

/// The state that a wish leads to, wherever it starts.
fn target(wish: Transition) -> Option<JobState> {
    JobState::ALL.into_iter().find_map(|from| wish.edges_from(from).next()).and_then(|edge| edge.to)
}
