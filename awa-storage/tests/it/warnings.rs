//! What somebody should look at: nothing on a healthy fleet, and each thing that goes wrong, brought about and asked for.

use std::time::Duration;

use awa_storage::{
    admin::fleet::{Size, Warning, WarningCode, status},
    leader::{DutyReport, PassReport, acquire, renew_and_report, report},
    ring::{RingSettings, configure},
    testing::TestDatabase,
};
use sqlx::PgPool;

use crate::scene::{registered, run};

const STALE_AFTER: Duration = Duration::from_secs(90);
const NAMES: [&str; 8] = ["promotion", "schedules", "rescue", "callbacks", "ring", "claims", "retention", "audit"];

fn told(name: &'static str) -> DutyReport {
    let ended = PassReport {
        ago: Duration::ZERO,
        took: Duration::ZERO,
        changed: Some(0),
        is_caught_up: Some(true),
        next_in: Some(Duration::from_secs(1)),
    };
    DutyReport {
        name,
        left_out: false,
        passes: 1,
        changed: 0,
        failures: 0,
        began: Some(Duration::ZERO),
        ended: Some(ended),
        failed: None,
        walk: None,
    }
}

/// A worker that leads, and jobs in every state.
async fn healthy(database: &TestDatabase) -> PgPool {
    let pool = database.pool();
    let worker = registered(&pool).await;
    let lasts = Duration::from_secs(60);
    let term = acquire(&pool, "maintenance", worker, lasts).await.expect("an answer").expect("a term");
    let _ = renew_and_report(&pool, &term, lasts, &NAMES.map(told)).await.expect("an answer");
    for statement in [
        "insert into awa.jobs_hot (kind) select 'noop' from generate_series(1, 10)",
        "insert into awa.jobs_hot (kind, state, finalized_at) values ('noop', 'completed', now())",
        "insert into awa.jobs_hot_parked (kind, state, finalized_at) values ('noop', 'failed', now() - interval '6 days')",
        "insert into awa.scheduled_jobs (kind, run_at) values ('noop', now() + interval '1 hour'), ('noop', now())",
        "insert into awa.cron_schedules (name, expression, timezone, job, missed, overlap, planned, next_at)
         values ('fine', '* * * * *', 'UTC', '{}', 'skip', 'allow', true, now())",
        "select awa.pause_queue('paused')",
        "insert into awa.jobs_hot (kind, queue, run_at, created_at)
         values ('noop', 'paused', now() - interval '1 hour', now() - interval '1 hour')",
    ] {
        run(&pool, statement).await;
    }
    pool
}

async fn warnings(pool: &PgPool) -> Vec<Warning> {
    status(pool, STALE_AFTER).await.expect("an answer").warnings
}

async fn codes(pool: &PgPool) -> Vec<WarningCode> {
    warnings(pool).await.into_iter().map(|warning| warning.code).collect()
}

