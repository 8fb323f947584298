//! Attempts that somebody takes from their worker: it is told, once, exactly, and learns why also without that.

use std::{collections::HashSet, future::Future, time::Duration};

use awa_model::{JobId, JobState, RunLease, WorkerId};
use awa_storage::{
    Claimed, Guarded, Held,
    fate::{Fate, fates},
    notify::{Listener, Tidings, Told},
    settle::{Completion, Settlement, Verdict, complete_many, settle_many},
    testing::TestDatabase,
};
use sqlx::PgPool;

use crate::restart::Restarting;
use crate::scene::{begin, claim, count, run, running, states};

/// Only a broken build waits as long as this.
const NEVER: Duration = Duration::from_secs(60);

/// Hands back every attempt that has not beaten within the last moment.
const RESCUE: &str = "select awa.rescue(0, 1000, 3600, 0, 3600, 60)";

/// What somebody else does to job @, and what its worker learns.
const WAYS: [(&str, Fate); 8] = [
    ("select awa.cancel(@)", Fate::Cancelled),
    ("select awa.cancel(@, 'enough')", Fate::Cancelled),
    ("select awa.cancel_many('{@}')", Fate::Cancelled),
    ("update awa.jobs set state = 'cancelled' where id = @", Fate::Cancelled),
    ("select awa.delete_job(@)", Fate::Deleted),
    ("delete from awa.jobs where id = @", Fate::Deleted),
    (RESCUE, Fate::Rescued),
    (
        "update awa.jobs_hot set max_attempts = attempt where id = @; select awa.rescue(0, 1000, 3600, 0, 3600, 60)",
        Fate::Rescued,
    ),
];

async fn soon<T>(event: impl Future<Output = T>) -> T {
    tokio::time::timeout(NEVER, event).await.expect("it happens")
}

async fn listener(database: &TestDatabase, worker: WorkerId) -> Listener {
    Listener::connect(&database.options(), worker).await.expect("the server answers")
}

/// Everything that the worker was told until now.
async fn told(listener: &Listener, pool: &PgPool, worker: WorkerId) -> Vec<Told> {
    run(pool, &format!("select awa.tell_worker('{worker}', 0, 0, 'end')")).await;
    let mut all = Vec::new();
    loop {
        match soon(listener.told()).await {
            Tidings::Taken(some) => all.extend(some),
            Tidings::Missed => panic!("nothing can have been missed"),
        }
        if all.last().is_some_and(|last| last.job_id == JobId::new(0)) {
            all.pop();
            return all;
        }
    }
}

fn held(jobs: &[Claimed]) -> Vec<Held> {
    jobs.iter().map(|job| job.lease.held()).collect()
}

#[tokio::test]
async fn worker_learns_of_each_way_in_which_an_attempt_is_taken_from_it() {
    let restarting = Restarting::new().await;
    for (way, why) in WAYS {
        let (database, pool) = restarting.again().await;
        let (worker, jobs) = running(&pool, "noop", 1).await;
        let listener = listener(database, worker).await;
        let held = held(&jobs);
        assert_eq!(fates(&pool, &held).await.expect("an answer"), []);
        let way = way.replace('@', &held[0].job_id().to_string());
        sqlx::raw_sql(sqlx::AssertSqlSafe(way.clone())).execute(&pool).await.expect(&way);
        let named = Told { job_id: held[0].job_id(), run_lease: held[0].run_lease(), why };
        assert_eq!(told(&listener, &pool, worker).await, [named], "{way}");
        assert_eq!(fates(&pool, &held).await.expect("an answer"), [(held[0], why)], "{way}");
    }
}

#[tokio::test]
async fn nobody_is_told_of_what_a_worker_does_itself_nor_of_what_was_taken_back() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (worker, mut jobs) = running(&pool, "noop", 7).await;
    let listener = listener(&database, worker).await;
    let beaten = jobs[6].lease.held();
    let mut undone = begin(&database).await;
    run(&mut undone, &format!("select awa.cancel({})", beaten.job_id())).await;
    run(&mut undone, "rollback").await;
    let completed = jobs.remove(0).lease;
    let answer = complete_many(&pool, &[Completion { lease: completed, result: None }]).await;
    assert_eq!(answer.expect("an answer"), [Guarded::Applied(())]);
    let verdicts = [
        Verdict::Retry { after: None, error: "down".to_owned() },
        Verdict::Snooze { after: NEVER },
        Verdict::Fail { error: "broken".to_owned() },
        Verdict::Cancel { reason: "no use".to_owned() },
        Verdict::Release,
    ];
    let settlement = |(verdict, job): (Verdict, Claimed)| Settlement { lease: job.lease, verdict, progress: None };
    let settlements: Vec<_> = verdicts.into_iter().zip(jobs).map(settlement).collect();
    settle_many(&pool, &settlements).await.expect("an answer");
    assert_eq!(told(&listener, &pool, worker).await, []);
    assert_eq!(fates(&pool, &[beaten]).await.expect("an answer"), []);
}

