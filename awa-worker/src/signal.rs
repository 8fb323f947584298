//! The usual wish of an operator that a process ends.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process waits, or has waited, for a signal. From then on signals do not end it by themselves any more.
static WAITED_FOR: AtomicBool = AtomicBool::new(false);

/// Resolves at the first Ctrl-C, or SIGTERM where there is such a thing.
///
/// Once this has been polled, these signals no longer end the process by themselves, also after the future is gone. A second
/// one is heard by [`Client::run_until`](crate::Client::run_until), which then drains no longer; a service with a life cycle
/// of its own waits for this again.
///
/// Where a signal cannot be listened for, it is not waited for.
pub async fn shutdown_signal() {
    WAITED_FOR.store(true, Ordering::Release);
    tokio::select! {
        () = interrupt() => {}
        () = terminate() => {}
    }
}

/// Resolves at the next signal, if this process leaves it to us to hear them at all.
pub(crate) async fn another() {
    if WAITED_FOR.load(Ordering::Acquire) {
        shutdown_signal().await;
    } else {
        std::future::pending::<()>().await;
    }
}

async fn interrupt() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        tracing::warn!(%error, "cannot listen for Ctrl-C");
        std::future::pending::<()>().await;
    }
}

#[cfg(unix)]
async fn terminate() {
    match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(mut signal) => {
            signal.recv().await;
        }
        Err(error) => {
            tracing::warn!(%error, "cannot listen for SIGTERM");
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(not(unix))]
async fn terminate() {
    std::future::pending::<()>().await;
}
