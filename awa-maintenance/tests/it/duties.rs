//! The duties on a real database, pass by pass.

use std::time::Duration;

use awa_maintenance::{
    Auditor, CallbackKeeper, ClaimsKeeper, Duty, MaintenanceConfig, Next, Promoter, Pruner, Rescuer, RingKeeper,
};
use awa_storage::testing::TestDatabase;
use sqlx::PgPool;

use crate::support::{count, run};

/// Passes until the duty wants to rest; returns what they changed and for how long it rests.
async fn catch_up(duty: &dyn Duty) -> (usize, Duration) {
    let mut changed = 0;
    loop {
        let pass = duty.pass().await.expect("a pass");
        changed += pass.changed;
        if let Next::In(pause) = pass.next {
            return (changed, pause);
        }
    }
}

fn config() -> MaintenanceConfig {
    MaintenanceConfig::default()
}

/// Running jobs of a worker that nobody knows, in batches of ten.
async fn abandoned(pool: &PgPool, batches: usize) {
    let statement = format!(
        "insert into awa.jobs_hot (kind, state, run_lease, attempt, attempted_at, attempted_by)
         select 'noop', 'running', 1, 1, now(), gen_random_uuid() from generate_series(1, {batches} * 10);
         insert into awa.active_claims (part, segment, worker, job_ids, run_leases)
         select 0, 0, gen_random_uuid(), array_agg(id), array_agg(run_lease) from awa.jobs_hot group by id % {batches}"
    );
    run(pool, &statement).await;
}

#[tokio::test]
async fn promotion_catches_up_without_a_ceiling_and_sleeps_until_the_next_job_is_due() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.scheduled_jobs (kind, run_at) select 'noop', now() from generate_series(1, 95)").await;
    let promoter = Promoter::new(pool.clone(), MaintenanceConfig { promote_batch_max: 10, ..config() });
    assert_eq!(catch_up(&promoter).await, (95, config().promote_interval_max));
    run(&pool, "insert into awa.scheduled_jobs (kind, run_at) values ('noop', now() + interval '10 milliseconds')")
        .await;
    let (_, pause) = catch_up(&promoter).await;
    assert!(pause >= config().promote_interval_min && pause <= config().promote_interval_max, "{pause:?}");
}

#[tokio::test]
async fn rescue_catches_up_without_a_ceiling() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    abandoned(&pool, 7).await;
    let rescuer = Rescuer::new(pool.clone(), MaintenanceConfig { rescue_jobs_max: 20, ..config() });
    assert_eq!(catch_up(&rescuer).await, (70, config().rescue_interval));
    assert_eq!(count(&pool, "select count(*) from awa.scheduled_jobs where state = 'retryable'").await, 70);
}

/// LOST-02: the connection of the sweep goes away between two of its passes, and in the middle of them.
#[tokio::test]
async fn a_sweep_that_fails_starts_over_and_leaves_nobody_behind() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    abandoned(&pool, 25).await;
    let rescuer = Rescuer::new(pool.clone(), MaintenanceConfig { rescue_jobs_max: 10, ..config() });
    let kill = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    let killer = tokio::spawn({
        let mut connection = database.connect().await;
        async move {
            for _ in 0..200 {
                sqlx::raw_sql(kill).execute(&mut connection).await.expect("killed");
            }
        }
    });
    let (mut failures, mut rescued) = (0, false);
    while !killer.is_finished() || !rescued {
        match rescuer.pass().await {
            Ok(pass) => rescued = killer.is_finished() && pass.next != Next::Now,
            Err(_) => failures += 1,
        }
    }
    killer.await.expect("killed to the end");
    assert_eq!(count(&pool, "select count(*) from awa.scheduled_jobs where jsonb_array_length(errors) = 1").await, 250);
    assert_eq!(
        count(&pool, "select count(*) from awa.jobs_hot where state = 'running'").await,
        0,
        "{failures} failures"
    );
}

#[tokio::test]
async fn the_ring_is_advanced_and_emptied() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(
        &pool,
        "update awa.ring set completed_retention = '0', opened_at[1] = now() - interval '1 hour';
         insert into awa.jobs_hot (kind, state, finalized_at) select 'noop', 'completed', now() from generate_series(1, 500);
         insert into awa.jobs_hot (kind) values ('waiting')",
    )
    .await;
    let keeper = RingKeeper::new(pool.clone(), config());
    while count(&pool, "select oldest from awa.ring").await == 0 {
        keeper.pass().await.expect("a pass");
    }
    assert_eq!(count(&pool, "select count(*) from awa.jobs_hot_0").await, 0);
    assert_eq!(count(&pool, "select count(*) from awa.jobs_hot where state = 'available'").await, 1);
}

