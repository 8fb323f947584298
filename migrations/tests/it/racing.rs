//! MIGR-02: any number of processes may start at once, on an empty database or one behind.

use awa_migrations::{Options, Schema, migrate, migrate_with};
use sqlx::Row as _;
use tokio::task::JoinSet;

use crate::scratch::{Scratch, ask, extended};

/// Races `schema` from as many pools; the number that did the work is told.
async fn race(scratch: &Scratch, schema: &Schema, racers_max: usize) -> usize {
    let mut racers = JoinSet::new();
    for _ in 0..racers_max {
        let (pool, schema) = (scratch.pool(1), schema.clone());
        racers.spawn(async move { migrate_with(&pool, schema, Options::default()).await });
    }
    let outcomes = racers.join_all().await;
    outcomes.into_iter().filter(|outcome| !outcome.as_ref().expect("all succeed").applied.is_empty()).count()
}

async fn race_on_empty_databases(rounds: usize, racers: usize) {
    for _ in 0..rounds {
        let scratch = Scratch::new().await;
        assert_eq!(race(&scratch, &Schema::embedded(), racers).await, 1);
        let rows = ask(&mut scratch.connect().await, "select count(*) from awa.schema_migrations").await;
        let expected = Schema::embedded().migrations().len() + 1;
        assert_eq!(
            rows.get::<i64, _>(0),
            i64::try_from(expected).expect("few"),
            "each migration once, and the functions"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_or_sixteen_race_on_an_empty_database_and_one_does_the_work() {
    race_on_empty_databases(2, 2).await;
    race_on_empty_databases(2, 16).await;
}

mod long {
    #[tokio::test(flavor = "multi_thread")]
    async fn sixteen_race_on_an_empty_database_and_one_does_the_work() {
        super::race_on_empty_databases(20, 16).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_race_on_a_database_one_behind_and_one_does_the_work() {
    let scratch = Scratch::new().await;
    migrate(&scratch.pool(1)).await.expect("an empty database");
    assert_eq!(race(&scratch, &extended(&["create table awa.added (id bigint);"]), 16).await, 1);
}
