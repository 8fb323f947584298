//! One bad row, and all the good ones around it.

use std::time::Duration;

use awa_worker::{Client, Error, JobContext, JobError, QueueConfig};
use serde_json::{Value, json};
use sqlx::Connection as _;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::leases::rescue_all;
use crate::support::{Gate, Probe, Rig, drain, events, probe, soon, until};

const INTERVAL: Duration = Duration::from_millis(200);

/// A handler that reports what its job is called, unless that is `mute`, and waits at a gate.
fn reporting(rig: &Rig, gate: &Gate) -> (Client, UnboundedReceiver<JobContext>) {
    let (tell, told) = events();
    let gate = gate.clone();
    let handler = move |job: Probe, context: JobContext| {
        let (tell, gate) = (tell.clone(), gate.clone());
        async move {
            if job.name != "mute" {
                context.progress().set(1, job.name)?;
            }
            tell.send(context).unwrap();
            gate.passed().await;
            Ok::<Value, JobError>(Value::Null)
        }
    };
    (rig.client().heartbeat_interval(INTERVAL).register(handler).build().unwrap(), told)
}

/// Jobs of these names, each with a handler that is running.
async fn started(rig: &Rig, told: &mut UnboundedReceiver<JobContext>, names: &[&str]) -> Vec<i64> {
    let mut ids = Vec::new();
    for name in names {
        ids.push(rig.enqueue(probe(name)).await);
        soon("start", told.recv()).await.unwrap();
    }
    ids
}

/// Waits until each of these jobs has had a sign of life that began after this call.
async fn beats(rig: &Rig, ids: &[i64]) {
    sqlx::raw_sql(
        "create table if not exists public.since (at timestamptz); truncate public.since;
                   insert into public.since values (clock_timestamp())",
    )
    .execute(&rig.pool)
    .await
    .unwrap();
    let beaten = "select count(*) from awa.jobs, public.since where id = any ($1) and heartbeat_at > since.at";
    until("beats", async || {
        sqlx::query_scalar::<_, i64>(beaten).bind(ids).fetch_one(&rig.pool).await.unwrap() == ids.len() as i64
    })
    .await;
}

#[tokio::test]
async fn a_running_row_that_somebody_holds_locked_silences_neither_the_others_nor_the_process() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = reporting(&rig, &gate);
    let running = client.start().await.unwrap();
    let ids = started(&rig, &mut told, &["mute", "mute", "a", "b", "mute"]).await;
    let mut other = rig.database.connect().await;
    let mut held = other.begin().await.unwrap();
    for locked in [ids[0], ids[2]] {
        sqlx::query("select from awa.jobs_hot where id = $1 for update")
            .bind(locked)
            .execute(&mut *held)
            .await
            .unwrap();
    }
    beats(&rig, &[ids[1], ids[3], ids[4]]).await;
    let seen = "select count(*) from awa.workers, public.since where last_seen_at > since.at";
    until("the process's own beat", async || rig.count(seen).await == 1).await;
    held.rollback().await.unwrap();
    beats(&rig, &ids).await;
    gate.open();
    drain(&running).await;
    for id in ids {
        assert_eq!((rig.row(id).await.state.as_str(), rig.row(id).await.attempt), ("completed", 1));
    }
}

#[tokio::test]
async fn progress_that_the_database_refuses_silences_nobody() {
    let rig = Rig::new().await;
    rig.execute(
        "create function public.refuse() returns trigger language plpgsql as $$
         begin raise 'this progress cannot be stored'; end $$;
         create trigger refuse before update on awa.jobs_hot_0 for each row
            when (new.progress ->> 'message' = 'poison') execute function public.refuse()",
    )
    .await;
    let gate = Gate::new();
    let (client, mut told) = reporting(&rig, &gate);
    let running = client.start().await.unwrap();
    let ids = started(&rig, &mut told, &["mute", "a", "poison", "b"]).await;
    beats(&rig, &ids).await;
    assert_eq!(rig.row(ids[1]).await.progress, Some(json!({ "percent": 1, "message": "a" })));
    assert_eq!(rig.row(ids[2]).await.progress, None);
    assert_eq!(rescue_all(&rig.pool, Duration::from_secs(3)).await, 0);
    gate.open();
    drain(&running).await;
    for id in ids {
        assert_eq!(rig.row(id).await.state, "completed");
    }
}

#[tokio::test]
async fn a_locked_row_holds_up_no_other_completion() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = reporting(&rig, &gate);
    let running = client.start().await.unwrap();
    let ids = started(&rig, &mut told, &["mute"; 12]).await;
    let mut other = rig.database.connect().await;
    let mut held = other.begin().await.unwrap();
    sqlx::query("select from awa.jobs_hot where id = $1 for update").bind(ids[0]).execute(&mut *held).await.unwrap();
    gate.open();
    for id in &ids[1..] {
        rig.state(*id, "completed").await;
    }
    assert_eq!(rig.row(ids[0]).await.state, "running");
    held.rollback().await.unwrap();
    assert_eq!(rig.state(ids[0], "completed").await.attempt, 1);
    drain(&running).await;
}

