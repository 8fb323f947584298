//! MIGR-01 and its kin: what the runner refuses, it refuses before it has written anything.

use awa_migrations::{Error, Schema, migrate, require_current};

use crate::scratch::{Scratch, on, snapshot};

#[tokio::test]
async fn newer_schema_is_refused_and_left_as_it_is() {
    for ahead in [1, 100] {
        let scratch = Scratch::new().await;
        migrate(&scratch.pool(1)).await.expect("an empty database");
        let known = Schema::embedded().version();
        let row = format!(
            "insert into awa.schema_migrations (version, name, checksum, release) values ({}, 'x', 'x', '9.0.0')",
            known + ahead
        );
        on(&mut scratch.connect().await, &row).await;
        let before = snapshot(&scratch).await;
        for refusal in [migrate(&scratch.pool(1)).await.err(), require_current(&scratch.pool(1)).await.err()] {
            let refusal = refusal.expect("it is newer");
            assert!(matches!(refusal, Error::TooNew { found, known: own } if found == known + ahead && own == known));
        }
        assert_eq!(snapshot(&scratch).await, before);
    }
}

#[tokio::test]
async fn each_state_of_the_schema_has_its_own_refusal() {
    let scratch = Scratch::new().await;
    let pool = scratch.pool(1);
    assert!(matches!(require_current(&pool).await, Err(Error::TooOld { found: 0, .. })), "empty");
    migrate(&pool).await.expect("an empty database");
    assert!(require_current(&pool).await.is_ok(), "migrated");
    let newest = format!("delete from awa.schema_migrations where version = {}", Schema::embedded().version());
    on(&mut scratch.connect().await, &newest).await;
    let needed = Schema::embedded().version();
    assert!(
        matches!(require_current(&pool).await, Err(Error::TooOld { found, .. }) if found == needed - 1),
        "one behind"
    );
}

#[tokio::test]
async fn changed_migration_is_refused_by_name() {
    let scratch = Scratch::new().await;
    migrate(&scratch.pool(1)).await.expect("an empty database");
    on(&mut scratch.connect().await, "update awa.schema_migrations set checksum = 'other' where version = 2").await;
    let before = snapshot(&scratch).await;
    assert!(matches!(migrate(&scratch.pool(1)).await, Err(Error::Changed { version: 2, .. })));
    assert_eq!(snapshot(&scratch).await, before);
}

#[tokio::test]
async fn other_encoding_is_refused() {
    let scratch = Scratch::with("encoding 'LATIN1' lc_collate 'C' lc_ctype 'C'").await;
    let before = snapshot(&scratch).await;
    assert!(matches!(migrate(&scratch.pool(1)).await, Err(Error::Encoding { found }) if found == "LATIN1"));
    assert_eq!(snapshot(&scratch).await, before);
}

#[tokio::test]
async fn other_isolation_is_refused() {
    let scratch = Scratch::new().await;
    let alter = format!("alter database {} set default_transaction_isolation = 'repeatable read'", scratch.name());
    on(&mut scratch.connect().await, &alter).await;
    let before = snapshot(&scratch).await;
    assert!(matches!(migrate(&scratch.pool(1)).await, Err(Error::Isolation { found }) if found == "repeatable read"));
    assert_eq!(snapshot(&scratch).await, before);
}
