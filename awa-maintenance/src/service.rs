//! Maintenance with connections of its own: for as long as a process lives, or once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use awa_model::WorkerId;
use awa_storage::session::Sessions;
use sqlx::PgPool;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    Duty, DutyName, Error, Maintainer, MaintenanceConfig, Next,
    duties::Shared,
    journal::Journal,
    maintainer::{one_pass, words},
};

/// Connections for all duties together, which only the leader needs.
const DUTY_CONNECTIONS: u32 = 2;

/// Connections that [`serve`] uses while it leads; one while it does not.
pub const CONNECTIONS: u32 = DUTY_CONNECTIONS + 1;

/// How long a duty waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(30);

/// Does maintenance while it leads, and stands for election while it does not, until `stop`. The connections are its own, so that
/// a long sweep holds up nobody. `holder` has to be fresh for this process.
pub async fn serve(sessions: Sessions, holder: WorkerId, config: MaintenanceConfig, stop: CancellationToken) {
    let pool = sessions.pool(DUTY_CONNECTIONS, ACQUIRE_TIMEOUT, config.pass_time_max);
    // Its own, so that duties whose connections say nothing any more do not cost the lead.
    let elections = sessions.pool(1, config.leader_term, config.leader_term);
    match Maintainer::new(pool.clone(), holder, config) {
        Ok(maintainer) => maintainer.electing_through(elections.clone()).run(stop).await,
        // Callers have checked the same rules.
        Err(broken) => tracing::error!(?broken, "maintenance refuses its settings: another process has to do it"),
    }
    tokio::join!(pool.close(), elections.close());
}

/// What one duty did in a [`tick`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Ticked {
    /// Which.
    pub duty: DutyName,
    /// Rows, batches or segments that it changed.
    pub changed: usize,
    /// Whether it had nothing more to do; otherwise the time was over first, or it failed.
    pub is_done: bool,
    /// Why its last pass failed, if it did. What the passes before it did is done.
    pub error: Option<Error>,
}

/// Does every duty until it has nothing more to do or `budget` is over, once, without standing for election: for callers that come
/// and go, like a function that a timer starts. Harmless beside a leader and beside others of its kind (I10).
///
/// A pass that is under way when the budget is over is given up; its statement takes effect as a whole, or not at all. What the
/// duties did is in `awa.status()` afterwards.
pub async fn tick(sessions: &Sessions, config: MaintenanceConfig, budget: Duration) -> Vec<Ticked> {
    let pool = sessions.pool(DUTY_CONNECTIONS, budget.min(ACQUIRE_TIMEOUT), config.pass_time_max);
    // Whether the database was away nobody has seen.
    let shared = Shared::default();
    let duties = config.duties.iter().map(|name| (name, name.duty(&pool, config, &shared))).collect();
    let ticked = exhaust_all(duties, &pool, config, budget).await;
    pool.close().await;
    ticked
}

/// Exhausts each duty, and writes down what they did.
async fn exhaust_all(
    duties: Vec<(DutyName, Arc<dyn Duty>)>,
    pool: &PgPool,
    config: MaintenanceConfig,
    budget: Duration,
) -> Vec<Ticked> {
    let journal = Arc::new(Journal::new(duties.iter().map(|(_, duty)| duty.name()), []));
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    let mut running = HashMap::new();
    for (name, duty) in duties {
        let exhausted = exhaust(name, Arc::clone(&duty), Arc::clone(&journal), config, began, budget);
        running.insert(tasks.spawn(exhausted).id(), (name, duty));
    }
    let mut ticked = Vec::new();
    while let Some(done) = tasks.join_next_with_id().await {
        match done {
            Ok((_, done)) => ticked.push(done),
            Err(panic) => {
                let Some((name, duty)) = running.remove(&panic.id()) else { continue };
                let error = Error::Panicked(words(panic));
                tracing::error!(duty = name.as_str(), %error, "a duty has panicked");
                journal.failed(&*duty, &error, config.retry_interval);
                ticked.push(Ticked { duty: name, changed: 0, is_done: false, error: Some(error) });
            }
        }
    }
    let reports = journal.of_tick();
    if !reports.is_empty()
        && let Err(error) = awa_storage::leader::report(pool, WorkerId::random(), &reports).await
    {
        tracing::warn!(%error, "what the duties did cannot be told");
    }
    ticked.sort_by_key(|one| one.duty as u8);
    ticked
}

async fn exhaust(
    name: DutyName,
    duty: Arc<dyn Duty>,
    journal: Arc<Journal>,
    config: MaintenanceConfig,
    began: Instant,
    budget: Duration,
) -> Ticked {
    let mut ticked = Ticked { duty: name, changed: 0, is_done: false, error: None };
    while let Some(left) = budget.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
        journal.began(&*duty);
        match one_pass(&*duty, left.min(config.pass_time_max)).await {
            Ok(pass) => {
                journal.passed(&*duty, pass);
                ticked.changed += pass.changed;
                if pass.next != Next::Now {
                    ticked.is_done = true;
                    break;
                }
            }
            Err(error) => {
                journal.failed(&*duty, &error, config.retry_interval);
                ticked.error = Some(error);
                break;
            }
        }
    }
    ticked
}

#[cfg(test)]
mod tests;
