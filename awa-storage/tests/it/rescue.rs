//! Rescue: the attempts of the dead are handed back, once, whole, and whatever their rows are like.

use awa_model::JobState;
use awa_storage::{
    Guarded,
    attempt::heartbeat,
    rescue::{RescueCursor, RescueLimits, RescueReason, rescue},
    settle::{Completion, complete_many},
    testing::TestDatabase,
    workers::unregister,
};
use sqlx::PgPool;

use crate::scene::{
    LIMITS, age_attempts, begin, changed, claim, count, insert_full, poison, registered, rescue_all, row, run, running,
    states, text,
};

const SILENCE: &str = "100 seconds";

#[tokio::test]
async fn the_attempts_of_a_worker_without_a_row_are_rescued_at_once() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (gone, jobs) = running(&pool, "noop", 3).await;
    let (_, alive) = running(&pool, "other", 2).await;
    assert_eq!(unregister(&pool, gone).await.expect("an answer"), Guarded::Applied(()));
    let rescued = rescue_all(&pool).await;
    assert_eq!(rescued.jobs.len(), 3);
    assert!(rescued.jobs.iter().all(|job| (job.reason, job.state) == (RescueReason::Worker, JobState::Retryable)));
    assert_eq!(states(&pool).await, "running 2, retryable 3");
    assert_eq!((jobs.len(), alive.len()), (3, 2));
    let entry = text(&pool, "select errors -> 0 from awa.jobs where state = 'retryable'").await;
    for part in
        [&format!("worker {gone} is gone (lease 1)"), "\"source\": \"rescue\"", &format!("\"worker\": \"{gone}\"")]
    {
        assert!(entry.contains(part), "{part} in {entry}");
    }
}

#[tokio::test]
async fn a_worker_not_seen_for_long_is_dead() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    running(&pool, "noop", 3).await;
    assert_eq!(rescue_all(&pool).await.jobs, []);
    run(&pool, "update awa.workers set last_seen_at = last_seen_at - interval '100 seconds'").await;
    assert_eq!(rescue_all(&pool).await.jobs.len(), 3);
}

#[tokio::test]
async fn a_silent_attempt_of_a_living_worker_is_rescued_and_one_that_beats_is_not() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, jobs) = running(&pool, "noop", 3).await;
    age_attempts(&pool, SILENCE).await;
    assert!(heartbeat(&pool, &[jobs[0].lease.held(), jobs[1].lease.held()]).await.expect("beats").is_empty());
    let rescued = rescue_all(&pool).await;
    assert_eq!(rescued.jobs.iter().map(|job| job.job_id).collect::<Vec<_>>(), [jobs[2].lease.job_id()]);
    assert_eq!(rescued.jobs[0].reason, RescueReason::Heartbeat);
}

#[tokio::test]
async fn an_attempt_past_its_deadline_is_rescued_after_the_grace() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.jobs_hot (kind, timeout) values ('noop', '1 minute'), ('noop', '1 hour')").await;
    let worker = registered(&pool).await;
    claim(&pool, worker, "noop", 2).await;
    for (passed, expected) in [("62 seconds", 0), ("5 seconds", 1)] {
        let statement = format!("deadline_at = deadline_at - interval '{passed}'");
        run(&pool, &format!("update awa.active_claims set {statement}")).await;
        run(&pool, &format!("update awa.jobs_hot set {statement}")).await;
        let rescued = rescue_all(&pool).await;
        assert_eq!(rescued.jobs.len(), expected);
        assert!(rescued.jobs.iter().all(|job| job.reason == RescueReason::Deadline));
    }
}