#[tokio::test]
async fn the_list_of_batches_is_emptied_when_it_is_large() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    abandoned(&pool, 3).await;
    run(&pool, "update awa.jobs_hot set state = 'completed', finalized_at = now() where id > 1").await;
    run(&pool, "update awa.ring set claims_switched_at = now() - interval '1 minute'").await;
    let small = ClaimsKeeper::new(pool.clone(), config());
    assert_eq!(catch_up(&small).await.0, 0);
    let keeper = ClaimsKeeper::new(pool.clone(), MaintenanceConfig { claims_bytes: 1, ..config() });
    assert_eq!((catch_up(&keeper).await.0, catch_up(&keeper).await.0), (1, 1), "switched, then emptied");
    assert_eq!(count(&pool, "select sum(cardinality(job_ids))::bigint from awa.active_claims").await, 1);
}

#[tokio::test]
async fn retention_goes_through_all_states() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(
        &pool,
        "insert into awa.jobs_hot_parked (kind, state, finalized_at)
         select 'noop', state, '2020-01-01' from unnest(array['completed', 'failed', 'cancelled']::awa.job_state[]) as state
          cross join generate_series(1, 25)",
    )
    .await;
    let pruner = Pruner::new(pool.clone(), MaintenanceConfig { prune_batch_max: 10, ..config() });
    assert_eq!(catch_up(&pruner).await, (75, config().prune_interval));
}

#[tokio::test]
async fn the_audit_comes_round_and_counts_what_it_finds() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(
        &pool,
        "insert into awa.jobs_hot (kind) values ('lost');
         insert into awa.lane_marks (queue, priority, seq) values ('default', 2, 1)",
    )
    .await;
    let auditor = Auditor::new(pool, config());
    for _ in 0..20 {
        let (_, pause) = catch_up(&auditor).await;
        assert!(pause >= config().audit_interval_min);
    }
    assert_eq!(auditor.finds(), 1);
}

/// An idle leader may send four statements a second, of which its worker takes up to two. Schedules look at none of their own:
/// promotion asks for them as well.
#[tokio::test]
async fn idle_duties_come_at_most_twice_a_second_together() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let config = config();
    let duties: [&dyn Duty; 7] = [
        &Promoter::new(pool.clone(), config),
        &Rescuer::new(pool.clone(), config),
        &CallbackKeeper::new(pool.clone(), config),
        &RingKeeper::new(pool.clone(), config),
        &ClaimsKeeper::new(pool.clone(), config),
        &Pruner::new(pool.clone(), config),
        &Auditor::new(pool.clone(), config),
    ];
    let mut passes_a_second = 3.0 / config.leader_term.as_secs_f64();
    for duty in duties {
        let (changed, pause) = catch_up(duty).await;
        assert_eq!(changed, 0, "{}", duty.name());
        passes_a_second += pause.as_secs_f64().recip();
    }
    assert!(passes_a_second <= 2.0, "{passes_a_second}");
}

/// Jobs that wait for a callback which is due at this time, counted from now.
async fn waiting(pool: &PgPool, number: usize, due: &str) {
    let statement = format!(
        "with waiting as (
             insert into awa.jobs_hot_parked (kind, state, run_lease, attempt)
             select 'noop', 'waiting_external', 1, 1 from generate_series(1, {number})
             returning id
         )
         insert into awa.callbacks (job_id, run_lease, due_at, parked)
         select id, 1, now() + interval '{due}', true from waiting"
    );
    run(pool, &statement).await;
}

#[tokio::test]
async fn callbacks_that_are_due_are_caught_up_with_and_the_next_one_is_awaited() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let keeper = CallbackKeeper::new(pool.clone(), MaintenanceConfig { callback_batch_max: 10, ..config() });
    assert_eq!(catch_up(&keeper).await, (0, config().callback_interval_max), "nothing waits");
    waiting(&pool, 95, "-1 second").await;
    assert_eq!(catch_up(&keeper).await, (95, config().callback_interval_max));
    assert_eq!(count(&pool, "select count(*) from awa.scheduled_jobs where state = 'retryable'").await, 95);
    waiting(&pool, 1, "10 milliseconds").await;
    let (_, pause) = catch_up(&keeper).await;
    assert!(pause >= config().callback_interval_min && pause <= config().callback_interval_max, "{pause:?}");
    waiting(&pool, 1, "1000 years").await;
    assert!(catch_up(&keeper).await.1 <= config().callback_interval_max);
}

#[tokio::test]
async fn retention_looks_for_callbacks_without_a_job_bit_by_bit() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    waiting(&pool, 30, "1 hour").await;
    let pruner = Pruner::new(pool.clone(), MaintenanceConfig { prune_batch_max: 10, ..config() });
    // Nothing is amiss: each sweep looks at one batch, and the next goes on behind it.
    assert_eq!(catch_up(&pruner).await, (0, config().prune_interval));
    run(&pool, "delete from awa.jobs_hot where id % 3 = 0").await;
    let mut forgotten = 0;
    for _ in 0..4 {
        forgotten += catch_up(&pruner).await.0;
    }
    assert_eq!((forgotten, count(&pool, "select count(*) from awa.callbacks").await), (10, 20));
    // A great many go at once.
    run(&pool, "delete from awa.jobs_hot").await;
    let mut sweeps = 0;
    while count(&pool, "select count(*) from awa.callbacks").await > 0 {
        catch_up(&pruner).await;
        sweeps += 1;
    }
    assert!(sweeps <= 2, "{sweeps}");
}
