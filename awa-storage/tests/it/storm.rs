//! LOCK-01: jobs that go back and forth between the planes while everything that maintains them runs as fast as it can.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use awa_storage::{
    Claimed, Cursors, Guarded,
    attempt::heartbeat,
    audit::{AuditCursor, audit},
    promote::{PromoteCursor, promote, promote_others},
    ring::{SettledMark, empty_claims, look, recycle, rotate, switch_claims},
    settle::{Completion, Settlement, Verdict, complete_many, settle_many},
    testing::TestDatabase,
};
use sqlx::{PgPool, postgres::PgPoolOptions};
use tokio::task::JoinSet;

use crate::scene::{count, kinds, queue, registered, run, states};

/// How often each job goes round before it is completed.
const ROUNDS: i32 = 3;

#[derive(Clone)]
struct Storm {
    pool: PgPool,
    left: Arc<AtomicI64>,
    over: Arc<AtomicBool>,
}

impl Storm {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    /// Settles a job, which has to work: nobody else has it.
    async fn settle(&self, job: Claimed) {
        let id = job.lease.job_id().get();
        assert_eq!(heartbeat(&self.pool, &[job.lease.held()]).await.expect("a beat"), [], "job {id} keeps its lease");
        let round = job.snoozes.max(i32::from(job.attempt) - 1);
        if round >= ROUNDS {
            let completion = Completion { lease: job.lease, result: None };
            let answers = complete_many(&self.pool, &[completion]).await.expect("completed");
            assert_eq!(answers, [Guarded::Applied(())], "job {id}");
            self.left.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let after = Duration::ZERO;
        let verdict = if id % 2 == 0 {
            Verdict::Retry { after: Some(after), error: "again".to_owned() }
        } else {
            Verdict::Snooze { after }
        };
        let settlement = Settlement { lease: job.lease, verdict, progress: None };
        let answers = settle_many(&self.pool, &[settlement]).await.expect("settled");
        assert!(matches!(answers[..], [Guarded::Applied(_)]), "job {id}: {answers:?}");
    }

    async fn work(self, cursors: Arc<Cursors>) {
        while self.left.load(Ordering::Relaxed) > 0 {
            for job in cursors.claim(&self.pool, &[(queue("a"), 1), (queue("b"), 1)]).await.expect("a claim") {
                self.settle(job).await;
            }
        }
    }

    async fn tick(self, cursors: Arc<Cursors>) {
        while self.goes_on() {
            cursors.tick(&self.pool).await.expect("a tick");
        }
    }

    async fn promote(self) {
        while self.goes_on() {
            let mut cursor = PromoteCursor::default();
            promote(&self.pool, &mut cursor, 50).await.expect("a batch");
            promote_others(&self.pool, &mut cursor, 50).await.expect("a look");
        }
    }

    async fn turn(self) {
        let mut mark = SettledMark::default();
        while self.goes_on() {
            let needs = look(&self.pool).await.expect("a look");
            rotate(&self.pool, needs.current).await.expect("an answer");
            for _ in 0..5 {
                mark.observe(&self.pool).await.expect("an observation");
                let needs = look(&self.pool).await.expect("a look");
                recycle(&self.pool, needs.oldest, mark.seq(), 100).await.expect("an answer");
            }
        }
    }

    async fn list(self) {
        while self.goes_on() {
            switch_claims(&self.pool, 1, Duration::ZERO).await.expect("an answer");
            empty_claims(&self.pool, 64).await.expect("an answer");
        }
    }

    async fn audit(self) {
        while self.goes_on() {
            let mut from = Some(AuditCursor::default());
            while let Some(cursor) = from {
                let found = match audit(&self.pool, cursor, 100, Duration::from_secs(90)).await {
                    // A segment that is being emptied is not waited for: the duty asks again.
                    Err(error) if error.sqlstate().as_deref() == Some("55P03") => continue,
                    answer => answer.expect("an audit"),
                };
                assert!(found.unlisted.is_empty() && found.doubled.is_empty(), "{found:?}");
                from = found.next;
            }
        }
    }
}

async fn check(jobs: i64, workers: usize) {
    let database = TestDatabase::new().await;
    let pool = PgPoolOptions::new().max_connections(24).connect_with(database.options()).await.expect("a pool");
    // Completed jobs go at once, so that segments are emptied while jobs run in them.
    run(&pool, "select awa.configure_ring(completed_retention => '0', snapshot_patience => '0')").await;
    let jobs_of = format!(
        "insert into awa.jobs_hot (kind, queue, priority)
         select 'noop', case when place % 2 = 0 then 'a' else 'b' end, 1 + place % 4 from generate_series(1, {jobs}) as place"
    );
    run(&pool, &jobs_of).await;
    let storm = Storm { pool: pool.clone(), left: Arc::new(AtomicI64::new(jobs)), over: Arc::default() };
    let mut maintenance = JoinSet::new();
    maintenance.spawn(storm.clone().promote());
    maintenance.spawn(storm.clone().turn());
    maintenance.spawn(storm.clone().list());
    maintenance.spawn(storm.clone().audit());
    let mut work = JoinSet::new();
    for _ in 0..2 {
        let cursors = Cursors::new(registered(&pool).await, &kinds(&["noop"]), &[queue("a"), queue("b")]);
        cursors.load(&pool).await.expect("marks");
        let cursors = Arc::new(cursors);
        maintenance.spawn(storm.clone().tick(Arc::clone(&cursors)));
        for _ in 0..workers / 2 {
            work.spawn(storm.clone().work(Arc::clone(&cursors)));
        }
    }
    // Ends with the last job: one that had to wait for rescue would never come.
    while let Some(done) = work.join_next().await {
        done.expect("no worker met an error");
    }
    storm.over.store(true, Ordering::Relaxed);
    while let Some(done) = maintenance.join_next().await {
        done.expect("no duty met an error");
    }
    assert_eq!(count(&pool, "select deadlocks from pg_stat_database where datname = current_database()").await, 0);
    assert_eq!(states(&pool).await, "", "completed jobs are past their retention");
    pool.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn retries_and_snoozes_under_all_maintenance_meet_no_deadlock_and_need_no_rescue() {
    check(300, 64).await;
}

mod long {
    //! The same at full size.

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn retries_and_snoozes_under_all_maintenance_meet_no_deadlock_and_need_no_rescue() {
        super::check(20_000, 64).await;
    }
}