/// STUCK-10.
#[tokio::test]
async fn the_last_attempt_ends_failed() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.jobs_hot (kind, max_attempts) values ('noop', 1)").await;
    let worker = registered(&pool).await;
    claim(&pool, worker, "noop", 1).await;
    age_attempts(&pool, SILENCE).await;
    assert_eq!(rescue_all(&pool).await.jobs[0].state, JobState::Failed);
    let ended = "select count(*) from awa.jobs_hot_parked where state = 'failed' and finalized_at is not null
                 and jsonb_array_length(errors) = 1";
    assert_eq!(count(&pool, ended).await, 1);
}

#[tokio::test]
async fn every_other_column_survives_and_progress_is_kept() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let id = insert_full(&pool, "jobs_hot", "available").await;
    let before = row(&pool, id).await;
    run(&pool, "update awa.jobs_hot set state = 'running', attempted_by = gen_random_uuid(), heartbeat_at = '2020-01-01', deadline_at = now()").await;
    run(&pool, &format!("insert into awa.active_claims (part, segment, worker, job_ids, run_leases) values (0, 0, gen_random_uuid(), array[{id}], array[4])")).await;
    assert_eq!(rescue_all(&pool).await.jobs.len(), 1);
    let mut after = row(&pool, id).await;
    // The planes differ in nothing but the place.
    assert_eq!(changed(&before, &after), ["errors", "run_at", "state"]);
    assert_eq!(after["errors"].as_array_mut().expect("a list").len(), 2);
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 1);
}

/// DUP-03.
#[tokio::test]
async fn two_passes_at_once_hand_each_attempt_back_once() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    running(&pool, "noop", 500).await;
    age_attempts(&pool, SILENCE).await;
    let mut first = begin(&database).await;
    let pass = "select cardinality(ids)::bigint from awa.rescue(0, 1000, 90, 90, 5, 60)";
    assert_eq!(count(&mut first, pass).await, 500);
    // The other pass looks while the first has not committed, and again when it has.
    assert_eq!(rescue_all(&pool).await.jobs, []);
    run(&mut first, "commit").await;
    assert_eq!(rescue_all(&pool).await.jobs, []);
    let once = "select count(*) from awa.scheduled_jobs where jsonb_array_length(errors) = 1 and attempt = 1";
    assert_eq!(count(&pool, once).await, 500);
}

#[tokio::test]
async fn a_heartbeat_in_flight_wins() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    running(&pool, "noop", 1).await;
    age_attempts(&pool, SILENCE).await;
    let mut worker = begin(&database).await;
    run(&mut worker, "update awa.jobs_hot set heartbeat_at = now() where state = 'running'").await;
    assert_eq!(rescue_all(&pool).await.jobs, []);
    run(&mut worker, "commit").await;
    assert_eq!(rescue_all(&pool).await.jobs, []);
    assert_eq!(states(&pool).await, "running 1");
}

#[tokio::test]
async fn a_completion_after_rescue_is_lost_and_one_before_it_stands() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, mut jobs) = running(&pool, "noop", 2).await;
    let (late, early) = (jobs.remove(1), jobs.remove(0));
    let completion = |job: awa_storage::Claimed| Completion { lease: job.lease, result: None };
    let early = complete_many(&pool, &[completion(early)]).await.expect("answers");
    age_attempts(&pool, SILENCE).await;
    assert_eq!(rescue_all(&pool).await.jobs.len(), 1);
    let late = complete_many(&pool, &[completion(late)]).await.expect("answers");
    assert_eq!((early, late), (vec![Guarded::Applied(())], vec![Guarded::Lost]));
    assert_eq!(states(&pool).await, "retryable 1, completed 1");
}

/// STUCK-05.
#[tokio::test]
async fn old_attempts_that_must_not_be_rescued_hide_nothing() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, healthy) = running(&pool, "healthy", 600).await;
    let (_, stale) = running(&pool, "stale", 1).await;
    age_attempts(&pool, SILENCE).await;
    let beats: Vec<_> = healthy.iter().map(|job| job.lease.held()).collect();
    assert!(heartbeat(&pool, &beats).await.expect("beats").is_empty());
    let limits = RescueLimits { jobs_max: 1, ..LIMITS };
    let rescued = rescue(&pool, &limits, RescueCursor::default()).await.expect("a pass");
    assert_eq!(rescued.jobs.iter().map(|job| job.job_id).collect::<Vec<_>>(), [stale[0].lease.job_id()]);
}

