//! Wake-ups: sleepers are told, busy producers say nothing, and no order of events loses a wake-up.

use std::{future::Future, time::Duration};

use awa_storage::{
    enqueue::{enqueue, enqueue_copy, enqueue_many},
    notify::Listener,
    testing::TestDatabase,
};
use sqlx::{Connection as _, PgConnection, PgPool, postgres::PgListener};

use crate::producing::{count, job, queue, unique};

/// Only a broken build waits as long as this.
const NEVER: Duration = Duration::from_secs(60);

async fn soon<T>(event: impl Future<Output = T>) -> T {
    tokio::time::timeout(NEVER, event).await.expect("it happens")
}

async fn listener(database: &TestDatabase) -> Listener {
    Listener::connect(&database.options(), awa_model::WorkerId::random()).await.expect("the server answers")
}

fn default_queue() -> [awa_model::QueueName; 1] {
    [queue("default")]
}

#[tokio::test]
async fn sleeper_is_woken_by_each_producer() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let listener = listener(&database).await;
    assert!(listener.try_gates(&default_queue()).await.expect("answered"));
    let _ = enqueue(&pool, &job("{}")).await.expect("enqueued");
    soon(listener.wait()).await;
    let _ = enqueue_many(&pool, &[job("{}")]).await.expect("enqueued");
    soon(listener.wait()).await;
    let _ = enqueue_copy(&mut database.connect().await, &[job("{}")]).await.expect("enqueued");
    soon(listener.wait()).await;
    sqlx::query("select awa.enqueue('work')").execute(&pool).await.expect("enqueued");
    soon(listener.wait()).await;
}

#[tokio::test]
async fn wake_up_that_nobody_waits_for_is_kept() {
    let database = TestDatabase::new().await;
    let listener = listener(&database).await;
    assert!(listener.try_gates(&default_queue()).await.expect("answered"));
    let _ = enqueue(&database.pool(), &job("{}")).await.expect("enqueued");
    // Answers come in order on one connection, so the notification has arrived with this one.
    listener.release_gates(&default_queue()).await.expect("answered");
    soon(listener.wait()).await;
}

/// What was announced since `observer` began to listen.
async fn announced(observer: &mut PgListener, pool: &PgPool) -> usize {
    sqlx::query("select pg_notify('awa', 'end of test')").execute(pool).await.expect("the server answers");
    let mut count = 0;
    loop {
        let notification = soon(observer.recv()).await.expect("the server answers");
        if notification.payload() == "end of test" {
            return count;
        }
        count += 1;
    }
}

#[tokio::test]
async fn busy_producers_announce_nothing_and_deferred_or_duplicate_jobs_never_do() {
    let database = TestDatabase::with_sessions().await;
    let pool = database.pool();
    let mut observer = PgListener::connect_with(&pool).await.expect("the server answers");
    observer.listen("awa").await.expect("the server answers");
    for _ in 0..10 {
        let _ = enqueue(&pool, &unique("{}")).await.expect("enqueued");
        let _ = enqueue_many(&pool, &[job("{}"), job("{}")]).await.expect("enqueued");
    }
    assert_eq!(announced(&mut observer, &pool).await, 0, "nobody sleeps");

    let listener = listener(&database).await;
    assert!(listener.try_gates(&default_queue()).await.expect("answered"));
    let later = awa_model::PreparedJob { due: awa_model::Due::In(NEVER), ..job("{}") };
    let elsewhere = awa_model::PreparedJob { queue: queue("elsewhere"), ..job("{}") };
    for idle in [unique("{}"), later, elsewhere] {
        let _ = enqueue(&pool, &idle).await.expect("enqueued");
        let _ = enqueue_many(&pool, &[idle]).await.expect("enqueued");
    }
    assert_eq!(announced(&mut observer, &pool).await, 0, "there is nothing to wake up for");

    let _ = enqueue_many(&pool, &vec![job("{}"); 100]).await.expect("enqueued");
    assert_eq!(announced(&mut observer, &pool).await, 1, "one a transaction and queue");

    listener.release_gates(&default_queue()).await.expect("answered");
    let _ = enqueue(&pool, &job("{}")).await.expect("enqueued");
    assert_eq!(announced(&mut observer, &pool).await, 0, "the sleeper is up again");
}

