//! Whoever starts on the wrong schema is told so in one sentence, and nothing is written.

use awa_storage::schema::{migrate, require_current_schema};
use awa_storage::testing::TestDatabase;

#[tokio::test]
async fn empty_database_is_refused_by_version_and_command() {
    let database = TestDatabase::empty().await;
    let refusal = require_current_schema(&database.pool()).await.expect_err("there is no schema").to_string();
    assert!(refusal.contains("version 0") && refusal.contains("awa migrate"), "{refusal}");
    let schemas: i64 = sqlx::query_scalar("select count(*) from pg_namespace where nspname = 'awa'")
        .fetch_one(&database.pool())
        .await
        .expect("the server answers");
    assert_eq!(schemas, 0, "a refusal writes nothing");
}

#[tokio::test]
async fn migrated_database_is_accepted() {
    let database = TestDatabase::empty().await;
    migrate(&database.pool()).await.expect("an empty database can be migrated");
    require_current_schema(&database.pool()).await.expect("it was just migrated");
}

#[tokio::test]
async fn newer_schema_is_refused_by_both_versions() {
    let database = TestDatabase::new().await;
    sqlx::query("insert into awa.schema_migrations (version, name, checksum, release) values (999, 'x', 'x', '9.0.0')")
        .execute(&database.pool())
        .await
        .expect("the table is there");
    let needed = awa_migrations_version();
    for refusal in [require_current_schema(&database.pool()).await.err(), migrate(&database.pool()).await.err()] {
        let text = refusal.expect("999 is newer").to_string();
        assert!(text.contains("999") && text.contains(&needed), "{text}");
    }
}

/// The version that this build needs, as the refusals name it.
fn awa_migrations_version() -> String {
    awa_migrations::Schema::embedded().version().to_string()
}
