//! Why a job is not running: every reason, brought about and asked for.

use std::time::Duration;

use awa_model::{JobId, JobState, WorkerId};
use awa_storage::{
    Cursors,
    admin::why::{Because, Reason, Why, why},
    leader::{DutyReport, PassReport, acquire, report},
    testing::{TestDatabase, TestRole},
    workers::unregister,
};
use sqlx::PgPool;

use crate::scene::{age_attempts, begin, claim, count, kinds, queue, registered, run, running, text};
use crate::support::claim_of;
use crate::waiting::parked;

const STALE_AFTER: Duration = Duration::from_secs(90);

async fn asked(pool: &PgPool, job: i64) -> Why {
    why(pool, JobId::new(job), STALE_AFTER).await.expect("an answer").expect("a job")
}

async fn reasons(pool: &PgPool, job: i64) -> Vec<Reason> {
    asked(pool, job).await.reasons.into_iter().map(|because| because.reason).collect()
}

/// The words for the reasons, the most decisive first.
async fn words(pool: &PgPool, job: i64) -> String {
    text(pool, &format!("select string_agg(reason, ' ') from awa.why({job})")).await
}

async fn insert(pool: &PgPool, columns: &str, values: &str) -> i64 {
    count(pool, &format!("insert into awa.jobs_hot (kind, {columns}) values ('noop', {values}) returning id")).await
}

async fn defer(pool: &PgPool, columns: &str, values: &str) -> i64 {
    count(pool, &format!("insert into awa.scheduled_jobs (kind, {columns}) values ('noop', {values}) returning id"))
        .await
}

/// A leader for an hour.
async fn lead(pool: &PgPool) {
    let term = acquire(pool, "maintenance", WorkerId::random(), Duration::from_secs(3600)).await.expect("an answer");
    drop(term.expect("a term"));
}

#[tokio::test]
async fn no_such_job_is_said_also_of_one_past_its_retention_or_not_committed() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let old = insert(&pool, "state, finalized_at", "'completed', now() - interval '2 days'").await;
    let mut writer = begin(&database).await;
    let open = count(&mut writer, "insert into awa.jobs_hot (kind) values ('noop') returning id").await;
    for job in [old, open, 0, -1, i64::MAX] {
        assert!(why(&pool, JobId::new(job), STALE_AFTER).await.expect("an answer").is_none(), "{job}");
        assert_eq!(words(&pool, job).await, "not_found");
    }
    assert_eq!(words(&pool, open).await, "not_found");
    assert_eq!(text(&pool, "select reason from awa.why(null)").await, "not_found");
}

#[tokio::test]
async fn a_job_that_has_ended_says_how_and_when() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for state in [JobState::Completed, JobState::Failed, JobState::Cancelled] {
        let (relation, name) = match state {
            JobState::Completed => ("jobs_hot", "completed"),
            JobState::Failed => ("jobs_hot_parked", "failed"),
            _ => ("jobs_hot_parked", "cancelled"),
        };
        let job = count(
            &pool,
            &format!(
                "insert into awa.{relation} (kind, state, finalized_at, attempt, errors)
                 values ('noop', '{name}', now(), 3, '[{{\"error\": \"first\"}}, {{\"error\": \"broken\"}}]') returning id"
            ),
        )
        .await;
        let reasons = reasons(&pool, job).await;
        let [Reason::Finished(ended)] = reasons.as_slice() else { panic!("{reasons:?}") };
        assert_eq!((ended.state, ended.error.as_deref()), (state, Some("broken")));
        assert!(ended.at.is_some());
    }
}

