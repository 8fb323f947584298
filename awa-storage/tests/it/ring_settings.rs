//! Settings of the ring: refused or applied exactly, at run time, and shown with everything else there is to know.

use std::time::Duration;

use awa_storage::{
    Error,
    ring::{
        QueueRetention, Recycled, RingSettings, configure, look, recycle, reset_retention, rotate, set_retention,
        status,
    },
    testing::TestDatabase,
};
use sqlx::PgPool;

use crate::scene::{count, run, text};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn retention(completed: Duration) -> RingSettings {
    RingSettings { completed_retention: Some(completed), ..RingSettings::default() }
}

fn refused(answer: Result<(), Error>) -> String {
    match answer {
        Err(Error::InvalidSetting(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_setting_that_cannot_be_is_refused_and_nothing_is_changed() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let before = text(&pool, "select ring from awa.ring").await;
    let most = Duration::MAX;
    for (settings, begin) in [
        (retention(most), "completed_retention is "),
        (retention(1001 * YEAR), "completed_retention is "),
        (RingSettings { failed_retention: Some(most), ..retention(HOUR) }, "failed_retention is "),
        (RingSettings { cancelled_retention: Some(most), ..retention(HOUR) }, "cancelled_retention is "),
        (
            RingSettings { segment_bytes_max: Some(8191), ..retention(HOUR) },
            "segment_bytes_max is 8191; it must be at least",
        ),
        (
            RingSettings { segment_age_max: Some(Duration::from_millis(1)), ..retention(HOUR) },
            "segment_age_max is 00:00:00.001;",
        ),
        (
            RingSettings { snapshot_patience: Some(2 * DAY), ..retention(HOUR) },
            "snapshot_patience is 48:00:00; it must be 0 to 1 day",
        ),
    ] {
        let message = refused(configure(&pool, &settings).await);
        assert!(message.starts_with(begin), "{message}");
    }
    let negative = sqlx::query("select awa.configure_ring(completed_retention => '-1 s')").execute(&pool).await;
    assert!(negative.is_err_and(|error| {
        error.to_string().contains("completed_retention is -00:00:01; it must be 0 to 1000 years")
    }));
    assert_eq!(text(&pool, "select ring from awa.ring").await, before);
    for name in ["", "a\nb", &"x".repeat(129)] {
        refused(set_retention(&pool, name, QueueRetention::default()).await);
    }
    let too_long = QueueRetention { failed: Some(most), ..QueueRetention::default() };
    assert!(refused(set_retention(&pool, "q", too_long).await).contains("it must be 0 to 1000 years"));
    assert_eq!(count(&pool, "select count(*) from awa.queues").await, 0);
}

/// RANGE-04. Nothing is gone too early, and nothing fails because it is kept for long.
#[tokio::test]
async fn a_retention_of_any_length_has_its_exact_effect() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for (ago, span) in [("364 days", YEAR), ("99 years", 100 * YEAR), ("900 years", 1000 * YEAR)] {
        configure(&pool, &retention(span)).await.expect("a setting");
        run(&pool, &format!("insert into awa.jobs_hot (kind, state, finalized_at) values ('young', 'completed', now() - interval '{ago}')")).await;
        run(&pool, "insert into awa.jobs_hot (kind, state, finalized_at) values ('old', 'completed', now() - interval '1002 years')").await;
        assert_eq!(text(&pool, "select string_agg(kind, ' ') from awa.jobs").await, "young", "{span:?}");
        assert!(look(&pool).await.expect("a look").recycle_in.is_none());
        run(&pool, "truncate awa.jobs_hot").await;
    }
    for span in [Duration::ZERO, Duration::from_nanos(1)] {
        configure(&pool, &retention(span)).await.expect("a setting");
        run(&pool, "insert into awa.jobs_hot (kind, state, finalized_at) values ('noop', 'completed', now())").await;
        assert_eq!(count(&pool, "select count(*) from awa.jobs").await, 0, "{span:?}");
        run(&pool, "truncate awa.jobs_hot").await;
    }
}

#[tokio::test]
async fn settings_take_effect_at_once() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let rotates = async || look(&pool).await.expect("a look").rotate;
    run(
        &pool,
        "insert into awa.jobs_hot (kind, state, finalized_at) values ('noop', 'completed', now() - interval '3 hours')",
    )
    .await;
    run(&pool, "update awa.ring set opened_at[1] = now() - interval '2 hours'").await;
    assert!(!rotates().await);
    let age = |age| RingSettings { segment_age_max: Some(age), ..RingSettings::default() };
    configure(&pool, &age(HOUR)).await.expect("a setting");
    assert!(rotates().await);
    configure(&pool, &age(Duration::ZERO)).await.expect("a setting");
    assert!(!rotates().await);
    configure(&pool, &RingSettings { segment_bytes_max: Some(8192), ..RingSettings::default() })
        .await
        .expect("a setting");
    assert!(rotates().await);
    assert!(rotate(&pool, 0).await.expect("an answer"));
    // The retention decides what is emptied, shown and kept for longer than that.
    assert!(look(&pool).await.expect("a look").recycle_in > Some(20 * HOUR));
    assert_eq!(count(&pool, "select count(*) from awa.jobs").await, 1);
    configure(&pool, &retention(HOUR)).await.expect("a setting");
    run(&pool, "update awa.ring set closed_at[1] = now() - interval '2 hours'").await;
    assert_eq!(look(&pool).await.expect("a look").recycle_in, Some(Duration::ZERO));
    assert_eq!(count(&pool, "select count(*) from awa.jobs").await, 0);
    let kept = QueueRetention { completed: Some(100 * YEAR), ..QueueRetention::default() };
    set_retention(&pool, "default", kept).await.expect("a setting");
    assert_eq!(count(&pool, "select count(*) from awa.jobs").await, 1);
    assert_eq!(recycle(&pool, 0, 100, 10).await.expect("an answer"), Recycled::Moved(1));
    assert_eq!(count(&pool, "select count(*) from awa.jobs_hot_parked").await, 1);
    // What is not given stays; data would go early otherwise.
    let failed = QueueRetention { failed: Some(DAY), ..QueueRetention::default() };
    set_retention(&pool, "default", failed).await.expect("a setting");
    let set = "select count(*) from awa.queues where completed_retention = '36500 days' and failed_retention = '1 day'";
    assert_eq!(count(&pool, set).await, 1);
    assert!(reset_retention(&pool, "default").await.expect("an answer"));
    assert!(!reset_retention(&pool, "default").await.expect("an answer"));
    assert!(!reset_retention(&pool, "never used").await.expect("an answer"));
    let unset = "select count(*) from awa.queues where completed_retention is null and failed_retention is null";
    assert_eq!(count(&pool, unset).await, 1);
}

async fn backlog(pool: &PgPool, number: usize) {
    let statement = format!("insert into awa.jobs_hot (kind) select 'noop' from generate_series(1, {number})");
    run(pool, &statement).await;
}

#[tokio::test]
async fn the_status_shows_the_segments_the_settings_and_what_is_in_the_way() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let settings = RingSettings {
        completed_retention: Some(6 * HOUR),
        failed_retention: Some(DAY),
        cancelled_retention: Some(Duration::ZERO),
        segment_bytes_max: Some(1 << 40),
        segment_age_max: Some(HOUR),
        snapshot_patience: Some(Duration::from_secs(7)),
        expected_bytes_max: Some(0),
    };
    configure(&pool, &settings).await.expect("settings");
    let fresh = status(&pool).await.expect("a status");
    assert_eq!((fresh.oldest, fresh.current, fresh.bytes.len(), fresh.ages.len()), (0, 0, 1, 1));
    assert_eq!((fresh.recycle_in, fresh.reason, fresh.stuck_for), (None, None, None));
    assert_eq!(fresh.settings, settings);
    backlog(&pool, 20).await;
    rotate(&pool, 0).await.expect("an answer");
    run(
        &pool,
        "update awa.ring set opened_at[1] = now() - interval '9 hours', closed_at[1] = now() - interval '8 hours'",
    )
    .await;
    let idle = status(&pool).await.expect("a status");
    assert_eq!(idle.reason.as_deref(), Some("no process that takes part in maintenance is alive"));
    run(&pool, "insert into awa.duties (name, holder, ended_at) values ('ring', gen_random_uuid(), now() - interval '50 minutes')")
        .await;
    let ticked = status(&pool).await.expect("a status");
    assert_eq!((ticked.reason, ticked.stuck_for), (None, None), "the next tick empties it");
    assert!(matches!(recycle(&pool, 0, 100, 10).await.expect("an answer"), Recycled::Waiting { .. }));
    run(&pool, "update awa.ring set stuck_since = now() - interval '5 minutes'").await;
    assert!(matches!(recycle(&pool, 0, 100, 10).await.expect("an answer"), Recycled::Waiting { .. }));
    let stuck = status(&pool).await.expect("a status");
    assert_eq!((stuck.oldest, stuck.current, stuck.bytes.len()), (0, 1, 2));
    assert_eq!(stuck.reason.as_deref(), Some("segment 0: a backlog of more than 10 jobs has to drain"));
    assert!(
        stuck.stuck_for > Some(Duration::from_secs(299)) && stuck.ages[0] > 8 * HOUR && stuck.bytes[0] > stuck.bytes[1]
    );
    assert_eq!((stuck.recycle_in, stuck.rotate_in.is_some_and(|rotate| rotate <= HOUR)), (Some(Duration::ZERO), true));
}
