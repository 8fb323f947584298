//! Whoever ends the waiting, one of them does: each pair of actors at once, in both orders, with the first committing or
//! rolling back; then all of them (STATE-02, STATE-04).

use std::sync::Arc;

use awa_model::{CallbackId, JobId, JobState};
use awa_storage::{
    admin::{self, Operated},
    callback::{self, Answered, ExpireCursor, Expired},
    testing::TestDatabase,
};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool};
use tokio::sync::Barrier;

use crate::scene::{begin, count, run, text, until_blocked};
use crate::waiting::{Answer, make_due, opened, parked};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Actor {
    Outside(Answer),
    Timeout,
    Cancel,
    Delete,
    Park,
    Rescue,
}

use Actor::{Cancel, Delete, Outside, Park, Rescue, Timeout};
use Answer::{Complete, Fail, Resume};

#[derive(Clone, Copy)]
struct Job {
    id: i64,
    callback: CallbackId,
}

impl Actor {
    fn sql(self, job: Job) -> String {
        let Job { id, callback } = job;
        match self {
            Outside(answer) => format!("{}.outcome", answer.sql(callback).replace("select ", "select (") + ")"),
            Timeout => "select array_to_string((awa.expire_callbacks(null, null, 100)).states, ' ')".to_owned(),
            Cancel => format!("select (awa.cancel({id})).outcome"),
            Delete => format!("select (awa.delete_job({id})).outcome"),
            Park => format!(
                "select coalesce(awa.settle_alone(0::smallint, {id}, 1, 'park', null, null, null, '{callback}')::text, 'lost')"
            ),
            Rescue => "select array_to_string((awa.rescue(0, 100, 90, 90, 5, 60)).states, ' ')".to_owned(),
        }
    }

    /// What it does alone: its answer, and the state of the job then.
    fn alone(self, from: JobState) -> (&'static str, &'static str) {
        match self {
            Outside(Complete) => ("applied", "completed"),
            Outside(Fail) => ("applied", "failed"),
            Outside(Resume) if from == JobState::Running => ("applied", "running"),
            Outside(Resume) => ("applied", "available"),
            Timeout | Rescue => ("retryable", "retryable"),
            Cancel => ("applied", "cancelled"),
            Delete => ("applied", ""),
            Park => ("waiting_external", "waiting_external"),
        }
    }

    /// What it does after another one: its answer, and the state of the job then.
    fn after(self, first: Self, from: JobState) -> (&'static str, &'static str) {
        let state = first.alone(from).1;
        match (self, first) {
            (Cancel | Outside(_), Delete) => ("not_found", ""),
            (Delete, _) => ("applied", ""),
            (Cancel, Outside(Complete | Fail)) => ("refused", state),
            (Cancel, _) => ("applied", "cancelled"),
            (Park, Outside(Resume)) => ("available", "available"),
            (Park, Outside(_)) => (state, state),
            (Park, _) => ("lost", state),
            (Outside(_), Park) => (self.alone(JobState::WaitingExternal).0, self.alone(JobState::WaitingExternal).1),
            (Outside(_), _) => ("refused", state),
            (Timeout | Rescue, _) => ("", state),
        }
    }

    /// Whether it passes by what somebody has locked.
    fn waits_for_nobody(self) -> bool {
        matches!(self, Timeout | Rescue)
    }
}

async fn ask(connection: &mut PgConnection, sql: &str) -> Result<String, sqlx::Error> {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(connection).await
}

async fn state(pool: &PgPool, job: Job) -> String {
    text(pool, &format!("select state from awa.jobs where id = {}", job.id)).await
}

/// The second one begins while the first has done its work and not committed.
async fn race(database: &TestDatabase, from: JobState, job: Job, pair: (Actor, Actor), end: &str) -> (String, String) {
    let pool = database.pool();
    let mut one = begin(database).await;
    let first = ask(&mut one, &pair.0.sql(job)).await.expect("the first answer");
    assert_eq!(first, pair.0.alone(from).0, "{pair:?}");
    let (mut other, sql) = (database.connect().await, pair.1.sql(job));
    let second = tokio::spawn(async move {
        loop {
            match ask(&mut other, &sql).await {
                Ok(answer) => {
                    other.close().await.expect("closed");
                    return answer;
                }
                // A settlement waits for a tenth of a second, and is sent again by its worker.
                Err(error)
                    if error.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref()
                        == Some("55P03") => {}
                Err(error) => panic!("{sql}: {error}"),
            }
        }
    });
    if !pair.1.waits_for_nobody() {
        until_blocked(&pool, 1).await;
    } else {
        while !second.is_finished() {
            tokio::task::yield_now().await;
        }
    }
    run(&mut one, end).await;
    (second.await.expect("the second answer"), state(&pool, job).await)
}

