//! What many producers send at once, while workers sleep and while none does: counted where notifications are sent from.

use std::time::Instant;

use awa_model::{PreparedJob, QueueName, WorkerId};
use awa_storage::{
    enqueue::{enqueue, enqueue_many},
    notify::Listener,
    testing::TestDatabase,
};
use futures_util::future::try_join_all;
use sqlx::{Connection as _, PgConnection, PgPool, postgres::PgListener};

use crate::producing::job;
use crate::scene::{count, run};

const PRODUCERS: usize = 64;

/// Remembers each call that notifies, by a function in front of the one place that does.
const REMEMBER: &str = "
    create table public.announced (transaction xid8, payload text);
    alter function awa.announce(text, text) rename to real_announce;
    create function awa.announce(p_channel text, p_payload text) returns void language plpgsql as $$
    begin
        insert into public.announced values (pg_current_xact_id(), p_payload);
        perform awa.real_announce(p_channel, p_payload);
    end $$";

const CALLS: &str = "select count(*) from public.announced";

fn name(number: usize) -> QueueName {
    QueueName::new(format!("queue {number}")).expect("a name")
}

async fn sleeper(database: &TestDatabase, queues: &[QueueName]) -> Listener {
    let listener = Listener::connect(&database.options(), WorkerId::random()).await.expect("the server answers");
    while !listener.try_gates(queues).await.expect("answered") {}
    listener
}

/// Transactions of one job each, from all producers at once.
async fn produce(producers: &mut [PgConnection], transactions: usize) -> f64 {
    let from = Instant::now();
    let all = producers.iter_mut().map(async |producer| {
        for _ in 0..transactions {
            let _ = enqueue(&mut *producer, &job("{}")).await?;
        }
        Ok::<_, awa_storage::Error>(())
    });
    try_join_all(all).await.expect("enqueued");
    (PRODUCERS * transactions) as f64 / from.elapsed().as_secs_f64()
}

/// How many notifications have come since `observer` was asked last.
async fn sent(observer: &mut PgListener, pool: &PgPool) -> i64 {
    run(pool, "select pg_notify('awa', 'so far')").await;
    let mut sent = 0;
    while observer.recv().await.expect("the server answers").payload() != "so far" {
        sent += 1;
    }
    sent
}

async fn one_notification_a_transaction_and_queue(transactions: usize, batch: usize) {
    let database = TestDatabase::with_sessions().await;
    let pool = database.pool();
    run_all(&pool, REMEMBER).await;
    let mut observer = PgListener::connect_with(&pool).await.expect("the server answers");
    observer.listen("awa").await.expect("the server answers");
    let mut producers = Vec::new();
    for _ in 0..PRODUCERS {
        producers.push(database.connect().await);
    }
    let silent = produce(&mut producers, transactions).await;
    assert_eq!((count(&pool, CALLS).await, sent(&mut observer, &pool).await), (0, 0), "nobody sleeps");

    // Never woken, so that every transaction meets a sleeper.
    let listener = sleeper(&database, &[QueueName::default()]).await;
    let announcing = produce(&mut producers, transactions).await;
    let expected = i64::try_from(PRODUCERS * transactions).expect("few");
    assert_eq!(
        (count(&pool, CALLS).await, sent(&mut observer, &pool).await),
        (expected, expected),
        "one a transaction"
    );
    println!("{silent:.0} transactions a second without notifications, {announcing:.0} with one each");

    // Whatever else a transaction adds to the queue, one leaves it.
    run(&pool, "truncate public.announced").await;
    let mut tx = producers[0].begin().await.expect("the server answers");
    for _ in 0..10 {
        let _ = enqueue(&mut *tx, &job("{}")).await.expect("enqueued");
    }
    tx.commit().await.expect("the server answers");
    assert_eq!(sent(&mut observer, &pool).await, 1);
    listener.close().await;

    // Batches over 50 queues, on half of which somebody sleeps.
    run(&pool, "truncate public.announced").await;
    let sleeping: Vec<_> = (0..25).map(name).collect();
    let listener = sleeper(&database, &sleeping).await;
    let jobs: Vec<_> = (0..batch).map(|place| PreparedJob { queue: name(place % 50), ..job("{}") }).collect();
    let all = producers.iter_mut().map(|producer| enqueue_many(producer, &jobs));
    let added: usize = try_join_all(all).await.expect("enqueued").iter().map(Vec::len).sum();
    assert_eq!(added, PRODUCERS * batch);
    let expected = i64::try_from(PRODUCERS * 25).expect("few");
    assert_eq!((count(&pool, CALLS).await, sent(&mut observer, &pool).await), (expected, expected), "one a sleeper");
    let twice = "select count(*) from (select from public.announced group by transaction, payload having count(*) > 1) as twice";
    assert_eq!(count(&pool, twice).await, 0);
    listener.close().await;
}

async fn run_all(pool: &PgPool, statements: &'static str) {
    sqlx::raw_sql(statements).execute(pool).await.expect(statements);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producers_send_at_most_one_notification_for_each_transaction_and_queue() {
    one_notification_a_transaction_and_queue(5, 100).await;
}

mod long {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn producers_of_thousands_of_jobs_send_at_most_one_notification_for_each_transaction_and_queue() {
        super::one_notification_a_transaction_and_queue(1_000, 1_000).await;
    }
}