/// What goes wrong, the statements that bring it about, and what is said of it.
const TABLE: [(WarningCode, &str, &str); 14] = [
    (
        WarningCode::NoLeader,
        "update awa.leader set expires_at = now() - interval '2 minutes'",
        "no process leads since 20",
    ),
    (
        WarningCode::NoWorker,
        "update awa.jobs_hot set created_at = now() - interval '2 minutes', run_at = now() - interval '2 minutes';
         delete from awa.workers",
        "jobs wait, and no worker is alive: default",
    ),
    (
        WarningCode::DutyFailing,
        "update awa.duties set failures = 3, error = 'no such relation', failed_at = now() where name = 'rescue'",
        "the duty rescue has failed 3 times in a row, last at 20",
    ),
    (
        WarningCode::DutyLate,
        "update awa.leader set elected_at = now() - interval '3 minutes';
         update awa.duties set next_at = now() - interval '3 minutes' where name = 'ring'",
        "the duty ring is late: its last pass ended at 20",
    ),
    (
        WarningCode::DutyLate,
        "insert into awa.scheduled_jobs (kind, run_at) values ('noop', now() - interval '3 minutes')",
        "2 wait for it since 20",
    ),
    (
        WarningCode::DutyLate,
        "update awa.leader set elected_at = now() - interval '3 minutes'; delete from awa.duties where name = 'audit'",
        "the duty audit is late: its last pass ended never, and nothing is known to wait for it",
    ),
    (
        WarningCode::RingStuck,
        "update awa.ring set stuck_reason = 'a backlog has to drain', stuck_since = now() - interval '11 minutes'",
        "ended jobs have not been deleted for 00:11:0",
    ),
    (
        WarningCode::SizeExpected,
        "select awa.configure_ring(expected_bytes_max => 1)",
        "more than expected_bytes_max, 1 bytes",
    ),
    (
        WarningCode::QueueUnserved,
        "insert into awa.jobs_hot (kind, queue, run_at, created_at)
         select 'noop', 'q' || n, now() - interval '1 hour', now() - interval '1 hour' from generate_series(10, 21) as n",
        "jobs wait in queues that no live worker serves: q10, q11, q12, q13, q14, q15, q16, q17, q18, q19 and 2 more",
    ),
    (
        WarningCode::ScheduleFault,
        "update awa.cron_schedules set fault = 'no such zone'",
        "schedules cannot be read and enqueue nothing: fine (no such zone)",
    ),
    (
        WarningCode::AuditFound,
        "update awa.duties set walk_segment = 0, walk_after = 1, finds = 1 where name = 'audit'",
        "the audit has found jobs",
    ),
    (
        WarningCode::WorkerSilent,
        "insert into awa.workers (id, name, host, pid, version, queues, kinds, last_seen_at)
         values (gen_random_uuid(), 'gone', 'far', 1, '0', '{}', '{}', now() - interval '2 minutes')",
        "workers give no sign of life: gone on far since 20",
    ),
    (
        WarningCode::DutyFailing,
        "update awa.leader set elected_at = now() - interval '3 minutes';
         update awa.duties set failures = 300, error = 'x', failed_at = now(), next_at = now() - interval '3 minutes'
          where name = 'claims'",
        "the duty claims has failed 300 times",
    ),
    (
        WarningCode::DutyLate,
        "update awa.duties set left_out = true, next_at = null where name = 'promotion';
         update awa.scheduled_jobs set run_at = now() - interval '3 minutes'",
        "the duty promotion is late",
    ),
];

#[tokio::test]
async fn a_healthy_fleet_has_no_warnings() {
    let database = TestDatabase::new().await;
    let pool = healthy(&database).await;
    assert_eq!(warnings(&pool).await, []);
}

#[tokio::test]
async fn each_thing_that_goes_wrong_is_told_alone_with_words_and_advice() {
    for (code, cause, words) in TABLE {
        let database = TestDatabase::new().await;
        let pool = healthy(&database).await;
        sqlx::raw_sql(cause).execute(&pool).await.expect(cause);
        let found = warnings(&pool).await;
        let [warning] = found.as_slice() else { panic!("{cause}: {found:?}") };
        assert_eq!(warning.code, code, "{cause}");
        assert!(warning.explanation.contains(words) && !warning.advice.is_empty(), "{warning:?}");
    }
}

#[tokio::test]
async fn what_may_pass_by_itself_is_no_warning() {
    let database = TestDatabase::new().await;
    let pool = healthy(&database).await;
    for cause in [
        "update awa.leader set expires_at = now() - interval '50 seconds'",
        "update awa.duties set failures = 2, error = 'x', failed_at = now()",
        "update awa.ring set stuck_reason = 'x', stuck_since = now() - interval '9 minutes'",
        "insert into awa.jobs_hot (kind, queue) values ('noop', 'unserved')",
    ] {
        run(&pool, cause).await;
    }
    assert_eq!(warnings(&pool).await, []);
}

