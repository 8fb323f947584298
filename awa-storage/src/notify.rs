//! Wake-ups: one connection that listens, and the gates by which producers learn whether anybody sleeps.
//!
//! Polling is the truth; a notification only shortens the wait. NOTIFY takes a lock across the whole cluster when its
//! transaction commits, so a producer sends one only if somebody sleeps. A sleeper says so by a session-level advisory lock
//! per queue, its *gate*, held exclusively on the connection that listens; `awa.wake` tries the same lock shared, for the
//! length of its transaction. To fall asleep without losing a wake-up, in this order: [`try_gates`](Listener::try_gates);
//! look for work once more; [`wait`](Listener::wait). While a producer is open the gate is not to be had: poll on.
//!
//! A task of its own owns the connection and drains it at all times, so that a slow consumer cannot hold up the server's
//! queue of notifications; what it passes on is one pending signal, however many notifications came. When the connection
//! breaks, its gates are gone with it: the task connects again, waiting longer each time, and signals once, since
//! notifications may have been missed.
//!
//! A session lock and LISTEN need a connection that stays one session. Behind a pooler that hands out connections per
//! transaction do not use a `Listener`, poll.

mod task;

use std::{io, sync::Arc};

use awa_model::QueueName;
use sqlx::postgres::PgConnectOptions;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::JoinHandle,
};

use self::task::{Command, Drain};
use crate::Error;

/// Commands that may wait for the task; its user sends one at a time.
const COMMANDS_MAX: usize = 4;

/// A connection that listens for wake-ups, and holds the gates of the queues that its process would sleep on.
///
/// Dropping it closes the connection soon after, which opens the gates.
#[derive(Debug)]
pub struct Listener {
    commands: mpsc::Sender<Command>,
    signal: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Listener {
    /// Opens the connection and begins to listen.
    ///
    /// # Errors
    /// If the first connection cannot be made. Later ones are made by the listener itself, as often as it takes.
    pub async fn connect(options: &PgConnectOptions) -> Result<Self, Error> {
        let signal = Arc::new(Notify::new());
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let drain = Drain::connect(options.clone(), Arc::clone(&signal)).await?;
        Ok(Self { commands, signal, task: tokio::spawn(drain.run(inbox)) })
    }

    /// Takes the gates of these queues as far as they are to be had, without waiting. Those held already stay so.
    ///
    /// `true`: each gate is held, by this connection or by another sleeper, whose notification wakes this one too. Look for
    /// work once more, then sleep. `false`: some producer's transaction is open, so work may appear without a notification.
    ///
    /// # Errors
    /// If the connection is down or breaks, which frees all gates; it is being made again.
    pub async fn try_gates(&self, queues: &[QueueName]) -> Result<bool, Error> {
        let queues = names(queues);
        self.ask(|reply| Command::TryGates { queues, reply }).await
    }

    /// Gives back the gates of these queues, so that producers send nothing while this process is awake.
    ///
    /// # Errors
    /// As [`try_gates`](Self::try_gates).
    pub async fn release_gates(&self, queues: &[QueueName]) -> Result<(), Error> {
        let queues = names(queues);
        self.ask(|reply| Command::ReleaseGates { queues, reply }).await
    }

    /// Resolves when work was announced in a queue whose gate was ever asked for, or when announcements may have been
    /// missed because the connection broke. An announcement that came while nobody waited is kept: one, not each.
    ///
    /// Cancel safe.
    pub async fn wait(&self) {
        self.signal.notified().await;
    }

    /// Closes the connection and waits until that is done, at most a few seconds.
    pub async fn close(self) {
        drop(self.commands);
        // The only error is a panic of the task or a runtime that goes down; the connection is closed either way.
        let _ = self.task.await;
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Command) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| down())?;
        answer.await.unwrap_or_else(|_| Err(down()))
    }
}

fn names(queues: &[QueueName]) -> Vec<String> {
    queues.iter().map(ToString::to_string).collect()
}

/// What a caller learns while there is no connection.
fn down() -> Error {
    let text = "the connection that listens is down";
    Error::from(sqlx::Error::Io(io::Error::new(io::ErrorKind::NotConnected, text)))
}
