//! Maintenance with connections of its own: what one tick does, beside others, in no time, and without some duties.

use std::time::Duration;

use awa_maintenance::{Duties, DutyName, MaintenanceConfig, Ticked, tick};
use awa_storage::session::Sessions;
use awa_storage::testing::TestDatabase;
use sqlx::PgPool;

use crate::support::{count, run};

const MINUTE: Duration = Duration::from_secs(60);

/// Something to do for several duties.
async fn scene(pool: &PgPool) {
    run(
        pool,
        "insert into awa.scheduled_jobs (kind, run_at) select 'noop', now() from generate_series(1, 25);
         insert into awa.jobs_hot (kind, state, run_lease, attempt, attempted_at, attempted_by)
         select 'noop', 'running', 1, 1, '2020-01-01', gen_random_uuid() from generate_series(1, 10);
         insert into awa.active_claims (part, segment, worker, claimed_at, job_ids, run_leases)
         select 0, 0, gen_random_uuid(), '2020-01-01', array_agg(id), array_agg(run_lease) from awa.jobs_hot;
         insert into awa.jobs_hot_parked (kind, state, finalized_at)
         select 'noop', 'failed', '2020-01-01' from generate_series(1, 5)",
    )
    .await;
}

fn config() -> MaintenanceConfig {
    MaintenanceConfig { promote_batch_max: 10, prune_batch_max: 2, ..MaintenanceConfig::default() }
}

async fn ticked(database: &TestDatabase, config: MaintenanceConfig, budget: Duration) -> Vec<Ticked> {
    let sessions = Sessions::probe(database.options().application_name("ticks")).await.expect("a database");
    tick(&sessions, config, budget).await
}

fn changed(ticked: &[Ticked], duty: DutyName) -> usize {
    ticked.iter().find(|one| one.duty == duty).map(|one| one.changed).expect("it was done")
}

const AVAILABLE: &str = "select count(*) from awa.jobs where state = 'available'";

#[tokio::test]
async fn a_tick_does_every_duty_until_nothing_is_left() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    scene(&pool).await;
    let done = ticked(&database, config(), MINUTE).await;
    assert!(done.iter().all(|one| one.is_done && one.error.is_none()), "{done:?}");
    assert_eq!(done.iter().map(|one| one.duty).collect::<Vec<_>>(), DutyName::ALL);
    assert_eq!((changed(&done, DutyName::Promotion), changed(&done, DutyName::Rescue)), (25, 10));
    assert_eq!(changed(&done, DutyName::Retention), 5);
    assert_eq!(count(&pool, AVAILABLE).await, 25);
    assert_eq!(count(&pool, "select count(*) from awa.leader").await, 0, "nobody was elected");
    // They are closed, and the server needs a moment to see it.
    let mine =
        "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'ticks'";
    for _ in 0..10_000 {
        if count(&pool, mine).await == 0 {
            return;
        }
    }
    panic!("connections of a tick are left open");
}

#[tokio::test]
async fn two_ticks_at_once_do_everything_once() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    scene(&pool).await;
    let (one, other) = tokio::join!(ticked(&database, config(), MINUTE), ticked(&database, config(), MINUTE));
    for (duty, rows) in [(DutyName::Promotion, 25), (DutyName::Rescue, 10), (DutyName::Retention, 5)] {
        assert_eq!(changed(&one, duty) + changed(&other, duty), rows, "{duty}");
    }
    assert_eq!(count(&pool, AVAILABLE).await, 25);
}

#[tokio::test]
async fn a_tick_without_time_does_nothing_and_says_so() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    scene(&pool).await;
    let done = ticked(&database, config(), Duration::ZERO).await;
    assert!(done.iter().all(|one| !one.is_done && one.changed == 0), "{done:?}");
    assert_eq!(count(&pool, AVAILABLE).await, 0);
}

#[tokio::test]
async fn a_duty_that_is_left_out_is_not_done() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    scene(&pool).await;
    let duties = Duties::all().without(DutyName::Promotion).without(DutyName::Audit);
    let done = ticked(&database, MaintenanceConfig { duties, ..config() }, MINUTE).await;
    assert_eq!(done.len(), 6);
    assert_eq!(count(&pool, AVAILABLE).await, 0);
    assert_eq!(changed(&done, DutyName::Rescue), 10);
}

