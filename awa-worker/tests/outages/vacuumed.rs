//! What the server does by itself keeps no segment of the ring from being emptied. It is told how to vacuum, so it is the test's own.

use sqlx::PgPool;

use crate::server::PrivateServer;
use crate::support::until;

async fn count(pool: &PgPool, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(pool).await.expect(query)
}

#[tokio::test]
async fn long_vacuum_by_the_server_is_no_transaction_that_a_segment_waits_for() {
    let server = PrivateServer::new().await;
    let pool = &server.pool;
    for statement in [
        "alter system set autovacuum_naptime = '1s'",
        "select pg_reload_conf()",
        // Slow enough to be there until the end, and more than it would leave alone.
        "create table public.large (id bigint) with (autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0,
             autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)",
        "insert into public.large select generate_series(1, 100000)",
        "delete from public.large",
    ] {
        sqlx::raw_sql(statement).execute(pool).await.expect(statement);
    }
    let vacuums = "select count(*) from pg_stat_activity
                    where backend_type = 'autovacuum worker' and xact_start is not null and query like '%public.large%'";
    until("a vacuum", async || count(pool, vacuums).await == 1).await;
    let open = "select cardinality(awa.open_transactions())::bigint";
    assert_eq!(count(pool, open).await, 0);
    let mut user = pool.acquire().await.expect("a connection");
    sqlx::raw_sql("begin").execute(&mut *user).await.expect("a transaction");
    assert_eq!(count(pool, open).await, 1);
    assert_eq!(count(pool, vacuums).await, 1, "it has been there all the time");
}
