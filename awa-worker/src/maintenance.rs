//! The duties that keep the fleet healthy, run inside the worker unless switched off.
//!
//! Processes agree on one leader by themselves; what the duties do is in `awa_maintenance`. They have connections of their
//! own, so that a long sweep holds up no claim.

use std::time::Duration;

use awa_maintenance::{MaintenanceConfig, serve};
use awa_model::WorkerId;
use awa_storage::session::Sessions;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::kind_limit;

/// How long a duty may go on after it was asked to stop.
const STOP_MAX: Duration = Duration::from_secs(5);

/// What an attempt that overran its time may take on top of the grace of its handler: the database counts from the claim,
/// the process from the start, which may wait for a place among the jobs of the kind; and its outcome has to arrive.
const DEADLINE_ALLOWANCE: Duration = Duration::from_secs(5).saturating_add(kind_limit::WAIT_MAX);

/// The settings of maintenance that follow from those of the worker.
pub(crate) fn settings(config: &Config) -> MaintenanceConfig {
    MaintenanceConfig {
        duties: config.duties,
        deadline_grace: config.cancel_grace.saturating_add(DEADLINE_ALLOWANCE),
        ..MaintenanceConfig::of_fleet(config.heartbeat_interval, config.stale_after)
    }
}

/// Maintenance in this process, or none.
pub(crate) struct Maintenance {
    stop: CancellationToken,
    running: Option<JoinHandle<()>>,
}

impl Maintenance {
    pub(crate) fn start(config: &Config, holder: WorkerId, sessions: Sessions) -> Self {
        let stop = CancellationToken::new();
        let running = config.maintenance.then(|| tokio::spawn(serve(sessions, holder, settings(config), stop.clone())));
        Self { stop, running }
    }

    /// Resolves when maintenance has ended by itself, which it does not.
    pub(crate) async fn ended(&mut self) {
        if let Some(running) = &mut self.running {
            let _ = running.await;
            self.running = None;
        } else {
            std::future::pending::<()>().await;
        }
    }

    /// Stops the duties and gives up the lead.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        if let Some(mut running) = self.running.take()
            && tokio::time::timeout(STOP_MAX, &mut running).await.is_err()
        {
            tracing::warn!("maintenance did not stop in time and is cut off");
            running.abort();
        }
    }
}
