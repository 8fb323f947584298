//! Answers to callbacks, through a client, and in a transaction of the caller's own.

use awa_worker::{
    Answered, CallbackId, Client, Error, JobContext, JobError, Outcome, callback_complete, callback_fail,
    callback_resume, testing,
};
use serde_json::Value;
use sqlx::PgExecutor;
use sqlx::types::Uuid;

use super::{ROUNDS, Scene, dropped, polled};
use crate::support::{PATIENCE, Probe, soon};
use crate::worker::{client, enqueue};

/// Far more than there are calls, with the pool and in transactions.
const JOBS: usize = 80;
const JOBS_IN: usize = 20;

/// Every sort of answer.
const ANSWERS: [&str; 3] = ["complete", "resume", "fail"];

/// Jobs that wait, each for the callback at its place.
async fn waiting(scene: &Scene, jobs: usize) -> Vec<CallbackId> {
    let handler = async |_: Probe, context: JobContext| {
        Ok::<Outcome<Value>, JobError>(Outcome::wait_for(context.callback(PATIENCE * 60).await?))
    };
    enqueue(&scene.rig.pool, jobs).await;
    let client = client(&scene.rig.pool, 1).register(handler).build().unwrap();
    let drained = soon("all wait", testing::drain(&client, "default")).await.unwrap();
    assert_eq!(drained.len(), jobs);
    let parked = "select id from awa.callbacks where parked and answered_at is null";
    let ids: Vec<Uuid> = sqlx::query_scalar(parked).fetch_all(&scene.rig.pool).await.unwrap();
    assert_eq!(ids.len(), jobs);
    ids.into_iter().map(CallbackId::new).collect()
}

async fn through(client: &Client, answer: &str, callback: CallbackId) -> Result<Answered, Error> {
    match answer {
        "complete" => client.callback_complete(callback, Some("it came")).await,
        "resume" => client.callback_resume(callback, Some("it came")).await,
        _ => client.callback_fail(callback, "it did not come").await,
    }
}

async fn on(db: impl PgExecutor<'_>, answer: &str, callback: CallbackId) -> Result<Answered, Error> {
    match answer {
        "complete" => callback_complete(db, callback, Some("it came")).await,
        "resume" => callback_resume(db, callback, Some("it came")).await,
        _ => callback_fail(db, callback, "it did not come").await,
    }
}

/// Callbacks that say something else than their jobs do.
const TORN: &str = "select count(*) from awa.callbacks as callback join awa.jobs as job on job.id = callback.job_id
    where job.state::text is distinct from case callback.answer when 'complete' then 'completed' when 'resume' then 'available'
                                                                when 'fail' then 'failed' else 'waiting_external' end
       or (job.result is not null) <> (callback.answer is not distinct from 'complete')
       or (job.errors is not null) <> (callback.answer is not distinct from 'fail')";

const ANSWERED: &str = "select count(*) from awa.callbacks where answered_at is not null";

// CONN-11: what was dropped may be said again.
#[tokio::test]
async fn dropped_answer_is_given_or_not_given_and_may_be_repeated() {
    let scene = Scene::new().await;
    let (mut all, mut given) = (0, 0);
    for answer in ANSWERS {
        let callbacks = waiting(&scene, JOBS).await;
        let calls = dropped(answer, |call| through(&scene.client, answer, callbacks[call])).await;
        scene.judge(answer).await;
        assert_eq!(scene.jobs(TORN).await, 0, "{answer}");
        for callback in &callbacks[..calls] {
            let again = through(&scene.client, answer, *callback).await.unwrap();
            assert!(matches!(again, Answered::Applied { .. } | Answered::Unchanged { .. }), "{answer}: {again:?}");
            given += usize::from(matches!(again, Answered::Unchanged { .. }));
        }
        all += calls;
        assert_eq!(scene.jobs(TORN).await, 0, "{answer}");
        scene.rig.execute("select awa.delete_job(id) from awa.jobs").await;
    }
    // One of each round was waited for.
    let waited_for = ANSWERS.len() * ROUNDS;
    assert!((waited_for + 1..all).contains(&given), "dropped before it took effect, and after: {given} of {all} did");
}

// CONN-11: the transaction is the caller's, and stays usable.
#[tokio::test]
async fn dropped_answer_leaves_the_transaction_of_the_caller_to_the_caller() {
    let scene = Scene::new().await;
    let mut given = Vec::new();
    for answer in ANSWERS {
        let callbacks = waiting(&scene, JOBS_IN).await;
        for (times, callback) in callbacks.into_iter().enumerate() {
            let before = scene.jobs(ANSWERED).await;
            let mut tx = scene.pool.begin().await.unwrap();
            let done = polled(times, on(&mut *tx, answer, callback)).await.transpose().unwrap();
            let inside: i64 = sqlx::query_scalar(ANSWERED).fetch_one(&mut *tx).await.unwrap();
            if times % 2 == 0 {
                tx.rollback().await.unwrap();
                assert_eq!(scene.jobs(ANSWERED).await, before, "{answer}");
            } else {
                tx.commit().await.unwrap();
                assert_eq!(scene.jobs(ANSWERED).await, inside, "{answer}");
            }
            assert_eq!(scene.jobs(TORN).await, 0, "{answer}");
            given.push((done.is_some(), inside > before));
            if done.is_some() {
                break;
            }
        }
        scene.judge(answer).await;
        scene.rig.execute("select awa.delete_job(id) from awa.jobs").await;
    }
    assert!(given.contains(&(false, true)) && given.contains(&(false, false)), "before it took effect, and after");
}