/// The order that loses a wake-up where sleepers are announced by rows: the producer has looked for sleepers, a worker goes
/// to sleep after a last look, the producer commits.
#[tokio::test]
async fn nobody_falls_asleep_while_a_producer_is_open() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let listener = listener(&database).await;
    let mut producer = database.connect().await;
    for commits in [true, false] {
        let before = count(&pool, "awa.jobs").await;
        let mut tx = producer.begin().await.expect("the server answers");
        let _ = enqueue(&mut *tx, &job("{}")).await.expect("enqueued");
        assert!(!listener.try_gates(&default_queue()).await.expect("answered"), "poll on");
        assert_eq!(count(&pool, "awa.jobs").await, before, "this poll cannot see it");
        if commits {
            tx.commit().await.expect("the server answers");
        } else {
            tx.rollback().await.expect("the server answers");
        }
        assert!(listener.try_gates(&default_queue()).await.expect("answered"), "now it may sleep");
        assert_eq!(count(&pool, "awa.jobs").await, before + i64::from(commits), "after one more poll, which sees it");
        listener.release_gates(&default_queue()).await.expect("answered");
    }
}

#[tokio::test]
async fn producer_that_began_before_the_sleeper_announces_what_it_adds_later() {
    let database = TestDatabase::new().await;
    let listener = listener(&database).await;
    let mut producer = database.connect().await;
    let mut tx = producer.begin().await.expect("the server answers");
    sqlx::query("select pg_current_xact_id()").execute(&mut *tx).await.expect("the server answers");
    assert!(listener.try_gates(&default_queue()).await.expect("answered"), "it has added nothing yet");
    let _ = enqueue(&mut *tx, &job("{}")).await.expect("enqueued");
    tx.commit().await.expect("the server answers");
    soon(listener.wait()).await;
}

#[tokio::test]
async fn one_gate_wakes_all_sleepers() {
    let database = TestDatabase::new().await;
    let (holder, other) = (listener(&database).await, listener(&database).await);
    assert!(holder.try_gates(&default_queue()).await.expect("answered"));
    assert!(other.try_gates(&default_queue()).await.expect("answered"), "the other's gate will do");
    let _ = enqueue(&database.pool(), &job("{}")).await.expect("enqueued");
    soon(holder.wait()).await;
    soon(other.wait()).await;
}

#[tokio::test]
async fn gates_asked_for_twice_are_given_back_at_once() {
    let database = TestDatabase::new().await;
    let listener = listener(&database).await;
    let queues = [queue("a"), queue("b"), queue("a")];
    assert!(listener.try_gates(&queues).await.expect("answered"));
    assert!(listener.try_gates(&queues).await.expect("answered"));
    let gates = "(select from pg_locks where locktype = 'advisory'
                   and database = (select oid from pg_database where datname = current_database())) as gate";
    assert_eq!(count(&database.pool(), gates).await, 2);
    listener.release_gates(&queues[..1]).await.expect("answered");
    assert_eq!(count(&database.pool(), gates).await, 1);
    listener.release_gates(&queues).await.expect("answered");
    assert_eq!(count(&database.pool(), gates).await, 0);
}

#[tokio::test]
async fn broken_connection_wakes_the_sleeper_frees_its_gates_and_is_made_again() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let options = database.options().application_name("sleeper");
    let listener = Listener::connect(&options, awa_model::WorkerId::random()).await.expect("the server answers");
    assert!(listener.try_gates(&default_queue()).await.expect("answered"));
    sqlx::query(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'sleeper'
                    and datname = current_database()",
    )
    .execute(&pool)
    .await
    .expect("the server answers");
    soon(listener.wait()).await;
    // Refused until there is a connection again, which is signalled, since something may have been missed meanwhile.
    while !soon(listener.try_gates(&default_queue())).await.unwrap_or(false) {
        soon(listener.wait()).await;
    }
    let _ = enqueue(&pool, &job("{}")).await.expect("enqueued");
    soon(listener.wait()).await;
}

