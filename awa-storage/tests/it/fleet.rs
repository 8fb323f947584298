//! How the fleet is doing: each part of the answer, brought about and asked for.

use std::time::Duration;

use awa_model::WorkerId;
use awa_storage::{
    admin::fleet::{Holder, HolderKind, Holds, QueueStatus, Status, status},
    leader::acquire,
    ring,
    testing::{TestDatabase, TestRole},
};
use sqlx::PgPool;

use crate::scene::{begin, count, registered, run, running, text};
use crate::waiting::parked;

const STALE_AFTER: Duration = Duration::from_secs(90);

async fn asked(pool: &PgPool) -> Status {
    status(pool, STALE_AFTER).await.expect("an answer")
}

fn queue(status: &Status, name: &str) -> QueueStatus {
    status.queues.iter().find(|queue| queue.name == name).expect(name).clone()
}

/// What is open and older than no time at all.
async fn holders(pool: &PgPool) -> Vec<Holder> {
    serde_json::from_str(&text(pool, "select awa.holders('0', 100)").await).expect("holders")
}

#[tokio::test]
async fn an_empty_schema_has_nothing_to_tell() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let status = asked(&pool).await;
    assert_eq!((status.leader, status.last_led_at), (None, None));
    assert!(status.workers.is_empty() && status.workers_is_all);
    assert!(status.queues.is_empty() && status.queues_is_all);
    assert!(status.schedules.is_empty() && status.holders.is_empty());
    assert_eq!((status.callbacks.overdue, status.callbacks.overdue_is_all), (0, true));
}

#[tokio::test]
async fn the_leader_and_the_workers_are_told_with_who_is_alive() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (first, second) = (registered(&pool).await, registered(&pool).await);
    let age = format!(
        "update awa.workers set last_seen_at = now() - interval '2 minutes', started_at = now() - interval '1 day' where id = '{}'",
        second.get()
    );
    run(&pool, &age).await;
    let term = acquire(&pool, "maintenance", first, Duration::from_secs(60)).await.expect("an answer").expect("a term");
    let found = asked(&pool).await;
    let leader = found.leader.expect("a leader");
    assert_eq!((leader.worker, leader.name.as_deref(), leader.term), (first, Some("scene"), term.number()));
    assert_eq!(found.last_led_at, Some(leader.until));
    let workers: Vec<_> = found.workers.iter().map(|worker| (worker.id, worker.is_alive)).collect();
    assert_eq!(workers, [(second, false), (first, true)], "the oldest first");
    assert_eq!(
        (&found.workers[0].queues[0], queue(&asked(&pool).await, "default").workers),
        (&"default".to_owned(), 1)
    );
    let patient = status(&pool, Duration::from_secs(300)).await.expect("an answer");
    assert!(patient.workers.iter().all(|worker| worker.is_alive));
    run(&pool, "update awa.leader set expires_at = now() - interval '1 minute', holder = gen_random_uuid()").await;
    let found = asked(&pool).await;
    assert!(found.leader.is_none() && found.last_led_at < Some(found.at));
}

/// Those that a worker or an operator has named, those with jobs that nobody serves, and those whose jobs all come due later.
#[tokio::test]
async fn each_queue_tells_what_waits_runs_and_comes() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    running(&pool, "noop", 3).await;
    for statement in [
        "insert into awa.jobs_hot (kind, run_at, created_at, priority)
         select 'noop', now() - interval '1 hour', now() - interval '1 hour', 1 + n % 4 from generate_series(1, 7) as n",
        "insert into awa.jobs_hot (kind, queue, state, finalized_at) values ('noop', 'ended', 'completed', now())",
        "insert into awa.jobs_hot (kind, queue) values ('noop', 'unserved')",
        "insert into awa.scheduled_jobs (kind, queue, run_at) values ('noop', 'later', now() + interval '1 hour'),
             ('noop', 'later', now() + interval '2 hours'), ('noop', 'default', now() - interval '1 hour'),
             ('noop', 'never', 'infinity')",
        "select awa.pause_queue('paused')",
    ] {
        run(&pool, statement).await;
    }
    let found = asked(&pool).await;
    let names: Vec<_> = found.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["default", "ended", "later", "never", "paused", "unserved"]);
    let default = queue(&found, "default");
    assert_eq!(
        (default.available, default.available_is_all, default.running, default.running_is_all),
        (7, true, 3, true)
    );
    let age = found.at - default.waiting_since.expect("a time");
    assert!((3600..3700).contains(&age.num_seconds()), "{age}");
    assert_eq!((default.deferred, default.overdue, default.deferred_is_all, default.workers), (1, 1, true, 1));
    assert!(default.next_due_at < Some(found.at));
    let later = queue(&found, "later");
    assert_eq!((later.deferred, later.overdue, later.available, later.workers), (2, 0, 0, 0));
    assert!(later.next_due_at > Some(found.at));
    assert_eq!((queue(&found, "unserved").available, queue(&found, "ended").available), (1, 0));
    assert_eq!(queue(&found, "ended").waiting_since, None);
    assert!(queue(&found, "paused").paused && !default.paused);
}

