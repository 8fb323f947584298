//! Hot statements reach their rows through an index, whatever the planner knows: on empty, on full, on all-terminal segments,
//! never analyzed. Read from the server's own counters, for the statements as they run inside the functions.

use awa_storage::testing::TestDatabase;
use sqlx::{PgConnection, Row};

use crate::support::execute;

/// Rows of a segment: enough that a sequential scan or a bitmap over a lane shows.
const ROWS: i64 = 20_000;

#[derive(Debug, PartialEq, Eq)]
struct Reads {
    sequential_scans: i64,
    rows: i64,
}

/// What a statement reads of the job tables, counted by the server for this session.
async fn reads(connection: &mut PgConnection, statement: &'static str) -> Reads {
    execute(connection, "begin").await;
    let before = counters(connection).await;
    execute(connection, statement).await;
    let after = counters(connection).await;
    execute(connection, "commit").await;
    Reads { sequential_scans: after.sequential_scans - before.sequential_scans, rows: after.rows - before.rows }
}

async fn counters(connection: &mut PgConnection) -> Reads {
    let row = sqlx::query(
        "select coalesce(sum(seq_scan), 0)::bigint,
                (coalesce(sum(idx_tup_fetch), 0) + coalesce(sum(seq_tup_read), 0))::bigint
           from pg_stat_xact_user_tables
          where schemaname = 'awa' and (relname like 'jobs\\_hot%' or relname = 'scheduled_jobs')",
    )
    .fetch_one(connection)
    .await
    .expect("counters");
    Reads { sequential_scans: row.get(0), rows: row.get(1) }
}

const CLAIM: &str =
    "select count(*) from awa.claim('00000000-0000-0000-0000-000000000001', '{noop}', '{default}', '{50}',
    '{0,0,0,0}', '{0,0,0,0}', '{}', '{}', '{}', '{}')";
const CLAIM_FROM_CURSOR: &str = "select count(*) from awa.claim('00000000-0000-0000-0000-000000000001', '{noop}',
    '{default}', '{50}', '{20000,20000,20000,20000}', '{0,0,0,0}', '{1}', '{2}', '{0}', '{7}')";
const LOOK: &str =
    "select count(*) from awa.look('{default}', '{2}', '{19900}', '{20000}', '{20000}', '{noop}', 20000)";
const STILL: &str = "select count(*) from awa.still_available('{0,1}', '{default,default}', '{2,2}', '{0,0}', '{7,8}')";
const COMPLETE: &str = "select count(*) from awa.complete(0::smallint,
    (select array_agg('(0,1)'::text) from generate_series(1, 20)), (select array_agg(n) from generate_series(1, 20) n),
    (select array_agg(1) from generate_series(1, 20)), null)";
const BEAT: &str = "select count(*) from awa.beat((select array_agg(0::smallint) from generate_series(1, 20)),
    (select array_agg(n) from generate_series(21, 40) n), (select array_agg(1) from generate_series(1, 20)), null)";
const SETTLE: &str = "select count(*) from awa.settle_batch('{0,0}', '{21,22}', '{1,1}', '{retry,fail}', '{1,null}',
    '{first,second}', '{null,null}')";

/// Plans are made on the empty tables first, by the session that later meets the full ones.
#[tokio::test]
async fn hot_statements_use_an_index_on_segments_that_were_empty_when_planned() {
    let database = TestDatabase::new().await;
    let mut connection = database.connect().await;
    for statement in [CLAIM, CLAIM_FROM_CURSOR, LOOK, STILL, COMPLETE, BEAT, SETTLE] {
        // Ten times: a plan that may become generic has become it.
        for _ in 0..10 {
            assert_eq!(reads(&mut connection, statement).await.sequential_scans, 0, "{statement}");
        }
    }
    sqlx::query("insert into awa.jobs_hot_0 (kind) select 'noop' from generate_series(1, $1)")
        .bind(ROWS)
        .execute(&mut connection)
        .await
        .expect("a backlog");
    check_full(&mut connection).await;
}

#[tokio::test]
async fn hot_statements_use_an_index_on_segments_that_were_full_when_planned() {
    let database = TestDatabase::new().await;
    let mut connection = database.connect().await;
    sqlx::query("insert into awa.jobs_hot_0 (kind) select 'noop' from generate_series(1, $1)")
        .bind(ROWS)
        .execute(&mut connection)
        .await
        .expect("a backlog");
    check_full(&mut connection).await;
}

#[tokio::test]
async fn a_claim_from_the_cursor_reads_nothing_of_a_terminal_segment() {
    let database = TestDatabase::new().await;
    let mut connection = database.connect().await;
    sqlx::query("insert into awa.jobs_hot_0 (kind, state, finalized_at) select 'noop', 'completed', now() from generate_series(1, $1)")
        .bind(ROWS)
        .execute(&mut connection)
        .await
        .expect("a history");
    let claim = reads(&mut connection, CLAIM_FROM_CURSOR).await;
    assert_eq!(claim, Reads { sequential_scans: 0, rows: 1 }, "the one found row that was asked for by number");
    assert!(reads(&mut connection, LOOK).await.rows <= 100);
}

async fn check_full(connection: &mut PgConnection) {
    // A batch of 50 is locked, updated and read back; nothing in here depends on how many rows there are beside it.
    for (statement, rows_max) in
        [(CLAIM, 150), (CLAIM_FROM_CURSOR, 10), (LOOK, 100), (STILL, 2), (COMPLETE, 200), (BEAT, 100), (SETTLE, 60)]
    {
        let reads = reads(connection, statement).await;
        assert_eq!(reads.sequential_scans, 0, "{statement}");
        assert!(reads.rows <= rows_max, "{} rows read by {statement}", reads.rows);
    }
}