#[tokio::test]
async fn a_job_that_runs_says_where_since_when_and_with_what_sign_of_life() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (worker, jobs) = running(&pool, "noop", 1).await;
    let id = jobs[0].lease.job_id().get();
    age_attempts(&pool, "1 minute").await;
    let reasons = reasons(&pool, id).await;
    let [Reason::Running(attempt)] = reasons.as_slice() else { panic!("{reasons:?}") };
    assert_eq!((attempt.worker, attempt.name.as_deref(), attempt.attempt), (Some(worker), Some("scene"), 1));
    assert_eq!(attempt.rescue_at - attempt.last_sign, chrono::TimeDelta::seconds(90));
    assert_eq!(attempt.since, Some(attempt.last_sign));
}

/// Each way in which an attempt is taken for dead. The silence is the caller's.
#[tokio::test]
async fn a_job_of_a_dead_worker_is_stale_and_says_when_it_is_rescued() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    lead(&pool).await;
    let (worker, jobs) = running(&pool, "noop", 1).await;
    let id = jobs[0].lease.job_id().get();
    let set = async |what: &str| run(&pool, what).await;
    age_attempts(&pool, "2 minutes").await;
    assert_eq!(words(&pool, id).await, "stale", "the attempt is silent");
    let patient = why(&pool, JobId::new(id), Duration::from_secs(300)).await.expect("an answer").expect("a job");
    assert!(matches!(patient.reasons[0].reason, Reason::Running(_)));
    set("update awa.jobs_hot set heartbeat_at = now()").await;
    assert_eq!(words(&pool, id).await, "runs");
    set("update awa.jobs_hot set deadline_at = now() - interval '1 second'").await;
    assert_eq!(words(&pool, id).await, "stale", "its time is over");
    set("update awa.jobs_hot set deadline_at = now() + interval '1 second'").await;
    let found = reasons(&pool, id).await;
    let [Reason::Running(attempt)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(Some(attempt.rescue_at), attempt.deadline_at);
    set("update awa.workers set last_seen_at = now() - interval '2 minutes'").await;
    assert_eq!(words(&pool, id).await, "stale", "the worker is silent");
    assert!(unregister(&pool, worker).await.expect("an answer").is_applied());
    let found = reasons(&pool, id).await;
    let [Reason::Stale(attempt)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((attempt.worker, &attempt.name), (Some(worker), &None), "the worker has left");
    set("update awa.leader set expires_at = now() - interval '1 minute'").await;
    assert_eq!(words(&pool, id).await, "no_leader stale", "nobody is there to rescue it");
}

#[tokio::test]
async fn a_job_that_is_due_later_says_when_and_after_which_error() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    registered(&pool).await;
    let scheduled = defer(&pool, "run_at", "now() + interval '1 hour'").await;
    let retried = "'retryable', 'infinity', 2, '[{\"error\": \"broken\"}]'";
    let retrying = defer(&pool, "state, run_at, attempt, errors", retried).await;
    let found = reasons(&pool, scheduled).await;
    assert!(matches!(found.as_slice(), [Reason::Scheduled(job)] if job.error.is_none()), "{found:?}");
    let found = reasons(&pool, retrying).await;
    let [Reason::Retrying(job)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((job.attempt, job.max_attempts, job.error.as_deref()), (2, 25, Some("broken")));
    // What would hold it back later is said as well, after that.
    run(&pool, "select awa.pause_queue('default')").await;
    run(&pool, "delete from awa.workers").await;
    assert_eq!(words(&pool, scheduled).await, "due_later paused no_worker");
}

#[tokio::test]
async fn a_due_job_that_nobody_promotes_says_that_nobody_leads() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    registered(&pool).await;
    defer(&pool, "run_at", "now() - interval '2 hours'").await;
    let job = defer(&pool, "run_at", "now() - interval '1 hour'").await;
    let found = reasons(&pool, job).await;
    let [Reason::NoLeader { since: None }, Reason::NotPromoted(late)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((late.ahead, late.ahead_is_all), (1, true));
    lead(&pool).await;
    assert_eq!(words(&pool, job).await, "not_promoted");
    run(&pool, "update awa.leader set expires_at = now() - interval '1 minute'").await;
    assert!(matches!(reasons(&pool, job).await[0], Reason::NoLeader { since: Some(_) }));
}

/// A tick did its duties so long ago.
async fn tick(pool: &PgPool, ago: Duration) {
    let ended = PassReport { ago, took: Duration::ZERO, changed: Some(0), is_caught_up: Some(true), next_in: None };
    let told = DutyReport {
        name: "promotion",
        left_out: false,
        passes: 1,
        changed: 0,
        failures: 0,
        began: Some(ago),
        ended: Some(ended),
        failed: None,
        walk: None,
    };
    report(pool, WorkerId::random(), &[told]).await.expect("told");
}

#[tokio::test]
async fn a_duty_that_fails_or_is_left_out_is_named_to_the_jobs_that_wait_for_it() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    lead(&pool).await;
    let deferred = defer(&pool, "run_at", "now() - interval '1 minute'").await;
    let (waits, _) = parked(&pool).await;
    run(&pool, "update awa.callbacks set due_at = now() - interval '1 minute'").await;
    let (_, jobs) = running(&pool, "noop", 1).await;
    let silent = jobs[0].lease.job_id().get();
    age_attempts(&pool, "2 minutes").await;
    let told = |cause: &str| {
        format!("insert into awa.duties (name, holder, term, left_out, failures, failed_at, error) {cause}
         on conflict (name) do update set term = excluded.term, left_out = excluded.left_out, failures = excluded.failures")
    };
    for (duty, job) in [("promotion", deferred), ("callbacks", waits), ("rescue", silent)] {
        let explanation = format!("select explanation from awa.why({job}) limit 1");
        for (term, left_out, failures, words) in [
            (1, false, 2, None),
            (
                1,
                false,
                3,
                Some(format!("; the duty {duty} has failed 3 times in a row, last at 2026-01-02 00:00:00 UTC: broken")),
            ),
            (1, true, 0, Some(format!("; the process that leads leaves out the duty {duty}"))),
            (0, true, 0, None),
        ] {
            let row = format!(
                "values ('{duty}', gen_random_uuid(), {term}, {left_out}, {failures}, '2026-01-02Z', 'broken')"
            );
            run(&pool, &told(&row)).await;
            let said = text(&pool, &explanation).await;
            match words {
                Some(words) => assert!(said.ends_with(&words), "{said}"),
                None => assert!(!said.contains("duty"), "{said}"),
            }
        }
    }
}

#[tokio::test]
async fn where_ticks_do_the_duties_nobody_is_missed_that_leads() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let deferred = defer(&pool, "run_at", "now() - interval '1 minute'").await;
    let (waits, _) = parked(&pool).await;
    run(&pool, "update awa.callbacks set due_at = now() - interval '1 minute'").await;
    let (_, jobs) = running(&pool, "noop", 1).await;
    let silent = jobs[0].lease.job_id().get();
    age_attempts(&pool, "2 minutes").await;
    for (ago, prefix) in [(59, ""), (61, "no_leader "), (30, "")] {
        tick(&pool, Duration::from_secs(ago * 60)).await;
        for (job, reason) in [(deferred, "not_promoted"), (waits, "callback_overdue"), (silent, "stale")] {
            assert_eq!(words(&pool, job).await, format!("{prefix}{reason}"), "{ago} minutes after a tick");
        }
    }
    run(&pool, "update awa.duties set term = 1").await;
    assert_eq!(words(&pool, deferred).await, "no_leader not_promoted", "a leader told this, and is gone");
}

