//! ADR-014, what becomes of progress: every edge of the state machine is taken by its real statement. A completed job has
//! none, a job that is gone has none, and whatever else happens to a job keeps it to the letter.

use std::time::Duration;

use awa_model::{EDGES, Edge, JobState, Transition};
use awa_storage::{
    settle::{Completion, Settlement, Verdict, complete_alone, complete_in, complete_many, settle_many},
    testing::TestDatabase,
};
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::hops::claimed;
use crate::scene::{begin, count, insert_full, rescue_all, row, run};
use crate::transitions::relation;

/// How a job takes an edge.
#[derive(Clone, Debug)]
enum Way {
    /// A statement; `$` is the id.
    Sql(&'static str),
    /// Its attempt ends.
    End(Verdict),
    Complete,
    CompleteAlone,
    CompleteIn,
    /// Its worker dies.
    Death,
    /// It runs past its deadline.
    Overrun,
}

use Way::{Complete, CompleteAlone, CompleteIn, Death, End, Overrun, Sql};

const PROMOTE: Way = Sql("select awa.promote(null, null, 10)");
const RUN_NOW: Way = Sql("select awa.run_now($)");
const CANCEL: Way = Sql("select awa.cancel($)");
const CANCEL_BY_VIEW: Way = Sql("update awa.jobs set state = 'cancelled' where id = $");
const RETRY: Way = Sql("select awa.retry($)");
const DELETE: Way = Sql("select awa.delete_job($)");
const DELETE_BY_VIEW: Way = Sql("delete from awa.jobs where id = $");
const PRUNE: Way = Sql("select awa.prune_parked((select state from awa.jobs_hot where id = $), null, null, 10)");

const RESUME: Way = Sql("select awa.callback_resume(id) from awa.callbacks");
const EXPIRE: Way = Sql("select awa.expire_callbacks(null, null, 10)");
const PARK: Way = Sql(
    "select awa.settle_alone(0::smallint, $, open.run_lease, 'park', null, null, null, open.id) from awa.callbacks as open",
);
const PARK_RESUMED: Way = Sql("select awa.callback_resume(open.id),
            awa.settle_alone(0::smallint, $, open.run_lease, 'park', null, null, null, open.id)
       from awa.callbacks as open");

fn error() -> String {
    "new".to_owned()
}

/// Every way along this edge.
fn ways(edge: &Edge) -> Vec<Way> {
    let runs = edge.from == Some(JobState::Running);
    match edge.by {
        Transition::Enqueue => vec![],
        Transition::Promote => vec![PROMOTE],
        Transition::RunNow => vec![RUN_NOW],
        Transition::Claim => vec![Sql("select 1")],
        Transition::Complete => vec![Complete, CompleteAlone, CompleteIn],
        Transition::Retry => vec![
            End(Verdict::Retry { after: None, error: error() }),
            End(Verdict::Committed { after: None, error: error() }),
        ],
        Transition::Snooze => vec![End(Verdict::Snooze { after: Duration::from_secs(9) })],
        Transition::Release => vec![End(Verdict::Release)],
        Transition::Fail => vec![End(Verdict::Fail { error: error() })],
        Transition::Rescue => vec![Death, Overrun],
        Transition::Cancel if runs => vec![CANCEL, CANCEL_BY_VIEW, End(Verdict::Cancel { reason: error() })],
        Transition::Cancel => vec![CANCEL, CANCEL_BY_VIEW],
        Transition::Displace if runs => vec![
            End(Verdict::Retry { after: None, error: error() }),
            End(Verdict::Release),
            End(Verdict::Snooze { after: Duration::from_secs(9) }),
            Death,
        ],
        Transition::Displace if edge.from == Some(JobState::WaitingExternal) => vec![RESUME, EXPIRE],
        Transition::Displace => vec![PROMOTE],
        Transition::OperatorRetry => vec![RETRY],
        Transition::Delete => vec![DELETE, DELETE_BY_VIEW],
        Transition::Prune => vec![PRUNE],
        Transition::Park if edge.to == Some(JobState::Available) => vec![PARK_RESUMED],
        Transition::Park => vec![PARK],
        Transition::Resume => vec![RESUME],
        Transition::CompleteExternally => vec![Sql("select awa.callback_complete(id) from awa.callbacks")],
        Transition::FailExternally => vec![Sql("select awa.callback_fail(id, 'new') from awa.callbacks")],
        Transition::CallbackTimeout => vec![EXPIRE],
    }
}

/// A job at the start of an edge, with progress, in the circumstances that the edge asks for.
async fn scene(pool: &PgPool, edge: &Edge, from: JobState) -> i64 {
    let starts = if from == JobState::Running { JobState::Available } else { from };
    // What is pruned is parked; completed jobs elsewhere go with their segment.
    let relation = if edge.by == Transition::Prune { "jobs_hot_parked" } else { relation(starts) };
    let id = insert_full(pool, relation, starts.as_str()).await;
    if edge.when == "attempts spent" {
        // A claim adds one.
        let spent = if from == JobState::Running { "attempt + 1" } else { "attempt" };
        run(pool, &format!("update awa.jobs_hot set max_attempts = {spent}")).await;
        run(pool, &format!("update awa.scheduled_jobs set max_attempts = {spent}")).await;
    }
    if edge.by == Transition::Displace {
        // The key is held while the job is available, and is not while it runs; from elsewhere it has to be taken.
        run(pool, "update awa.jobs_hot set unique_states = 1 | 2 | 16").await;
        run(pool, "update awa.scheduled_jobs set unique_states = 2").await;
    }
    id
}

/// Another job has the key.
async fn displace(pool: &PgPool) {
    run(
        pool,
        "insert into awa.jobs_hot (kind, unique_key, unique_states) values ('holder', decode(md5('full'), 'hex'), 255)",
    )
    .await;
}

async fn take(database: &TestDatabase, edge: &Edge, id: i64, way: Way) {
    let pool = database.pool();
    let lease = match edge.from {
        Some(JobState::Running) => Some(claimed(&pool).await.lease),
        _ => None,
    };
    if edge.by == Transition::Displace {
        displace(&pool).await;
    }
    // A callback of the attempt, which is due already.
    let open = "insert into awa.callbacks (job_id, run_lease, due_at, parked)
                select id, run_lease, now(), state = 'waiting_external' from awa.jobs where id = $";
    run(&pool, &open.replace('$', &id.to_string())).await;
    let lease = || lease.expect("a running job");
    match way {
        Sql(_) if edge.by == Transition::Claim => drop(claimed(&pool).await),
        Sql(statement) => {
            run(&pool, &statement.replace('$', &id.to_string())).await;
        }
        End(verdict) => {
            let settlement = Settlement { lease: lease(), verdict, progress: None };
            assert!(settle_many(&pool, &[settlement]).await.expect("settled")[0].is_applied());
        }
        Complete => {
            let completion = Completion { lease: lease(), result: None };
            assert!(complete_many(&pool, &[completion]).await.expect("completed")[0].is_applied());
        }
        CompleteAlone => {
            let completion = Completion { lease: lease(), result: None };
            assert!(complete_alone(&pool, &completion).await.expect("completed").is_applied());
        }
        CompleteIn => {
            let mut tx = begin(database).await;
            assert!(complete_in(&mut tx, &lease().held(), None).await.expect("completed").is_applied());
            run(&mut tx, "commit").await;
        }
        Death => {
            run(&pool, "delete from awa.workers").await;
            assert_eq!(rescue_all(&pool).await.jobs.len(), 1);
        }
        Overrun => {
            run(&pool, "update awa.jobs_hot set deadline_at = '2020-01-01' where state = 'running'").await;
            run(&pool, "update awa.active_claims set deadline_at = '2020-01-01'").await;
            assert_eq!(rescue_all(&pool).await.jobs.len(), 1);
        }
    }
}

#[tokio::test]
async fn every_edge_keeps_progress_unless_the_job_completes_or_goes() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for edge in EDGES {
        let Some(from) = edge.from else { continue };
        for way in ways(edge) {
            let case = format!("{from}, {} by {way:?} {}", edge.by, edge.when);
            let id = scene(&pool, edge, from).await;
            if edge.by == Transition::Prune {
                run(&pool, "update awa.jobs_hot set finalized_at = '2020-01-02'").await;
            }
            take(&database, edge, id, way).await;
            let found = count(&pool, &format!("select count(*) from awa.jobs where id = {id}")).await;
            match edge.to {
                None => assert_eq!(found, 0, "{case}"),
                Some(to) => {
                    let after = row(&pool, id).await;
                    assert_eq!(after["state"], to.as_str(), "{case}");
                    let kept = if to == JobState::Completed { Value::Null } else { json!({ "percent": 8 }) };
                    assert_eq!(after["progress"], kept, "{case}");
                }
            }
            run(&pool, "delete from awa.jobs_hot").await;
            run(&pool, "delete from awa.scheduled_jobs").await;
            run(&pool, "truncate awa.active_claims, awa.callbacks").await;
        }
    }
}

/// A job that begins has none, whoever enqueues it.
#[tokio::test]
async fn a_new_job_has_no_progress() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "select awa.enqueue('a', '{}'), awa.enqueue('a', '{}', run_in => interval '1 hour')").await;
    run(&pool, "insert into awa.jobs (kind) values ('a')").await;
    assert_eq!(count(&pool, "select count(*) from awa.jobs where progress is null").await, 3);
}
