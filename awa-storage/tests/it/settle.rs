//! How attempts end: every outcome, guarded by the lease, repeatable, wherever the row has moved to.

use std::time::Duration;

use awa_model::{CallbackId, JobState};
use awa_storage::{
    Claimed, Guarded,
    settle::{Completion, Settlement, Verdict, complete_many, settle_many},
    testing::TestDatabase,
};
use serde_json::{Value, json};
use sqlx::PgPool;
use uuid::Uuid;

use crate::support::{claim, cursors, insert, number};

async fn running(pool: &PgPool, count: i64) -> Vec<Claimed> {
    insert(pool, 0, count).await;
    let mut claimed = claim(&cursors(pool).await, pool, 1_000).await;
    claimed.sort_by_key(|job| job.lease.job_id());
    claimed
}

fn completion(job: Claimed) -> Completion {
    Completion { lease: job.lease, result: None }
}

fn settlement(job: Claimed, verdict: Verdict) -> Settlement {
    Settlement { lease: job.lease, verdict, progress: None }
}

/// The whole row, as the view shows it.
async fn row(pool: &PgPool, id: i64) -> Value {
    sqlx::query_scalar("select to_jsonb(job) from awa.jobs as job where id = $1")
        .bind(id)
        .fetch_one(pool)
        .await
        .expect("one row, in one plane")
}

/// Moves a running row to another segment, lease and all, as the ring's keeper does with stragglers.
async fn move_to_segment_3(pool: &PgPool, id: i64) {
    let columns: String = sqlx::query_scalar("select awa.job_columns('')").fetch_one(pool).await.expect("columns");
    let statement = format!(
        "with moved as (delete from awa.jobs_hot where id = $1 returning *)
         insert into awa.jobs_hot_3 ({columns}) select {columns} from moved"
    );
    let moved = sqlx::query(sqlx::AssertSqlSafe(statement)).bind(id).execute(pool).await.expect("a move");
    assert_eq!(moved.rows_affected(), 1);
}

#[tokio::test]
async fn completion_keeps_the_result_exactly_and_clears_progress() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let mut jobs = running(&pool, 2).await;
    sqlx::query("update awa.jobs_hot_0 set progress = '{\"percent\": 5}'").execute(&pool).await.expect("progress");
    let big = r#"{"n": 123456789012345678901234567890}"#;
    let batch = [
        Completion { lease: jobs.remove(0).lease, result: Some(big.to_owned()) },
        Completion { lease: jobs.remove(0).lease, result: None },
    ];
    let answers = complete_many(&pool, &batch).await.expect("completed");
    assert_eq!(answers, [Guarded::Applied(()), Guarded::Applied(())]);
    let kept: String =
        sqlx::query_scalar("select result::text from awa.jobs where id = 1").fetch_one(&pool).await.expect("a result");
    assert_eq!(kept, big);
    let untouched = "select count(*) from awa.jobs
                      where state = 'completed' and progress is null and finalized_at is not null";
    assert_eq!(number(&pool, untouched).await, 2);
}

#[tokio::test]
async fn a_repeated_completion_is_applied_and_a_stale_one_is_lost() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let batch: Vec<Completion> = running(&pool, 3).await.into_iter().map(completion).collect();
    // The second job has been claimed anew meanwhile, the third is gone.
    sqlx::query("update awa.jobs_hot_0 set run_lease = 2 where id = 2").execute(&pool).await.expect("a new lease");
    sqlx::query("delete from awa.jobs_hot_0 where id = 3").execute(&pool).await.expect("deleted");
    for _ in 0..2 {
        let answers = complete_many(&pool, &batch).await.expect("completed");
        assert_eq!(answers, [Guarded::Applied(()), Guarded::Lost, Guarded::Lost]);
    }
    assert_eq!(row(&pool, 2).await["state"], "running");
}

