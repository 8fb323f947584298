//! Rows, cursors and transactions that several test modules set up.

use awa_model::{Kind, QueueName, WorkerId};
use awa_storage::{Claimed, Cursors, claim::Tick, testing::TestDatabase};
use sqlx::{Executor, PgConnection, PgPool, Postgres};
use uuid::Uuid;

/// How often a condition is asked for before a test gives up: each time is a statement, so this is many seconds.
const TRIES_MAX: usize = 20_000;

pub(crate) fn kind() -> Kind {
    Kind::new("noop").expect("a kind")
}

pub(crate) fn queue(name: &'static str) -> QueueName {
    QueueName::new(name).expect("a queue name")
}

pub(crate) fn worker() -> WorkerId {
    WorkerId::new(Uuid::new_v4())
}

/// Cursors of a new process on queue `default`, loaded.
pub(crate) async fn cursors(pool: &PgPool) -> Cursors {
    let cursors = Cursors::new(worker(), &[kind()], &[queue("default")]);
    cursors.load(pool).await.expect("marks");
    cursors
}

/// Inserts available jobs into a segment's own table and returns their ids.
pub(crate) async fn insert(db: impl Executor<'_, Database = Postgres>, segment: i16, count: i64) -> Vec<i64> {
    insert_as(db, segment, count, "noop", 2).await
}

pub(crate) async fn insert_as(
    db: impl Executor<'_, Database = Postgres>,
    segment: i16,
    count: i64,
    kind: &str,
    priority: i16,
) -> Vec<i64> {
    let statement = format!(
        "insert into awa.jobs_hot_{segment} (kind, priority, args)
         select $1, $2, jsonb_build_object('number', number) from generate_series(1, $3) as number returning id"
    );
    sqlx::query_scalar(sqlx::AssertSqlSafe(statement))
        .bind(kind)
        .bind(priority)
        .bind(count)
        .fetch_all(db)
        .await
        .expect("rows inserted")
}

/// Claims up to `want` jobs of queue `default`, those that were ever locked too.
pub(crate) async fn claim(cursors: &Cursors, pool: &PgPool, want: usize) -> Vec<Claimed> {
    claim_of(cursors, pool, &[(queue("default"), want)]).await
}

/// Claims from any queues, jobs that were ever locked too.
pub(crate) async fn claim_of(cursors: &Cursors, pool: &PgPool, wants: &[(QueueName, usize)]) -> Vec<Claimed> {
    let mut connection = pool.acquire().await.expect("a connection");
    cursors.claim_in(&mut connection, wants).await.expect("a claim")
}

/// Claims until nothing more comes.
pub(crate) async fn claim_all(cursors: &Cursors, pool: &PgPool) -> Vec<i64> {
    let mut ids = Vec::new();
    loop {
        let claimed = claim(cursors, pool, 100).await;
        if claimed.is_empty() {
            return ids;
        }
        ids.extend(claimed.iter().map(|job| job.lease.job_id().get()));
    }
}

/// Ticks until the condition holds.
pub(crate) async fn tick_until(cursors: &Cursors, pool: &PgPool, condition: impl Fn(&Tick) -> bool) -> Tick {
    for _ in 0..TRIES_MAX {
        let tick = cursors.tick(pool).await.expect("a tick");
        if condition(&tick) {
            return tick;
        }
    }
    panic!("the condition never came");
}

/// Opens a transaction that already owns a transaction id.
pub(crate) async fn open_writer(database: &TestDatabase) -> PgConnection {
    let mut connection = database.connect().await;
    execute(&mut connection, "begin").await;
    execute(&mut connection, "select pg_current_xact_id()").await;
    connection
}

pub(crate) async fn execute(connection: &mut PgConnection, statement: &'static str) {
    sqlx::raw_sql(statement).execute(connection).await.expect(statement);
}

/// One number from the database.
pub(crate) async fn number(pool: &PgPool, statement: &'static str) -> i64 {
    sqlx::query_scalar(statement).fetch_one(pool).await.expect(statement)
}

/// Sorted, for comparison as a set.
pub(crate) fn sorted(mut ids: Vec<i64>) -> Vec<i64> {
    ids.sort_unstable();
    ids
}