#[tokio::test]
async fn counts_stop_at_a_limit_and_say_so() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let fill = |state: &str, queue: &str, number: u32| {
        format!(
            "insert into awa.jobs_hot_0 (kind, queue, state, finalized_at, created_at, run_at)
             select 'noop', '{queue}', '{state}', case when '{state}' = 'completed' then now() end,
                    now() - interval '1 hour', now() - interval '1 hour' from generate_series(1, {number})"
        )
    };
    run(&pool, &fill("available", "full", 25_000)).await;
    // Behind what has ended, from the front or from the end.
    for (state, number) in [("available", 5), ("completed", 25_000), ("available", 6)] {
        run(&pool, &fill(state, "history", number)).await;
    }
    run(&pool, "insert into awa.scheduled_jobs (kind, run_at) select 'noop', now() from generate_series(1, 12000)")
        .await;
    let found = asked(&pool).await;
    let full = queue(&found, "full");
    assert_eq!((full.available, full.available_is_all), (10_000, false));
    let history = queue(&found, "history");
    assert_eq!((history.available, history.available_is_all), (11, false));
    assert!(history.waiting_since < Some(found.at - chrono::TimeDelta::minutes(59)));
    let deferred = queue(&found, "default");
    assert_eq!((deferred.deferred, deferred.overdue, deferred.deferred_is_all), (10_000, 10_000, false));
    // A mark says where the waiting begins: what lies before it is not looked at.
    let end = "insert into awa.lane_marks select 'history', 2, max(seq) - 6 from awa.jobs_hot where queue = 'history'";
    run(&pool, end).await;
    let history = queue(&asked(&pool).await, "history");
    assert_eq!((history.available, history.available_is_all), (6, true));
}

#[tokio::test]
async fn the_ring_is_told_as_its_own_status_tells_it() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "select awa.configure_ring(segment_age_max => '90 minutes', completed_retention => '1000 years')").await;
    assert!(ring::rotate(&pool, 0).await.expect("an answer"));
    run(&pool, "update awa.ring set stuck_reason = 'a reason', stuck_since = now() - interval '1 hour'").await;
    let (told, own) = (asked(&pool).await.ring, ring::status(&pool).await.expect("an answer"));
    assert_eq!((told.oldest, told.current, &told.bytes, told.ages.len()), (own.oldest, own.current, &own.bytes, 2));
    assert_eq!((told.parked_bytes, told.claims_bytes, &told.reason), (own.parked_bytes, own.claims_bytes, &own.reason));
    assert_eq!(told.settings, own.settings);
    assert!(told.stuck_for <= own.stuck_for && told.stuck_for > Some(Duration::from_secs(3500)));
    assert_eq!(
        (told.rotate_in.is_some(), told.recycle_in.is_some()),
        (own.rotate_in.is_some(), own.recycle_in.is_some())
    );
}