#[tokio::test]
async fn the_gravest_comes_first() {
    let database = TestDatabase::new().await;
    let pool = healthy(&database).await;
    for (_, cause, _) in TABLE.into_iter().skip(2).filter(|(_, cause, _)| !cause.contains("delete")) {
        sqlx::raw_sql(cause).execute(&pool).await.expect(cause);
    }
    let found = codes(&pool).await;
    let mut distinct = found.clone();
    distinct.dedup();
    assert_eq!(
        distinct,
        [
            WarningCode::DutyFailing,
            WarningCode::DutyLate,
            WarningCode::RingStuck,
            WarningCode::SizeExpected,
            WarningCode::QueueUnserved,
            WarningCode::ScheduleFault,
            WarningCode::AuditFound,
            WarningCode::WorkerSilent,
        ]
    );
    run(&pool, "delete from awa.workers").await;
    run(&pool, "delete from awa.leader").await;
    let found = codes(&pool).await;
    assert_eq!(found[..3], [WarningCode::NoLeader, WarningCode::NoWorker, WarningCode::DutyFailing]);
    assert!(!found.contains(&WarningCode::DutyLate), "where nobody leads, that says it all: {found:?}");
}

#[tokio::test]
async fn a_fleet_of_ticks_needs_no_leader_and_is_late_when_what_waits_is_old() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    assert_eq!(codes(&pool).await, [WarningCode::NoLeader]);
    let ticked = NAMES.map(told).map(|mut one| {
        one.ended.as_mut().expect("a pass").next_in = None;
        one
    });
    report(&pool, awa_model::WorkerId::random(), &ticked).await.expect("told");
    assert_eq!(codes(&pool).await, []);
    run(&pool, "insert into awa.scheduled_jobs (kind, run_at) values ('noop', now() - interval '3 minutes')").await;
    let late = warnings(&pool).await;
    assert!(
        late.len() == 1 && late[0].code == WarningCode::DutyLate && late[0].advice.starts_with("let ticks come"),
        "{late:?}"
    );
    run(&pool, "update awa.duties set ended_at = now() - interval '61 minutes'").await;
    assert_eq!(codes(&pool).await[0], WarningCode::NoLeader);
}

