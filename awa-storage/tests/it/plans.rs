//! Hot statements reach their rows through an index, whatever the planner knows: on empty, on full, on all-terminal segments,
//! never analyzed. Read from the server's own counters, for the statements as they run inside the functions.

use awa_storage::testing::TestDatabase;
use sqlx::{PgConnection, Row};

use crate::support::execute;

/// Rows of a segment: enough that a sequential scan or a bitmap over a lane shows. [`long`] has the size of a real backlog.
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
          where schemaname = 'awa'
            and (relname like 'jobs\\_hot%' or relname in ('scheduled_jobs', 'job_unique_claims', 'lane_marks'))",
    )
    .fetch_one(connection)
    .await
    .expect("counters");
    Reads { sequential_scans: row.get(0), rows: row.get(1) }
}

const CLAIM: &str =
    "select count(*) from awa.claim('00000000-0000-0000-0000-000000000001', '{noop}', '{default}', '{50}',
    '{0,0,0,0}', '{0,0,0,0}', '{}', '{}', '{}', '{}', true, '{false}')";
/// Its cursor is behind the whole of any backlog here.
const CLAIM_FROM_CURSOR: &str = "select count(*) from awa.claim('00000000-0000-0000-0000-000000000001', '{noop}',
    '{default}', '{50}', '{300000,300000,300000,300000}', '{0,0,0,0}', '{1}', '{2}', '{0}', '{7}', false, '{false}')";
const LOOK: &str =
    "select count(*) from awa.look('{default}', '{2}', '{19900}', '{20000}', '{20000}', '{noop}', 20000)";
const STILL: &str = "select count(*) from awa.still_available('{0,1}', '{default,default}', '{2,2}', '{0,0}', '{7,8}')";
const COMPLETE: &str = "select count(*) from awa.complete(0::smallint,
    (select array_agg('(0,1)'::text) from generate_series(1, 20)), (select array_agg(n) from generate_series(1, 20) n),
    (select array_agg(1) from generate_series(1, 20)), null)";
const BEAT: &str = "select count(*) from awa.beat((select array_agg(0::smallint) from generate_series(1, 20)),
    (select array_agg(n) from generate_series(21, 40) n), (select array_agg(1) from generate_series(1, 20)), null)";
const SETTLE: &str = "select count(*) from awa.settle_batch('{0,0}', '{21,22}', '{1,1}', '{retry,fail}', '{1,null}',
    '{first,second}', '{null,null}', null)";

const ENQUEUE_ONE: &str =
    "select awa.enqueue_one('noop', 'default', 2::smallint, '{}', null, 25::smallint, null, null, null,
    null, awa.unique_key('noop', null, '{}', null, null, null), 31::smallint)";
const ENQUEUE_BATCH: &str =
    "select count(*) from awa.enqueue_batch('{noop,noop}', '{default,default}', '{2,2}', '{\"{}\",\"{}\"}',
    '{}', '{null,60}', '{25,25}', '{}', '{}', '{}', '{}', '{31,31}', '{}', '{true,true}', '{}', '{}', '{}')";
const ENQUEUE: &str = "select awa.enqueue('noop', unique_by => '{}')";
const ENQUEUE_MANY: &str =
    "select count(*) from awa.enqueue_many('[{\"kind\": \"noop\"}, {\"kind\": \"noop\", \"unique_by\": {}}]')";
const FIND_UNIQUE: &str = "select awa.find_unique('noop')";
const PULSE: &str =
    "select awa.pulse('00000000-0000-0000-0000-000000000001', true), awa.horizon(0), awa.load_marks('{default}')";
const MARKS: &str = "select awa.persist_marks('{default}', '{2}', '{1}')";
const PROMOTE: &str = "select awa.promote(null, null, 10)";
const PROMOTE_OTHERS: &str = "select awa.promote_others('{crowd}', null, null, 100, 10)";
const PRUNE: &str = "select awa.prune_parked('failed', null, null, 10)";
const STATUS: &str = "select awa.job_status(5)";
const STATUSES: &str = "select awa.job_statuses((select array_agg(n) from generate_series(1, 40) n))";
/// Rows that people may make the server read by one question, whatever there is: a lane from its front, and from its end.
const ASKED_MAX: i64 = 21_000;