#[tokio::test]
async fn a_row_that_was_moved_or_updated_meanwhile_is_completed_where_it_is() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let batch: Vec<Completion> = running(&pool, 3).await.into_iter().map(completion).collect();
    sqlx::query("update awa.jobs_hot_0 set heartbeat_at = now() where id = 1").execute(&pool).await.expect("a beat");
    move_to_segment_3(&pool, 2).await;
    let answers = complete_many(&pool, &batch).await.expect("completed");
    assert!(answers.iter().all(Guarded::is_applied), "{answers:?}");
    assert_eq!(number(&pool, "select count(*) from awa.jobs where state = 'completed'").await, 3);
}

#[tokio::test]
async fn each_outcome_leaves_the_row_where_it_goes_next_and_may_be_repeated() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let verdicts = [
        Verdict::Retry { after: None, error: "first".into() },
        Verdict::Retry { after: Some(Duration::from_secs(90)), error: "second".into() },
        Verdict::Snooze { after: Duration::from_secs(60) },
        Verdict::Fail { error: "fatal".into() },
        Verdict::Cancel { reason: "not needed".into() },
        Verdict::Release,
    ];
    let jobs = running(&pool, 6).await;
    let before = row(&pool, 1).await;
    let batch: Vec<Settlement> =
        jobs.into_iter().zip(verdicts).map(|(job, verdict)| settlement(job, verdict)).collect();
    let expected = [
        JobState::Retryable,
        JobState::Retryable,
        JobState::Scheduled,
        JobState::Failed,
        JobState::Cancelled,
        JobState::Available,
    ];
    for _ in 0..2 {
        let answers = settle_many(&pool, &batch).await.expect("settled");
        assert_eq!(answers, expected.map(Guarded::Applied));
    }
    for (id, (attempt, snoozes, error)) in
        (1..).zip([(1, 0, "first"), (1, 0, "second"), (0, 1, ""), (1, 0, "fatal"), (1, 0, "not needed"), (0, 0, "")])
    {
        let after = row(&pool, id).await;
        assert_eq!((&after["attempt"], &after["snoozes"]), (&json!(attempt), &json!(snoozes)), "job {id}");
        assert_eq!(after["run_lease"], 1);
        for cleared in ["attempted_by", "heartbeat_at", "deadline_at"] {
            assert_eq!(after[cleared], Value::Null, "{cleared} of job {id}");
        }
        match error {
            "" => assert_eq!(after["errors"], Value::Null, "job {id}"),
            text => {
                let entry = &after["errors"][0];
                assert_eq!(after["errors"].as_array().map(Vec::len), Some(1), "one entry for one outcome");
                assert_eq!(
                    (&entry["error"], &entry["source"], &entry["lease"], &entry["attempt"], &entry["worker"]),
                    (&json!(text), &json!("handler"), &json!(1), &json!(1), &before["attempted_by"])
                );
            }
        }
    }
    // Against the time that the settlement itself noted, so that it does not matter how long the test takes.
    let due = "select count(*)
                 from awa.jobs as job
                cross join lateral (select job.run_at - (job.errors -> 0 ->> 'at')::timestamptz as after) as wait
                where job.id = 1 and wait.after between '2 s' and '2.5 s'
                   or job.id = 2 and wait.after = '90 s'
                   or job.id = 3 and job.run_at - now() between '-1 hour' and '60 s' and job.run_at > job.attempted_at + '60 s'
                   or job.id in (4, 5) and job.finalized_at is not null";
    assert_eq!(number(&pool, due).await, 5);
}

#[tokio::test]
async fn a_retry_without_attempts_left_ends_failed() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    sqlx::query("insert into awa.jobs_hot_0 (kind, max_attempts) values ('noop', 1)")
        .execute(&pool)
        .await
        .expect("a row");
    let job = claim(&cursors(&pool).await, &pool, 1).await.remove(0);
    let batch = [settlement(job, Verdict::Retry { after: Some(Duration::from_secs(1)), error: "no".into() })];
    assert_eq!(settle_many(&pool, &batch).await.expect("settled"), [Guarded::Applied(JobState::Failed)]);
    assert_eq!(row(&pool, 1).await["errors"][0]["error"], "no");
}