async fn check(database: &TestDatabase, from: JobState, actors: &[Actor], involved: Option<Actor>) {
    let pool = database.pool();
    for first in actors {
        for second in actors {
            // Two sweeps never meet on one row; the same answer twice is told in `callback`.
            if first == second || involved.is_some_and(|actor| *first != actor && *second != actor) {
                continue;
            }
            for end in ["commit", "rollback"] {
                let pair = (*first, *second);
                let job = match from {
                    JobState::Running => {
                        let (job, callback) = opened(&pool).await;
                        Job { id: job.lease.job_id().get(), callback }
                    }
                    _ => {
                        let (id, callback) = parked(&pool).await;
                        make_due(&pool).await;
                        Job { id, callback }
                    }
                };
                run(&pool, "delete from awa.workers").await;
                let expected = match end {
                    "commit" => second.after(*first, from),
                    // What was locked was passed by; all others do their work.
                    _ if second.waits_for_nobody() => ("", from.as_str()),
                    _ => second.alone(from),
                };
                let (answer, state) = race(database, from, job, pair, end).await;
                assert_eq!((answer.as_str(), state.as_str()), expected, "{pair:?} {end} from {from}");
                let waits = "select count(*) from awa.jobs as job where job.state = 'waiting_external'
                                and not exists (select from awa.callbacks as open
                                                 where open.job_id = job.id and open.run_lease = job.run_lease
                                                   and open.parked and open.answered_at is null)";
                assert_eq!(count(&pool, waits).await, 0, "{pair:?}: a job that waits can be answered");
                run(&pool, "delete from awa.jobs_hot").await;
                run(&pool, "delete from awa.scheduled_jobs").await;
                run(&pool, "delete from awa.callbacks").await;
            }
        }
    }
}

#[tokio::test]
async fn of_two_that_end_the_waiting_the_first_to_commit_does() {
    let database = TestDatabase::new().await;
    let actors = [Outside(Complete), Outside(Resume), Outside(Fail), Timeout, Cancel, Delete];
    check(&database, JobState::WaitingExternal, &actors, None).await;
}

/// STATE-02, exactly between the two writes and across them.
#[tokio::test]
async fn parking_and_whatever_else_ends_the_attempt_agree_on_who_came_first() {
    let database = TestDatabase::new().await;
    let actors = [Outside(Complete), Outside(Resume), Outside(Fail), Park, Cancel, Delete, Rescue];
    check(&database, JobState::Running, &actors, Some(Park)).await;
}

/// Everybody at once: the answer given, the pass of the sweep, and what the operator was told.
async fn meet(pool: &PgPool, id: i64, callback: CallbackId, answer: Answer) -> (Answered, Expired, Operated) {
    let barrier = Arc::new(Barrier::new(4));
    let at = || Arc::clone(&barrier);
    let (given, expired, rescued, cancelled) = tokio::join!(
        async {
            at().wait().await;
            answer.give(pool, callback).await.expect("an answer")
        },
        async {
            at().wait().await;
            callback::expire(pool, ExpireCursor::default(), 100).await.expect("a pass")
        },
        async {
            at().wait().await;
            crate::scene::rescue_all(pool).await
        },
        async {
            at().wait().await;
            admin::cancel(pool, JobId::new(id), None).await.expect("an answer")
        },
    );
    assert_eq!((rescued.jobs.len(), expired.stuck.len()), (0, 0));
    (given, expired, cancelled)
}

/// STATE-04: an answer, the sweep of timeouts, that of silent attempts, and an operator.
async fn all_at_once(rounds: usize) {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let mut winners = [0; 3];
    for round in 0..rounds {
        let (id, callback) = parked(&pool).await;
        make_due(&pool).await;
        run(&pool, "delete from awa.workers").await;
        let answer = Answer::ALL[round % 3];
        let (given, expired, cancelled) = meet(&pool, id, callback, answer).await;
        let case = format!("round {round}, {answer:?}: {given:?}, {expired:?}, {cancelled:?}");
        let answered = matches!(given, Answered::Applied { .. });
        let timed_out = !expired.jobs.is_empty();
        let called_off = cancelled == Operated::Applied;
        assert!(!(answered && timed_out), "{case}");
        assert!(answered || timed_out || called_off, "{case}");
        let expected = match () {
            // What goes on again can be called off like any other job.
            () if called_off => "cancelled",
            () if answered => answer.state().as_str(),
            () => "retryable",
        };
        let (state, attempt, noted): (String, i16, Option<String>) = sqlx::query_as(
            "select job.state::text, job.attempt, known.answer from awa.jobs as job
               join awa.callbacks as known on known.job_id = job.id where job.id = $1",
        )
        .bind(id)
        .fetch_one(&pool)
        .await
        .expect("one job, one callback");
        assert_eq!(state, expected, "{case}");
        assert_eq!(attempt, i16::from(!(answered && answer == Answer::Resume)), "{case}");
        let note = match () {
            () if answered => Some(format!("{answer:?}").to_lowercase()),
            () if timed_out => Some("timeout".to_owned()),
            // The sweep may have come after the operator and found nobody waiting.
            () => noted.clone().filter(|noted| noted == "void"),
        };
        assert_eq!(noted, note, "{case}");
        let winner = [answered, timed_out, called_off].iter().position(|won| *won);
        winners[winner.expect("somebody won")] += 1;
        run(&pool, &format!("select awa.delete_job({id})")).await;
        // Rescue looks at every batch that a worker who is gone has claimed.
        run(&pool, "delete from awa.active_claims").await;
    }
    println!("answers {}, timeouts {}, operators {}", winners[0], winners[1], winners[2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_all_that_end_the_waiting_at_once_one_wins_and_the_others_know() {
    all_at_once(50).await;
}

mod long {
    //! The same at full size.

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn of_all_that_end_the_waiting_at_once_one_wins_and_the_others_know() {
        super::all_at_once(2_000).await;
    }
}
