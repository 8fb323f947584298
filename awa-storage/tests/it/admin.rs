//! What operators do to jobs: answers in the order asked for, one busy job or a held key stops no other, and nothing is lost.

use awa_model::{JobId, JobState};
use awa_storage::{
    admin::{self, Operated},
    testing::TestDatabase,
};
use sqlx::PgPool;

use crate::scene::{begin, count, run, states, text};

/// Inserts jobs in a state and returns their ids.
async fn jobs(pool: &PgPool, relation: &str, state: &str, number: i64) -> Vec<JobId> {
    let statement = format!(
        "insert into awa.{relation} (kind, state, run_at) select 'noop', '{state}', now() from generate_series(1, {number})
         returning id"
    );
    let ids: Vec<i64> = sqlx::query_scalar(sqlx::AssertSqlSafe(statement)).fetch_all(pool).await.expect("jobs");
    ids.into_iter().map(JobId::new).collect()
}

/// Inserts a job with the unique key `name`, held until it has ended.
async fn unique(pool: &PgPool, relation: &str, state: &str, name: &str) -> JobId {
    JobId::new(
        count(
            pool,
            &format!(
                "insert into awa.{relation} (kind, state, run_at, unique_key, unique_states)
                 values ('noop', '{state}', now(), decode(md5('{name}'), 'hex'), 31) returning id"
            ),
        )
        .await,
    )
}

#[tokio::test]
async fn a_bulk_call_answers_each_id_in_the_order_given_repeated_and_unknown_ones_too() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let waiting = jobs(&pool, "jobs_hot", "available", 2).await;
    let done = jobs(&pool, "jobs_hot_parked", "failed", 1).await[0];
    let nobody = JobId::new(99_999);
    let asked = [nobody, waiting[1], done, waiting[0], waiting[1]];
    let answers = admin::cancel_many(&pool, &asked, None).await.expect("answers");
    let refused = Operated::Refused { state: JobState::Failed };
    let expected = [Operated::NotFound, Operated::Applied, refused, Operated::Applied, Operated::Applied];
    assert_eq!(answers, asked.into_iter().zip(expected).collect::<Vec<_>>());
    assert_eq!(states(&pool).await, "failed 1, cancelled 2");
}

// BATCH-02
#[tokio::test]
async fn an_empty_list_is_nobody_and_never_everybody() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let _ = jobs(&pool, "jobs_hot_parked", "failed", 2).await;
    assert_eq!(admin::cancel_many(&pool, &[], None).await.expect("nothing"), []);
    assert_eq!(admin::retry_many(&pool, &[]).await.expect("nothing"), []);
    assert_eq!(admin::run_now_many(&pool, &[]).await.expect("nothing"), []);
    assert_eq!(admin::delete_many(&pool, &[]).await.expect("nothing"), []);
    for function in ["cancel_many", "retry_many", "run_now_many", "delete_jobs"] {
        for ids in ["'{}'", "null"] {
            assert_eq!(count(&pool, &format!("select count(*) from awa.{function}({ids})")).await, 0);
        }
    }
    assert_eq!(count(&pool, "select count(*) from awa.delete_jobs(array[null::bigint])").await, 1);
    assert_eq!(states(&pool).await, "failed 2");
}

// UNIQ-09
#[tokio::test]
async fn a_retry_whose_key_a_newer_job_holds_names_the_holder_and_stops_no_other() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let first = unique(&pool, "jobs_hot_parked", "failed", "one").await;
    let holder = unique(&pool, "jobs_hot", "available", "one").await;
    let mut asked = jobs(&pool, "jobs_hot_parked", "failed", 10).await;
    asked.push(first);
    asked.push(unique(&pool, "jobs_hot_parked", "failed", "two").await);
    asked.extend(jobs(&pool, "jobs_hot_parked", "cancelled", 9).await);
    assert_eq!(admin::retry(&pool, first).await.expect("an answer"), Operated::Duplicate { holder });
    let answers = admin::retry_many(&pool, &asked).await.expect("answers");
    for (id, answer) in answers {
        assert_eq!(answer, if id == first { Operated::Duplicate { holder } } else { Operated::Applied }, "{id}");
    }
    assert_eq!(states(&pool).await, "available 21, failed 1");
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 2);
}