#[tokio::test]
async fn only_the_worker_that_runs_the_attempt_is_told_and_only_of_that_attempt() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (first, jobs) = running(&pool, "noop", 1).await;
    let at_first = listener(&database, first).await;
    let id = jobs[0].lease.job_id();
    run(&pool, RESCUE).await;
    run(&pool, &format!("select awa.run_now({id})")).await;
    let second = crate::scene::registered(&pool).await;
    let at_second = listener(&database, second).await;
    let again = claim(&pool, second, "noop", 1).await;
    run(&pool, &format!("select awa.cancel({id})")).await;
    let named = |lease, why| Told { job_id: id, run_lease: RunLease::new(lease), why };
    assert_eq!(told(&at_first, &pool, first).await, [named(1, Fate::Rescued)]);
    assert_eq!(told(&at_second, &pool, second).await, [named(2, Fate::Cancelled)]);
    // Whatever became of the job since, the first attempt was handed back; a batch may name both.
    let both = [jobs[0].lease.held(), again[0].lease.held()];
    let expected = [(both[0], Fate::Rescued), (both[1], Fate::Cancelled)];
    assert_eq!(fates(&pool, &both).await.expect("an answer"), expected);
}

/// I13: a row that is on its way to another segment keeps its lease, before, during and after.
#[tokio::test]
async fn an_attempt_whose_row_moves_is_never_reported() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, jobs) = running(&pool, "noop", 3).await;
    let held = held(&jobs);
    let mut mover = begin(&database).await;
    for segment in [0, 1] {
        run(&mut mover, "select awa.rotate(current) from awa.ring").await;
        let rows = format!("array(select ctid from awa.jobs_hot_{segment})");
        run(&mut mover, &format!("select awa.move_rows({segment}::smallint, {rows})")).await;
        assert_eq!(fates(&pool, &held).await.expect("an answer"), []);
        run(&mut mover, "commit").await;
        assert_eq!(fates(&pool, &held).await.expect("an answer"), []);
        run(&mut mover, "begin").await;
    }
    assert_eq!(count(&pool, "select count(*) from awa.jobs_hot_2 where state = 'running'").await, 3);
}

/// A listener that was away, or could not keep up, says so: then everything that is held is to be looked at.
#[tokio::test]
async fn broken_connection_means_that_something_may_have_been_missed() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (worker, jobs) = running(&pool, "noop", 2).await;
    let options = database.options().application_name("told");
    let listener = Listener::connect(&options, worker).await.expect("the server answers");
    run(&pool, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'told'").await;
    run(&pool, &format!("select awa.cancel({})", jobs[0].lease.job_id())).await;
    let mut tidings = soon(listener.told()).await;
    if matches!(tidings, Tidings::Taken(_)) {
        // The server had passed it on before it ended the session.
        tidings = soon(listener.told()).await;
    }
    assert_eq!(tidings, Tidings::Missed);
    run(&pool, &format!("select awa.delete_job({})", jobs[1].lease.job_id())).await;
    let Tidings::Taken(told) = soon(listener.told()).await else { panic!("the connection is good again") };
    assert_eq!(
        told.iter().map(|told| (told.job_id, told.why)).collect::<Vec<_>>(),
        [(jobs[1].lease.job_id(), Fate::Deleted)]
    );
    listener.close().await;
    assert!(listener.try_gates(&[]).await.is_err(), "a closed listener answers nothing");
}

// NOTIFY-01: what notifies is bounded by design, in the number of bytes and in what it can make fail.
#[tokio::test]
async fn thousands_of_running_jobs_are_cancelled_in_one_call_and_each_is_told() {
    taken_in_one_call(2_000).await;
}

async fn taken_in_one_call(number: usize) {
    let database = TestDatabase::with_sessions().await;
    let pool = database.pool();
    let (worker, jobs) = running(&pool, "noop", number).await;
    let mut observer = sqlx::postgres::PgListener::connect_with(&pool).await.expect("the server answers");
    observer.listen(&format!("awa_{}", worker.get().simple())).await.expect("the server answers");
    let ids: Vec<i64> = jobs.iter().map(|job| job.lease.job_id().get()).collect();
    let applied: i64 = sqlx::query_scalar("select count(*) from awa.cancel_many($1) where outcome = 'applied'")
        .bind(&ids)
        .fetch_one(&pool)
        .await
        .expect("no limit of NOTIFY is met");
    assert_eq!(applied, i64::try_from(number).expect("few"));
    let mut told = HashSet::new();
    while told.len() < number {
        let notification = soon(observer.recv()).await.expect("the server answers");
        assert!(notification.payload().len() < 100, "{}", notification.payload());
        assert!(told.insert(notification.payload().to_owned()), "told twice: {}", notification.payload());
    }
    assert_eq!(states(&pool).await, format!("{} {number}", JobState::Cancelled.as_str()));
    assert_eq!(count(&pool, "select (pg_notification_queue_usage() < 0.5)::int::bigint").await, 1);
}

/// The same at full size.
mod long {
    #[tokio::test]
    async fn ten_thousand_running_jobs_are_cancelled_in_one_call_and_each_is_told() {
        super::taken_in_one_call(10_000).await;
    }
}
