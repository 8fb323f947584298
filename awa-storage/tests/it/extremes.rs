//! Ids beyond 32 and 53 bits, and times beyond every calendar: through the functions, the view and the tables.

use std::time::Duration;

use awa_model::JobId;
use awa_storage::{
    Guarded,
    admin::{self, Operated},
    promote::{PromoteCursor, promote},
    settle::{Completion, Settlement, Verdict, complete_many, settle_many},
    testing::TestDatabase,
};
use sqlx::PgPool;

use crate::scene::{claim, count, registered, rescue_all, run, states, text};
use crate::view::refusal;

async fn enqueue(pool: &PgPool) -> JobId {
    JobId::new(count(pool, "select job_id from awa.enqueue('noop')").await)
}

async fn due(pool: &PgPool) {
    run(pool, "update awa.scheduled_jobs set run_at = now()").await;
    assert_eq!(promote(pool, &mut PromoteCursor::default(), 10).await.expect("a pass").promoted, 1);
}

/// Every change of state there is, on one job after another.
async fn whole_life(pool: &PgPool) -> JobId {
    let worker = registered(pool).await;
    let id = enqueue(pool).await;
    let settle = async |verdict: Verdict| {
        let lease = claim(pool, worker, "noop", 1).await.remove(0).lease;
        assert_eq!(lease.job_id(), id);
        let settlement = Settlement { lease, verdict, progress: None };
        assert!(settle_many(pool, &[settlement]).await.expect("settled")[0].is_applied());
    };
    settle(Verdict::Release).await;
    settle(Verdict::Snooze { after: Duration::from_secs(60) }).await;
    due(pool).await;
    settle(Verdict::Retry { after: None, error: "x".into() }).await;
    assert_eq!(admin::run_now(pool, id).await.expect("an answer"), Operated::Applied);
    let _ = claim(pool, worker, "noop", 1).await;
    run(pool, "delete from awa.workers").await;
    assert_eq!(rescue_all(pool).await.jobs[0].job_id, id);
    assert_eq!(admin::cancel(pool, id, Some("x")).await.expect("an answer"), Operated::Applied);
    assert_eq!(admin::retry(pool, id).await.expect("an answer"), Operated::Applied);
    let worker = registered(pool).await;
    let lease = claim(pool, worker, "noop", 1).await.remove(0).lease;
    let completion = Completion { lease, result: None };
    assert_eq!(complete_many(pool, &[completion]).await.expect("completed"), [Guarded::Applied(())]);
    assert_eq!(admin::status(pool, id).await.expect("an answer").expect("a job").id, id);
    assert_eq!(admin::delete(pool, id).await.expect("an answer"), Operated::Applied);
    id
}

// RANGE-01
#[tokio::test]
async fn ids_beyond_32_and_53_bits_go_through_a_whole_life_exactly() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for first in [2_147_483_646_i64, 3_000_000_000, 9_007_199_254_740_993] {
        run(&pool, &format!("select setval('awa.job_id', {first}, false)")).await;
        for id in first..first + 3 {
            assert_eq!(whole_life(&pool).await.get(), id);
        }
    }
    assert_eq!(states(&pool).await, "");
}

/// Times that a producer may have, and whether the functions and the view take them.
const TIMES: [(&str, bool); 8] = [
    ("2038-01-19 03:14:08 UTC", true),
    ("9999-12-31 23:59:59.999999 UTC", true),
    ("0001-01-01 00:00:00 UTC", true),
    ("infinity", false),
    ("-infinity", false),
    ("262143-12-31 UTC", false),
    ("294276-01-01 UTC", false),
    ("0001-01-01 00:00:00 UTC BC", false),
];