#[tokio::test]
async fn of_two_jobs_of_one_retry_with_one_key_the_first_gets_it() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let holder = unique(&pool, "jobs_hot_parked", "failed", "one").await;
    let second = unique(&pool, "jobs_hot_parked", "cancelled", "one").await;
    let answers = admin::retry_many(&pool, &[second, holder]).await.expect("answers");
    assert_eq!(answers, [(second, Operated::Duplicate { holder }), (holder, Operated::Applied)]);
    assert_eq!(count(&pool, "select job_id from awa.job_unique_claims").await, holder.get());
}

#[tokio::test]
async fn a_job_that_somebody_has_locked_is_busy_and_stops_no_other() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let mut asked = jobs(&pool, "jobs_hot", "available", 3).await;
    asked.extend(jobs(&pool, "scheduled_jobs", "scheduled", 2).await);
    let mut other = begin(&database).await;
    run(&mut other, &format!("select from awa.jobs_hot where id = {} for update", asked[1])).await;
    run(&mut other, &format!("select from awa.scheduled_jobs where id = {} for update", asked[4])).await;
    let answers = admin::cancel_many(&pool, &asked, None).await.expect("answers");
    for (place, (_, answer)) in answers.into_iter().enumerate() {
        assert_eq!(answer, if place == 1 || place == 4 { Operated::Busy } else { Operated::Applied }, "{place}");
    }
    run(&mut other, "rollback").await;
    assert_eq!(states(&pool).await, "scheduled 1, available 1, cancelled 3");
}

#[tokio::test]
async fn a_key_that_an_open_transaction_has_in_hand_makes_its_job_alone_busy() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let first = unique(&pool, "jobs_hot_parked", "failed", "one").await;
    let other_key = unique(&pool, "jobs_hot_parked", "failed", "two").await;
    let mut other = begin(&database).await;
    run(
        &mut other,
        "insert into awa.jobs_hot (kind, unique_key, unique_states) values ('noop', decode(md5('one'), 'hex'), 31)",
    )
    .await;
    let answers = admin::retry_many(&pool, &[first, other_key]).await.expect("answers");
    assert_eq!(answers, [(first, Operated::Busy), (other_key, Operated::Applied)]);
    run(&mut other, "rollback").await;
    assert_eq!(admin::retry(&pool, first).await.expect("an answer"), Operated::Applied);
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 2);
}

#[tokio::test]
async fn the_reason_of_a_cancellation_is_kept_among_the_errors_cut_to_their_size() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let ids = jobs(&pool, "jobs_hot", "available", 3).await;
    assert_eq!(admin::cancel(&pool, ids[0], Some("not needed")).await.expect("an answer"), Operated::Applied);
    assert_eq!(admin::cancel(&pool, ids[1], Some(&"🦀".repeat(5000))).await.expect("an answer"), Operated::Applied);
    assert_eq!(admin::cancel(&pool, ids[2], None).await.expect("an answer"), Operated::Applied);
    let entry = |id: JobId, field: &str| format!("select errors -> 0 ->> '{field}' from awa.jobs where id = {id}");
    assert_eq!(text(&pool, &entry(ids[0], "error")).await, "not needed");
    assert_eq!(text(&pool, &entry(ids[0], "source")).await, "operator");
    assert_eq!(text(&pool, &entry(ids[1], "error")).await, awa_model::error_text(&"🦀".repeat(5000)));
    assert_eq!(text(&pool, &entry(ids[2], "error")).await, "");
}

#[tokio::test]
async fn the_status_of_a_job_says_where_it_is_and_that_its_queue_is_paused() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let id = jobs(&pool, "jobs_hot", "available", 1).await[0];
    let status = admin::status(&pool, id).await.expect("an answer").expect("a job");
    assert_eq!((status.id, status.state, status.paused, status.attempt), (id, JobState::Available, false, 0));
    let queue = crate::scene::queue("default");
    assert!(awa_storage::queue::pause(&pool, &queue).await.expect("paused"));
    assert_eq!(admin::cancel(&pool, id, Some("late")).await.expect("an answer"), Operated::Applied);
    let status = admin::status(&pool, id).await.expect("an answer").expect("a job");
    assert_eq!((status.state, status.paused, status.error.as_deref()), (JobState::Cancelled, true, Some("late")));
    assert!(admin::status(&pool, JobId::new(99_999)).await.expect("an answer").is_none());
}

