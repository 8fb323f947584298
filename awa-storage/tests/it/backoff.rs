//! RETRY-02: how long a job waits, as the database computes it where no policy of a kind says.

use awa_storage::testing::TestDatabase;

use crate::scene::count;

#[tokio::test]
async fn the_delay_of_every_attempt_there_can_be_is_between_that_of_the_doubling_and_a_quarter_more() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let wrong = count(
        &pool,
        "select count(*)
           from generate_series(-32768, 32767) as attempt
          cross join lateral (select extract(epoch from awa.backoff(attempt)) as seconds,
                                     case when attempt < 0 then 1 when attempt > 16 then 86400
                                          else power(2, attempt) end as least) as delay
          where seconds < least or seconds > least * 1.25",
    )
    .await;
    assert_eq!(wrong, 0);
    // Not the same each time.
    assert!(count(&pool, "select count(distinct awa.backoff(7)) from generate_series(1, 20)").await > 1);
}
