//! A snapshot that somebody holds for long, so that no dead row can be removed: jobs cost what they did, what is small stays
//! small, and all is made good once it is gone. Counted in pages and rows, not in time.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use awa_worker::{Client, JobError, Overlap, Schedule};
use sqlx::postgres::PgPoolOptions;

use crate::support::{Other, Probe, Rig, drain, probe, until};

/// What flows through the tables in one stretch, from the start of a worker to its end.
#[derive(Clone, Copy)]
struct Stretch {
    jobs: usize,
    /// They come in so many at a time.
    batch: usize,
    /// The time between two batches; else the next comes when the last is done.
    pause: Option<Duration>,
}

struct Pinned {
    rig: Rig,
    /// Jobs so far.
    jobs: usize,
    pages: i64,
}

impl Pinned {
    /// How many pages of tables and indexes all statements together touched for each job.
    async fn flow(&mut self, stretch: Stretch) -> f64 {
        let pool = PgPoolOptions::new().max_connections(4).connect_with(self.rig.database.options()).await.unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&done);
        let client = Client::builder(pool.clone())
            .register(async |_: Probe| Ok::<_, JobError>(serde_json::Value::Null))
            .register(move |_: Other| {
                counted.fetch_add(1, Ordering::Relaxed);
                async { Ok::<_, JobError>(()) }
            })
            .heartbeat_interval(Duration::from_millis(200))
            .stale_after(Duration::from_secs(60))
            .schedule(Schedule::new("every second", "* * * * * *", probe("periodic")).overlap(Overlap::Queue));
        let running = client.build().unwrap().start().await.unwrap();
        let mut pace = stretch.pause.map(tokio::time::interval);
        for batch in 1..=stretch.jobs / stretch.batch {
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
            let jobs = (0..stretch.batch).map(|number| Other { number: i64::try_from(number).unwrap() });
            awa_worker::enqueue_many(&self.rig.pool, jobs.collect::<Vec<_>>()).await.unwrap();
            if pace.is_none() {
                until("a batch", async || {
                    tokio::task::yield_now().await;
                    done.load(Ordering::Relaxed) >= batch * stretch.batch
                })
                .await;
            }
        }
        until("all jobs", async || {
            tokio::task::yield_now().await;
            done.load(Ordering::Relaxed) == stretch.jobs
        })
        .await;
        drain(&running).await;
        // What a session has counted is told when it ends: each job was changed by its claim and by its completion.
        pool.close().await;
        self.jobs += stretch.jobs;
        let changed = "select sum(n_tup_upd)::bigint from pg_stat_all_tables where schemaname = 'awa' and relname like 'jobs\\_hot%'";
        let expected = i64::try_from(2 * self.jobs).unwrap();
        until("the counters", async || self.rig.count(changed).await >= expected).await;
        let pages = self
            .rig
            .count(
                "select sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit + idx_blks_read, 0))::bigint
                   from pg_statio_all_tables where schemaname = 'awa'",
            )
            .await;
        let before = std::mem::replace(&mut self.pages, pages);
        (pages - before) as f64 / stretch.jobs as f64
    }

    /// The tables with dead rows, but for those of the jobs themselves, which grow with them and are emptied as a whole.
    async fn dead(&self) -> BTreeMap<String, i64> {
        sqlx::query_as(
            "select relname::text, n_dead_tup from pg_stat_all_tables
              where schemaname = 'awa' and n_dead_tup > 0 and relname not like 'jobs\\_hot%'",
        )
        .fetch_all(&self.rig.pool)
        .await
        .unwrap()
        .into_iter()
        .collect()
    }
}

/// The first stretch goes without the snapshot, so many with it, and one more without.
async fn what_a_held_snapshot_costs(stretch: Stretch, stretches: usize, dead_max: i64) {
    let rig = Rig::with_sessions().await;
    let mut pinned = Pinned { rig, jobs: 0, pages: 0 };
    // Much is done once, and the first pages of a table are few.
    pinned.flow(stretch).await;
    let free = pinned.flow(stretch).await;
    // A claim of few jobs costs more for each. One that read dead rows would read more with every job there has been.
    let dear = 3.0 * free.max(20.0);
    let mut holder = pinned.rig.database.connect().await;
    sqlx::raw_sql("begin isolation level repeatable read; select count(*) from pg_class")
        .execute(&mut holder)
        .await
        .unwrap();
    let mut held = free;
    for number in 1..=stretches {
        held = pinned.flow(stretch).await;
        let dead = pinned.dead().await;
        println!("{number}: {held:.1} pages a job, dead rows {dead:?}");
        assert!(dead.values().all(|rows| *rows <= dead_max), "{dead:?}");
        assert!(held <= dear, "{held:.1} pages a job while a snapshot is held, {free:.1} before");
    }
    sqlx::raw_sql("commit").execute(&mut holder).await.unwrap();
    sqlx::raw_sql("vacuum").execute(&mut holder).await.unwrap();
    until("nothing of it is left", async || pinned.dead().await.is_empty()).await;
    let after = pinned.flow(stretch).await;
    println!("{free:.1} pages a job before, {held:.1} at the end of it, {after:.1} afterwards");
    assert!(after <= dear, "{after:.1} pages a job afterwards, {free:.1} before");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_snapshot_makes_no_job_dearer_and_no_small_table_large() {
    what_a_held_snapshot_costs(Stretch { jobs: 300, batch: 30, pause: None }, 3, 500).await;
}

mod long {
    use std::time::Duration;

    use super::{Stretch, what_a_held_snapshot_costs};

    /// Ten minutes of 300 jobs a second.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ten_minutes_of_a_held_snapshot_make_no_job_dearer_and_no_small_table_large() {
        let minute = Stretch { jobs: 18_000, batch: 30, pause: Some(Duration::from_millis(100)) };
        what_a_held_snapshot_costs(minute, 10, 10_000).await;
    }
}
