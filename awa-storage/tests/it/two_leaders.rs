//! I10, stepped: of each duty, a second leader does a pass while that of the first is not committed, and once more afterwards.
//! What comes of it is what one leader makes of the same rows.

use awa_storage::testing::TestDatabase;
use sqlx::PgPool;

use crate::scene::{begin, run, text};

/// Something to do for every duty.
const SCENE: &str = "
    insert into awa.scheduled_jobs (kind, run_at, unique_key, unique_states)
    select 'noop', now() - interval '1 minute', substring(sha256(n::text::bytea) for 16), 31 from generate_series(1, 5) as n;
    insert into awa.jobs_hot (kind, state, run_lease, attempt, attempted_at, attempted_by, unique_key, unique_states)
    select 'noop', 'running', 1, 1, '2020-01-01', gen_random_uuid(), substring(sha256(n::text::bytea) for 16), 31
      from generate_series(11, 20) as n;
    insert into awa.active_claims (part, segment, worker, claimed_at, job_ids, run_leases)
    select 0, 0, gen_random_uuid(), '2020-01-01', array_agg(id), array_agg(run_lease)
      from awa.jobs_hot where state = 'running' group by id % 2;
    insert into awa.jobs_hot (kind, state, finalized_at)
    select 'noop', 'completed', '2020-01-01' from generate_series(1, 5);
    insert into awa.jobs_hot_parked (kind, state, finalized_at, unique_key, unique_states)
    select 'noop', 'failed', '2020-01-01', substring(sha256(n::text::bytea) for 16), 255 from generate_series(21, 25) as n;
    with waiting as (
        insert into awa.jobs_hot_parked (kind, state, run_lease, attempt)
        select 'noop', 'waiting_external', 1, 1 from generate_series(1, 3) returning id
    )
    insert into awa.callbacks (job_id, run_lease, due_at, parked) select id, 1, '2020-01-01', true from waiting;
    insert into awa.callbacks (job_id, run_lease, due_at) select n, 1, '2020-01-01' from generate_series(1001, 1003) as n;
    insert into awa.workers (id, name, host, pid, version, queues, kinds, last_seen_at)
    select gen_random_uuid(), 'gone', 'here', 1, '0', '{}', '{}', '2020-01-01' from generate_series(1, 3);
    insert into awa.cron_schedules (name, expression, timezone, job, missed, overlap, planned, next_at, waiting_slot)
    values ('due', '@daily', 'UTC', '{\"kind\": \"noop\"}', 'coalesce', 'allow', true, '2020-01-01', null),
           ('new', '@daily', 'UTC', '{\"kind\": \"noop\"}', 'coalesce', 'allow', false, null, null),
           ('waiting', '@daily', 'UTC', '{\"kind\": \"noop\"}', 'coalesce', 'queue', true, '2100-01-01', '2020-01-01');
    insert into awa.cron_ticks (schedule, slot, outcome, handled_at)
    select 'gone', '2020-01-01'::timestamptz + n * interval '1 day', 'fired', '2020-01-01' from generate_series(1, 3) as n;
    update awa.ring set snapshot_patience = '0', claims_switched_at = '2020-01-01';";

/// All that the duties change, without times.
const PICTURE: &str = "select json_build_array(
    (select json_agg(json_build_array(state, jobs, leases, attempts, errors) order by state)
       from (select state, count(*) as jobs, sum(run_lease) as leases, sum(attempt) as attempts,
                    sum(jsonb_array_length(coalesce(errors, '[]'))) as errors
               from awa.jobs group by state) as job),
    (select json_agg(json_build_array(relation, rows) order by relation)
       from (select tableoid::regclass::text as relation, count(*) as rows from awa.jobs_hot group by tableoid) as plane),
    (select count(*) from awa.job_unique_claims), (select count(*) from awa.active_claims),
    (select json_agg(answer order by answer) from awa.callbacks), (select count(*) from awa.workers),
    (select json_agg(json_build_array(schedule, outcome) order by schedule, slot) from awa.cron_ticks),
    (select json_agg(json_build_array(name, planned, waiting_slot is null, next_at > now()) order by name) from awa.cron_schedules),
    (select json_build_array(oldest, current, claims_part) from awa.ring)) #>> '{}'";