#[tokio::test]
async fn a_row_that_cannot_be_read_fails_alone_and_times_without_end_are_no_obstacle() {
    let rig = Rig::new().await;
    for name in ["good", "good"] {
        rig.enqueue(probe(name)).await;
    }
    rig.execute(
        r#"insert into awa.jobs_hot_0 (id, kind, args, metadata, progress, tags, run_at, created_at) values
           (101, 'probe', '{"name": "a"}', '{"x": 1e999}', '{"percent": 7}', null, now(), now()),
           (102, 'probe', '{"name": "b"}', null, '{"metadata": {"x": 1e999}}', null, now(), now()),
           (103, 'probe', '{"name": "c"}', '{"x": 1e300}', null, '{a,null,b}', now(), now()),
           (104, 'probe', '{"name": "d"}', null, null, null, '-infinity', '-infinity'),
           (105, 'probe', '{"name": "e"}', null, null, null, 'infinity', 'infinity')"#,
    )
    .await;
    let handler = async |_: Probe, context: JobContext| Ok::<Value, JobError>(json!(context.tags()));
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let failed = "select count(*) from awa.scheduled_jobs
                   where attempt = 1 and errors -> 0 ->> 'error' like 'the ' ||
                         case id when 101 then 'metadata' when 102 then 'progress' end || ' of the job cannot be read:%'";
    until("both fail", async || rig.count(failed).await == 2).await;
    let kept = "select count(*) from awa.jobs
                 where id = 101 and progress = '{\"percent\": 7}' or id = 102 and progress #>> '{metadata,x}' is not null";
    assert_eq!(rig.count(kept).await, 2);
    assert_eq!(rig.state(103, "completed").await.result, Some(json!(["a", "b"])));
    let done = "select count(*) from awa.jobs where state = 'completed' and attempt = 1";
    until("all others", async || rig.count(done).await == 5).await;
    drain(&running).await;
}

// STATE-05
#[tokio::test]
async fn a_job_that_is_deleted_under_its_handler_takes_no_other_with_it() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = reporting(&rig, &gate);
    let running = client.start().await.unwrap();
    let mut ids = started(&rig, &mut told, &["a", "mute", "b"]).await;
    for deleted in [ids.remove(0), ids.remove(0)] {
        sqlx::query("delete from awa.jobs_hot where id = $1").bind(deleted).execute(&rig.pool).await.unwrap();
    }
    beats(&rig, &ids).await;
    // Deleted between the last beat and the end, in one batch with others.
    ids.extend(started(&rig, &mut told, &["mute"; 8]).await);
    let late = ids.pop().unwrap();
    sqlx::query("delete from awa.jobs_hot where id = $1").bind(late).execute(&rig.pool).await.unwrap();
    gate.open();
    ids.push(rig.enqueue(probe("next")).await);
    for id in ids {
        assert_eq!(rig.state(id, "completed").await.attempt, 1);
    }
    drain(&running).await;
    assert_eq!(rig.count("select count(*) from awa.jobs where state <> 'completed'").await, 0);
}

// I12: what flush has acknowledged is not overwritten by the settlement on its way.
#[tokio::test]
async fn progress_reported_after_the_end_is_refused() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (tell, mut told) = events();
    let passed = gate.clone();
    let handler = move |_: Probe, context: JobContext| {
        let (tell, gate) = (tell.clone(), passed.clone());
        async move {
            context.progress().set(1, "early")?;
            tell.send(context).unwrap();
            gate.passed().await;
            Err::<Value, JobError>("failed".into())
        }
    };
    let client = rig.client().heartbeat_interval(Duration::from_secs(30)).stale_after(Duration::from_secs(90));
    let running = client.register(handler).build().unwrap().start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    let context = soon("start", told.recv()).await.unwrap();
    let mut other = rig.database.connect().await;
    let mut held = other.begin().await.unwrap();
    sqlx::query("select from awa.jobs_hot where id = $1 for update").bind(id).execute(&mut *held).await.unwrap();
    gate.open();
    let waiting = "select count(*) from pg_stat_activity
                    where datname = current_database() and wait_event_type = 'Lock' and query like '%awa.settle%'";
    until("a settlement on its way", async || rig.count(waiting).await == 1).await;
    context.progress().set(2, "late").unwrap();
    assert!(matches!(soon("an answer", context.progress().flush()).await, Err(Error::LeaseLost)));
    held.rollback().await.unwrap();
    assert_eq!(rig.state(id, "retryable").await.progress, Some(json!({ "percent": 1, "message": "early" })));
    drain(&running).await;
}

#[tokio::test]
async fn settings_beyond_all_measure_are_refused_or_work() {
    let rig = Rig::new().await;
    let handler = async |_: Probe| Ok::<_, JobError>(Value::Null);
    let endless = rig.client().cancel_grace(Duration::MAX).register(handler).build();
    assert!(matches!(endless, Err(Error::Build(_))));
    let whole = Client::builder(rig.pool.clone()).stale_after(Duration::MAX).cancel_grace(Duration::MAX);
    assert!(matches!(whole.register(handler).build(), Err(Error::Build(_))));
    let client = rig
        .client()
        .queue("default", QueueConfig::new().max_workers(usize::MAX))
        .connections(2)
        .claim_batch_max(1)
        .settle_batch_max(1)
        .drain_timeout(Duration::MAX)
        .cancel_grace(Duration::ZERO)
        .register(handler)
        .build()
        .unwrap();
    let ids = [rig.enqueue(probe("a")).await, rig.enqueue(probe("b")).await];
    let ended = client.run_until(async {
        for id in ids {
            rig.state(id, "completed").await;
        }
    });
    soon("end", ended).await.unwrap();
}