/// What a worker or a producer calls often, and how many rows it may read at most, whatever else there is.
const HOT: [(&str, i64); 18] = [
    // A batch of 50 is locked, updated and read back; nothing in here depends on how many rows there are beside it.
    (CLAIM, 150),
    (CLAIM_FROM_CURSOR, 10),
    // The hundred of the stretch, and the first of them once more to see that there are any.
    (LOOK, 101),
    (STILL, 2),
    (COMPLETE, 200),
    (BEAT, 100),
    (SETTLE, 60),
    (ENQUEUE_ONE, 20),
    (ENQUEUE_BATCH, 20),
    (ENQUEUE, 20),
    (ENQUEUE_MANY, 20),
    (FIND_UNIQUE, 5),
    (PULSE, 5),
    (MARKS, 5),
    (PROMOTE, 60),
    (PROMOTE_OTHERS, 60),
    (STATUS, 5),
    (STATUSES, 50),
];

/// Rows that wait in every way, none of which a hot statement has to look at: never analyzed.
async fn fill(connection: &mut PgConnection, state: &'static str, rows: i64) {
    let columns = match state {
        "available" => ", null::timestamptz",
        _ => ", now()",
    };
    let statement = format!(
        "insert into awa.jobs_hot_0 (kind, state, finalized_at)
         select 'noop', '{state}'::awa.job_state {columns} from generate_series(1, {rows});
         insert into awa.scheduled_jobs (kind, run_at, unique_key, unique_states)
         select 'noop', '2999-01-01', substring(sha256(n::text::bytea) for 16), 31 from generate_series(1, {rows}) as n;
         insert into awa.jobs_hot_parked (kind, state, finalized_at)
         select 'noop', 'failed', now() from generate_series(1, {rows});
         insert into awa.scheduled_jobs (kind, run_at) select 'noop', '2020-01-01' from generate_series(1, 5)"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(connection).await.expect("rows");
}

/// Plans are made on the empty tables first, by the session that later meets the full ones.
async fn check_planned_on_empty(rows: i64) {
    let database = TestDatabase::new().await;
    let mut connection = database.connect().await;
    for (statement, _) in HOT {
        // Ten times: a plan that may become generic has become it.
        for _ in 0..10 {
            assert_eq!(reads(&mut connection, statement).await.sequential_scans, 0, "{statement}");
        }
    }
    execute(&mut connection, "truncate awa.jobs_hot, awa.scheduled_jobs; alter sequence awa.job_id restart; alter sequence awa.job_seq restart").await;
    fill(&mut connection, "available", rows).await;
    check_full(&mut connection).await;
}

async fn check_planned_on_full(rows: i64) {
    let database = TestDatabase::new().await;
    let mut connection = database.connect().await;
    fill(&mut connection, "available", rows).await;
    check_full(&mut connection).await;
}

async fn check_terminal(rows: i64) {
    let database = TestDatabase::new().await;
    let mut connection = database.connect().await;
    fill(&mut connection, "completed", rows).await;
    let claim = reads(&mut connection, CLAIM_FROM_CURSOR).await;
    assert_eq!(claim, Reads { sequential_scans: 0, rows: 1 }, "the one found row that was asked for by number");
    // A claim from the very beginning has the history before it: the marks are there so that nobody begins there.
    for (statement, rows_max) in HOT.into_iter().filter(|(statement, _)| *statement != CLAIM) {
        check(&mut connection, statement, rows_max).await;
    }
    check_asked(&mut connection).await;
}

async fn check_full(connection: &mut PgConnection) {
    for (statement, rows_max) in HOT {
        check(connection, statement, rows_max).await;
    }
    // Looks at ten times as many rows as it may delete.
    check(connection, PRUNE, 100).await;
    check_asked(connection).await;
}

/// Why does the last job not run, where many go first, or have ended? And one that is due after many others?
async fn check_asked(connection: &mut PgConnection) {
    execute(
        connection,
        "insert into awa.workers (id, name, host, pid, version, queues, kinds)
         values (gen_random_uuid(), 'n', 'h', 1, '0', '{default}', '{noop}');
         insert into awa.jobs_hot_0 (id, kind) values (-1, 'noop');
         insert into awa.scheduled_jobs (id, kind, run_at) values (-2, 'noop', now() - interval '1 second')",
    )
    .await;
    check(connection, "select awa.why(-1)", ASKED_MAX).await;
    check(connection, "select awa.why(-2)", 1_100).await;
    // A lane from both of its ends, and as much of what comes due, whatever lies beyond. The 64 other queues have a row each.
    execute(
        connection,
        "insert into awa.jobs_hot_0 (kind, queue) select 'noop', 'q' || n from generate_series(1, 64) as n",
    )
    .await;
    check(connection, "select awa.status()", 3 * ASKED_MAX).await;
}

async fn check(connection: &mut PgConnection, statement: &'static str, rows_max: i64) {
    let reads = reads(connection, statement).await;
    assert_eq!(reads.sequential_scans, 0, "{statement}");
    assert!(reads.rows <= rows_max, "{} rows read by {statement}", reads.rows);
}

#[tokio::test]
async fn hot_statements_use_an_index_on_segments_that_were_empty_when_planned() {
    check_planned_on_empty(ROWS).await;
}

#[tokio::test]
async fn hot_statements_use_an_index_on_segments_that_were_full_when_planned() {
    check_planned_on_full(ROWS).await;
}

#[tokio::test]
async fn hot_statements_read_nothing_of_a_terminal_segment() {
    check_terminal(ROWS).await;
}

/// What waits for the duties of maintenance, far more than is counted, never analyzed: by attempts of the dead, by what a queue
/// keeps for longer than others, and by what is due.
async fn check_backlogs(rows: i64) {
    let database = TestDatabase::new().await;
    let mut connection = database.connect().await;
    fill(&mut connection, "available", rows).await;
    let statement =
        "update awa.jobs_hot_0 set state = 'running', run_lease = 1, attempt = 1, attempted_at = '2020-01-01',
                attempted_by = '00000000-0000-0000-0000-000000000001';
         insert into awa.active_claims (part, segment, worker, claimed_at, job_ids, run_leases)
         select 0, 0, '00000000-0000-0000-0000-000000000001', '2020-01-01', array_agg(id), array_agg(run_lease)
           from awa.jobs_hot_0 group by id / 500;
         update awa.scheduled_jobs set run_at = '2020-01-01';
         update awa.jobs_hot_parked set finalized_at = '2020-01-01';
         select awa.set_retention('default', failed => '1000 years')";
    sqlx::raw_sql(statement).execute(&mut connection).await.expect("rows");
    // The attempts, what is due, and what is parked, 1000 of each; a row is counted once for its index and once for its table.
    check(&mut connection, "select awa.backlogs(1000, '90 seconds')", 6_100).await;
    check(&mut connection, "select awa.expected_size(1000)", 2_100).await;
    let counted = sqlx::query("select name, waiting, is_all from awa.backlogs(1000, '90 seconds')")
        .fetch_all(&mut connection)
        .await
        .expect("backlogs");
    for row in counted {
        let (name, waiting, is_all): (&str, i64, bool) = (row.get(0), row.get(1), row.get(2));
        let expected = match name {
            "promotion" | "rescue" => (1000, false),
            "retention" => (0, false),
            _ => (0, true),
        };
        assert_eq!((waiting, is_all), expected, "{name}");
    }
}

#[tokio::test]
async fn what_waits_for_duties_is_counted_by_an_index_and_up_to_a_limit() {
    check_backlogs(ROWS).await;
}

mod long {
    //! The same on a backlog of 300,000 jobs.

    const ROWS: i64 = 300_000;

    #[tokio::test]
    async fn hot_statements_use_an_index_on_segments_that_were_empty_when_planned() {
        super::check_planned_on_empty(ROWS).await;
    }

    #[tokio::test]
    async fn hot_statements_use_an_index_on_segments_that_were_full_when_planned() {
        super::check_planned_on_full(ROWS).await;
    }

    #[tokio::test]
    async fn hot_statements_read_nothing_of_a_terminal_segment() {
        super::check_terminal(ROWS).await;
    }

    #[tokio::test]
    async fn what_waits_for_duties_is_counted_by_an_index_and_up_to_a_limit() {
        super::check_backlogs(ROWS).await;
    }
}
