//! Workers of this release while a newer one is deployed: under the migration, and on what it leaves behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use awa_migrations::{Migration, Options, Schema, migrate_with};
use awa_storage::{
    Cursors, Error,
    promote::{PromoteCursor, promote},
    settle::{Completion, complete_many},
    testing::TestDatabase,
};
use sqlx::PgPool;
use tokio::task::JoinSet;

use crate::scene::{begin, count, kinds, rescue_all, run, states, text};
use crate::support::{claim_of, queue, worker};

/// The embedded schema and one migration more, as the next release may bring it.
fn next_release(sql: &'static str) -> Schema {
    let embedded = Schema::embedded();
    let mut migrations = embedded.migrations().to_vec();
    let version = i32::try_from(migrations.len()).expect("few") + 1;
    migrations.push(Migration { version, name: "next", sql });
    Schema::new(migrations, embedded.functions().to_vec(), "99.0.0")
}

const WIDEN: &str = "
    alter table awa.jobs_hot add column note text;
    alter table awa.scheduled_jobs add column note text;
    alter table awa.workers add column note text;
    alter table awa.ring add column note text;";

/// Enqueues, claims and completes until told to stop; answers how many were completed. Every error that is no time limit on
/// a lock is one too many.
async fn work(pool: PgPool, stop: Arc<AtomicBool>) -> i64 {
    let cursors = Cursors::new(worker(), &kinds(&["live"]), &[queue("default")]);
    cursors.load(&pool).await.expect("marks");
    let mut completed = 0;
    loop {
        let stopping = stop.load(Ordering::Relaxed);
        if !stopping {
            run(&pool, "insert into awa.jobs_hot (kind) select 'live' from generate_series(1, 5)").await;
        }
        cursors.tick(&pool).await.expect("a tick");
        let claimed = claim_of(&cursors, &pool, &[(queue("default"), 20)]).await;
        if stopping && claimed.is_empty() {
            return completed;
        }
        let done: Vec<_> = claimed.into_iter().map(|job| Completion { lease: job.lease, result: None }).collect();
        // A batch whose answer is a time limit is sent again, as the worker does.
        while let Err(error) = complete_many(&pool, &done).await {
            assert!(is_passing(&error), "{error:?}");
        }
        completed += i64::try_from(done.len()).expect("few");
    }
}

fn is_passing(error: &Error) -> bool {
    matches!(error, Error::Database(error) if error.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref() == Some("55P03"))
}

// MIGR-02, MIGR-04
#[tokio::test(flavor = "multi_thread")]
async fn sixteen_deployers_widen_every_table_under_live_workers_and_a_long_reader() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let stop = Arc::new(AtomicBool::new(false));
    let mut workers = JoinSet::new();
    for _ in 0..3 {
        workers.spawn(work(pool.clone(), stop.clone()));
    }
    let mut reader = begin(&database).await;
    run(&mut reader, "select count(*) from awa.jobs_hot").await;
    let mut options = Options::default();
    options.lock_timeout = Duration::from_millis(50);
    options.attempts_max = 1000;
    let mut deployers = JoinSet::new();
    for _ in 0..16 {
        let (options, pool) = (options.clone(), database_pool(&database));
        deployers.spawn(async move { migrate_with(&pool, next_release(WIDEN), options).await });
    }
    // While the reader stays nobody can migrate, and work goes on: that many jobs end under its eyes.
    let finished = "select count(*) from awa.jobs where state = 'completed'";
    let before = count(&pool, finished).await;
    while count(&pool, finished).await < before + 200 {
        tokio::task::yield_now().await;
    }
    assert!(deployers.try_join_next().is_none(), "the reader is in the way");
    run(&mut reader, "commit").await;
    let reports = deployers.join_all().await;
    assert_eq!(reports.iter().filter(|report| !report.as_ref().expect("all succeed").applied.is_empty()).count(), 1);
    // The workers that were there before go on with the wider rows.
    let before = count(&pool, finished).await;
    while count(&pool, finished).await < before + 200 {
        tokio::task::yield_now().await;
    }
    stop.store(true, Ordering::Relaxed);
    let completed: i64 = workers.join_all().await.into_iter().sum();
    assert_eq!(states(&pool).await, format!("completed {completed}"));
    assert_eq!(count(&pool, "select count(*) from awa.jobs where run_lease <> 1").await, 0, "each job ran once");
}

fn database_pool(database: &TestDatabase) -> PgPool {
    sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_lazy_with(database.options())
}

/// What a newer release may have: a state, columns, keys of metadata and progress that this one has never heard of.
const NEWER: &str = "
    do $$
    declare
        relation regclass;
    begin
        alter type awa.job_state add value 'held';
        for relation in select conrelid from pg_constraint where conname = 'plausible' and conparentid = 0
        loop
            execute format('alter table %s drop constraint plausible', relation);
        end loop;
        alter table awa.jobs_hot add column held_by text default 'somebody';
        alter table awa.scheduled_jobs add column held_by text default 'somebody';
        alter table awa.workers add column zone text default 'west';
    end
    $$";

const HELD: &str = "select string_agg(job.place, ', ' order by job.place) from (
    select tableoid::regclass::text || ' ' || id || ' ' || kind || ' ' || coalesce(held_by, '') as place
      from awa.jobs_hot where state::text = 'held'
     union all
    select tableoid::regclass::text || ' ' || id || ' ' || kind || ' ' || coalesce(held_by, '')
      from awa.scheduled_jobs where state::text = 'held') as job";

// MIGR-08
#[tokio::test]
async fn rows_in_a_state_of_a_newer_release_are_passed_by_and_everything_else_goes_on() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, NEWER).await;
    for statement in [
        "insert into awa.jobs_hot (kind, state, unique_key, unique_states)
         values ('live', 'held', substring(sha256('a') for 16), 31)",
        "insert into awa.jobs_hot_parked (kind, state, finalized_at) values ('live', 'held', '2020-01-01')",
        "insert into awa.scheduled_jobs (kind, state, run_at) values ('live', 'held', '2020-01-01')",
        "insert into awa.scheduled_jobs (kind, run_at, metadata) values ('live', '2020-01-02', '{\"$new\": 1}')",
        "insert into awa.jobs_hot (kind, metadata, progress) values ('live', '{\"$new\": {}}', '{\"$new\": [1]}')",
    ] {
        run(&pool, statement).await;
    }
    let held = text(&pool, HELD).await;
    assert_eq!(held.matches("held").count() + held.matches("somebody").count(), 3, "{held}");

    promote(&pool, &mut PromoteCursor::default(), 10).await.expect("promoted");
    let stop = Arc::new(AtomicBool::new(true));
    assert_eq!(work(pool.clone(), stop).await, 2);
    assert!(rescue_all(&pool).await.jobs.is_empty());
    maintain(&pool).await;
    assert_eq!(text(&pool, HELD).await, held, "they stay as they are");
    assert_eq!(states(&pool).await, "completed 2, held 3");
}

async fn maintain(pool: &PgPool) {
    use awa_model::JobState;
    use awa_storage::{audit, prune, ring, workers};
    for state in [JobState::Completed, JobState::Failed, JobState::Cancelled] {
        prune::prune_parked(pool, state, prune::PruneCursor::default(), 10).await.expect("prune");
    }
    let audited = audit::audit(pool, audit::AuditCursor::default(), 100, Duration::from_secs(90)).await.expect("audit");
    assert_eq!(audited.finds(), 0);
    workers::list(pool).await.expect("listed");
    ring::status(pool).await.expect("status");
    ring::rotate(pool, 0).await.expect("rotate");
}
