//! The testing kit: what it does on a connection of its own ends with it, and a transaction of the caller's stays the caller's.

use std::time::Duration;

use awa_worker::testing::{self, Drain};
use awa_worker::{
    Client, Data, Inserted, JobContext, JobError, NewJob, assert_enqueued, assert_not_enqueued, enqueue_copy,
    enqueue_many,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc::UnboundedSender, oneshot};

use super::{Scene, dropped, polled};
use crate::support::{Probe, events, probe, soon, until};
use crate::worker::{client, enqueue};

const HOUR: Duration = Duration::from_secs(3600);

/// A client of the pool that is judged, with a handler that stores something on its way.
fn flushing(scene: &Scene) -> Client {
    let handler = async |job: Probe, context: JobContext| {
        context.progress().set(50, "half")?;
        context.progress().flush().await?;
        Ok::<Value, JobError>(json!(job.name))
    };
    client(&scene.pool, 1).register(handler).build().unwrap()
}

const OPEN: &str = "select count(*) from awa.jobs where state <> 'completed'";

// CONN-11: as if the process had died there. Time hands back what was claimed, and the next drain runs it.
#[tokio::test]
async fn dropped_drain_is_a_process_that_died() {
    let scene = Scene::new().await;
    let client = flushing(&scene);
    for options in [false, true] {
        enqueue(&scene.rig.pool, 3).await;
        dropped("drain", async |_| {
            if options { Drain::new().run(&client, "default").await } else { testing::drain(&client, "default").await }
        })
        .await;
        scene.judge("drain").await;
        let _ = testing::advance(&scene.rig.pool, HOUR).await.unwrap();
        let _ = testing::advance(&scene.rig.pool, HOUR).await.unwrap();
        let _ = testing::drain(&client, "default").await.unwrap();
        assert_eq!(scene.jobs(OPEN).await, 0);
    }
    assert_eq!(scene.jobs("select count(*) from awa.jobs").await, 6);
}

// CONN-11
#[tokio::test]
async fn dropped_drain_leaves_the_transaction_of_the_caller_to_the_caller() {
    let scene = Scene::new().await;
    let client = flushing(&scene);
    enqueue(&scene.rig.pool, 3).await;
    for times in 0.. {
        let mut tx = scene.pool.begin().await.unwrap();
        let done = polled(times, testing::drain_in(&mut tx, &client, "default")).await;
        let inside: i64 = sqlx::query_scalar("select count(*) from awa.jobs").fetch_one(&mut *tx).await.unwrap();
        assert_eq!(inside, 3);
        tx.rollback().await.unwrap();
        let untouched = "select count(*) from awa.jobs where state = 'available' and attempt = 0";
        assert_eq!(scene.jobs(untouched).await, 3);
        if let Some(drained) = done {
            assert_eq!(drained.unwrap().len(), 3);
            break;
        }
    }
    scene.judge("drain_in").await;
    assert_eq!(scene.jobs("select count(*) from awa.workers").await, 0);
}

/// What a handler has, until it is dropped.
type Had = oneshot::Sender<()>;

// CONN-11: it is not left to run on in a test that has given it up.
#[tokio::test]
async fn handler_of_a_dropped_drain_or_run_goes_with_it() {
    let scene = Scene::new().await;
    let (tell, mut told) = events::<oneshot::Receiver<()>>();
    let stuck = async |_: Probe, tell: Data<UnboundedSender<oneshot::Receiver<()>>>| {
        let (_had, gone): (Had, _) = oneshot::channel();
        tell.send(gone).unwrap();
        std::future::pending::<Result<Value, JobError>>().await
    };
    let client = client(&scene.pool, 1).data(tell.clone()).register(stuck).build().unwrap();
    for own in [true, false] {
        enqueue(&scene.rig.pool, 1).await;
        let gone = tokio::select! {
            _ = testing::drain(&client, "default"), if own => unreachable!("its handler is stuck"),
            _ = async { testing::run(stuck, probe("a")).data(tell.clone()).await }, if !own => unreachable!("so is this one"),
            gone = told.recv() => gone.unwrap(),
        };
        assert!(soon("the handler is dropped", gone).await.is_err());
    }
    scene.judge("drain").await;
}

// CONN-11: each thing that a time jump does is done or not done.
#[tokio::test]
async fn dropped_time_jump_leaves_nothing_locked_and_jobs_whole() {
    let scene = Scene::new().await;
    for number in 0..3 {
        scene.rig.enqueue(NewJob::new(&probe(&number.to_string())).run_in(HOUR)).await;
    }
    dropped("advance", |_| testing::advance(&scene.pool, HOUR)).await;
    scene.judge("advance").await;
    assert_eq!(scene.jobs("select count(*) from awa.jobs where state = 'available'").await, 3);
    for times in 0.. {
        let mut tx = scene.pool.begin().await.unwrap();
        let done = polled(times, testing::advance(&mut *tx, HOUR)).await.is_some();
        let inside: i64 = sqlx::query_scalar("select count(*) from awa.jobs").fetch_one(&mut *tx).await.unwrap();
        tx.rollback().await.unwrap();
        assert_eq!(inside, 3);
        if done {
            break;
        }
    }
    scene.judge("advance in a transaction").await;
}

// CONN-11
#[tokio::test]
async fn dropped_look_at_what_was_enqueued_leaves_the_pool_whole() {
    let scene = Scene::new().await;
    scene.rig.enqueue(probe("a")).await;
    dropped("enqueued", |_| testing::enqueued::<Probe>(&scene.pool)).await;
    dropped("assert_enqueued", async |_| assert_enqueued!(&scene.pool, Probe, count = 1)).await;
    dropped("assert_enqueued", async |_| assert_enqueued!(&scene.pool, probe("a"))).await;
    dropped("assert_not_enqueued", async |_| assert_not_enqueued!(&scene.pool, probe("b"))).await;
    scene.judge("looks").await;
}

// CONN-11: the functions without a client, in a transaction of the caller's.
#[tokio::test]
async fn dropped_batch_leaves_the_transaction_of_the_caller_to_the_caller() {
    let scene = Scene::new().await;
    let jobs: Vec<Probe> = (0..3).map(|number| probe(&number.to_string())).collect();
    for times in 0.. {
        let mut tx = scene.pool.begin().await.unwrap();
        let done = polled(times, enqueue_many(&mut *tx, &jobs)).await.is_some();
        let inside: i64 = sqlx::query_scalar("select count(*) from awa.jobs").fetch_one(&mut *tx).await.unwrap();
        tx.rollback().await.unwrap();
        assert!([0, 3].contains(&inside), "{inside}");
        assert_eq!(scene.jobs("select count(*) from awa.jobs").await, 0);
        if done {
            break;
        }
    }
    scene.judge("enqueue_many").await;
    // A COPY cannot be left: the session ends with it, and the transaction.
    dropped("enqueue_copy", async |_| {
        let mut tx = scene.pool.begin().await?;
        let inserted = enqueue_copy(&mut tx, &jobs).await;
        let inserted: Vec<Inserted<Probe>> = inserted.map_err(sqlx::Error::decode)?;
        tx.rollback().await.map(|()| inserted)
    })
    .await;
    scene.judge("enqueue_copy").await;
    until("none", async || scene.jobs("select count(*) from awa.jobs").await == 0).await;
}