#[tokio::test]
async fn a_job_that_waits_for_a_callback_says_until_when_and_that_it_is_over() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    lead(&pool).await;
    let (id, _) = parked(&pool).await;
    let found = reasons(&pool, id).await;
    assert!(matches!(found.as_slice(), [Reason::Waiting(waits)] if waits.until > waits.since), "{found:?}");
    // Whoever knows the id may answer; a viewer must not learn it here.
    let told = text(&pool, &format!("select string_agg(why::text, ' ') from awa.why({id}) as why")).await;
    assert!(!told.contains(&text(&pool, "select id from awa.callbacks").await));
    run(&pool, "update awa.callbacks set due_at = now() - interval '1 minute'").await;
    assert_eq!(words(&pool, id).await, "callback_overdue");
    run(&pool, "delete from awa.leader").await;
    assert_eq!(words(&pool, id).await, "no_leader callback_overdue");
}

#[tokio::test]
async fn a_paused_queue_and_the_absence_of_workers_are_said_together() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let job = insert(&pool, "queue", "'reports'").await;
    let serve = async |queues: &str, kinds: &str| {
        run(&pool, &format!("update awa.workers set last_seen_at = now(), queues = '{queues}', kinds = '{kinds}'"))
            .await
    };
    assert_eq!(words(&pool, job).await, "no_worker");
    registered(&pool).await;
    run(&pool, "update awa.workers set last_seen_at = now() - interval '2 minutes'").await;
    let found = reasons(&pool, job).await;
    assert!(matches!(found.as_slice(), [Reason::NoWorker(fleet)] if fleet.alive == 0 && fleet.last_seen_at.is_some()));
    serve("{default}", "{noop}").await;
    assert_eq!(words(&pool, job).await, "no_worker_for_queue");
    serve("{default,reports}", "{other}").await;
    let found = reasons(&pool, job).await;
    let [Reason::NoWorkerForKind(fleet)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((fleet.alive, fleet.serving, fleet.kind.as_str()), (1, 1, "noop"));
    run(&pool, "select awa.pause_queue('reports')").await;
    assert_eq!(words(&pool, job).await, "paused no_worker_for_kind");
    serve("{default,reports}", "{noop,other}").await;
    assert_eq!(words(&pool, job).await, "paused next");
    run(&pool, "select awa.resume_queue('reports')").await;
    assert_eq!(words(&pool, job).await, "next");
}

