//! Producers beside a running worker: every request is answered, and leads to a run; what SQL may store and Rust cannot read
//! stops nobody else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use awa_worker::{Inserted, JobArgs, JobContext, JobError, NewJob, OnConflict, StorageError, Unique};
use serde::{Deserialize, Serialize};
use sqlx::AssertSqlSafe;

use crate::support::{Other, Rig, drain, until};

/// Work for one of a few accounts.
#[derive(Serialize, Deserialize, JobArgs)]
#[job(unique(args(account)))]
struct Sync {
    account: u32,
    /// Counts the requests for an account.
    request: u64,
}

/// How many runs there were for each account.
type Seen = Arc<Mutex<HashMap<u32, u64>>>;

/// One producer; returns how many jobs it has added.
async fn request(rig: &Rig, producer: u32, requests: u64, policy: OnConflict) -> u64 {
    let mut added = 0;
    for number in 0..requests {
        let job = Sync { account: producer % 10 + u32::try_from(number % 3).expect("small"), request: number };
        let rule = Unique::until_finished().fields(["account"]).on_conflict(policy);
        match awa_worker::enqueue(&rig.pool, NewJob::new(&job).unique(rule)).await {
            Ok(Inserted::New(_)) => added += 1,
            Ok(Inserted::Duplicate(id) | Inserted::Replaced(id)) => assert!(id.get() > 0),
            Err(awa_worker::Error::Storage(StorageError::Duplicate { holder })) => {
                assert!(policy == OnConflict::Error && holder.get() > 0);
            }
            Err(error) => panic!("{policy:?}: {error}"),
        }
    }
    added
}

// LOST-01: graphile/worker issue 580.
async fn every_request_is_answered_and_run(requests: u64) {
    for policy in [OnConflict::Skip, OnConflict::Replace, OnConflict::Error] {
        let rig = Rig::new().await;
        let seen = Seen::default();
        let book = Arc::clone(&seen);
        let handler = move |job: Sync, _: JobContext| {
            *book.lock().expect("no panic").entry(job.account).or_default() += 1;
            async { Ok::<(), JobError>(()) }
        };
        let client = rig.client().register(handler).build().unwrap();
        let running = client.start().await.unwrap();
        let producers = (0..4).map(|producer| request(&rig, producer, requests, policy));
        let added: u64 = futures_util::future::join_all(producers).await.into_iter().sum();
        let open = "select count(*) from awa.jobs where state <> 'completed'";
        until("all have run", async || rig.count(open).await == 0).await;
        let runs: u64 = seen.lock().expect("no panic").values().sum();
        assert_eq!(runs, added, "{policy:?}: each job that was added ran once");
        assert_eq!(rig.count("select count(*) from awa.job_unique_claims").await, 0);
        drain(&running).await;
    }
}

#[tokio::test]
async fn every_request_for_a_busy_key_is_answered_and_every_added_job_runs() {
    every_request_is_answered_and_run(100).await;
}

mod long {
    #[tokio::test]
    async fn every_request_for_a_busy_key_is_answered_and_every_added_job_runs() {
        super::every_request_is_answered_and_run(5_000).await;
    }
}

// INPUT-11
#[tokio::test]
async fn numbers_that_the_handler_cannot_read_fail_their_own_job_alone() {
    let rig = Rig::new().await;
    let numbers = ["1e400", "18446744073709551615", "123456789012345678901234567890", "-1e-400"];
    for number in numbers {
        let enqueue = format!(r#"select awa.enqueue('other', '{{"number": {number}}}', tags => '{{odd}}')"#);
        sqlx::raw_sql(AssertSqlSafe(enqueue)).execute(&rig.pool).await.expect("jsonb holds it");
    }
    rig.execute(
        "select awa.enqueue_many((select jsonb_agg(jsonb_build_object('kind', 'other', 'args',
                    jsonb_build_object('number', n))) from generate_series(1, 20) as n))",
    )
    .await;
    let deep = "select awa.enqueue('other', (repeat('[', 5000) || repeat(']', 5000))::jsonb)";
    let refusal = sqlx::raw_sql(deep).execute(&rig.pool).await.expect_err("too deep");
    assert!(refusal.to_string().contains("args nests deeper than 100 levels"), "{refusal}");
    let handler = async |_: Other, _: JobContext| Ok::<(), JobError>(());
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    until("the others run", async || rig.count("select count(*) from awa.jobs where state = 'completed'").await == 20)
        .await;
    let readable =
        "select count(*) from awa.jobs where tags = '{odd}' and attempt = 1 and state in ('failed', 'retryable')
                       and errors -> 0 ->> 'error' like '%args%'";
    until("they fail", async || rig.count(readable).await == 4).await;
    drain(&running).await;
}