// RANGE-03
#[tokio::test]
async fn functions_and_the_view_take_due_times_of_the_years_1_to_9999_and_refuse_all_others_alike() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let id = enqueue(&pool).await;
    for (time, fits) in TIMES {
        // The wire form of the time: what awa.edit reads is ISO 8601.
        let iso = time
            .replace(' ', "T")
            .replace("TUTC", "Z")
            .replace("31Z", "31T00:00:00Z")
            .replace("01-01Z", "01-01T00:00:00Z");
        for statement in [
            format!("select awa.enqueue('noop', run_at => '{time}')"),
            format!("insert into awa.jobs (kind, run_at) values ('noop', '{time}')"),
            format!("update awa.jobs set run_at = '{time}' where id = {id}"),
            format!("select awa.edit({id}, '{{\"run_at\": \"{iso}\"}}')"),
        ] {
            if fits {
                run(&pool, &statement).await;
            } else {
                let (code, message) = refusal(&pool, &statement).await;
                assert_eq!(code, "22023", "{statement}");
                assert!(message.starts_with("run_at is ") && message.contains("; it must be "), "{message}");
            }
        }
    }
}

// RANGE-03: whoever writes the tables directly meets no check, and stops nobody.
#[tokio::test]
async fn a_time_beyond_the_calendar_in_a_table_stops_neither_claim_nor_promotion_nor_status() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for (time, _) in TIMES {
        run(&pool, &format!("insert into awa.jobs_hot (kind, run_at, created_at) values ('noop', '{time}', '{time}')"))
            .await;
        run(
            &pool,
            &format!("insert into awa.scheduled_jobs (kind, run_at, created_at) values ('noop', '{time}', '{time}')"),
        )
        .await;
        run(
            &pool,
            &format!(
                "insert into awa.jobs_hot_parked (kind, state, run_at, attempted_at, finalized_at)
                 values ('noop', 'failed', '{time}', '{time}', '{time}')"
            ),
        )
        .await;
    }
    let unread = "select count(*) from awa.jobs as job where not exists (select from awa.why(job.id))";
    assert_eq!(count(&pool, unread).await, 0);
    let ids: Vec<i64> = sqlx::query_scalar("select id from awa.jobs").fetch_all(&pool).await.expect("ids");
    for id in ids {
        assert!(admin::status(&pool, JobId::new(id)).await.expect("an answer").is_some(), "{id}");
    }
    let due = count(&pool, "select count(*) from awa.scheduled_jobs where run_at <= now()").await;
    assert_eq!(promote(&pool, &mut PromoteCursor::default(), 100).await.expect("a pass").promoted as i64, due);
    // What is left is due in a future that no calendar has: nobody waits for it, and an operator can bring it back.
    let late = text(&pool, "select array_agg(id) from awa.scheduled_jobs").await;
    let far = promote(&pool, &mut PromoteCursor::default(), 100).await.expect("a pass");
    assert!(far.promoted == 0 && far.next_due.is_none_or(|next| next > Duration::from_secs(3600)), "{far:?}");
    let edited = format!(
        "select count(*) from unnest('{late}'::bigint[]) as id
          where (awa.edit(id, '{{\"priority\": 3}}')).outcome = 'applied'
            and (awa.edit(id, '{{\"run_in\": 3600}}')).outcome = 'applied'"
    );
    assert_eq!(count(&pool, &edited).await, 8 - due);
    let near = promote(&pool, &mut PromoteCursor::default(), 100).await.expect("a pass");
    assert!(near.next_due.is_some_and(|next| next <= Duration::from_secs(3600)), "{near:?}");
    let run_now = format!("select count(*) from awa.run_now_many('{late}') where outcome = 'applied'");
    assert_eq!(count(&pool, &run_now).await, 8 - due);
    let due = 8;
    let worker = registered(&pool).await;
    assert_eq!(claim(&pool, worker, "noop", 8 + due as usize).await.len() as i64, 8 + due);
    let left = "array(select id from awa.jobs)";
    let cancelled = format!("select count(*) from awa.cancel_many({left}) where outcome in ('applied', 'refused')");
    assert_eq!(count(&pool, &cancelled).await, 24);
    assert_eq!(
        count(&pool, &format!("select count(*) from awa.retry_many({left}) where outcome = 'applied'")).await,
        24
    );
    assert_eq!(
        count(&pool, &format!("select count(*) from awa.delete_jobs({left}) where outcome = 'applied'")).await,
        24
    );
}