#[tokio::test]
async fn schedules_at_fault_or_paused_and_late_callbacks_are_told() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(
        &pool,
        "insert into awa.cron_schedules (name, expression, timezone, job, missed, overlap, fault, paused_at, next_at)
         values ('broken', '* * * * *', 'Mars', '{}', 'skip', 'allow', 'no such zone', null, null),
                ('fine', '* * * * *', 'UTC', '{}', 'skip', 'allow', null, null, now()),
                ('paused', '* * * * *', 'UTC', '{}', 'skip', 'allow', null, now(), 'infinity')",
    )
    .await;
    parked(&pool).await;
    let found = asked(&pool).await;
    assert_eq!(found.callbacks.overdue, 0);
    let [broken, paused] = found.schedules.as_slice() else { panic!("{:?}", found.schedules) };
    assert_eq!(
        (broken.name.as_str(), broken.fault.as_deref(), broken.paused_at),
        ("broken", Some("no such zone"), None)
    );
    assert!(paused.name == "paused" && paused.paused_at.is_some());
    run(&pool, "update awa.callbacks set due_at = now() - interval '1 minute'").await;
    let late = asked(&pool).await.callbacks;
    assert_eq!((late.overdue, late.overdue_is_all), (1, true));
    assert!(late.overdue_since < Some(found.at));
}

/// What a transaction has done decides what it holds up.
#[tokio::test]
async fn open_transactions_are_told_with_what_they_hold_up() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "create table public.other (n integer)").await;
    let table: [(&str, &[Holds]); 7] = [
        ("select 1", &[]),
        ("insert into public.other values (1)", &[Holds::Rows]),
        ("select from awa.jobs", &[Holds::Ring]),
        ("select from awa.scheduled_jobs", &[]),
        ("insert into awa.jobs_hot (kind) values ('noop')", &[Holds::Jobs, Holds::Ring, Holds::Rows]),
        ("insert into awa.scheduled_jobs (kind, run_at) values ('noop', now())", &[Holds::Jobs, Holds::Rows]),
        ("declare reader cursor for select from awa.jobs", &[Holds::Ring, Holds::Rows]),
    ];
    for (statement, holds) in table {
        let mut session = begin(&database).await;
        run(&mut session, statement).await;
        let pid = count(&mut session, "select pg_backend_pid()::bigint").await;
        let found = holders(&pool).await;
        let mine: Vec<_> = found.iter().filter(|open| open.pid.map(i64::from) == Some(pid)).collect();
        let [open] = mine.as_slice() else { panic!("{statement}: {found:?}") };
        assert_eq!(open.holds, holds, "{statement}");
        assert_eq!((open.what, open.state.as_deref()), (HolderKind::Session, Some("idle in transaction")));
        assert!(open.since <= open.query_started_at);
        // What has just begun is nothing to tell.
        assert_eq!(asked(&pool).await.holders, [], "{statement}");
    }
}

/// A session may have ended, and its transaction goes on without it.
#[tokio::test]
async fn prepared_transactions_are_told_by_name_with_what_they_hold_up() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "create table public.other (n integer)").await;
    let table: [(&str, &[Holds]); 3] = [
        ("insert into public.other values (1)", &[Holds::Rows]),
        ("select awa.enqueue('noop')", &[Holds::Jobs, Holds::Ring, Holds::Rows]),
        ("select awa.enqueue('noop', run_in => '1 hour')", &[Holds::Jobs, Holds::Rows]),
    ];
    for (place, (statement, holds)) in table.into_iter().enumerate() {
        // Their names belong to the whole server; the database is not dropped while there is one.
        let name = format!("{} {place}", database.name());
        let mut session = begin(&database).await;
        run(&mut session, statement).await;
        run(&mut session, &format!("prepare transaction '{name}'")).await;
        drop(session);
        let found = asked(&pool).await;
        run(&pool, &format!("rollback prepared '{name}'")).await;
        let [open] = found.holders.as_slice() else { panic!("{statement}: {:?}", found.holders) };
        assert_eq!((open.what, open.name.as_deref(), open.pid), (HolderKind::Prepared, Some(name.as_str()), None));
        assert!(open.since <= Some(found.at) && open.user.is_some() && open.xids.is_some(), "{open:?}");
        assert_eq!(open.holds, holds, "{statement}");
    }
    assert_eq!(asked(&pool).await.holders, []);
}

#[tokio::test]
async fn a_transaction_that_the_ring_waits_for_is_told_as_holding_it_up() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let mut session = begin(&database).await;
    run(&mut session, "set transaction isolation level repeatable read").await;
    run(&mut session, "select count(*) from pg_class").await;
    let holds = async || {
        let found = holders(&pool).await;
        found.into_iter().map(|open| open.holds).collect::<Vec<_>>()
    };
    assert_eq!(holds().await, [[Holds::Rows]]);
    run(&pool, "update awa.ring set clean_generation = oldest, clean_waits_for = awa.open_transactions()").await;
    assert_eq!(holds().await, [[Holds::Ring, Holds::Rows]]);
}

