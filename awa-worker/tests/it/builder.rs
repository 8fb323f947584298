//! What a client refuses to be built from. No database is needed for that.

use std::time::Duration;

use awa_worker::{Client, Data, Error, JobError, Mistake, QueueConfig};
use sqlx::PgPool;

use crate::support::{Other, Probe};

fn pool() -> PgPool {
    PgPool::connect_lazy("postgres://localhost/nowhere").unwrap()
}

async fn needy(_: Other, _: Data<String>, _: Data<u64>) -> Result<(), JobError> {
    Ok(())
}

async fn modest(_: Other) -> Result<(), JobError> {
    Ok(())
}

#[tokio::test]
async fn all_mistakes_come_at_once() {
    let error = Client::builder(pool())
        .register(needy)
        .register(modest)
        .data(7_u64)
        .data(8_u64)
        .queue("images", QueueConfig::new().max_workers(0))
        .queue("", QueueConfig::new())
        .heartbeat_interval(Duration::from_secs(60))
        .build()
        .unwrap_err();
    let Error::Build(error) = error else { panic!("{error}") };
    let mistakes = error.mistakes();
    assert_eq!(mistakes.len(), 6, "{error}");
    assert!(mistakes.iter().any(|mistake| matches!(mistake, Mistake::HeartbeatTooSlow { .. })));
    assert!(mistakes.contains(&Mistake::KindTwice { kind: "other" }));
    assert!(mistakes.contains(&Mistake::MissingData { kind: "other", data: "alloc::string::String" }));
    assert!(mistakes.contains(&Mistake::DataTwice { data: "u64" }));
    assert!(mistakes.contains(&Mistake::NoWorkers { queue: "images".to_owned() }));
}

// DUP-07
#[tokio::test]
async fn heartbeat_as_slow_as_staleness_is_refused() {
    let stale = Duration::from_secs(90);
    for interval in [stale, stale * 2, Duration::ZERO] {
        let built = Client::builder(pool()).register(modest).heartbeat_interval(interval).stale_after(stale).build();
        assert!(matches!(built, Err(Error::Build(_))), "{interval:?}");
    }
}

#[tokio::test]
async fn client_without_handlers_can_enqueue_but_not_start() {
    let client = Client::builder(pool()).build().unwrap();
    assert!(matches!(client.start().await, Err(Error::NothingToRun)));
    let queues = Client::builder(pool()).queue("a", QueueConfig::new()).build().unwrap_err();
    assert!(queues.to_string().contains("no handler is registered"), "{queues}");
}

// PROC-07: a start that failed leaves nothing behind that keeps a second one from working.
#[tokio::test]
async fn start_without_a_database_fails_and_can_be_tried_again() {
    let client = Client::builder(PgPool::connect_lazy("postgres://postgres@127.0.0.1:1/x").unwrap())
        .register(async |_: Probe| Ok::<_, JobError>(serde_json::Value::Null))
        .build()
        .unwrap();
    for _ in 0..2 {
        assert!(matches!(client.start().await, Err(Error::Storage(_))));
    }
}