#[tokio::test]
async fn a_pass_that_stops_early_goes_on_where_it_stopped() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for _ in 0..5 {
        running(&pool, "noop", 10).await;
    }
    run(&pool, "delete from awa.workers").await;
    let limits = RescueLimits { jobs_max: 20, ..LIMITS };
    let (mut from, mut passes) = (RescueCursor::default(), Vec::new());
    loop {
        let rescued = rescue(&pool, &limits, from).await.expect("a pass");
        passes.push(rescued.jobs.len());
        let Some(next) = rescued.next else { break };
        from = next;
    }
    assert_eq!(passes, [20, 20, 10]);
}

/// STUCK-06 (b), (c): arguments that fit no handler.
#[tokio::test]
async fn arguments_are_not_looked_at() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, r#"insert into awa.jobs_hot (kind, args) values ('noop', '"not an object"'), ('noop', 'null'), ('noop', '[1, [2]]')"#).await;
    let worker = registered(&pool).await;
    claim(&pool, worker, "noop", 3).await;
    age_attempts(&pool, SILENCE).await;
    assert_eq!(rescue_all(&pool).await.jobs.len(), 3);
}

/// I6.
#[tokio::test]
async fn a_bad_row_ends_failed_and_stops_no_other() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    running(&pool, "bad", 1).await;
    running(&pool, "noop", 20).await;
    age_attempts(&pool, SILENCE).await;
    poison(&pool, "scheduled_jobs").await;
    assert_eq!(rescue_all(&pool).await.jobs.len(), 21);
    assert_eq!(states(&pool).await, "retryable 20, failed 1");
    let error = text(&pool, "select errors -> 0 ->> 'error' from awa.jobs where kind = 'bad'").await;
    assert!(error.ends_with("it cannot be retried: poisoned"), "{error}");
}

/// I6, where not even the end can be written.
#[tokio::test]
async fn a_row_that_can_go_nowhere_stays_running_and_is_told() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, bad) = running(&pool, "bad", 1).await;
    running(&pool, "noop", 20).await;
    age_attempts(&pool, SILENCE).await;
    poison(&pool, "scheduled_jobs").await;
    poison(&pool, "jobs_hot_parked").await;
    let rescued = rescue_all(&pool).await;
    assert_eq!((rescued.jobs.len(), rescued.stuck), (20, vec![bad[0].lease.job_id()]));
    assert_eq!(states(&pool).await, "running 1, retryable 20");
}

/// STUCK-01: the key is not held while running, and another job has taken it since. For each reason to rescue; a job without
/// attempts left ends failed.
#[tokio::test]
async fn a_job_whose_key_is_taken_ends_and_the_others_are_rescued() {
    let sweeps = [
        "delete from awa.workers",
        "update awa.active_claims set claimed_at = '2020-01-01'; update awa.jobs_hot set attempted_at = '2020-01-01'",
        "update awa.active_claims set deadline_at = '2020-01-01';
         update awa.jobs_hot set deadline_at = '2020-01-01' where state = 'running'",
    ];
    for sweep in sweeps {
        let database = TestDatabase::new().await;
        let pool = database.pool();
        let waiting = "insert into awa.jobs_hot (kind, max_attempts, unique_key, unique_states)
                       select 'unique', place, decode(md5(place::text), 'hex'), 2 | 16 | 64 from generate_series(1, 2) as place";
        run(&pool, waiting).await;
        let worker = registered(&pool).await;
        claim(&pool, worker, "unique", 2).await;
        run(&pool, waiting).await;
        running(&pool, "noop", 50).await;
        sqlx::raw_sql(sweep).execute(&pool).await.expect(sweep);
        let rescued = rescue_all(&pool).await;
        assert_eq!((rescued.jobs.len(), rescued.stuck.len()), (52, 0));
        assert_eq!(states(&pool).await, "available 2, retryable 50, failed 1, cancelled 1");
        let ended = text(
            &pool,
            "select string_agg(state || ' ' || (errors -> 0 ->> 'error' like 'rescued: %; it cannot have its unique key: job '
                    || id || ' needs a unique key that job ' || id + 2 || ' holds'), ', ' order by id)
               from awa.jobs where id <= 2",
        );
        assert_eq!(ended.await, "failed true, cancelled true");
        let holders =
            "select count(*) from awa.job_unique_claims as claim join awa.jobs as job on job.id = claim.job_id
                        where job.state = 'available'";
        assert_eq!(count(&pool, holders).await, 2);
    }
}