#[tokio::test]
async fn a_job_behind_others_counts_those_that_go_first_and_those_that_run() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    running(&pool, "noop", 3).await;
    let others = |kind: &str, priority: i16| {
        format!("insert into awa.jobs_hot (kind, priority) select '{kind}', {priority} from generate_series(1, 4)")
    };
    run(&pool, &others("noop", 1)).await;
    run(&pool, &others("noop", 2)).await;
    // Nobody would run these, so they are in nobody's way; those that are less urgent neither.
    run(&pool, &others("unknown", 2)).await;
    run(&pool, &others("noop", 4)).await;
    let job = insert(&pool, "priority", "3").await;
    run(&pool, &others("noop", 3)).await;
    let found = reasons(&pool, job).await;
    let [Reason::Behind(line)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((line.ahead, line.ahead_is_all, line.running, line.running_is_all, line.workers), (8, true, 3, true, 1));
    run(&pool, "update awa.jobs_hot set state = 'completed', finalized_at = now() where id <> 0 and state = 'running'")
        .await;
    assert_eq!(words(&pool, job).await, "behind");
    claim(&pool, registered(&pool).await, "noop", 8).await;
    let found = reasons(&pool, job).await;
    assert!(matches!(found.as_slice(), [Reason::Next(line)] if line.running == 8 && line.workers == 2), "{found:?}");
}

