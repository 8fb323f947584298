//! The usual wish of an operator that a process ends.

/// Resolves at the first Ctrl-C, or SIGTERM where there is such a thing.
///
/// Where a signal cannot be listened for, it is not waited for.
pub async fn shutdown_signal() {
    tokio::select! {
        () = interrupt() => {}
        () = terminate() => {}
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