#[tokio::test]
async fn keys_that_an_open_transaction_holds_delay_their_own_jobs_alone() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let waiting = "insert into awa.jobs_hot (kind, unique_key, unique_states)
                   select 'unique', decode(md5(place::text), 'hex'), 2 | 16 from generate_series(1, 5) as place";
    run(&pool, waiting).await;
    let worker = registered(&pool).await;
    claim(&pool, worker, "unique", 5).await;
    running(&pool, "noop", 20).await;
    run(&pool, "delete from awa.workers").await;
    let mut open = begin(&database).await;
    run(&mut open, waiting).await;
    let rescued = rescue_all(&pool).await;
    assert_eq!((rescued.jobs.len(), rescued.stuck.len()), (20, 5));
    run(&mut open, "rollback").await;
    assert_eq!(rescue_all(&pool).await.jobs.len(), 5);
    assert_eq!(states(&pool).await, "retryable 25");
}

/// LOST-02.
#[tokio::test]
async fn after_a_sweep_that_was_cut_off_the_next_one_rescues_all() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (worker, _) = running(&pool, "noop", 250).await;
    assert_eq!(unregister(&pool, worker).await.expect("an answer"), Guarded::Applied(()));
    let mut sweep = begin(&database).await;
    let backend = text(&mut sweep, "select pg_backend_pid()").await;
    assert_eq!(count(&mut sweep, "select cardinality(ids)::bigint from awa.rescue(0, 1000, 90, 90, 5, 60)").await, 250);
    run(&pool, &format!("select pg_terminate_backend({backend}, 10000)")).await;
    assert_eq!(states(&pool).await, "running 250");
    assert_eq!(rescue_all(&pool).await.jobs.len(), 250);
}

#[tokio::test]
async fn an_attempt_that_was_moved_is_found() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, jobs) = running(&pool, "noop", 2).await;
    age_attempts(&pool, SILENCE).await;
    run(&pool, "update awa.ring set current = 1").await;
    run(&pool, "select awa.move_rows(0::smallint, array(select ctid from awa.jobs_hot_0))").await;
    assert_eq!(count(&pool, "select count(*) from awa.jobs_hot_1 where state = 'running'").await, 2);
    assert_eq!(rescue_all(&pool).await.jobs.len(), jobs.len());
}

#[tokio::test]
async fn a_pass_that_finds_nothing_takes_no_transaction_id() {
    let database = TestDatabase::new().await;
    let pool: PgPool = database.pool();
    let (_, jobs) = running(&pool, "noop", 5).await;
    age_attempts(&pool, SILENCE).await;
    heartbeat(&pool, &jobs.iter().map(|job| job.lease.held()).collect::<Vec<_>>()).await.expect("beats");
    let mut idle = begin(&database).await;
    run(&mut idle, "select awa.rescue(0, 1000, 90, 90, 5, 60)").await;
    assert_eq!(text(&mut idle, "select pg_current_xact_id_if_assigned()").await, "");
}
