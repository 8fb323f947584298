//! Promotion beside far more jobs that are not due: each pass reads what it promotes, by an index, whatever the planner believes.

use std::time::Duration;

use awa_storage::testing::TestDatabase;
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection};

use crate::scene::{count, run};

/// What promotion sends, prepared as it is by a process that runs for long.
const PREPARE: &str = "prepare promotion (timestamptz, bigint, integer) as select * from awa.promote($1, $2, $3)";

/// What the statistics say of a table that is about to hold nearly nothing but the future.
const STALE: [&str; 2] = [
    // Empty.
    "",
    // Everything is due.
    "insert into awa.scheduled_jobs (kind, run_at) select 'noop', now() - place * interval '1 second' from generate_series(1, 5000) as place",
];

/// A pass, as the server sees it.
struct Passed {
    buffers: i64,
    took: Duration,
}

async fn pass(connection: &mut PgConnection) -> Passed {
    let explain = "explain (analyze, buffers, timing off, format json) execute promotion (null, null, 4096)";
    let told: Value =
        sqlx::query_scalar(AssertSqlSafe(explain)).persistent(false).fetch_one(connection).await.expect(explain);
    let (top, number) = (&told[0]["Plan"], |value: &Value| value.as_i64().expect("a number"));
    let buffers = number(&top["Shared Hit Blocks"]) + number(&top["Shared Read Blocks"]);
    Passed { buffers, took: Duration::from_secs_f64(told[0]["Execution Time"].as_f64().expect("a time") / 1e3) }
}

/// Scans of the whole table, and rows read of it, as far as this session has counted.
async fn read(connection: &mut PgConnection) -> (i64, i64) {
    let of = |column: &str| {
        format!("select {column} from pg_stat_xact_user_tables where relid = 'awa.scheduled_jobs'::regclass")
    };
    (count(&mut *connection, &of("seq_scan")).await, count(connection, &of("idx_tup_fetch + seq_tup_read")).await)
}

/// As many jobs become due in each second as `rate` says, beside `future` others. Seconds pass as fast as they can.
async fn each_second_promotes_what_it_makes_due_and_reads_no_more(future: i64, rate: i64, seconds: u32) {
    for before in STALE {
        let database = TestDatabase::new().await;
        let mut session = database.connect().await;
        run(&mut session, "alter table awa.scheduled_jobs set (autovacuum_enabled = false)").await;
        if !before.is_empty() {
            run(&mut session, before).await;
        }
        run(&mut session, "analyze awa.scheduled_jobs").await;
        run(&mut session, "delete from awa.scheduled_jobs").await;
        run(&mut session, "vacuum awa.scheduled_jobs").await;
        run(&mut session, PREPARE).await;
        // A plan that may become generic has become it.
        for _ in 0..10 {
            pass(&mut session).await;
        }
        let fill = format!(
            "insert into awa.scheduled_jobs (kind, run_at)
             select 'noop', now() + interval '1 hour' + place * interval '1 millisecond' from generate_series(1, {future}) as place"
        );
        run(&mut session, &fill).await;
        let (mut buffers_max, mut took) = (0, Duration::ZERO);
        for second in 1..=seconds {
            let due = format!(
                "insert into awa.scheduled_jobs (kind, run_at)
                 select 'noop', now() - random() * interval '1 second' from generate_series(1, {rate})"
            );
            run(&mut session, &due).await;
            run(&mut session, "begin").await;
            let before = read(&mut session).await;
            let passed = pass(&mut session).await;
            let after = read(&mut session).await;
            run(&mut session, "commit").await;
            assert_eq!(after.0, before.0, "by an index");
            let rows = after.1 - before.1;
            // Each once, by the index, and the next that is due after them.
            assert!(rows <= 2 * rate + 10, "{rows} rows read to promote {rate}");
            let promoted = count(&mut session, "select count(*) from awa.jobs_hot").await;
            assert_eq!(promoted, i64::from(second) * rate, "all that is due goes with the second that makes it due");
            buffers_max = buffers_max.max(passed.buffers);
            took += passed.took;
        }
        println!(
            "{rate} of {future}: {:.1} ms a pass, at most {:.1} buffers a row",
            took.as_secs_f64() * 1e3 / f64::from(seconds),
            buffers_max as f64 / rate as f64
        );
        assert!(buffers_max <= BUFFERS_A_ROW_MAX * rate, "{buffers_max} buffers to promote {rate}");
    }
}

/// A row is found, locked and deleted here, inserted there, and entered into the indexes of there.
const BUFFERS_A_ROW_MAX: i64 = 30;

#[tokio::test]
async fn promotion_reads_what_is_due_and_nothing_of_what_is_not() {
    each_second_promotes_what_it_makes_due_and_reads_no_more(20_000, 200, 5).await;
}

mod long {
    #[tokio::test]
    async fn promotion_of_a_thousand_a_second_reads_nothing_of_two_million_that_are_not_due() {
        super::each_second_promotes_what_it_makes_due_and_reads_no_more(2_000_000, 1_000, 60).await;
    }
}