#[tokio::test]
async fn a_duty_that_fails_is_reported_and_the_others_are_done() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    scene(&pool).await;
    run(&pool, "drop function awa.promote").await;
    let done = ticked(&database, config(), MINUTE).await;
    let failed: Vec<_> = done.iter().filter(|one| one.error.is_some()).map(|one| one.duty).collect();
    assert_eq!(failed, [DutyName::Promotion]);
    assert_eq!(changed(&done, DutyName::Rescue), 10);
}

#[test]
fn duties_are_read_by_the_names_that_they_are_written_with() {
    for duty in DutyName::ALL {
        assert_eq!(duty.as_str().parse(), Ok(duty));
        assert!(!Duties::all().without(duty).contains(duty));
    }
    assert!("cleaning".parse::<DutyName>().unwrap_err().to_string().contains("\"cleaning\" is not known"));
}

// CRON-05: the database refuses everybody for a while.
#[tokio::test]
async fn schedules_come_round_again_after_the_database_was_away() {
    let database = TestDatabase::with_sessions().await;
    let pool = database.pool();
    let name = database.name().to_owned();
    let outside = sqlx::PgPool::connect_with(database.options().database("postgres")).await.expect("the server");
    run(&pool, "select awa.set_schedule('every second', '* * * * * *', '{\"kind\": \"noop\"}')").await;
    let stop = tokio_util::sync::CancellationToken::new();
    let sessions = Sessions::probe(database.options()).await.expect("a database");
    let config = MaintenanceConfig { leader_term: Duration::from_secs(3), ..MaintenanceConfig::default() };
    let serving = tokio::spawn(awa_maintenance::serve(sessions, awa_model::WorkerId::random(), config, stop.clone()));
    let jobs = "select count(*) from awa.jobs";
    while count(&pool, jobs).await < 2 {}
    run(&outside, &format!("alter database {name} allow_connections false")).await;
    let away = format!("select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = '{name}'");
    let mut last = 1;
    // Whoever was connected goes, and so does whoever connects in the very moment.
    while last > 0 {
        last = count(&outside, &away).await;
    }
    // Time passes for the schedule.
    let clock = "select extract(epoch from clock_timestamp())::bigint";
    let began = count(&outside, clock).await;
    while count(&outside, clock).await < began + 2 {}
    run(&outside, &format!("alter database {name} allow_connections true")).await;
    let back = PgPool::connect_with(database.options()).await.expect("it is back");
    let (before, noted) = (count(&back, jobs).await, "select count(*) from awa.cron_ticks where outcome <> 'missed'");
    while count(&back, jobs).await < before + 3 {}
    assert_eq!(
        count(&back, "select count(*) - (select count(*) from awa.jobs) from awa.cron_ticks where outcome = 'fired'")
            .await,
        0
    );
    assert!(count(&back, noted).await >= before + 3);
    stop.cancel();
    serving.await.expect("it ends");
}

// RETAIN-05: no foreign key leads from jobs to workers, so that forgetting one touches none of its jobs.
#[tokio::test]
async fn nothing_but_its_row_goes_with_a_worker() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let keys = "select count(*) from pg_constraint where contype = 'f' and connamespace = 'awa'::regnamespace";
    assert_eq!(count(&pool, keys).await, 0);
    run(
        &pool,
        "insert into awa.workers (id, name, host, pid, version, queues, kinds, last_seen_at)
         values ('00000000-0000-0000-0000-000000000001', 'gone', 'here', 1, '0', '{}', '{}', '2020-01-01');
         insert into awa.jobs_hot (kind, state, run_lease, attempt, attempted_at, attempted_by, finalized_at)
         select 'noop', 'completed', 1, 1, now(), '00000000-0000-0000-0000-000000000001', now() from generate_series(1, 1000)",
    )
    .await;
    let done = ticked(&database, config(), MINUTE).await;
    assert!(done.iter().all(|one| one.error.is_none()), "{done:?}");
    assert_eq!(count(&pool, "select count(*) from awa.workers").await, 0);
    assert_eq!(
        count(&pool, "select count(*) from awa.jobs where attempted_by = '00000000-0000-0000-0000-000000000001'").await,
        1000
    );
}
