//! Databases for tests come migrated, apart from each other, and go.

use awa_storage::schema::require_current_schema;
use awa_storage::testing::TestDatabase;
use sqlx::PgPool;

async fn exists(pool: &PgPool, name: &str) -> bool {
    sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
        .bind(name)
        .fetch_one(pool)
        .await
        .expect("the server answers")
}

#[tokio::test]
async fn each_database_is_migrated_and_its_own() {
    let (one, other) = tokio::join!(TestDatabase::new(), TestDatabase::new());
    assert_ne!(one.name(), other.name());
    require_current_schema(&one.pool()).await.expect("migrated");
    require_current_schema(&other.pool()).await.expect("migrated");
}

#[tokio::test]
async fn database_goes_with_its_value_although_connections_are_open() {
    let observer = TestDatabase::empty().await;
    let database = TestDatabase::new().await;
    let name = database.name().to_owned();
    let open = database.pool().acquire().await.expect("the server answers");
    drop(database);
    assert!(!exists(&observer.pool(), &name).await);
    drop(open);
}

#[tokio::test]
async fn database_goes_with_a_panic() {
    let observer = TestDatabase::empty().await;
    let (tell, told) = tokio::sync::oneshot::channel();
    let panicking = tokio::spawn(async move {
        let database = TestDatabase::new().await;
        tell.send(database.name().to_owned()).expect("the test listens");
        panic!("as a failed assertion does");
    });
    let name = told.await.expect("the task told its name");
    assert!(panicking.await.is_err_and(|stopped| stopped.is_panic()));
    assert!(!exists(&observer.pool(), &name).await);
}