#[tokio::test]
async fn a_stale_lease_settles_nothing_and_a_moved_row_is_settled_where_it_is() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let retry = || Verdict::Retry { after: None, error: "late".into() };
    let batch: Vec<Settlement> = running(&pool, 2).await.into_iter().map(|job| settlement(job, retry())).collect();
    sqlx::query("update awa.jobs_hot_0 set run_lease = 2 where id = 1").execute(&pool).await.expect("a new lease");
    move_to_segment_3(&pool, 2).await;
    let before = row(&pool, 1).await;
    let answers = settle_many(&pool, &batch).await.expect("settled");
    assert_eq!(answers, [Guarded::Lost, Guarded::Applied(JobState::Retryable)]);
    assert_eq!(row(&pool, 1).await, before);
}

/// I2: a process that claims a job again while its own earlier attempt has not let go of it writes about both at once.
#[tokio::test]
async fn of_several_attempts_of_a_job_in_one_batch_the_newest_is_written() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    insert(&pool, 0, 1).await;
    let mut attempts = claim(&cursors, &pool, 1).await;
    for lease in 1..3_i64 {
        sqlx::query("select awa.hand_back('{0}', '{1}', array[$1], '{gone}', null, false)")
            .bind(lease)
            .execute(&pool)
            .await
            .expect("handed back");
        sqlx::raw_sql("update awa.scheduled_jobs set run_at = now(); select awa.promote(null, null, 10)")
            .execute(&pool)
            .await
            .expect("promoted");
        attempts.extend(claim(&cursors, &pool, 1).await);
    }
    let held: Vec<_> = attempts
        .iter()
        .zip(["old", "stale", "new"])
        .map(|(job, text)| (job.lease.held(), json!({ "message": text }).to_string()))
        .collect();
    let lost = awa_storage::attempt::heartbeat_with_progress(&pool, &held).await.expect("beats");
    assert_eq!(lost, [held[0].0, held[1].0]);
    assert_eq!(row(&pool, 1).await["progress"]["message"], "new");
    let newest = attempts.pop().expect("three attempts");
    let stale = |job| settlement(job, Verdict::Fail { error: "stale".into() });
    let mut batch: Vec<Settlement> = attempts.into_iter().map(stale).collect();
    batch.insert(1, settlement(newest, Verdict::Snooze { after: Duration::from_secs(9) }));
    let answers = settle_many(&pool, &batch).await.expect("settled");
    assert_eq!(answers, [Guarded::Lost, Guarded::Applied(JobState::Scheduled), Guarded::Lost]);
}

#[tokio::test]
async fn a_rescue_is_not_taken_for_the_handlers_own_retry() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let job = running(&pool, 1).await.remove(0);
    let columns: String =
        sqlx::query_scalar("select awa.job_columns('state', 'errors')").fetch_one(&pool).await.expect("columns");
    let rescue = format!(
        "with taken as (select * from awa.take('{{0}}', '{{1}}', '{{1}}'))
         insert into awa.scheduled_jobs ({columns}, state, errors)
         select {columns}, 'retryable', '[{{\"lease\": 1, \"source\": \"rescue\"}}]' from taken"
    );
    sqlx::query(sqlx::AssertSqlSafe(rescue)).execute(&pool).await.expect("rescued");
    let batch = [settlement(job, Verdict::Retry { after: None, error: "mine".into() })];
    assert_eq!(settle_many(&pool, &batch).await.expect("an answer"), [Guarded::Lost]);
}

#[tokio::test]
async fn progress_goes_with_the_transition_or_stays_as_it_was() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let jobs = running(&pool, 2).await;
    sqlx::query("update awa.jobs_hot_0 set progress = '{\"percent\": 5}'").execute(&pool).await.expect("progress");
    let mut batch: Vec<Settlement> =
        jobs.into_iter().map(|job| settlement(job, Verdict::Snooze { after: Duration::from_secs(9) })).collect();
    batch[0].progress = Some(r#"{"percent": 50}"#.into());
    settle_many(&pool, &batch).await.expect("settled");
    assert_eq!(row(&pool, 1).await["progress"], json!({ "percent": 50 }));
    assert_eq!(row(&pool, 2).await["progress"], json!({ "percent": 5 }));
}

