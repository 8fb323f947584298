//! ADR-014, what becomes of progress: every edge of the state machine is taken by its real statement. A completed job has
//! none, a job that is gone has none, and whatever else happens to a job keeps it to the letter.

use std::time::Duration;

use awa_model::{CallbackId, EDGES, Edge, JobState, Transition};
use awa_storage::{
    Lease,
    callback::Answered,
    settle::{Completion, Settlement, Verdict, complete_alone, complete_in, complete_many, settle_many},
    testing::TestDatabase,
};
use serde_json::{Value, json};
use sqlx::PgPool;
use uuid::Uuid;

use crate::hops::claimed;
use crate::scene::{begin, count, insert_full, rescue_all, row, run, text};
use crate::transitions::relation;
use crate::waiting::Answer;

/// How a job takes an edge.
#[derive(Clone, Debug)]
enum Way {
    /// A statement; `$` is the id.
    Sql(&'static str),
    /// Its attempt ends.
    End(Verdict),
    /// Its attempt ends by waiting for its callback,
    Park,
    /// whose answer has come already,
    ParkResumed,
    /// or for one that it has not opened.
    ParkStray,
    /// Somebody answers its callback.
    Outside(Answer),
    Complete,
    CompleteAlone,
    CompleteIn,
    /// Its worker dies.
    Death,
    /// It runs past its deadline.
    Overrun,
}

use JobState::{Available, Cancelled, Completed, Failed, Retryable, Running, Scheduled, WaitingExternal};
use Way::{Complete, CompleteAlone, CompleteIn, Death, End, Outside, Overrun, Park, ParkResumed, ParkStray, Sql};

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

/// Every way along this edge. One that has no line here is a failure.
fn ways(from: JobState, edge: &Edge) -> Vec<Way> {
    match (from, edge.by) {
        (Scheduled | Retryable, Transition::Promote | Transition::Displace) => vec![PROMOTE],
        (Scheduled | Retryable, Transition::RunNow) => vec![RUN_NOW],
        (Available, Transition::Claim) => vec![Sql("select 1")],
        (Running, Transition::Complete) => vec![Complete, CompleteAlone, CompleteIn],
        (Running, Transition::Retry) => vec![
            End(Verdict::Retry { after: None, error: error() }),
            End(Verdict::Committed { after: None, error: error() }),
            ParkStray,
        ],
        (Running, Transition::Snooze) => vec![End(Verdict::Snooze { after: Duration::from_secs(9) })],
        (Running, Transition::Release) => vec![End(Verdict::Release)],
        (Running, Transition::Fail) => vec![End(Verdict::Fail { error: error() })],
        (Running, Transition::Rescue) => vec![Death, Overrun],
        (Running, Transition::Cancel) => vec![CANCEL, CANCEL_BY_VIEW, End(Verdict::Cancel { reason: error() })],
        (Scheduled | Available | WaitingExternal | Retryable, Transition::Cancel) => vec![CANCEL, CANCEL_BY_VIEW],
        (Running, Transition::Displace) => vec![
            End(Verdict::Retry { after: None, error: error() }),
            End(Verdict::Release),
            End(Verdict::Snooze { after: Duration::from_secs(9) }),
            Park,
            ParkResumed,
            PARK,
            PARK_RESUMED,
            Death,
        ],
        (WaitingExternal, Transition::Displace) => vec![RESUME, Outside(Answer::Resume), EXPIRE],
        (Running, Transition::Park) if edge.to == Some(Available) => vec![PARK_RESUMED, ParkResumed],
        (Running, Transition::Park) => vec![PARK, Park],
        (WaitingExternal, Transition::Resume) => vec![RESUME, Outside(Answer::Resume)],
        (Running | WaitingExternal, Transition::CompleteExternally) => {
            vec![Sql("select awa.callback_complete(id) from awa.callbacks"), Outside(Answer::Complete)]
        }
        (Running | WaitingExternal, Transition::FailExternally) => {
            vec![Sql("select awa.callback_fail(id, 'new') from awa.callbacks"), Outside(Answer::Fail)]
        }
        (WaitingExternal, Transition::CallbackTimeout) => vec![EXPIRE],
        (Failed | Cancelled, Transition::OperatorRetry) => vec![RETRY],
        (
            Scheduled | Available | Running | WaitingExternal | Retryable | Completed | Failed | Cancelled,
            Transition::Delete,
        ) => vec![DELETE, DELETE_BY_VIEW],
        (Completed | Failed | Cancelled, Transition::Prune) => vec![PRUNE],
        (from, by) => panic!("no way is known by which {by} takes a job that is {from}"),
    }
}

/// A job at the start of an edge, with progress, in the circumstances that the edge asks for.
async fn scene(pool: &PgPool, edge: &Edge, from: JobState) -> i64 {
    let starts = if from == JobState::Running { JobState::Available } else { from };
    // What is pruned is parked; completed jobs elsewhere go with their segment.
    let relation = if edge.by == Transition::Prune { "jobs_hot_parked" } else { relation(starts) };
    let id = insert_full(pool, relation, starts.as_str()).await;
    match edge.when {
        "attempts spent" => {
            // A claim adds one.
            let spent = if from == JobState::Running { "attempt + 1" } else { "attempt" };
            run(pool, &format!("update awa.jobs_hot set max_attempts = {spent}")).await;
            run(pool, &format!("update awa.scheduled_jobs set max_attempts = {spent}")).await;
        }
        "" | "attempts left" | "not answered yet" | "resumed already" => {}
        when => panic!("nobody knows how to set up: {when}"),
    }
    if edge.by == Transition::Displace {
        // The key is held while the job is available, and is not while it runs; from elsewhere it has to be taken.
        let mask = if from == JobState::Running { "1 | 2 | 8 | 16" } else { "1 | 2 | 16" };
        run(pool, &format!("update awa.jobs_hot set unique_states = {mask}")).await;
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

async fn end(pool: &PgPool, lease: Lease, verdict: Verdict) {
    let settlement = Settlement { lease, verdict, progress: None };
    assert!(settle_many(pool, &[settlement]).await.expect("settled")[0].is_applied());
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
    let callback = text(&pool, "select id from awa.callbacks").await.parse::<CallbackId>();
    let callback = || *callback.as_ref().expect("a callback");
    match way {
        Sql(_) if edge.by == Transition::Claim => drop(claimed(&pool).await),
        Sql(statement) => {
            run(&pool, &statement.replace('$', &id.to_string())).await;
        }
        End(verdict) => end(&pool, lease(), verdict).await,
        Park => end(&pool, lease(), Verdict::Park { callback: callback() }).await,
        ParkStray => end(&pool, lease(), Verdict::Park { callback: CallbackId::new(Uuid::nil()) }).await,
        ParkResumed => {
            let _ = Answer::Resume.give(&pool, callback()).await.expect("an answer");
            end(&pool, lease(), Verdict::Park { callback: callback() }).await;
        }
        Outside(answer) => {
            let answered = answer.give(&pool, callback()).await.expect("an answer");
            assert!(matches!(answered, Answered::Applied { .. }), "{answered:?}");
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
        for way in ways(from, edge) {
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
