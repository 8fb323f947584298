//! What a callback does, one actor after the other. `callback_races` has them at once.

use std::time::Duration;

use awa_model::{CallbackId, JobId, JobState, limits};
use awa_storage::{
    Error, Guarded,
    callback::{self, Answered, ForgetCursor},
    prune::{PruneCursor, prune_parked},
    settle::{Completion, Settlement, Verdict, complete_many, settle_batch, settle_many},
    testing::TestDatabase,
};
use serde_json::{Value, json};

use crate::scene::{count, row, run, running, states, text};
use crate::waiting::{Answer, HOUR, expire, make_due, open, opened, park, parked, parking, state};

fn id(id: i64) -> JobId {
    JobId::new(id)
}

#[tokio::test]
async fn an_answer_ends_the_waiting_and_is_harmless_when_repeated() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for answer in Answer::ALL {
        let (job, callback) = parked(&pool).await;
        let (job, next) = (id(job), answer.state());
        let given = answer.give(&pool, callback).await.expect("an answer");
        assert_eq!(given, Answered::Applied { job, state: next }, "{answer:?}");
        let after = row(&pool, job.get()).await;
        for other in Answer::ALL {
            let given = other.give(&pool, callback).await.expect("an answer");
            let expected = if other == answer {
                Answered::Unchanged { job, state: next }
            } else {
                Answered::Refused { job, state: next }
            };
            assert_eq!(given, expected, "{other:?} after {answer:?}");
        }
        let given = callback::resume(&pool, callback, Some(r#"{"n": 2}"#)).await.expect("an answer");
        assert_eq!(given, Answered::Refused { job, state: next }, "another payload is another answer");
        assert_eq!(row(&pool, job.get()).await, after);
    }
    let unknown: CallbackId = "6f2b7a52-3f0e-4b6c-9d3f-0a1b2c3d4e5f".parse().expect("an id");
    for answer in Answer::ALL {
        assert_eq!(answer.give(&pool, unknown).await.expect("an answer"), Answered::NotFound);
    }
}

/// STATE-10: nothing of the old attempt is left in the row, and the attempt does not count.
#[tokio::test]
async fn a_resumed_job_is_as_fresh_as_one_that_never_ran_but_for_its_lease_and_progress() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.jobs_hot (kind, timeout) values ('noop', '1 minute')").await;
    let worker = crate::scene::registered(&pool).await;
    let job = crate::scene::claim(&pool, worker, "noop", 1).await.remove(0);
    let number = job.lease.job_id().get();
    run(&pool, "update awa.jobs_hot set heartbeat_at = now(), progress = '{\"percent\": 5}'").await;
    let callback = open(&pool, &job).await;
    let mut settlement = parking(job, callback);
    settlement.progress = Some(r#"{"percent": 6}"#.to_owned());
    let answer = settle_many(&pool, &[settlement]).await.expect("settled");
    assert_eq!(answer, [Guarded::Applied(JobState::WaitingExternal)]);
    let waiting = row(&pool, number).await;
    for cleared in ["attempted_by", "heartbeat_at", "deadline_at", "finalized_at", "errors"] {
        assert_eq!(waiting[cleared], Value::Null, "{cleared}");
    }
    assert_eq!((&waiting["attempt"], &waiting["progress"]), (&json!(1), &json!({ "percent": 6 })));
    let _ = Answer::Resume.give(&pool, callback).await.expect("an answer");
    let after = row(&pool, number).await;
    for cleared in ["attempted_by", "heartbeat_at", "deadline_at", "finalized_at", "errors"] {
        assert_eq!(after[cleared], Value::Null, "{cleared}");
    }
    assert_eq!(
        (&after["attempt"], &after["run_lease"], &after["progress"]),
        (&json!(0), &json!(1), &json!({ "percent": 6 }))
    );
    let again = crate::scene::claim(&pool, worker, "noop", 1).await.remove(0);
    assert_eq!((again.lease.run_lease().get(), again.attempt), (2, 1));
    assert_eq!(
        callback::payload(&pool, again.lease.job_id()).await.expect("an answer").as_deref(),
        Some(r#"{"n": 1}"#)
    );
    // The deadline of the first attempt would have been within the minute: the second has its own.
    let own = "select count(*) from awa.jobs where deadline_at = attempted_at + interval '1 minute'";
    assert_eq!(count(&pool, own).await, 1);
}

#[tokio::test]
async fn completion_from_outside_keeps_the_payload_as_result_and_failure_the_error() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for runs in [false, true] {
        let (job, callback) = if runs {
            let (job, callback) = opened(&pool).await;
            (job.lease.job_id().get(), callback)
        } else {
            parked(&pool).await
        };
        run(&pool, &format!("update awa.jobs_hot set progress = '{{\"percent\": 5}}' where id = {job}")).await;
        let _ = Answer::Complete.give(&pool, callback).await.expect("an answer");
        let after = row(&pool, job).await;
        assert_eq!((&after["state"], &after["result"]), (&json!("completed"), &json!({ "n": 1 })));
        assert_eq!((&after["progress"], &after["errors"]), (&Value::Null, &Value::Null));
        assert!(after["finalized_at"].is_string());
    }
    for runs in [false, true] {
        let (job, callback) = if runs {
            let (job, callback) = opened(&pool).await;
            (job.lease.job_id().get(), callback)
        } else {
            parked(&pool).await
        };
        run(&pool, &format!("update awa.jobs_hot set progress = '{{\"percent\": 5}}' where id = {job}")).await;
        let _ = Answer::Fail.give(&pool, callback).await.expect("an answer");
        let after = row(&pool, job).await;
        assert_eq!((&after["state"], &after["progress"]), (&json!("failed"), &json!({ "percent": 5 })));
        let entry = &after["errors"][0];
        assert_eq!(
            (&entry["error"], &entry["source"], &entry["lease"], &entry["attempt"]),
            (&json!("no such customer"), &json!("callback"), &json!(1), &json!(1))
        );
        for cleared in ["attempted_by", "heartbeat_at", "deadline_at"] {
            assert_eq!(after[cleared], Value::Null, "{cleared}");
        }
    }
}

/// STATE-02: the outside is faster than the worker.
#[tokio::test]
async fn an_answer_before_the_parking_is_kept_and_wins() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (job, callback) = opened(&pool).await;
    let number = job.lease.job_id();
    let given = Answer::Resume.give(&pool, callback).await.expect("an answer");
    assert_eq!(given, Answered::Applied { job: number, state: JobState::Running });
    assert_eq!(park(&pool, job, callback).await, Guarded::Applied(JobState::Available));
    assert_eq!(row(&pool, number.get()).await["attempt"], 0);
    assert_eq!(callback::payload(&pool, number).await.expect("an answer").as_deref(), Some(r#"{"n": 1}"#));
    run(&pool, "delete from awa.jobs_hot").await;

    for answer in [Answer::Complete, Answer::Fail] {
        let (job, callback) = opened(&pool).await;
        let number = job.lease.job_id();
        let given = answer.give(&pool, callback).await.expect("an answer");
        assert_eq!(given, Answered::Applied { job: number, state: answer.state() });
        let before = row(&pool, number.get()).await;
        // The handler wanted to wait for what has come: nothing was lost on the way.
        assert_eq!(park(&pool, job, callback).await, Guarded::Applied(answer.state()));
        assert_eq!(row(&pool, number.get()).await, before);
    }
}

#[tokio::test]
async fn what_a_handler_returns_after_it_was_completed_or_failed_from_outside_is_lost() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for answer in [Answer::Complete, Answer::Fail] {
        let (job, callback) = opened(&pool).await;
        let number = job.lease.job_id().get();
        let _ = answer.give(&pool, callback).await.expect("an answer");
        let before = row(&pool, number).await;
        let completion = Completion { lease: job.lease, result: Some("7".to_owned()) };
        let completed = complete_many(&pool, std::slice::from_ref(&completion)).await.expect("an answer");
        // Completed it is, under this lease: its own answer might have been lost on the way.
        assert_eq!(completed[0].is_applied(), answer == Answer::Complete);
        let retry = Verdict::Retry { after: None, error: "late".to_owned() };
        let settlement = Settlement { lease: completion.lease, verdict: retry, progress: None };
        assert_eq!(settle_many(&pool, &[settlement]).await.expect("an answer"), [Guarded::Lost]);
        assert_eq!(row(&pool, number).await, before);
    }
}

#[tokio::test]
async fn a_payload_outlives_attempts_that_end_in_any_other_way() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (job, callback) = opened(&pool).await;
    let number = job.lease.job_id();
    let _ = Answer::Resume.give(&pool, callback).await.expect("an answer");
    // The worker dies before it parks.
    run(&pool, "delete from awa.workers").await;
    assert_eq!(crate::scene::rescue_all(&pool).await.jobs.len(), 1);
    assert_eq!(callback::payload(&pool, number).await.expect("an answer").as_deref(), Some(r#"{"n": 1}"#));
    // Its own late parking is lost, since it did not park.
    assert_eq!(park(&pool, job, callback).await, Guarded::Lost);
}

#[tokio::test]
async fn no_payload_and_json_null_are_told_apart_and_numbers_are_kept() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for given in [None, Some("null"), Some("123456789012345678901234567890"), Some(r#"["ü", {"a": 1.50}]"#)] {
        let (job, callback) = parked(&pool).await;
        let _ = callback::resume(&pool, callback, given).await.expect("an answer");
        assert_eq!(callback::payload(&pool, id(job)).await.expect("an answer").as_deref(), given);
        let (job, callback) = parked(&pool).await;
        let _ = callback::complete(&pool, callback, given).await.expect("an answer");
        assert_eq!(
            text(&pool, &format!("select coalesce(result::text, 'none') from awa.jobs where id = {job}")).await,
            given.unwrap_or("none")
        );
    }
    let (job, _) = parked(&pool).await;
    assert_eq!(callback::payload(&pool, id(job)).await.expect("an answer"), None, "never answered");
}

#[tokio::test]
async fn the_newest_answer_is_the_one_that_the_next_attempt_gets() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let worker = crate::scene::registered(&pool).await;
    run(&pool, "insert into awa.jobs_hot (kind) values ('noop')").await;
    for round in 1..=3 {
        let job = crate::scene::claim(&pool, worker, "noop", 1).await.remove(0);
        let number = job.lease.job_id();
        let callback = open(&pool, &job).await;
        let _ = park(&pool, job, callback).await;
        let _ = callback::resume(&pool, callback, Some(&round.to_string())).await.expect("an answer");
        assert_eq!(callback::payload(&pool, number).await.expect("an answer"), Some(round.to_string()));
    }
}

#[tokio::test]
async fn a_job_that_waits_for_one_callback_refuses_the_others() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (job, first) = opened(&pool).await;
    let number = job.lease.job_id();
    let second = open(&pool, &job).await;
    let _ = park(&pool, job, second).await;
    let waits = Answered::Refused { job: number, state: JobState::WaitingExternal };
    for answer in Answer::ALL {
        assert_eq!(answer.give(&pool, first).await.expect("an answer"), waits, "{answer:?}");
    }
    let given = Answer::Resume.give(&pool, second).await.expect("an answer");
    assert_eq!(given, Answered::Applied { job: number, state: JobState::Available });
    assert_eq!(count(&pool, "select count(*) from awa.callbacks where answer is not null").await, 1);
}