#[tokio::test]
async fn errors_are_capped_and_the_dropped_ones_counted() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let job = running(&pool, 1).await.remove(0);
    sqlx::query(
        "update awa.jobs_hot_0 set errors = (select jsonb_agg(jsonb_build_object('error', n)) from generate_series(1, 20) n)",
    )
    .execute(&pool)
    .await
    .expect("errors");
    settle_many(&pool, &[settlement(job, Verdict::Fail { error: "last".into() })]).await.expect("settled");
    let after = row(&pool, 1).await;
    assert_eq!(after["errors"].as_array().map(Vec::len), Some(20));
    assert_eq!((&after["errors"][0]["error"], &after["errors"][19]["error"]), (&json!(2), &json!("last")));
    assert_eq!(after["errors_dropped"], 1);
}

#[tokio::test]
async fn a_row_that_somebody_holds_locked_fails_the_statement_in_bounded_time() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let batch: Vec<Completion> = running(&pool, 2).await.into_iter().map(completion).collect();
    let mut user = database.connect().await;
    crate::support::execute(&mut user, "begin").await;
    crate::support::execute(&mut user, "select from awa.jobs_hot_0 where id = 1 for update").await;
    let error = complete_many(&pool, &batch).await.expect_err("the row is locked");
    assert!(error.is_transient(), "{error}");
    crate::support::execute(&mut user, "rollback").await;
    assert!(complete_many(&pool, &batch).await.expect("completed").iter().all(Guarded::is_applied));
}

/// Every state, every way to settle: only a running row under its own lease changes, all others stay as they are.
#[tokio::test]
async fn only_running_rows_are_settled() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let verdicts = || {
        [
            None,
            Some(Verdict::Retry { after: None, error: "e".into() }),
            Some(Verdict::Snooze { after: Duration::from_secs(1) }),
            Some(Verdict::Fail { error: "e".into() }),
            Some(Verdict::Cancel { reason: "e".into() }),
            Some(Verdict::Release),
            Some(Verdict::Committed { after: None, error: "e".into() }),
            Some(Verdict::Park { callback: CallbackId::new(Uuid::nil()) }),
        ]
    };
    let places = [
        ("awa.jobs_hot_0", "available"),
        ("awa.jobs_hot_0", "completed"),
        ("awa.jobs_hot_parked", "waiting_external"),
        ("awa.jobs_hot_parked", "failed"),
        ("awa.jobs_hot_parked", "cancelled"),
        ("awa.scheduled_jobs", "scheduled"),
        ("awa.scheduled_jobs", "retryable"),
    ];
    for (table, state) in places {
        for verdict in verdicts() {
            let job = running(&pool, 1).await.remove(0);
            let id = job.lease.job_id().get();
            let name = format!("{state} against {verdict:?}");
            let columns: String = sqlx::query_scalar("select awa.job_columns('state', 'run_lease', 'finalized_at')")
                .fetch_one(&pool)
                .await
                .expect("columns");
            // Another attempt has ended in this state: one lease further on.
            let place = format!(
                "with gone as (delete from awa.jobs_hot_0 where id = $1 returning *)
                 insert into {table} ({columns}, state, run_lease, finalized_at)
                 select {columns}, '{state}', 2, now() from gone"
            );
            sqlx::query(sqlx::AssertSqlSafe(place)).bind(id).execute(&pool).await.expect(&name);
            let before = row(&pool, id).await;
            let lost = match verdict {
                None => complete_many(&pool, &[completion(job)]).await.expect(&name) == [Guarded::Lost],
                Some(verdict) => settle_many(&pool, &[settlement(job, verdict)]).await.expect(&name) == [Guarded::Lost],
            };
            assert!(lost, "{name}");
            assert_eq!(row(&pool, id).await, before, "{name}");
            // Out of the way of the next case, whose claim takes whatever is available.
            sqlx::raw_sql("truncate awa.jobs_hot, awa.scheduled_jobs").execute(&pool).await.expect("emptied");
        }
    }
}
