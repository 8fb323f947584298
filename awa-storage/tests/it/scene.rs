//! Scenes for the tests of maintenance: rows with every column set, workers, claims as they were some time ago.

use std::time::Duration;

use awa_model::{Kind, QueueName, WorkerId};
use awa_storage::{
    Claimed, Cursors,
    rescue::{RescueCursor, RescueLimits, Rescued, rescue},
    testing::TestDatabase,
    workers::{WorkerInfo, register},
};
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection, PgPool};

use crate::support::claim_of;

/// Every column that a job can have, each with a value of its own that no default gives.
const FULL: &str = "created_at, run_at, timeout, priority, max_attempts, unique_states, run_lease, attempted_at, snoozes,
    errors_dropped, attempt, kind, queue, args, metadata, tags, trace_context, unique_key, progress, result, errors, state";

/// What a move of any kind may change, because the place belongs to it.
const PLACE: [&str; 2] = ["seq", "segment"];

pub(crate) async fn run(db: impl sqlx::PgExecutor<'_>, statement: &str) -> u64 {
    sqlx::query(AssertSqlSafe(statement.to_owned())).execute(db).await.expect(statement).rows_affected()
}

/// The first column of the first row, as text.
pub(crate) async fn text(db: impl sqlx::PgExecutor<'_>, statement: &str) -> String {
    let statement = format!("select coalesce((select answer::text from ({statement}) as asked (answer) limit 1), '')");
    sqlx::query_scalar(AssertSqlSafe(statement.clone())).fetch_one(db).await.expect(&statement)
}

/// One number.
pub(crate) async fn count(db: impl sqlx::PgExecutor<'_>, statement: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(statement.to_owned())).fetch_one(db).await.expect(statement)
}

/// How many jobs are in which state, as `state count` sorted by state.
pub(crate) async fn states(pool: &PgPool) -> String {
    text(
        pool,
        "select string_agg(state || ' ' || number, ', ' order by state)
           from (select state, count(*) as number from awa.jobs group by state) as counted",
    )
    .await
}

/// Inserts a job with all columns set into a relation, in a state, and returns its id.
pub(crate) async fn insert_full(pool: &PgPool, relation: &str, state: &str) -> i64 {
    count(
        pool,
        &format!(
            "insert into awa.{relation} ({FULL})
             values ('2020-01-01', '2020-01-02', '7 minutes', 3, 9, 255, 4, '2020-01-03', 2,
                     5, 6, 'full', 'lane', '{{\"a\": 1}}', '{{\"m\": 2}}', '{{x,y}}', 'trace', decode(md5('full'), 'hex'),
                     '{{\"percent\": 8}}', '{{\"r\": 3}}', '[{{\"error\": \"old\"}}]', '{state}')
             returning id"
        ),
    )
    .await
}

/// The whole row of a job, in whatever relation, less its place.
pub(crate) async fn row(pool: &PgPool, id: i64) -> Value {
    let mut row: Value = sqlx::query_scalar(
        "select to_jsonb(job) from awa.jobs_hot as job where id = $1
         union all
         select to_jsonb(job) from awa.scheduled_jobs as job where id = $1",
    )
    .bind(id)
    .fetch_one(pool)
    .await
    .expect("one row, in one plane (I1)");
    let columns = row.as_object_mut().expect("an object");
    for place in PLACE {
        columns.remove(place);
    }
    row
}

/// The columns in which two rows differ.
pub(crate) fn changed(before: &Value, after: &Value) -> Vec<String> {
    let (before, after) = (before.as_object().expect("an object"), after.as_object().expect("an object"));
    assert_eq!(before.len(), after.len(), "the same columns");
    before.iter().filter(|(column, value)| after[*column] != **value).map(|(column, _)| column.clone()).collect()
}

pub(crate) fn kinds(names: &[&'static str]) -> Vec<Kind> {
    names.iter().map(|name| Kind::new(*name).expect("a kind")).collect()
}

pub(crate) fn queue(name: &'static str) -> QueueName {
    QueueName::new(name).expect("a queue name")
}

/// Makes insertion of jobs of kind `bad` into a relation fail.
pub(crate) async fn poison(pool: &PgPool, relation: &str) {
    run(
        pool,
        "create or replace function public.poison() returns trigger language plpgsql
         as $$begin raise exception 'poisoned'; end$$",
    )
    .await;
    run(
        pool,
        &format!(
            "create trigger poison before insert on awa.{relation}
             for each row when (new.kind = 'bad') execute function public.poison()"
        ),
    )
    .await;
}

/// Inserts available jobs into queue `default` and claims them for a worker that has registered.
pub(crate) async fn running(pool: &PgPool, kind: &'static str, number: usize) -> (WorkerId, Vec<Claimed>) {
    run(pool, &format!("insert into awa.jobs_hot (kind) select '{kind}' from generate_series(1, {number})")).await;
    let worker = registered(pool).await;
    (worker, claim(pool, worker, kind, number).await)
}

/// Claims jobs of a kind in queue `default`.
pub(crate) async fn claim(pool: &PgPool, worker: WorkerId, kind: &'static str, number: usize) -> Vec<Claimed> {
    let cursors = Cursors::new(worker, &kinds(&[kind]), &[queue("default")]);
    cursors.load(pool).await.expect("marks");
    let claimed = claim_of(&cursors, pool, &[(queue("default"), number)]).await;
    assert_eq!(claimed.len(), number);
    claimed
}

pub(crate) async fn registered(pool: &PgPool) -> WorkerId {
    let worker = WorkerInfo {
        id: WorkerId::random(),
        name: "scene".to_owned(),
        host: "here".to_owned(),
        pid: 1,
        version: "0".to_owned(),
        queues: vec!["default".to_owned()],
        kinds: vec!["noop".to_owned()],
    };
    register(pool, &worker).await.expect("registered");
    worker.id
}

/// Lets time pass for all claims and attempts, but not for workers.
pub(crate) async fn age_attempts(pool: &PgPool, interval: &str) {
    run(pool, &format!("update awa.active_claims set claimed_at = claimed_at - interval '{interval}'")).await;
    run(
        pool,
        &format!(
            "update awa.jobs_hot set attempted_at = attempted_at - interval '{interval}',
                    heartbeat_at = heartbeat_at - interval '{interval}' where state = 'running'"
        ),
    )
    .await;
}

pub(crate) const LIMITS: RescueLimits = RescueLimits {
    worker_silence: Duration::from_secs(90),
    attempt_silence: Duration::from_secs(90),
    deadline_grace: Duration::from_secs(5),
    jobs_max: 1000,
    budget: Duration::from_secs(60),
};

/// One pass of rescue over everything.
pub(crate) async fn rescue_all(pool: &PgPool) -> Rescued {
    let rescued = rescue(pool, &LIMITS, RescueCursor::default()).await.expect("a pass");
    assert_eq!(rescued.next, None);
    rescued
}

/// A connection with a transaction open on it.
pub(crate) async fn begin(database: &TestDatabase) -> PgConnection {
    let mut connection = database.connect().await;
    run(&mut connection, "begin").await;
    connection
}

/// Waits until so many statements in this database wait for a lock.
pub(crate) async fn until_blocked(pool: &PgPool, number: i64) {
    let blocked =
        "select count(distinct waiting.pid) from pg_locks as waiting join pg_stat_activity as session using (pid)
                    where not waiting.granted and session.datname = current_database()";
    while count(pool, blocked).await < number {
        tokio::task::yield_now().await;
    }
}