// NOTIFY-01: names of the greatest length, in more queues than a transaction has gates for.
#[tokio::test]
async fn one_batch_for_hundreds_of_queues_with_long_names_wakes_a_sleeper_of_one() {
    let database = TestDatabase::new().await;
    let listener = listener(&database).await;
    let name = |number: usize| awa_model::QueueName::new(format!("{number:0>128}")).expect("a name");
    for number in [1, 500] {
        assert!(listener.try_gates(&[name(number)]).await.expect("answered"));
        let jobs: Vec<_> =
            (1..=number).map(|queue| awa_model::PreparedJob { queue: name(queue), ..job("{}") }).collect();
        assert_eq!(enqueue_many(&database.pool(), &jobs).await.expect("no limit of NOTIFY is met").len(), number);
        soon(listener.wait()).await;
        listener.release_gates(&[name(number)]).await.expect("answered");
    }
}

#[tokio::test]
async fn closed_listener_leaves_no_gate_behind() {
    let database = TestDatabase::new().await;
    let listener = listener(&database).await;
    assert!(listener.try_gates(&default_queue()).await.expect("answered"));
    listener.close().await;
    let gates = "(select from pg_locks where locktype = 'advisory'
                   and database = (select oid from pg_database where datname = current_database())) as gate";
    soon(async { while count(&database.pool(), gates).await > 0 {} }).await;
}

/// Doze locks that are held, or tried for, in this database.
const DOZE_LOCKS: &str = "(select from pg_locks where locktype = 'advisory' and classid = 1096237387
     and database = (select oid from pg_database where datname = current_database())) as doze";

/// Waits until the listener has done what it was told before.
async fn done(listener: &Listener) {
    listener.release_gates(&[]).await.expect("answered");
}

/// Whether something was announced to this listener's doze, of what was committed before.
async fn was_stirred(listener: &Listener) -> bool {
    // Answers come in order on one connection, so notifications have arrived with those to questions about another queue.
    assert!(listener.doze(&[queue("default"), queue("more")]));
    done(listener).await;
    tokio::time::timeout(Duration::ZERO, listener.stirred()).await.is_ok()
}

#[tokio::test]
async fn dozer_is_told_of_each_transaction_that_follows_another() {
    let database = TestDatabase::with_sessions().await;
    let pool = database.pool();
    let mut observer = PgListener::connect_with(&pool).await.expect("the server answers");
    observer.listen("awa").await.expect("the server answers");
    let listener = listener(&database).await;
    assert!(listener.doze(&default_queue()));
    done(&listener).await;
    assert_eq!(listener.dozing(), 1);
    for _ in 0..3 {
        let _ = enqueue(&pool, &job("{}")).await.expect("enqueued");
        soon(listener.stirred()).await;
    }
    let _ = enqueue_many(&pool, &vec![job("{}"); 100]).await.expect("enqueued");
    soon(listener.stirred()).await;
    assert_eq!(announced(&mut observer, &pool).await, 4, "one a transaction");
}

/// NOTIFY takes a lock across the whole cluster at commit.
#[tokio::test]
async fn producers_at_once_do_not_all_announce_to_a_dozer() {
    let database = TestDatabase::with_sessions().await;
    let pool = database.pool();
    let mut observer = PgListener::connect_with(&pool).await.expect("the server answers");
    observer.listen("awa").await.expect("the server answers");
    let listener = listener(&database).await;
    assert!(listener.doze(&default_queue()));
    done(&listener).await;
    let mut first = database.connect().await;
    for commits in [true, false] {
        let mut tx = first.begin().await.expect("the server answers");
        let _ = enqueue(&mut *tx, &job("{}")).await.expect("enqueued");
        for _ in 0..5 {
            let _ = enqueue(&pool, &job("{}")).await.expect("enqueued");
        }
        assert_eq!(announced(&mut observer, &pool).await, 0, "the first will");
        if commits {
            tx.commit().await.expect("the server answers");
            soon(listener.stirred()).await;
        } else {
            tx.rollback().await.expect("the server answers");
        }
        assert_eq!(announced(&mut observer, &pool).await, usize::from(commits));
        let _ = enqueue(&pool, &job("{}")).await.expect("enqueued");
        soon(listener.stirred()).await;
        assert_eq!(announced(&mut observer, &pool).await, 1, "it has ended");
    }
}