#[tokio::test]
async fn a_callback_that_the_attempt_has_not_opened_fails_it_and_nobody_waits_for_ever() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, others) = parked(&pool).await;
    let unknown: CallbackId = "6f2b7a52-3f0e-4b6c-9d3f-0a1b2c3d4e5f".parse().expect("an id");
    for stray in [unknown, others] {
        let job = running(&pool, "noop", 1).await.1.remove(0);
        let number = job.lease.job_id().get();
        let batch = [parking(job, stray)];
        for _ in 0..2 {
            assert_eq!(settle_many(&pool, &batch).await.expect("settled"), [Guarded::Applied(JobState::Retryable)]);
        }
        let after = row(&pool, number).await;
        assert_eq!(
            after["errors"][0]["error"],
            format!("it wanted to wait for callback {stray}, which this attempt has not opened")
        );
        assert_eq!(after["errors"].as_array().map(Vec::len), Some(1));
    }
    // One of an earlier attempt of the same job is none of this one's either.
    let (number, old) = parked(&pool).await;
    let _ = Answer::Resume.give(&pool, old).await.expect("an answer");
    let worker = crate::scene::registered(&pool).await;
    let job = crate::scene::claim(&pool, worker, "noop", 1).await.remove(0);
    assert_eq!(job.lease.job_id().get(), number);
    assert_eq!(park(&pool, job, old).await, Guarded::Applied(JobState::Retryable));
}