/// By what is told of them: their age cannot be brought about.
#[tokio::test]
async fn holders_are_warned_of_by_their_age() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let holder = |rest: &str| {
        format!(
            "select awa.warn_of_holders('[{{\"pid\": 7, \"name\": \"n\", \"user\": null, \"application\": null,
                \"state\": null, \"since\": null, \"xids\": null, \"holds\": [\"rows\"], {rest}}}]', '2026-01-02')"
        )
    };
    for (rest, words) in [
        (r#""what": "session", "since": "2026-01-01T23:51:00Z""#, None),
        (r#""what": "session", "since": "2026-01-01T23:49:00Z", "holds": []"#, None),
        (
            r#""what": "session", "since": "2026-01-01T23:49:00Z""#,
            Some("the session 7 holds up the cleaning up of rows in"),
        ),
        (
            r#""what": "session", "user": "ada", "since": "2026-01-01T23:49:00Z", "holds": ["jobs", "ring"]"#,
            Some(
                "the session 7 of ada holds up jobs that it has changed and the emptying of segments since 2026-01-01 23:49",
            ),
        ),
        (r#""what": "session", "xids": 999999"#, None),
        (r#""what": "session", "xids": 1000000"#, Some("the session 7")),
        (r#""what": "prepared", "since": "2026-01-01T23:49:00Z""#, Some("the prepared transaction n")),
        (r#""what": "slot", "state": "active", "xids": 5"#, None),
        (
            r#""what": "slot", "state": "inactive", "xids": 5, "holds": ["catalogs"]"#,
            Some("the inactive replication slot n"),
        ),
        (r#""what": "replica", "xids": 5"#, None),
        (r#""what": "replica", "application": "r", "xids": 1000000"#, Some("the replica r holds up")),
    ] {
        let found: Vec<Warning> =
            serde_json::from_str(&crate::scene::text(&pool, &holder(rest)).await).expect("warnings");
        match words {
            None => assert_eq!(found, [], "{rest}"),
            Some(words) => {
                assert!(found.len() == 1 && found[0].code == WarningCode::Holder, "{rest}: {found:?}");
                assert!(found[0].explanation.contains(words), "{found:?}");
            }
        }
    }
}

async fn size(pool: &PgPool) -> Size {
    status(pool, STALE_AFTER).await.expect("an answer").size
}

async fn limit(pool: &PgPool, bytes: u64) {
    configure(pool, &RingSettings { expected_bytes_max: Some(bytes), ..RingSettings::default() })
        .await
        .expect("a setting");
}

#[tokio::test]
async fn what_the_ring_will_take_follows_from_its_newest_segments() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "update awa.ring set opened_at[1] = now() - interval '59 minutes'").await;
    assert_eq!(size(&pool).await.ring_expected, None, "too early to tell");
    run(
        &pool,
        "insert into awa.jobs_hot_0 (kind, state, finalized_at) select 'noop', 'completed', now() from generate_series(1, 5000)",
    )
    .await;
    run(&pool, "update awa.ring set opened_at[1] = now() - interval '2 hours'").await;
    let fresh = size(&pool).await;
    // Two hours' growth, for a day, a twenty-fourth of one, and the sixth of one until a segment is closed.
    let hours = 24.0 * (25.0 / 24.0 + 1.0 / 6.0);
    let expected = |bytes: u64, covered: f64| (bytes as f64 / covered * hours) as i64;
    let close = |told: Option<u64>, expected: i64| (told.expect("a size") as i64 - expected).abs() < expected / 100;
    assert!(close(fresh.ring_expected, expected(fresh.ring_bytes, 2.0)), "{fresh:?}");
    assert!(fresh.expected >= fresh.ring_expected.expect("a size") && !fresh.is_exceeded);
    // What was before the last four hours says nothing of the present rate.
    run(
        &pool,
        "update awa.ring set current = 2, opened_at[1] = now() - interval '20 days', closed_at[1] = now() - interval '8 hours',
                opened_at[2] = now() - interval '8 hours', closed_at[2] = now() - interval '3 hours',
                opened_at[3] = now() - interval '3 hours'",
    )
    .await;
    let slow = size(&pool).await;
    let empty = 2 * crate::scene::count(&pool, "select pg_total_relation_size('awa.jobs_hot_1')").await.unsigned_abs();
    assert!(close(slow.ring_expected, expected(empty, 8.0)), "{slow:?}");
    assert!(slow.expected >= slow.ring_bytes, "what is there already counts");
    // The setting decides, and zero is none.
    limit(&pool, slow.expected).await;
    assert!(!size(&pool).await.is_exceeded);
    limit(&pool, slow.expected - 1).await;
    assert!(size(&pool).await.is_exceeded);
    limit(&pool, 0).await;
    let off = size(&pool).await;
    assert_eq!((off.max, off.is_exceeded), (None, false));
}

#[tokio::test]
async fn a_retention_of_any_length_gives_a_size() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(
        &pool,
        "insert into awa.jobs_hot_parked (kind, state, finalized_at) values ('noop', 'failed', now() - interval '1 s'),
                ('noop', 'cancelled', 'infinity'), ('noop', 'cancelled', '-infinity')",
    )
    .await;
    for span in ["0", "1 microsecond", "1 second", "1000 years"] {
        let set = format!(
            "update awa.ring set completed_retention = '{span}', failed_retention = '{span}', cancelled_retention = '{span}',
                    opened_at[1] = now() - interval '1 minute'"
        );
        run(&pool, &set).await;
        let found = size(&pool).await;
        assert!(found.expected >= found.ring_bytes + found.parked_bytes, "{span}: {found:?}");
    }
    run(&pool, "update awa.ring set opened_at[1] = '1000-01-01', completed_retention = '1000 years'").await;
    assert!(size(&pool).await.ring_expected.is_some());
}

#[tokio::test]
async fn what_failed_jobs_will_take_follows_from_how_many_failed_of_late() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(
        &pool,
        "insert into awa.jobs_hot_parked (kind, state, args, finalized_at)
         select 'noop', 'failed', jsonb_build_object('text', repeat('x', 500)), now() - n * interval '36 seconds'
           from generate_series(1, 900) as n",
    )
    .await;
    // A hundred an hour, for a week, of a bit less than a kilobyte each.
    let found = size(&pool).await;
    let jobs = 100 * 24 * 7;
    assert!((jobs * 700..jobs * 1200).contains(&found.parked_expected), "{found:?}");
    assert!(found.expected >= found.ring_bytes + found.parked_expected);
    run(&pool, "update awa.jobs_hot_parked set finalized_at = finalized_at - interval '1 day'").await;
    assert_eq!(size(&pool).await.parked_expected, 0, "none of late");
}
