//! Connections for this product's own statements: settings of their own, and no place in a pool for one that is gone.

use std::time::Duration;

use awa_storage::{session::Sessions, testing::TestDatabase};
use sqlx::{AssertSqlSafe, PgPool};

const SECOND: Duration = Duration::from_secs(1);

async fn sessions(database: &TestDatabase) -> Sessions {
    Sessions::probe(database.options()).await.expect("the server answers")
}

async fn setting(pool: &PgPool, name: &str) -> String {
    let asked = sqlx::query_scalar("select current_setting($1)").bind(name);
    asked.fetch_one(pool).await.expect("a setting")
}

#[tokio::test]
async fn server_without_a_pooler_is_known_by_its_sessions() {
    let database = TestDatabase::new().await;
    assert!(!sessions(&database).await.are_shared());
}

#[tokio::test]
async fn what_administrators_set_for_people_does_not_reach_these_sessions() {
    let database = TestDatabase::new().await;
    for wish in
        ["statement_timeout = '1s'", "idle_session_timeout = '1s'", "default_transaction_isolation = 'serializable'"]
    {
        let statement = format!("alter database {} set {wish}", database.name());
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&database.pool()).await.expect("the owner may");
    }
    let pool = sessions(&database).await.pool(1, SECOND * 10, SECOND * 20);
    assert_eq!(setting(&pool, "statement_timeout").await, "25s");
    assert_eq!(setting(&pool, "idle_session_timeout").await, "0");
    assert_eq!(setting(&pool, "transaction_isolation").await, "read committed");
}

/// A statement that waits for a lock is given up by its caller. Its connection is thrown away, and the server ends the
/// statement, though it has heard of nothing.
#[tokio::test]
async fn statement_that_was_given_up_keeps_neither_its_place_in_the_pool_nor_its_process() {
    let database = TestDatabase::new().await;
    let pool = sessions(&database).await.pool(1, SECOND * 30, Duration::ZERO);
    let mut held = database.connect().await;
    sqlx::raw_sql("begin; lock table awa.jobs_hot").execute(&mut held).await.expect("a lock");
    let stuck = sqlx::query("select count(*) from awa.jobs").execute(&pool);
    tokio::time::timeout(SECOND, stuck).await.expect_err("it waits");
    assert_eq!(setting(&pool, "idle_session_timeout").await, "0", "there is a connection");
    let waiting =
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    let gone = async {
        while sqlx::query_scalar::<_, i64>(waiting).fetch_one(&pool).await.expect("answered") > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SECOND * 60, gone).await.expect("the server has ended it");
}
