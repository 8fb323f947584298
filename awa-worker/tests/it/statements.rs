//! ADR-014: what progress costs. Every sign of life is counted by a function in front of the real one, inside its
//! transaction.

use std::time::Duration;

use awa_worker::{JobContext, JobError, QueueConfig};
use serde_json::{Value, json};

use crate::support::{Gate, Probe, Rig, drain, events, probe, soon, until};

const COUNT_BEATS: &str = "
    create table public.beats (jobs integer, reporting boolean);
    alter function awa.beat(smallint[], bigint[], bigint[], jsonb[]) rename to real_beat;
    create function awa.beat(p_segments smallint[], p_ids bigint[], p_leases bigint[], p_progress jsonb[])
        returns setof bigint language plpgsql as $$
    begin
        insert into public.beats values (cardinality(p_ids), p_progress is not null);
        return query select * from awa.real_beat(p_segments, p_ids, p_leases, p_progress);
    end $$";

/// All jobs of one claim are beaten together, so each statement must name all of its sort.
#[tokio::test]
async fn at_most_two_statements_beat_for_all_jobs_and_silent_ones_write_no_progress() {
    let rig = Rig::new().await;
    rig.execute(COUNT_BEATS).await;
    let gate = Gate::new();
    let passed = gate.clone();
    let handler = move |job: Probe, context: JobContext| {
        let gate = passed.clone();
        async move {
            let mut number = 0;
            while job.name == "reporting" && !context.is_cancelled() {
                // Something new at every cycle.
                context.progress().set(number, "on the way")?;
                number = (number + 1) % 100;
                tokio::select! {
                    () = gate.passed() => break,
                    () = tokio::task::yield_now() => {}
                }
            }
            gate.passed().await;
            Ok::<Value, JobError>(Value::Null)
        }
    };
    let jobs: Vec<_> = (0..40).map(|number| probe(if number % 4 == 0 { "reporting" } else { "silent" })).collect();
    awa_worker::enqueue_many(&rig.pool, jobs).await.unwrap();
    let queue = QueueConfig::new().max_workers(40);
    let client = rig.client().queue("default", queue).heartbeat_interval(Duration::from_millis(200)).register(handler);
    let running = client.build().unwrap().start().await.unwrap();
    let cycles = "select count(*) from public.beats where reporting";
    until("some cycles", async || rig.count(cycles).await >= 5).await;
    let partial = "select count(*) from public.beats where jobs <> case when reporting then 10 else 30 end";
    assert_eq!(rig.count(partial).await, 0, "each statement is for all jobs of its sort");
    let apart =
        "select abs(count(*) filter (where reporting) - count(*) filter (where not reporting)) from public.beats";
    assert!(rig.count(apart).await <= 1, "a cycle is one of each");
    let written = "select count(*) from awa.jobs where progress is not null and args ->> 'name' = 'silent'";
    assert_eq!(rig.count(written).await, 0);
    gate.open();
    drain(&running).await;
}

#[tokio::test]
async fn a_million_reports_cost_no_statement_of_their_own() {
    let rig = Rig::new().await;
    rig.execute(COUNT_BEATS).await;
    let (tell, mut told) = events();
    let handler = move |_: Probe, context: JobContext| {
        let tell = tell.clone();
        async move {
            let reporting = context.clone();
            let report =
                move || (0..1_000_000).try_for_each(|number| reporting.progress().set(number / 10_000, "on the way"));
            tokio::task::spawn_blocking(report).await??;
            tell.send(context).unwrap();
            Err::<Value, JobError>("look".into())
        }
    };
    // Long enough that none of its beats falls into the test.
    let client = rig.client().heartbeat_interval(Duration::from_secs(3600)).stale_after(Duration::from_secs(4 * 3600));
    let running = client.register(handler).build().unwrap().start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    soon("a million reports", told.recv()).await.unwrap();
    let row = rig.state(id, "retryable").await;
    assert_eq!(row.progress, Some(json!({ "percent": 99, "message": "on the way" })));
    assert_eq!(rig.count("select count(*) from public.beats").await, 0);
    let generation = "select (progress ->> 'generation')::bigint from awa.jobs";
    assert_eq!(rig.count(generation).await, 1_000_000);
    drain(&running).await;
}