/// For a plain owner `pg_stat_activity` hides what sessions of other roles do.
#[tokio::test]
async fn a_viewer_may_ask_and_hidden_transactions_are_told_once_many_others_have_begun() {
    let database = TestDatabase::empty().await;
    let _owner = TestRole::owner(&database).await;
    let admin = database.pool();
    let mut writer = begin(&database).await;
    run(&mut writer, "insert into awa.jobs_hot (kind) values ('noop')").await;
    let role = TestRole::new(&database).await;
    role.grant(&["viewer"]).await;
    let viewer = role.pool();
    let mine =
        async || asked(&viewer).await.holders.into_iter().filter(|open| open.holds.contains(&Holds::Jobs)).count();
    assert_eq!(mine().await, 0);
    run(&admin, "do $$begin for turn in 1..1100 loop perform pg_current_xact_id(); commit; end loop; end$$").await;
    assert_eq!(mine().await, 1);
    assert!(asked(&viewer).await.holders.iter().all(|open| open.since.is_none() && open.state.is_none()));
    run(&mut writer, "rollback").await;
    assert_eq!(mine().await, 0);
}

#[tokio::test]
async fn whatever_is_in_the_tables_is_told() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for statement in [
        "insert into awa.jobs_hot (kind, queue, created_at, run_at) values ('noop', '', 'infinity', 'infinity'),
             ('noop', e'\\t\"', '-infinity', '-infinity'), ('noop', '%s', '0044-03-15 BC', '294000-01-01')",
        "insert into awa.scheduled_jobs (kind, queue, run_at) values ('noop', '', '-infinity'), ('noop', 'a b', '0044-03-15 BC')",
        "insert into awa.workers (id, name, host, pid, version, queues, kinds, started_at, last_seen_at)
         values (gen_random_uuid(), '', '', -1, '', '{}', '{}', '-infinity', 'infinity'),
                (gen_random_uuid(), '%', '%s', -1, '', '{}', '{}', '-infinity', '-infinity')",
        "insert into awa.jobs_hot_parked (kind, state, finalized_at) values ('noop', 'failed', '-infinity'),
             ('noop', 'cancelled', 'infinity'), ('noop', 'completed', '0044-03-15 BC')",
        "insert into awa.callbacks (job_id, run_lease, due_at, parked) values (1, 1, '-infinity', true)",
        "insert into awa.cron_schedules (name, expression, timezone, job, missed, overlap, planned, fault, next_at)
         values ('%', '%', '%', '{}', 'skip', 'allow', true, null, '-infinity'),
                ('%s', '%s', '%s', '{}', 'skip', 'allow', true, '%s', 'infinity')",
        "insert into awa.jobs_hot (kind, queue, state, run_lease, attempt, attempted_at, deadline_at)
         values ('noop', 'ran', 'running', 1, 1, '-infinity', '-infinity')",
        "insert into awa.active_claims (part, segment, worker, claimed_at, deadline_at, job_ids, run_leases)
         select 0, 0, gen_random_uuid(), '-infinity', '-infinity', array_agg(id), array_agg(run_lease)
           from awa.jobs_hot where queue = 'ran'",
        "insert into awa.duties (name, holder) values ('%s', gen_random_uuid())",
    ] {
        run(&pool, statement).await;
    }
    for silence in [Duration::ZERO, STALE_AFTER, Duration::MAX] {
        let found = status(&pool, silence).await.expect("an answer");
        assert_eq!((found.workers.len(), found.duties.len()), (2, 9));
        assert_eq!(queue(&found, "%s").available, 1);
        assert!(found.warnings.iter().any(|warning| warning.explanation.ends_with("%s (%s)")), "{:?}", found.warnings);
    }
    assert_eq!(
        acquire(&pool, "other", WorkerId::random(), STALE_AFTER).await.expect("an answer").map(|term| term.number()),
        Some(1)
    );
    assert!(asked(&pool).await.leader.is_none(), "other duties are nothing to tell");
}
