//! The duties under a role that has nothing but the bundle of a worker, on a schema whose owner is no superuser.

use std::time::Duration;

use awa_maintenance::{
    Auditor, CallbackKeeper, ClaimsKeeper, Duty, Elector, MaintenanceConfig, Promoter, Pruner, Rescuer, RingKeeper,
    Scheduler,
};
use awa_model::WorkerId;
use awa_storage::testing::{TestDatabase, TestRole};

use crate::support::{count, run};

/// Every state that a duty looks for, so that no function is only called to find nothing.
const SCENE: &str = "
    insert into awa.scheduled_jobs (kind, run_at, unique_key, unique_states)
    select 'noop', now() - interval '1 minute', substring(sha256(n::text::bytea) for 16), 31 from generate_series(1, 5) as n;
    insert into awa.jobs_hot (kind, state, run_lease, attempt, attempted_at, attempted_by, unique_key, unique_states)
    select 'noop', 'running', 1, 1, '2020-01-01', gen_random_uuid(), substring(sha256(n::text::bytea) for 16), 31
      from generate_series(11, 15) as n;
    insert into awa.active_claims (part, segment, worker, claimed_at, job_ids, run_leases)
    select 0, 0, gen_random_uuid(), '2020-01-01', array_agg(id), array_agg(run_lease)
      from awa.jobs_hot where state = 'running';
    insert into awa.jobs_hot (kind, state, finalized_at)
    select 'noop', 'completed', '2020-01-01' from generate_series(1, 5);
    insert into awa.jobs_hot_parked (kind, state, finalized_at, unique_key, unique_states)
    select 'noop', 'failed', '2020-01-01', substring(sha256(n::text::bytea) for 16), 255 from generate_series(21, 25) as n;
    with waiting as (
        insert into awa.jobs_hot_parked (kind, state, run_lease, attempt) values ('noop', 'waiting_external', 1, 1)
        returning id
    )
    insert into awa.callbacks (job_id, run_lease, due_at, parked) select id, 1, '2020-01-01', true from waiting;
    insert into awa.callbacks (job_id, run_lease, due_at) values (99, 1, '2020-01-01');
    insert into awa.workers (id, name, host, pid, version, queues, kinds, last_seen_at)
    values (gen_random_uuid(), 'gone', 'here', 1, '0', '{}', '{}', '2020-01-01');
    insert into awa.cron_schedules (name, expression, timezone, job, missed, overlap, planned, next_at, waiting_slot)
    values ('new', '@yearly', 'UTC', '{\"kind\": \"noop\"}', 'coalesce', 'allow', false, null, null),
           ('due', '@yearly', 'UTC', '{\"kind\": \"noop\"}', 'coalesce', 'allow', true, '2020-01-01', null),
           ('waiting', '@yearly', 'UTC', '{\"kind\": \"noop\"}', 'coalesce', 'queue', true, '2100-01-01', '2020-01-01');
    insert into awa.cron_ticks (schedule, slot, outcome, handled_at) values ('gone', '2020-01-01', 'fired', '2020-01-01');
    update awa.ring set opened_at = array_fill('2020-01-01'::timestamptz, array[8]), claims_switched_at = '2020-01-01';";

#[tokio::test]
async fn role_with_the_bundle_of_a_worker_can_do_every_duty() {
    let database = TestDatabase::empty().await;
    let _owner = TestRole::owner(&database).await;
    let role = TestRole::new(&database).await;
    role.grant(&["worker"]).await;
    let (admin, pool) = (database.pool(), role.pool());
    run(&admin, SCENE).await;

    let mut elector = Elector::new(pool.clone(), WorkerId::random(), Duration::from_secs(30));
    assert!(elector.stand().await.expect("the role may stand for election"));
    let config = || MaintenanceConfig { claims_bytes: 1, claims_age: Duration::ZERO, ..MaintenanceConfig::default() };
    let duties: [Box<dyn Duty>; 8] = [
        Box::new(Scheduler::new(pool.clone(), config())),
        Box::new(Rescuer::new(pool.clone(), config())),
        Box::new(Promoter::new(pool.clone(), config())),
        Box::new(CallbackKeeper::new(pool.clone(), config())),
        Box::new(ClaimsKeeper::new(pool.clone(), config())),
        Box::new(RingKeeper::new(pool.clone(), config())),
        Box::new(Pruner::new(pool.clone(), config())),
        Box::new(Auditor::new(pool.clone(), config())),
    ];
    // Until the ring is round: how soon its horizon is settled depends on who else uses the server.
    for round in 0.. {
        for duty in &duties {
            duty.pass().await.unwrap_or_else(|error| panic!("{}: {error:?}", duty.name()));
        }
        if count(&admin, "select oldest from awa.ring").await == 1 {
            break;
        }
        assert!(round < 1_000, "the oldest segment is never emptied");
        // What it has to wait for is long ago.
        run(
            &admin,
            "update awa.ring set closed_at = array_fill('2020-01-01'::timestamptz, array[8]) where current > 0",
        )
        .await;
    }
    elector.resign().await.expect("resigned");

    assert_eq!(
        count(&admin, "select count(*) from awa.jobs where state = 'available'").await,
        7,
        "promoted, scheduled"
    );
    let ticks = "select count(*) from awa.cron_ticks where outcome = 'fired' and schedule in ('due', 'waiting')";
    assert_eq!(count(&admin, ticks).await, 2, "scheduled");
    assert_eq!(count(&admin, "select count(*) from awa.cron_schedules where not planned").await, 0, "planned");
    assert_eq!(count(&admin, "select count(*) from awa.cron_ticks where schedule = 'gone'").await, 0, "forgotten");
    assert_eq!(count(&admin, "select count(*) from awa.jobs where state = 'retryable'").await, 6, "rescued");
    assert_eq!(count(&admin, "select count(*) from awa.callbacks").await, 1, "forgotten");
    assert_eq!(count(&admin, "select count(*) from awa.jobs where state = 'failed'").await, 0, "pruned");
    assert_eq!(count(&admin, "select claims_part::bigint from awa.ring").await, 1, "switched");
    assert_eq!(count(&admin, "select count(*) from awa.active_claims_0").await, 0, "emptied");
    assert_eq!(count(&admin, "select count(*) from awa.jobs_hot_0").await, 0);
    assert_eq!(count(&admin, "select count(*) from awa.workers").await, 0, "forgotten");
}
