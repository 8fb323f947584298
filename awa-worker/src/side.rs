//! What must not wait for handlers, on a thread of its own with a runtime and connections of its own.
//!
//! Handlers that block every thread of the service's runtime delay everything else in this process. But they are not taken
//! for dead (heartbeats), they can be told that their job was cancelled, they hold up no notification of the server (the
//! connection that listens), and it is said who they are (blocked polls). All of this goes on until the last attempt of a
//! drain has ended.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use awa_storage::notify::Listener;
use awa_storage::workers::WorkerInfo;
use tokio::select;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::bounded::STATEMENT_MAX;
use crate::engine::Engine;
use crate::heartbeat::{Heart, STATEMENT_MIN};
use crate::{blocked, taken};

/// How long closing the connections of the thread may take.
pub(crate) const CLOSE_MAX: Duration = Duration::from_secs(2);

/// The thread. Dropping it asks it to stop.
#[derive(Debug)]
pub(crate) struct Side {
    stop: CancellationToken,
    stopped: Option<oneshot::Receiver<()>>,
}

impl Side {
    /// Starts the thread. Answers the connection that listens, too, if there is to be one and it can be had.
    pub(crate) async fn start(
        engine: Arc<Engine>,
        registration: WorkerInfo,
    ) -> std::io::Result<(Self, Option<Arc<Listener>>)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stop = CancellationToken::new();
        let (tell, stopped) = oneshot::channel();
        let (show, listener) = oneshot::channel();
        let heard = stop.clone();
        thread::Builder::new().name("awa-side".to_owned()).spawn(move || {
            runtime.block_on(run(&engine, registration, show, heard));
            drop(runtime);
            // Nobody listens if the worker was dropped; then nobody needs to know.
            let _ = tell.send(());
        })?;
        let side = Self { stop, stopped: Some(stopped) };
        Ok((side, listener.await.unwrap_or_default()))
    }

    /// Resolves when the thread has ended, which it does unasked only by a panic.
    pub(crate) async fn ended(&mut self) {
        if let Some(stopped) = &mut self.stopped {
            let _ = stopped.await;
        }
        self.stopped = None;
    }

    /// Stops the thread and waits for its connections to be closed.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        self.ended().await;
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn run(
    engine: &Arc<Engine>,
    registration: WorkerInfo,
    show: oneshot::Sender<Option<Arc<Listener>>>,
    stop: CancellationToken,
) {
    // Both made here, so that their sockets are driven by this thread.
    let patience = engine.config.heartbeat_interval.clamp(STATEMENT_MIN, STATEMENT_MAX);
    let pool = engine.sessions.pool(1, patience, STATEMENT_MAX);
    let listener = if engine.config.listen { Some(Arc::new(listen(engine).await)) } else { None };
    // Nobody takes it if the start was given up; then the thread is told to stop.
    let _ = show.send(listener.clone());
    let mut heart = Heart::new(Arc::clone(engine), pool.clone(), registration);
    // None of these ends by itself. What is under way when the worker has nothing left to look after may be cut off.
    select! {
        () = stop.cancelled() => {}
        () = heart.beat() => {}
        () = taken::hear(engine, &pool, listener.as_deref()) => {}
        () = blocked::watch(engine) => {}
    }
    let closing = async {
        pool.close().await;
        if let Some(listener) = listener {
            listener.close().await;
        }
    };
    // A connection that does not answer any more is left to its socket.
    let _ = tokio::time::timeout(CLOSE_MAX, closing).await;
}

/// A LISTEN connection. While none can be had the worker polls.
async fn listen(engine: &Engine) -> Listener {
    let options = engine.sessions.options();
    match Listener::connect(options, engine.worker).await {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(%error, "cannot LISTEN for wake-ups yet: idle queues are polled");
            Listener::connect_in_time(options, engine.worker)
        }
    }
}
