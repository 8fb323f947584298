//! Kills a worker while it provably holds jobs: it is made to stand still, its attempts are read from the database, and only
//! if they are worth losing does it get SIGKILL. Otherwise it goes on, and the next look is at another.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use sqlx::PgPool;

use super::fleet::{Fleet, Signal, signal};
use crate::command::Result;

/// Pause between two looks. Short, since a file job is over in a few milliseconds.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// A fleet that has held nothing for so long does not work.
const PATIENCE: Duration = Duration::from_secs(60);

/// A worker that is no more, and the attempts that died with it.
pub(super) struct Killed {
    name: String,
    pid: i32,
    held: Vec<Held>,
}

/// One attempt, as the database knew it.
#[derive(sqlx::FromRow)]
struct Held {
    pid: i32,
    id: i64,
    run_lease: i64,
    kind: String,
    checkpoint: i32,
}

/// Waits for the right moment and kills.
pub(super) async fn kill_one(pool: &PgPool, fleet: &mut Fleet, run: i64) -> Result<Killed> {
    let began = Instant::now();
    loop {
        let pids = fleet.pids()?;
        let open_files = open_file_jobs(pool, run).await?;
        let held = held_by(pool, run, &pids).await?;
        for pid in pids {
            if !is_worth_losing(&held, pid, open_files) {
                continue;
            }
            signal(pid, Signal::Stop)?;
            statements_ended(pool).await?;
            if is_worth_losing(&held_by(pool, run, &[pid]).await?, pid, open_files) {
                let name = fleet.kill(pid)?;
                statements_ended(pool).await?;
                return Ok(Killed { name, pid, held: held_by(pool, run, &[pid]).await? });
            }
            signal(pid, Signal::Continue)?;
        }
        if began.elapsed() > PATIENCE {
            return Err("no worker ever held the merge with a checkpoint, so there was none to kill".into());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// The merge with at least one checkpoint, and some file jobs too unless there are none left.
fn is_worth_losing(held: &[Held], pid: i32, open_files: i64) -> bool {
    let mut own = held.iter().filter(|held| held.pid == pid);
    let merge = own.clone().any(|held| held.checkpoint > 0);
    merge && (open_files == 0 || own.any(|held| held.kind == "index_file"))
}

/// What the workers with these process ids hold: running under their name, and listed among the running jobs.
async fn held_by(pool: &PgPool, run: i64, pids: &[i32]) -> sqlx::Result<Vec<Held>> {
    sqlx::query_as(
        "select worker.pid, job.id, job.run_lease, job.kind,
                coalesce((job.progress #>> '{metadata,total,items}')::integer, 0) as checkpoint
           from awa.workers as worker
           join awa.jobs as job on job.attempted_by = worker.id
          where worker.pid = any($1)
            and $2 = any(job.tags)
            and job.state = 'running'
            and exists (
                select from awa.active_claims as claim
                 where claim.worker = worker.id and job.id = any(claim.job_ids)
            )
          order by job.id",
    )
    .bind(pids)
    .bind(format!("run-{run}"))
    .fetch_all(pool)
    .await
}

/// How many file jobs have not ended.
async fn open_file_jobs(pool: &PgPool, run: i64) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "select count(*) from awa.jobs as job
          where $1 = any(job.tags) and job.kind = 'index_file' and job.state in ('available', 'running', 'retryable')",
    )
    .bind(format!("run-{run}"))
    .fetch_one(pool)
    .await
}

/// Waits until every statement has ended that was under way when this was called. What a process sent before it stood still
/// or died may still be carried out by the server, and must be seen.
async fn statements_ended(pool: &PgPool) -> sqlx::Result<()> {
    let called_at: f64 =
        sqlx::query_scalar("select extract(epoch from clock_timestamp())::float8").fetch_one(pool).await?;
    loop {
        let under_way: i64 = sqlx::query_scalar(
            "select count(*) from pg_stat_activity as backend
              where backend.datname = current_database()
                and backend.pid <> pg_backend_pid()
                and backend.backend_type = 'client backend'
                and backend.state = 'active'
                and backend.query_start <= to_timestamp($1)",
        )
        .bind(called_at)
        .fetch_one(pool)
        .await?;
        if under_way == 0 {
            return Ok(());
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

impl Killed {
    /// As the application reads it: id, lease and checkpoint of each attempt.
    pub(super) fn orphans(&self) -> serde_json::Value {
        self.held
            .iter()
            .map(
                |held| serde_json::json!({ "id": held.id, "run_lease": held.run_lease, "checkpoint": held.checkpoint }),
            )
            .collect()
    }
}

impl fmt::Display for Killed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds = BTreeMap::<&str, usize>::new();
        for held in &self.held {
            *kinds.entry(&held.kind).or_default() += 1;
        }
        let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let checkpoint = self.held.iter().map(|held| held.checkpoint).max().unwrap_or(0);
        write!(
            formatter,
            "killed {} (process {}) with SIGKILL while it held {} jobs: {}; the merge had {checkpoint} files checkpointed",
            self.name,
            self.pid,
            self.held.len(),
            kinds.join(", ")
        )
    }
}
