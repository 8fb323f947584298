//! INPUT-02, INPUT-04, INPUT-06: errors of any text are stored, and an outcome that cannot be is no other's affair.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use awa_worker::{JobError, QueueConfig};
use serde_json::Value;

use crate::leases::rescue_all;
use crate::support::{Gate, Probe, Rig, drain, probe, until};

/// The most that is kept of an error.
const BYTES_MAX: usize = 16 * 1024;

/// Prints this many bytes, a character of four at a time, so that the cut falls inside of one.
#[derive(Debug)]
struct Huge(usize);

impl std::error::Error for Huge {}

impl fmt::Display for Huge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("x")?;
        for _ in 0..self.0 / 4 {
            formatter.write_str("🦀")?;
        }
        Ok(())
    }
}

/// What the handler says when it fails, by the name of the job.
fn complaint(name: &str) -> String {
    match name {
        "nul" => "before\0after".to_owned(),
        "nuls" => "\0".repeat(100_000),
        "emoji" => "🦀".to_owned(),
        "bytes" => OsStr::from_bytes(b"path \xff\xfe \xed\xa0\x80").display().to_string(),
        "quotes" => r#"'"\u0000 \x00 {}"#.to_owned(),
        _ => name.to_owned(),
    }
}

async fn fail(job: Probe) -> Result<Value, JobError> {
    match job.name.split_once(' ') {
        Some(("panic", name)) => panic!("{}", complaint(name)),
        Some(("huge", kib)) => Err(JobError::retryable(Huge(kib.parse::<usize>()? * 1024)))?,
        Some(("owned", kib)) => Err("é".repeat(kib.parse::<usize>()? * 512))?,
        _ => Err(complaint(&job.name))?,
    }
}

#[tokio::test]
async fn an_error_of_any_text_is_stored_and_the_attempt_counts() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let passed = gate.clone();
    let handler = move |job: Probe| {
        let gate = passed.clone();
        async move {
            gate.passed().await;
            fail(job).await
        }
    };
    let client = rig.client().queue("default", QueueConfig::new().max_workers(50)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let cases = [
        ("nul", "before\u{fffd}after"),
        ("nuls", "\u{fffd}\u{fffd}"),
        ("emoji", "🦀"),
        ("bytes", "path \u{fffd}"),
        ("quotes", r#"'"\u0000 \x00 {}"#),
        ("panic nul", "before\u{fffd}after"),
        ("panic bytes", "path \u{fffd}"),
        ("panic nuls", "\u{fffd}"),
    ];
    let mut ids = Vec::new();
    for (name, _) in cases {
        ids.push(rig.enqueue(probe(name)).await);
    }
    for number in 0..20 {
        rig.enqueue(probe(&number.to_string())).await;
    }
    let running_now = "select count(*) from awa.jobs where state = 'running'";
    until("all run", async || rig.count(running_now).await == 28).await;
    // In one batch, or few.
    gate.open();
    for (id, (name, expected)) in ids.into_iter().zip(cases) {
        let row = rig.state(id, "retryable").await;
        assert!(row.last_error().contains(expected), "{name}: {:?}", row.last_error());
        assert!(row.last_error().len() <= BYTES_MAX, "{name}");
        assert_eq!(row.attempt, 1, "{name}");
    }
    let others = "select count(*) from awa.jobs where state = 'retryable' and attempt = 1";
    until("the others", async || rig.count(others).await == 28).await;
    assert_eq!(drain(&running).await.left_to_rescue, 0);
}

#[tokio::test]
async fn an_error_of_any_size_is_cut_between_characters_and_marked() {
    let rig = Rig::new().await;
    let client = rig.client().register(fail).build().unwrap();
    let running = client.start().await.unwrap();
    for (name, is_cut) in [
        ("huge 1", false),
        ("huge 64", true),
        ("huge 10240", true),
        ("huge 307200", true),
        ("owned 1", false),
        ("owned 10240", true),
    ] {
        let id = rig.enqueue(probe(name)).await;
        let row = rig.state(id, "retryable").await;
        let error = row.last_error();
        assert!(error.len() <= BYTES_MAX, "{name}: {} bytes", error.len());
        assert_eq!(error.ends_with("… (cut)"), is_cut, "{name}");
        assert!(!error.contains(char::REPLACEMENT_CHARACTER), "{name}");
        assert!(!is_cut || error.len() > BYTES_MAX - 16, "{name}: as much as there is room for");
    }
    drain(&running).await;
}

#[tokio::test]
async fn a_retry_that_the_database_refuses_is_given_up_alone() {
    let rig = Rig::new().await;
    rig.execute(
        "create function public.refuse() returns trigger language plpgsql as $$
         begin raise 'this row cannot be retried'; end $$;
         create trigger refuse before insert on awa.scheduled_jobs for each row
            when (new.args = '{\"name\": \"poison\"}') execute function public.refuse()",
    )
    .await;
    let client = rig
        .client()
        .queue("default", QueueConfig::new().max_workers(50))
        .settle_give_up_after(Duration::from_millis(300))
        .register(fail)
        .build()
        .unwrap();
    let mut poisoned = Vec::new();
    for number in 0..40 {
        rig.enqueue(probe(&number.to_string())).await;
        if number % 20 == 10 {
            poisoned.push(rig.enqueue(probe("poison")).await);
        }
    }
    let running = client.start().await.unwrap();
    let good = "select count(*) from awa.jobs where state = 'retryable' and attempt = 1";
    until("all the others", async || rig.count(good).await == 40).await;
    // Nothing piles up behind them: the process is as good as new, and rescue gives the bad ones a definite end.
    until("an end of both", async || {
        rescue_all(&rig.pool, Duration::from_secs(1)).await;
        rig.count("select count(*) from awa.jobs where state = 'failed'").await == 2
    })
    .await;
    for id in poisoned {
        assert!(rig.row(id).await.last_error().ends_with("it cannot be retried: this row cannot be retried"));
    }
    assert_eq!(drain(&running).await.left_to_rescue, 0);
}

// DUP-08
#[tokio::test]
async fn a_draining_worker_beats_until_its_last_job_has_ended_whoever_looks_for_dead_ones() {
    const SILENCE: Duration = Duration::from_secs(2);
    let rig = Rig::new().await;
    let gate = Gate::new();
    let passed = gate.clone();
    let handler = move |_: Probe| {
        let gate = passed.clone();
        async move {
            gate.passed().await;
            Ok::<Value, JobError>(Value::Null)
        }
    };
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("long")).await;
    rig.state(id, "running").await;
    let draining = drain(&running);
    let meanwhile = async {
        // Three times as long as a silent attempt is left alone.
        let long = "select count(*) from awa.jobs where attempted_at < now() - interval '6 seconds'";
        while rig.count(long).await == 0 {
            assert_eq!(rescue_all(&rig.pool, SILENCE).await, 0);
        }
        gate.open();
    };
    let (report, ()) = tokio::join!(draining, meanwhile);
    assert_eq!(report.left_to_rescue, 0);
    let row = rig.row(id).await;
    assert_eq!((row.state.as_str(), row.attempt, row.run_lease), ("completed", 1, 1));
}
