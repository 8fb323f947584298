//! A future that is dropped, or a process that ends, leaves the old schema or the new one, and no open transaction.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use awa_migrations::{Options, Schema, migrate, migrate_with, status};

use crate::scratch::{Scratch, extended, on};

const NOBODY_IS_IN_A_TRANSACTION: &str = "select not exists (select from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle')";

/// Polls `future` so many times and drops it; the answer is whether it had ended.
async fn poll_and_drop<T>(future: impl Future<Output = T>, polls: usize) -> bool {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        future.as_mut().poll(context).map(|_| true)
    })
    .await
}

#[tokio::test]
async fn future_dropped_at_any_await_leaves_a_whole_schema_and_no_transaction() {
    for polls in 0.. {
        let scratch = Scratch::new().await;
        let ended = poll_and_drop(migrate(&scratch.pool(2)), polls).await;
        scratch.until(NOBODY_IS_IN_A_TRANSACTION).await;
        let status = status(&scratch.pool(1)).await.expect("a history that can be continued");
        assert!([0, Schema::embedded().version()].contains(&status.found), "half a schema: {status}");
        migrate(&scratch.pool(1)).await.expect("the next process finds nothing in its way");
        if ended {
            assert!(polls > 2, "it was dropped at its awaits before it ended");
            return;
        }
    }
}

#[test]
fn runtime_that_ends_leaves_the_old_schema_and_no_transaction() {
    let outside = tokio::runtime::Runtime::new().expect("a runtime");
    let scratch = outside.block_on(Scratch::new());
    outside.block_on(async { migrate(&scratch.pool(1)).await }).expect("an empty database");
    let mut reader = outside.block_on(scratch.connect());
    outside.block_on(on(&mut reader, "begin; select * from awa.queues;"));

    let ending = tokio::runtime::Runtime::new().expect("a runtime");
    let (options, schema) = (scratch.options(), extended(&["alter table awa.queues add column note text;"]));
    ending.spawn(async move { migrate_with(&crate::scratch::pool(options, 1), schema, Options::default()).await });
    outside.block_on(scratch.until("select exists (select from pg_locks where not granted)"));
    ending.shutdown_background();

    outside.block_on(on(&mut reader, "commit"));
    outside.block_on(scratch.until(NOBODY_IS_IN_A_TRANSACTION));
    let status =
        outside.block_on(async { status(&scratch.pool(1)).await }).expect("not newer: the migration was rolled back");
    assert!(status.is_current());
}
