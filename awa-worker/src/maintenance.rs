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

/// How long a duty may go on after it was asked to stop.
const STOP_MAX: Duration = Duration::from_secs(5);

/// The settings of maintenance that follow from those of the worker.
pub(crate) fn settings(config: &Config) -> MaintenanceConfig {
    MaintenanceConfig {
        duties: config.duties,
        ..MaintenanceConfig::of_fleet(config.heartbeat_interval, config.stale_after, config.cancel_grace)
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
