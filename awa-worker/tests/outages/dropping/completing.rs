//! Completing a job in the handler's own transaction: that is the handler's, whatever was dropped in it.

use std::time::Duration;

use awa_worker::{Data, HandlerExt as _, JobContext, JobError, Outcome, RetryPolicy, Running};
use serde_json::{Value, json};
use sqlx::{PgPool, Postgres, Transaction};

use super::{Scene, gone, polled};
use crate::support::{Gate, Probe, drain, events, probe, soon, until};
use crate::worker::client;

type Tx = Transaction<'static, Postgres>;

async fn scene() -> Scene {
    let scene = Scene::new().await;
    scene.rig.execute("create table public.effects (job text, attempt smallint)").await;
    scene
}

/// Begins the handler's transaction, with an effect in it.
async fn effect(pool: &PgPool, context: &JobContext) -> Result<Tx, sqlx::Error> {
    let mut tx = pool.begin().await?;
    let statement = "insert into public.effects select args ->> 'name', $2 from awa.jobs where id = $1";
    sqlx::query(statement).bind(context.job_id().get()).bind(context.attempt()).execute(&mut *tx).await?;
    Ok(tx)
}

/// Effect and completion, committed together.
async fn completed(pool: &PgPool, context: &JobContext) -> Result<Outcome<Value>, JobError> {
    let mut tx = effect(pool, context).await?;
    let outcome = context.complete_in(&mut *tx, json!(context.attempt())).await?;
    tx.commit().await?;
    Ok(outcome)
}

async fn end(scene: &Scene, running: &Running) {
    scene.judge("complete_in").await;
    drain(running).await;
    gone(&scene.rig).await;
}

// CONN-11: it is in the transaction or it is not, and what becomes of that is for the handler to say.
#[tokio::test]
async fn dropped_completion_counts_if_the_transaction_that_has_it_commits() {
    let scene = scene().await;
    let (tell, mut told) = events();
    let handler = move |job: Probe, context: JobContext, pool: Data<PgPool>| {
        let tell = tell.clone();
        async move {
            if context.attempt() > 1 {
                return completed(&pool, &context).await;
            }
            let words: Vec<&str> = job.name.split(' ').collect();
            let (times, end) = (words[0], words[1]);
            let mut tx = effect(&pool, &context).await?;
            let done = polled(times.parse()?, context.complete_in(&mut *tx, json!(1))).await.transpose()?;
            let asked = sqlx::query_scalar::<_, bool>("select state = 'completed' from awa.jobs where id = $1");
            let inside = asked.bind(context.job_id().get()).fetch_one(&mut *tx).await?;
            if end == "commit" {
                tx.commit().await?;
            } else {
                tx.rollback().await?;
            }
            tell.send((done.is_some(), inside)).unwrap();
            done.ok_or_else(|| "dropped".into())
        }
    };
    let handler = handler.with_retry(RetryPolicy::fixed(Duration::ZERO));
    let running = client(&scene.rig.pool, 10).data(scene.pool.clone()).register(handler);
    let running = running.build().unwrap().start().await.unwrap();
    let mut seen = Vec::new();
    for round in 0..3 {
        'round: for times in 0.. {
            for end in ["rollback", "commit"] {
                let id = scene.rig.enqueue(probe(&format!("{times} {end} {round}"))).await;
                let (done, inside) = soon("the first attempt", told.recv()).await.unwrap();
                let row = scene.rig.state(id, "completed").await;
                let attempts = if inside && end == "commit" { 1 } else { 2 };
                assert_eq!((row.attempt, row.result), (attempts, Some(json!(attempts))), "{end} after {times} polls");
                seen.push((done, inside));
                if done && end == "commit" {
                    break 'round;
                }
            }
        }
    }
    assert!(
        seen.contains(&(false, false)) && seen.contains(&(false, true)),
        "dropped before it took effect, and after"
    );
    let torn = "select count(*) from public.effects where attempt = 1 and job like '% rollback %'";
    assert_eq!(scene.jobs(torn).await, 0);
    let last = "select count(*) from awa.jobs
                 where 1 <> (select count(*) from public.effects as effect
                              where effect.job = args ->> 'name' and effect.attempt = jobs.attempt)";
    assert_eq!(scene.jobs(last).await, 0, "what completed the job had its effect, once");
    end(&scene, &running).await;
}

// CONN-11: as by a timeout around all of it, the commit included.
#[tokio::test]
async fn dropped_transaction_that_completes_the_job_happens_once_or_not_at_all() {
    let scene = scene().await;
    let (tell, mut told) = events();
    let handler = move |_: Probe, context: JobContext, pool: Data<PgPool>| {
        let tell = tell.clone();
        async move {
            for times in 0.. {
                if let Some(done) = polled(times, completed(&pool, &context)).await {
                    tell.send(times).unwrap();
                    return done;
                }
            }
            unreachable!("it completes")
        }
    };
    let running = client(&scene.rig.pool, 10).data(scene.pool.clone()).register(handler);
    let running = running.build().unwrap().start().await.unwrap();
    let id = scene.rig.enqueue(probe("a")).await;
    let times = soon("the end", told.recv()).await.unwrap();
    assert!(times > 3, "{times}");
    let row = scene.rig.state(id, "completed").await;
    assert_eq!((row.attempt, row.result, row.errors), (1, Some(json!(1)), None));
    assert_eq!(scene.jobs("select count(*) from public.effects").await, 1);
    end(&scene, &running).await;
}

// CONN-11: the attempt goes on as if nothing had been tried, signs of life and all.
#[tokio::test]
async fn attempt_that_goes_on_after_a_dropped_completion_beats_and_reports() {
    let scene = scene().await;
    let gate = Gate::new();
    let handler = async |_: Probe, context: JobContext, pool: Data<PgPool>, gate: Data<Gate>| {
        for times in 0..3 {
            let mut tx = effect(&pool, &context).await?;
            let tried: Option<Outcome<Value>> =
                polled(times, context.complete_in(&mut *tx, json!("never"))).await.transpose()?;
            drop(tried);
            tx.rollback().await?;
        }
        context.set_checkpoint("place", "after it")?;
        gate.passed().await;
        Ok::<Value, JobError>(json!("by itself"))
    };
    let running = client(&scene.rig.pool, 10).data(scene.pool.clone()).data(gate.clone()).register(handler);
    let running = running.build().unwrap().start().await.unwrap();
    let id = scene.rig.enqueue(probe("a")).await;
    let beaten = "select count(*) from awa.jobs where state = 'running'
                     and heartbeat_at > attempted_at + interval '500 milliseconds'";
    until("beats", async || scene.jobs(beaten).await == 1).await;
    let told = "select count(*) from awa.jobs where progress #>> '{metadata,place}' = 'after it'";
    until("progress", async || scene.jobs(told).await == 1).await;
    gate.open();
    let row = scene.rig.state(id, "completed").await;
    assert_eq!((row.attempt, row.result), (1, Some(json!("by itself"))));
    assert_eq!(scene.jobs("select count(*) from public.effects").await, 0);
    end(&scene, &running).await;
}