// UNIQ-06
#[tokio::test]
async fn a_unique_job_that_is_deleted_by_any_route_leaves_its_key_free() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let routes = [
        "delete from awa.jobs",
        "delete from awa.jobs_hot",
        "delete from awa.jobs_hot_parked",
        "delete from awa.scheduled_jobs",
        "truncate awa.jobs_hot",
        "truncate awa.jobs_hot_0",
        "truncate awa.jobs_hot_parked",
        "truncate awa.scheduled_jobs",
        "select awa.delete_job(id) from awa.jobs",
        "select awa.delete_jobs(array(select id from awa.jobs))",
        "update awa.jobs set state = 'cancelled'",
        "select awa.cancel_many(array(select id from awa.jobs))",
    ];
    for (relation, state) in [
        ("scheduled_jobs", "scheduled"),
        ("scheduled_jobs", "retryable"),
        ("jobs_hot", "available"),
        ("jobs_hot", "running"),
        ("jobs_hot_parked", "waiting_external"),
    ] {
        for route in routes {
            let id = unique(&pool, relation, state, "one").await;
            run(&pool, route).await;
            let held = count(&pool, "select count(*) from awa.job_unique_claims").await;
            let open = count(&pool, "select count(*) from awa.jobs where state < 'completed'").await;
            assert_eq!(held, open, "{route} of {state} (I4)");
            if open == 0 {
                let next = unique(&pool, "jobs_hot", "available", "one").await;
                assert_ne!(next, id);
            }
            run(&pool, "delete from awa.jobs").await;
        }
    }
    // What a crash between the row and its claim would leave cannot be: both are one transaction.
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 0);
}

// STATE-12
#[tokio::test]
async fn a_pause_is_idempotent_literal_and_needs_no_queue_that_was_used() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (never, star) = (crate::scene::queue("never used"), crate::scene::queue("*"));
    use awa_storage::queue::{pause, resume};
    assert!(!resume(&pool, &never).await.expect("an answer"));
    assert_eq!(count(&pool, "select count(*) from awa.queues").await, 0);
    for queue in [&never, &star] {
        assert!(pause(&pool, queue).await.expect("an answer"));
        assert!(!pause(&pool, queue).await.expect("an answer"));
    }
    assert!(resume(&pool, &star).await.expect("an answer"));
    assert!(!resume(&pool, &star).await.expect("an answer"));
    assert_eq!(
        text(&pool, "select string_agg(name, ',' order by name) from awa.queues where paused").await,
        "never used"
    );
    let error = sqlx::query("select awa.pause_queue('')").execute(&pool).await.expect_err("no name");
    assert_eq!(
        error.as_database_error().map(sqlx::error::DatabaseError::message),
        Some("queue is empty; it must have 1 to 128 bytes")
    );
}

#[tokio::test]
async fn what_became_of_many_jobs_is_answered_once_for_each_that_exists() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let waiting = jobs(&pool, "jobs_hot", "available", 2).await;
    let later = jobs(&pool, "scheduled_jobs", "scheduled", 1).await[0];
    let parked = jobs(&pool, "jobs_hot_parked", "failed", 1).await[0];
    let asked = [parked, JobId::new(99_999), waiting[1], waiting[1], later];
    let mut found: Vec<_> = admin::statuses(&pool, &asked)
        .await
        .expect("an answer")
        .into_iter()
        .map(|status| (status.id, status.state))
        .collect();
    found.sort();
    let mut expected =
        [(waiting[1], JobState::Available), (later, JobState::Scheduled), (parked, JobState::Failed)].to_vec();
    expected.sort();
    assert_eq!(found, expected);
    assert!(admin::statuses(&pool, &[]).await.expect("nothing").is_empty());
    assert_eq!(count(&pool, "select count(*) from awa.job_statuses(null)").await, 0);
}
