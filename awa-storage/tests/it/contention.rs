//! Many sessions on the same jobs: nobody sees a deadlock, and each job ends in one place.

use std::time::{Duration, Instant};

use awa_model::{JobId, JobState};
use awa_storage::{
    Error,
    admin::{self, Operated},
    promote::{PromoteCursor, promote},
    prune::{PruneCursor, prune_parked},
    testing::TestDatabase,
};
use futures_util::future::try_join_all;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};
use sqlx::PgPool;

use crate::scene::{count, run, states};

/// One round of what a session does to its share of the jobs, in an order of its own.
async fn round(pool: &PgPool, session: u64, ids: &[JobId], random: &mut StdRng) -> Result<(), Error> {
    let share = &ids[..random.random_range(1..=ids.len())];
    let answers = match session {
        0 => {
            promote(pool, &mut PromoteCursor::default(), 1000).await?;
            let _ = prune_parked(pool, JobState::Failed, PruneCursor::default(), 10).await?;
            return Ok(());
        }
        1 => admin::cancel_many(pool, share, None).await?,
        2 => admin::retry_many(pool, share).await?,
        3 => admin::run_now_many(pool, share).await?,
        4 => {
            // One job in ten can go: the others are fought over until the end, however long that is.
            let mortal = share.iter().rev().filter(|id| id.get() % 10 == 0);
            let reversed: Vec<_> = mortal.take(share.len() / 50).copied().collect();
            admin::delete_many(pool, &reversed).await?
        }
        _ => {
            let priority = random.random_range(1..=4_i64);
            for id in &share[..share.len().min(100)] {
                let edit =
                    format!("select awa.edit({id}, '{{\"priority\": {priority}, \"run_in\": {}}}')", priority % 2);
                run(pool, &edit).await;
            }
            return Ok(());
        }
    };
    assert_eq!(answers.len().min(1), usize::from(!answers.is_empty()));
    assert!(answers.iter().all(|(_, answer)| !matches!(answer, Operated::Refused { state: JobState::Running })));
    Ok(())
}

// LOCK-08
async fn sessions_on_the_same_jobs_meet_no_deadlock(jobs: i64, span: Duration) {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(
        &pool,
        &format!(
            "insert into awa.scheduled_jobs (kind, run_at, unique_key, unique_states)
             select 'noop', now() + n % 2 * interval '1 hour',
                    case when n % 3 = 0 then decode(md5((n / 6)::text || n % 2), 'hex') end, case when n % 3 = 0 then 31 end
               from generate_series(1, {jobs}) as n"
        ),
    )
    .await;
    let ids: Vec<i64> = sqlx::query_scalar("select id from awa.jobs").fetch_all(&pool).await.expect("ids");
    let ids: Vec<JobId> = ids.into_iter().map(JobId::new).collect();
    let started = Instant::now();
    let sessions = (0..6).map(|session| {
        let (pool, mut ids) = (pool.clone(), ids.clone());
        async move {
            let mut random = StdRng::seed_from_u64(session);
            loop {
                ids.shuffle(&mut random);
                round(&pool, session, &ids, &mut random).await?;
                if started.elapsed() > span {
                    return Ok::<_, Error>(());
                }
            }
        }
    });
    try_join_all(sessions).await.expect("no deadlock, nor any other error");
    let twice = "select count(*) from (select id from awa.jobs group by id having count(*) > 1) as twice";
    assert_eq!(count(&pool, twice).await, 0, "each job is in one place (I1)");
    let claims = "select count(*) from awa.job_unique_claims as claim
                    full join (select * from awa.jobs where unique_key is not null
                                 and unique_states & awa.state_bit(state) <> 0) as job
                      on job.unique_key = claim.unique_key and job.id = claim.job_id
                   where job.id is null or claim.job_id is null";
    assert_eq!(count(&pool, claims).await, 0, "a claim exists if and only if its job needs it (I4)");
    assert_ne!(states(&pool).await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_promotion_and_retention_on_the_same_jobs_meet_no_deadlock() {
    sessions_on_the_same_jobs_meet_no_deadlock(200, Duration::from_secs(3)).await;
}

// BATCH-01
async fn a_bulk_call_takes_any_number_of_ids(number: i64) {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, &format!("insert into awa.jobs_hot (kind) select 'noop' from generate_series(1, {number})")).await;
    let ids: Vec<i64> =
        sqlx::query_scalar("select id from awa.jobs order by id desc").fetch_all(&pool).await.expect("ids");
    let ids: Vec<JobId> = ids.into_iter().map(JobId::new).collect();
    let all = |answers: Vec<(JobId, Operated)>| {
        assert_eq!(answers.len(), ids.len());
        assert!(answers.iter().zip(&ids).all(|(answer, id)| *answer == (*id, Operated::Applied)), "in the order given");
    };
    all(admin::cancel_many(&pool, &ids, None).await.expect("cancelled"));
    all(admin::retry_many(&pool, &ids).await.expect("retried"));
    all(admin::delete_many(&pool, &ids).await.expect("deleted"));
    assert_eq!(states(&pool).await, "");
}

#[tokio::test]
async fn a_bulk_call_takes_thousands_of_ids() {
    a_bulk_call_takes_any_number_of_ids(2000).await;
}

mod long {
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn operators_promotion_and_retention_on_5000_jobs_meet_no_deadlock() {
        super::sessions_on_the_same_jobs_meet_no_deadlock(5000, Duration::from_secs(180)).await;
    }

    #[tokio::test]
    async fn a_bulk_call_takes_a_hundred_thousand_ids() {
        super::a_bulk_call_takes_any_number_of_ids(100_000).await;
    }
}