/// A duty: its name, what has to be so before, and its pass.
const DUTIES: [(&str, &str, &str); 16] = [
    ("promote", "", "select awa.promote(null, null, 100)"),
    ("promote others", "", "select awa.promote_others('{crowd}', null, null, 100, 100)"),
    ("rescue", "", "select awa.rescue(0, 500, 90, 90, 5, 2)"),
    ("expire callbacks", "", "select awa.expire_callbacks(null, null, 100)"),
    ("forget callbacks", "", "select awa.forget_callbacks(null, 100)"),
    ("prune", "", "select awa.prune_parked('failed', null, null, 100)"),
    ("forget workers", "", "select awa.forget_workers(3600, 100)"),
    ("switch claims", "", "select awa.switch_claims(1, 0)"),
    (
        "empty claims",
        "select awa.switch_claims(1, 0);
         update awa.jobs_hot set state = 'completed', finalized_at = now(), progress = null where state = 'running';",
        "select awa.empty_claims(1000)",
    ),
    ("rotate", "", "select awa.rotate(0)"),
    ("recycle", "select awa.rotate(0);", "select awa.recycle(0, 1000, 5000)"),
    ("audit", "", "select awa.audit(0::smallint, 0, 5000, 90)"),
    ("plan a schedule", "", "select awa.plan_schedule('new', 1, '2100-01-01', null)"),
    (
        "fire a schedule",
        "",
        "select * from awa.fire_schedule('due', 1, '2020-01-01', array['2020-02-01'::timestamptz], '2020-01-01', '2020-01-31', '2100-01-01')",
    ),
    ("fire what waits", "", "select * from awa.fire_waiting('waiting')"),
    ("prune ticks", "", "select awa.prune_ticks(100)"),
];

async fn scene(before: &str) -> (TestDatabase, PgPool) {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for script in [SCENE, before] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(script)).execute(&pool).await.expect(script);
    }
    (database, pool)
}

/// What one leader makes of it, who comes twice.
async fn by_one(before: &str, pass: &str) -> String {
    let (_database, pool) = scene(before).await;
    let untouched = text(&pool, PICTURE).await;
    run(&pool, pass).await;
    run(&pool, pass).await;
    let made = text(&pool, PICTURE).await;
    // The audit looks, and changes nothing.
    assert!(made != untouched || pass.contains("audit"), "{pass} does nothing");
    made
}

#[tokio::test]
async fn of_each_duty_two_leaders_at_once_make_what_one_makes() {
    for (name, before, pass) in DUTIES {
        let expected = by_one(before, pass).await;
        let (database, pool) = scene(before).await;
        let mut first = begin(&database).await;
        run(&mut first, pass).await;
        let mut second = begin(&database).await;
        run(&mut second, "set local lock_timeout = '1s'").await;
        // It may find nothing, or give up waiting; it must not do what the first does.
        let passed = sqlx::raw_sql(sqlx::AssertSqlSafe(pass)).execute(&mut second).await;
        match passed {
            Ok(_) => drop(run(&mut second, "commit").await),
            Err(error) => {
                let code = error.as_database_error().and_then(|answer| answer.code().map(std::borrow::Cow::into_owned));
                assert_eq!(code.as_deref(), Some("55P03"), "{name}: {error}");
                run(&mut second, "rollback").await;
            }
        }
        run(&mut first, "commit").await;
        run(&mut second, pass).await;
        assert_eq!(text(&pool, PICTURE).await, expected, "{name}");
    }
}

/// The first one dies on the way: the second does all of it.
#[tokio::test]
async fn of_each_duty_the_next_leader_does_what_the_first_did_not_finish() {
    for (name, before, pass) in DUTIES {
        let expected = by_one(before, pass).await;
        let (database, pool) = scene(before).await;
        let mut first = begin(&database).await;
        run(&mut first, pass).await;
        run(&mut first, "rollback").await;
        run(&pool, pass).await;
        run(&pool, pass).await;
        assert_eq!(text(&pool, PICTURE).await, expected, "{name}");
    }
}