#[tokio::test]
async fn parking_goes_with_other_outcomes_in_one_batch_and_may_be_repeated() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, jobs) = running(&pool, "noop", 4).await;
    let mut batch = Vec::new();
    for (place, job) in jobs.into_iter().enumerate() {
        let callback = open(&pool, &job).await;
        match place {
            0 | 2 => batch.push(parking(job, callback)),
            1 => {
                let _ = Answer::Resume.give(&pool, callback).await.expect("an answer");
                batch.push(parking(job, callback));
            }
            _ => batch.push(Settlement {
                lease: job.lease,
                verdict: Verdict::Snooze { after: Duration::from_secs(9) },
                progress: None,
            }),
        }
    }
    let expected = [JobState::WaitingExternal, JobState::Available, JobState::WaitingExternal, JobState::Scheduled];
    for _ in 0..2 {
        let answers = settle_batch(&pool, &batch).await.expect("settled");
        assert_eq!(answers, expected.map(|state| Some(Guarded::Applied(state))));
    }
    assert_eq!(states(&pool).await, "scheduled 1, available 1, waiting_external 2");
    // Answered since, and claimed since: it has parked all the same, and its worker has nothing to worry about.
    run(&pool, "select awa.callback_resume(id) from awa.callbacks where parked and answered_at is null").await;
    let worker = crate::scene::registered(&pool).await;
    let _ = crate::scene::claim(&pool, worker, "noop", 3).await;
    let answers = settle_batch(&pool, &batch[..3]).await.expect("settled");
    assert_eq!(answers, [Some(Guarded::Applied(JobState::WaitingExternal)); 3]);
    assert_eq!(states(&pool).await, "scheduled 1, running 3");
}

