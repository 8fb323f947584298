//! MIGR-04: traffic holds the locks that a migration needs. Neither blocks the other for longer than the lock timeout.

use std::time::Duration;

use awa_migrations::{Error, Options, migrate, migrate_with};

use crate::scratch::{Scratch, ask, extended, on, snapshot};

const WIDEN: &str = "alter table awa.queues add column note text;";

const SOMEBODY_WAITS: &str = "select exists (select from pg_locks where not granted
    and database = (select oid from pg_database where datname = current_database()))";

fn impatient(attempts_max: u32) -> Options {
    let mut options = Options::default();
    options.lock_timeout = Duration::from_millis(100);
    options.attempts_max = attempts_max;
    options
}

#[tokio::test]
async fn long_reader_ends_the_migration_cleanly_when_patience_is_spent() {
    let scratch = Scratch::new().await;
    migrate(&scratch.pool(1)).await.expect("an empty database");
    let mut reader = scratch.connect().await;
    on(&mut reader, "begin; select * from awa.queues;").await;
    let before = snapshot(&scratch).await;
    let outcome = migrate_with(&scratch.pool(1), extended(&[WIDEN]), impatient(2)).await;
    let Err(Error::Blocked { attempts: 2, step, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(step.contains("added"), "{step}");
    assert_eq!(snapshot(&scratch).await, before);
}

#[tokio::test]
async fn traffic_goes_on_while_the_migration_waits_for_a_long_reader() {
    let scratch = Scratch::new().await;
    migrate(&scratch.pool(1)).await.expect("an empty database");
    let mut reader = scratch.connect().await;
    on(&mut reader, "begin; select * from awa.queues;").await;
    let pool = scratch.pool(1);
    let migrating = tokio::spawn(async move { migrate_with(&pool, extended(&[WIDEN]), impatient(100)).await });
    scratch.until(SOMEBODY_WAITS).await;
    // This queues behind the migration, and gets its turn although the long reader still reads.
    let mut traffic = scratch.connect().await;
    ask(&mut traffic, "select count(*) from awa.queues").await;
    on(&mut reader, "commit").await;
    let report = migrating.await.expect("no panic").expect("the reader is gone");
    assert_eq!(report.applied.len(), 1);
}
