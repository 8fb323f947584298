//! PROG-01, and what steps and completions promise when the process is killed between any two of their statements. What
//! counts is not what the job says but which effects there are.

use std::env;
use std::process::{self, Command};
use std::time::Duration;

use awa_worker::{Client, JobContext, JobError, NewJob, Outcome};
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::leases::rescue_all;
use crate::processes::{MODE, Process, URL};
use crate::support::{Probe, Rig, drain, probe, until};

/// kill -9, on ourselves.
fn die() -> ! {
    Command::new("kill").args(["-9", &process::id().to_string()]).status().expect("a kill command");
    loop {
        std::thread::park();
    }
}

/// Not a claim of its own: the body of the child processes.
#[test]
fn child_works_when_told_to() {
    let (Ok(_), Ok(url)) = (env::var(MODE), env::var(URL)) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let pool = PgPool::connect(&url).await.unwrap();
        let builder = Client::builder(pool.clone()).without_maintenance();
        let handler = move |job: Probe, context: JobContext| behave(pool.clone(), job, context);
        builder.register(handler).build().unwrap().run_until(awa_worker::shutdown_signal()).await.unwrap();
    });
}

/// Does as its name says; the first attempt dies where the name says.
async fn behave(pool: PgPool, job: Probe, context: JobContext) -> Result<Outcome<Value>, JobError> {
    let dies = |place: &str| context.attempt() == 1 && job.name.ends_with(place);
    if job.name.starts_with("checkpoint") {
        return checkpoint(&context).await;
    }
    if job.name.starts_with("complete") {
        let mut tx = pool.begin().await?;
        sqlx::query("insert into public.effects values ($1)").bind(context.attempt()).execute(&mut *tx).await?;
        if dies("before the call") {
            die();
        }
        let completed = context.complete_in(&mut *tx, json!(context.attempt())).await?;
        if dies("before the commit") {
            die();
        }
        tx.commit().await?;
        if dies("after the commit") {
            die();
        }
        return Ok(completed);
    }
    if dies("before it runs") {
        die();
    }
    let step = async || {
        sqlx::query("insert into public.effects values ($1)").bind(context.attempt()).execute(&pool).await?;
        if dies("before it is stored") {
            die();
        }
        Ok::<_, JobError>(context.attempt())
    };
    let taken: i16 = context.step("effect", step).await?;
    if dies("after it is stored") {
        die();
    }
    Ok(Outcome::complete_with(json!(taken)))
}

/// Leaves a checkpoint and dies; later attempts die before they have done anything.
async fn checkpoint(context: &JobContext) -> Result<Outcome<Value>, JobError> {
    match context.attempt() {
        1 => {
            context.set_checkpoint("line", &400)?;
            context.progress().flush().await?;
            die()
        }
        2 => die(),
        _ => Ok(Outcome::complete_with(json!(context.checkpoint::<u64>("line")?))),
    }
}

async fn rig() -> Rig {
    let rig = Rig::new().await;
    rig.execute("create table public.effects (attempt smallint)").await;
    rig
}

/// Lets a child run what there is until it dies of it, and makes the job due again, unless it has ended.
async fn run_and_die(rig: &Rig, id: i64) {
    let child = Process::start_as("killed::child_works_when_told_to", rig, "die");
    assert!(!child.ended().await, "it kills itself");
    if rig.row(id).await.state == "running" {
        // A transaction that it had open is over when the server has noticed.
        until("rescue", async || rescue_all(&rig.pool, Duration::ZERO).await == 1).await;
        rig.promote().await;
    }
}

/// Runs a job in a process that dies, then in one that does not; returns its result, and the attempts that had an effect.
async fn survived(name: &str) -> (Value, Vec<i16>) {
    let rig = rig().await;
    let id = rig.enqueue(probe(name)).await;
    run_and_die(&rig, id).await;
    if rig.row(id).await.state != "completed" {
        let child = Process::start_as("killed::child_works_when_told_to", &rig, "live");
        rig.state(id, "completed").await;
        child.signal("-TERM");
        assert!(child.ended().await);
    }
    let row = rig.row(id).await;
    let effects = sqlx::query_scalar("select attempt from public.effects order by attempt").fetch_all(&rig.pool).await;
    (row.result.expect("a result"), effects.unwrap())
}

#[tokio::test]
async fn step_is_repeated_only_if_its_process_died_before_its_result_was_stored() {
    assert_eq!(survived("step, killed before it runs").await, (json!(2), vec![2]));
    assert_eq!(survived("step, killed before it is stored").await, (json!(2), vec![1, 2]));
    assert_eq!(survived("step, killed after it is stored").await, (json!(1), vec![1]));
}

#[tokio::test]
async fn what_is_completed_in_its_own_transaction_has_its_effect_exactly_once() {
    assert_eq!(survived("complete, killed before the call").await, (json!(2), vec![2]));
    assert_eq!(survived("complete, killed before the commit").await, (json!(2), vec![2]));
    assert_eq!(survived("complete, killed after the commit").await, (json!(1), vec![1]));
}

// PROG-01
#[tokio::test]
async fn checkpoint_outlives_attempts_that_end_before_they_do_anything() {
    let rig = rig().await;
    let id = rig.enqueue(NewJob::new(&probe("checkpoint")).max_attempts(9)).await;
    for _ in 0..2 {
        run_and_die(&rig, id).await;
        assert_eq!(rig.row(id).await.progress, Some(json!({ "metadata": { "line": 400 } })));
    }
    // The third cannot read its args, the fourth panics at once.
    rig.execute(r#"update awa.jobs_hot set args = '{"name": 7}'"#).await;
    let panics = async |_: Probe, _: JobContext| -> Result<Value, JobError> { panic!("at once") };
    for (attempt, error) in [(3, "the args do not fit"), (4, "panicked at")] {
        let running = rig.client().register(panics).build().unwrap().start().await.unwrap();
        let row = rig.state(id, "retryable").await;
        assert!(row.last_error().starts_with(error), "{}", row.last_error());
        assert_eq!((row.attempt, row.progress), (attempt, Some(json!({ "metadata": { "line": 400 } }))));
        drain(&running).await;
        rig.execute(r#"update awa.scheduled_jobs set args = '{"name": "checkpoint"}'"#).await;
        rig.promote().await;
    }
    let child = Process::start_as("killed::child_works_when_told_to", &rig, "live");
    assert_eq!(rig.state(id, "completed").await.result, Some(json!(400)));
    child.signal("-TERM");
    assert!(child.ended().await);
}