#[tokio::test]
async fn producers_keep_nobody_from_dozing_and_leave_no_session_lock() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let listener = listener(&database).await;
    let mut producer = database.connect().await;
    let mut tx = producer.begin().await.expect("the server answers");
    let _ = enqueue(&mut *tx, &job("{}")).await.expect("enqueued");
    assert_eq!(count(&pool, DOZE_LOCKS).await, 0);
    assert!(listener.doze(&default_queue()));
    done(&listener).await;
    assert_eq!(listener.dozing(), 1, "other than a sleeper");
    let _ = enqueue(&mut *tx, &job("{}")).await.expect("enqueued");
    assert_eq!(count(&pool, DOZE_LOCKS).await, 1);
    tx.commit().await.expect("the server answers");
    soon(listener.stirred()).await;
    assert!(listener.stir());
    done(&listener).await;
    assert_eq!((listener.dozing(), count(&pool, DOZE_LOCKS).await), (0, 0));
}

#[tokio::test]
async fn one_of_several_dozes_and_the_others_are_not_stirred() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (holder, other) = (listener(&database).await, listener(&database).await);
    assert!(holder.doze(&default_queue()));
    done(&holder).await;
    assert!(other.doze(&[queue("default"), queue("more")]));
    done(&other).await;
    assert_eq!((holder.dozing(), other.dozing()), (1, 1), "as far as they are to be had");
    let _ = enqueue(&pool, &job("{}")).await.expect("enqueued");
    soon(holder.stirred()).await;
    assert!(!was_stirred(&other).await);
    assert!(holder.stir());
    done(&holder).await;
    assert!(other.doze(&[queue("default"), queue("more")]));
    done(&other).await;
    assert_eq!((holder.dozing(), other.dozing()), (0, 2));
    let _ = enqueue(&pool, &job("{}")).await.expect("enqueued");
    soon(other.stirred()).await;
    drop(other);
    soon(async { while count(&pool, DOZE_LOCKS).await > 0 {} }).await;
    assert!(holder.doze(&default_queue()));
    done(&holder).await;
    assert_eq!(holder.dozing(), 1, "those of one that has gone are free");
}

#[tokio::test]
async fn doze_begins_by_giving_gates_back_and_sleep_by_ending_it() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let listener = listener(&database).await;
    let gates = "(select from pg_locks where locktype = 'advisory' and classid = 1096237385
                   and database = (select oid from pg_database where datname = current_database())) as gate";
    for _ in 0..2 {
        assert!(listener.try_gates(&default_queue()).await.expect("answered"));
        assert_eq!((count(&pool, gates).await, count(&pool, DOZE_LOCKS).await), (1, 0));
        assert!(listener.doze(&default_queue()));
        assert!(listener.doze(&default_queue()), "those held stay so, once");
        done(&listener).await;
        assert_eq!((count(&pool, gates).await, count(&pool, DOZE_LOCKS).await), (0, 1));
    }
}

#[tokio::test]
async fn sleeper_of_another_process_is_told_whoever_dozes() {
    let database = TestDatabase::new().await;
    let (dozer, sleeper) = (listener(&database).await, listener(&database).await);
    assert!(dozer.doze(&default_queue()));
    done(&dozer).await;
    assert!(sleeper.try_gates(&default_queue()).await.expect("answered"));
    let _ = enqueue(&database.pool(), &job("{}")).await.expect("enqueued");
    soon(sleeper.wait()).await;
}

/// A server that cannot be listened on yet is no reason never to listen.
#[tokio::test]
async fn listener_that_finds_no_database_goes_on_until_it_has_one() {
    let database = TestDatabase::new().await;
    let closed = format!("alter database {} allow_connections false", database.name());
    let opened = format!("alter database {} allow_connections true", database.name());
    let pool = database.pool();
    let mut admin = PgConnection::connect_with(&database.options().database("postgres")).await.expect("it answers");
    sqlx::raw_sql(sqlx::AssertSqlSafe(closed)).execute(&mut admin).await.expect("it is ours");
    let worker = awa_model::WorkerId::random();
    Listener::connect(&database.options(), worker).await.expect_err("nobody gets in");
    let listener = Listener::connect_in_time(&database.options(), worker);
    listener.try_gates(&default_queue()).await.expect_err("not yet");
    sqlx::raw_sql(sqlx::AssertSqlSafe(opened)).execute(&mut admin).await.expect("it is ours");
    soon(listener.wait()).await;
    assert!(listener.try_gates(&default_queue()).await.expect("answered"));
    let _ = enqueue(&pool, &job("{}")).await.expect("enqueued");
    soon(listener.wait()).await;
}