/// In each way of locking, also by a part of a transaction that has ended.
#[tokio::test]
async fn a_job_that_an_open_transaction_has_locked_says_whose_it_is() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let worker = registered(&pool).await;
    let job = insert(&pool, "queue", "'default'").await;
    let locks = format!("select from awa.jobs_hot where id = {job} for update");
    let mut holder = begin(&database).await;
    let pid = count(&mut holder, "select pg_backend_pid()::bigint").await;
    run(&mut holder, &locks).await;
    let cursors = Cursors::new(worker, &kinds(&["noop"]), &[queue("default")]);
    assert_eq!(claim_of(&cursors, &pool, &[(queue("default"), 1)]).await.len(), 0, "it is passed by");
    let found = reasons(&pool, job).await;
    let [Reason::Locked(session), Reason::Next(_)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((session.pid.map(i64::from), session.state.as_deref()), (Some(pid), Some("idle in transaction")));
    run(&mut holder, "rollback").await;
    assert_eq!(words(&pool, job).await, "next", "a lock that is over is in nobody's way");
    for statement in ["begin", "savepoint part", &locks, "release part"] {
        run(&mut holder, statement).await;
    }
    assert_eq!(words(&pool, job).await, "locked next");
    run(&mut holder, "rollback").await;
    let deferred = defer(&pool, "run_at", "now() - interval '1 hour'").await;
    for statement in ["begin", &format!("update awa.scheduled_jobs set priority = 1 where id = {deferred}")] {
        run(&mut holder, statement).await;
    }
    assert_eq!(words(&pool, deferred).await, "no_leader not_promoted locked");
    run(&mut holder, "commit").await;
    assert_eq!(words(&pool, deferred).await, "no_leader not_promoted");
}

/// An open transaction holds back its own jobs and those it has locked, and no other one (docs/adr/0002).
#[tokio::test]
async fn a_transaction_that_is_merely_open_is_no_reason_and_holds_nothing_back() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let worker = registered(&pool).await;
    let mut writer = begin(&database).await;
    run(&mut writer, "insert into awa.jobs_hot (kind) values ('noop')").await;
    let job = insert(&pool, "queue", "'default'").await;
    assert_eq!(words(&pool, job).await, "next");
    assert_eq!(claim(&pool, worker, "noop", 1).await[0].lease.job_id().get(), job);
    assert_eq!(words(&pool, job).await, "runs");
}

#[tokio::test]
async fn whatever_a_producer_wrote_is_told() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    registered(&pool).await;
    let columns = "run_at, created_at, queue, errors";
    for job in [
        defer(&pool, columns, "'infinity', '-infinity', '%s \"q', '7'").await,
        defer(&pool, columns, "'-infinity', 'infinity', e'a\\\\b', '[{\"error\": {\"a\": \"%\"}}]'").await,
        defer(&pool, columns, "'0044-03-15 BC', '294000-01-01', '%1$s', '[]'").await,
        insert(&pool, columns, "'infinity', 'infinity', '', '[null]'").await,
        insert(&pool, "state, attempted_at, deadline_at", "'running', '-infinity', '-infinity'").await,
        insert(&pool, "state, attempted_at, deadline_at", "'running', 'infinity', null").await,
        insert(&pool, "state", "'running'").await,
        insert(&pool, "state, finalized_at", "'completed', 'infinity'").await,
    ] {
        let Why { reasons, .. } = asked(&pool, job).await;
        for Because { explanation, advice, .. } in &reasons {
            assert!(!explanation.is_empty() && !advice.is_empty(), "{reasons:?}");
        }
        for silence in [Duration::ZERO, Duration::MAX] {
            why(&pool, JobId::new(job), silence).await.expect("an answer").expect("a job");
        }
    }
}

/// On the schema of a plain owner, for whom `pg_stat_activity` hides what other roles do.
#[tokio::test]
async fn a_viewer_may_ask_and_a_plain_owner_need_not_see_all_sessions() {
    let database = TestDatabase::empty().await;
    let _owner = TestRole::owner(&database).await;
    let admin = database.pool();
    let job = insert(&admin, "queue", "'default'").await;
    let mut holder = begin(&database).await;
    run(&mut holder, &format!("select from awa.jobs_hot where id = {job} for update")).await;
    let role = TestRole::new(&database).await;
    role.grant(&["viewer"]).await;
    let found = reasons(&role.pool(), job).await;
    assert!(
        matches!(found.as_slice(), [Reason::NoWorker(_), Reason::Locked(session)] if session.pid.is_some()),
        "{found:?}"
    );
}