#[tokio::test]
async fn nobody_opens_a_callback_for_an_attempt_that_is_over() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (job, callback) = opened(&pool).await;
    let held = job.lease.held();
    let _ = park(&pool, job, callback).await;
    assert_eq!(callback::open(&pool, &held, HOUR).await.expect("an answer"), Guarded::Lost);
    let _ = Answer::Resume.give(&pool, callback).await.expect("an answer");
    let worker = crate::scene::registered(&pool).await;
    let _ = crate::scene::claim(&pool, worker, "noop", 1).await;
    assert_eq!(callback::open(&pool, &held, HOUR).await.expect("an answer"), Guarded::Lost);
    run(&pool, "select awa.delete_jobs(array(select id from awa.jobs))").await;
    assert_eq!(callback::open(&pool, &held, HOUR).await.expect("an answer"), Guarded::Lost);
    assert_eq!(count(&pool, "select count(*) from awa.callbacks").await, 0);
}

#[tokio::test]
async fn an_attempt_opens_so_many_callbacks_and_no_more() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (job, _) = opened(&pool).await;
    for _ in 1..limits::CALLBACKS_MAX {
        open(&pool, &job).await;
    }
    let error = callback::open(&pool, &job.lease.held(), HOUR).await.expect_err("one too many");
    assert_eq!(error.sqlstate().as_deref(), Some("54000"), "{error}");
    assert_eq!(count(&pool, "select count(*) from awa.callbacks").await, 32);
}

#[tokio::test]
async fn old_callbacks_make_room_and_the_payload_stays() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (number, callback) = parked(&pool).await;
    let _ = Answer::Resume.give(&pool, callback).await.expect("an answer");
    let worker = crate::scene::registered(&pool).await;
    // Attempts that open one, and are given back without having waited.
    for _ in 0..50 {
        let job = crate::scene::claim(&pool, worker, "noop", 1).await.remove(0);
        open(&pool, &job).await;
        let release = Settlement { lease: job.lease, verdict: Verdict::Release, progress: None };
        settle_many(&pool, &[release]).await.expect("settled");
    }
    assert_eq!(callback::payload(&pool, id(number)).await.expect("an answer").as_deref(), Some(r#"{"n": 1}"#));
    // This attempt's own, those of earlier ones, and the one with the payload.
    assert_eq!(count(&pool, "select count(*) from awa.callbacks").await, 1 + 32 + 1);
}

#[tokio::test]
async fn payloads_and_errors_have_limits() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, callback) = parked(&pool).await;
    let large = format!("{:?}", "x".repeat(limits::PAYLOAD_BYTES_MAX));
    let deep = format!("{}{}", "[".repeat(101), "]".repeat(101));
    for payload in [large, deep] {
        for answer in [
            callback::complete(&pool, callback, Some(&payload)).await,
            callback::resume(&pool, callback, Some(&payload)).await,
        ] {
            assert!(matches!(&answer, Err(Error::InvalidSetting(text)) if text.starts_with("payload")), "{answer:?}");
        }
    }
    let refused = sqlx::query("select awa.callback_fail($1, null)").bind(callback.get()).execute(&pool).await;
    assert_eq!(
        refused.expect_err("no error").as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref(),
        Some("22023")
    );
    let (job, callback) = parked(&pool).await;
    let error = "é".repeat(limits::ERROR_BYTES_MAX);
    for expected in ["applied", "unchanged"] {
        let given = callback::fail(&pool, callback, &error).await.expect("an answer");
        let state = JobState::Failed;
        let (applied, unchanged) =
            (Answered::Applied { job: id(job), state }, Answered::Unchanged { job: id(job), state });
        assert_eq!(given, if expected == "applied" { applied } else { unchanged });
    }
    let kept = text(&pool, &format!("select errors -> 0 ->> 'error' from awa.jobs where id = {job}")).await;
    assert!(kept.len() <= limits::ERROR_BYTES_MAX && kept.ends_with("(cut)"), "{}", kept.len());
}

#[tokio::test]
async fn a_callback_goes_with_its_job_by_every_way_out() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let left = "select count(*) from awa.callbacks";
    let (job, _) = parked(&pool).await;
    run(&pool, &format!("select awa.delete_job({job})")).await;
    assert_eq!(count(&pool, left).await, 0);
    let (job, _) = parked(&pool).await;
    run(&pool, &format!("delete from awa.jobs where id = {job}")).await;
    assert_eq!(count(&pool, left).await, 0);
    let (_, callback) = parked(&pool).await;
    let (_, kept) = parked(&pool).await;
    let _ = Answer::Fail.give(&pool, callback).await.expect("an answer");
    run(&pool, "update awa.jobs_hot set finalized_at = '2000-01-01' where state = 'failed'").await;
    let pruned = prune_parked(&pool, JobState::Failed, PruneCursor::default(), 100).await.expect("pruned");
    assert_eq!(pruned.pruned, 1);
    assert_eq!(text(&pool, "select id from awa.callbacks").await, kept.to_string());
    // By hand, or with its segment.
    run(&pool, "insert into awa.callbacks (job_id, run_lease, due_at) select 1000000 + n, 1, now() from generate_series(1, 25) as n").await;
    let mut from = Some(ForgetCursor::default());
    let mut forgotten = 0;
    while let Some(cursor) = from {
        let step = callback::forget(&pool, cursor, 10).await.expect("a look");
        forgotten += step.forgotten;
        from = step.next;
    }
    assert_eq!(forgotten, 25);
    assert_eq!(text(&pool, "select id from awa.callbacks").await, kept.to_string());
}

#[tokio::test]
async fn nobody_answers_a_job_that_was_called_off_or_goes_on_otherwise() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (number, callback) = parked(&pool).await;
    run(&pool, &format!("select awa.cancel({number})")).await;
    let refused = |state| Answered::Refused { job: id(number), state };
    for answer in Answer::ALL {
        assert_eq!(answer.give(&pool, callback).await.expect("an answer"), refused(JobState::Cancelled));
    }
    run(&pool, &format!("select awa.retry({number})")).await;
    for answer in Answer::ALL {
        assert_eq!(answer.give(&pool, callback).await.expect("an answer"), refused(JobState::Available));
    }
    let worker = crate::scene::registered(&pool).await;
    let job = crate::scene::claim(&pool, worker, "noop", 1).await.remove(0);
    for answer in Answer::ALL {
        assert_eq!(
            answer.give(&pool, callback).await.expect("an answer"),
            refused(JobState::Running),
            "its lease is another"
        );
    }
    // The callback that nobody can answer any more leaves the list of those that are waited for.
    let second = open(&pool, &job).await;
    let _ = park(&pool, job, second).await;
    make_due(&pool).await;
    let expired = expire(&pool).await;
    assert_eq!((expired.jobs, expired.stuck), (vec![(id(number), JobState::Retryable)], vec![]));
    let answers = "select string_agg(answer, ' ' order by run_lease) from awa.callbacks";
    assert_eq!(text(&pool, answers).await, "void timeout");
    assert_eq!(state(&pool, number).await, "retryable");
}
