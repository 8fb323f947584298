//! Wake-ups: one connection that listens, and the gates by which producers learn whether anybody sleeps.
//!
//! Polling is the truth; a notification only shortens the wait. NOTIFY takes a lock across the whole cluster when its
//! transaction commits, so a producer sends one only if somebody sleeps. A sleeper says so by a session-level advisory lock
//! per queue, its *gate*, held exclusively on the connection that listens; `awa.wake` tries the same lock shared, for the
//! length of its transaction. To fall asleep without losing a wake-up, in this order: [`try_gates`](Listener::try_gates);
//! look for work once more; [`wait`](Listener::wait). While a producer is open the gate is not to be had: poll on.
//!
//! A worker that is awake but has little to do *dozes*: it polls every few milliseconds and would like to know sooner. For each
//! queue one of them holds another lock, on the same connection, and hears what is announced to it alone
//! ([`doze`](Listener::doze), [`stirred`](Listener::stirred)). Nothing depends on that, so producers announce as much of it as
//! costs nobody a wait: one transaction at a time.
//!
//! The same connection hears on a channel of the worker's own that a running attempt was taken from it ([`told`](Listener::told)),
//! which it would otherwise learn from its next heartbeat.
//!
//! A task of its own owns the connection and drains it at all times, so that a slow consumer cannot hold up the server's
//! queue of notifications; what it passes on is one pending signal, however many notifications came, and a bounded number of
//! names. When the connection breaks, its gates are gone with it: the task connects again, waiting longer each time, and
//! signals once, since notifications may have been missed.
//!
//! A session lock and LISTEN need a connection that stays one session. Behind a pooler that hands out connections per
//! transaction do not use a `Listener`, poll.

mod task;
mod tidings;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use awa_model::{QueueName, WorkerId};
use sqlx::postgres::PgConnectOptions;
use tokio::sync::{Notify, mpsc, oneshot};

use self::task::{Command, Drain, Unconnected};
pub use self::tidings::{Tidings, Told};
use crate::Error;

/// Commands that may wait for the task. Those that want an answer come one at a time, the others as far as there is room.
const COMMANDS_MAX: usize = 4;

/// A connection that listens for wake-ups, and holds the gates of the queues that its process would sleep on.
///
/// The connection lives on the runtime that [`connect`](Self::connect) was called on; the listener can be used from any.
/// Dropping it closes the connection soon after, which opens the gates.
#[derive(Debug)]
pub struct Listener {
    commands: mpsc::Sender<Command>,
    heard: Arc<Heard>,
}

/// What the task passes on.
#[derive(Debug, Default)]
struct Heard {
    /// Work was announced, or may have been.
    work: Notify,
    /// Work was announced to the one that dozes, which is this one.
    stirred: Notify,
    /// How many doze locks are held.
    dozing: AtomicUsize,
    told: tidings::Letterbox,
}

impl Listener {
    /// Opens the connection and begins to listen, also to what is told to this worker alone.
    ///
    /// # Errors
    /// If the first connection cannot be made. Later ones are made by the listener itself, as often as it takes.
    pub async fn connect(options: &PgConnectOptions, worker: WorkerId) -> Result<Self, Error> {
        let heard = Arc::new(Heard::default());
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let drain = Drain::connect(options.clone(), worker, Arc::clone(&heard)).await?;
        tokio::spawn(drain.run(inbox));
        Ok(Self { commands, heard })
    }

    /// Begins to connect, and goes on until that succeeds: for a server that cannot be listened on yet.
    pub fn connect_in_time(options: &PgConnectOptions, worker: WorkerId) -> Self {
        let heard = Arc::new(Heard::default());
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        tokio::spawn(Unconnected::new(options.clone(), worker, Arc::clone(&heard)).run(inbox));
        Self { commands, heard }
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
        self.heard.work.notified().await;
    }

    /// Begins to doze: gives back all gates, and takes the doze locks of these queues as far as nobody else has them. Those held
    /// already stay so. Does not wait for the server; `false` if this could not be passed on, because much else was asked before.
    ///
    /// [`try_gates`](Self::try_gates) ends it, as [`stir`](Self::stir) does.
    pub fn doze(&self, queues: &[QueueName]) -> bool {
        self.commands.try_send(Command::Doze { queues: names(queues) }).is_ok()
    }

    /// Gives back all gates and doze locks, in the manner of [`doze`](Self::doze): nothing needs to be announced.
    pub fn stir(&self) -> bool {
        self.commands.try_send(Command::Stir).is_ok()
    }

    /// How many doze locks this connection held when it last changed that: fewer than it asked for queues while another
    /// worker has them.
    pub fn dozing(&self) -> usize {
        self.heard.dozing.load(Ordering::Relaxed)
    }

    /// Resolves when work was announced in a queue whose doze lock is held here. One announcement is kept, and not all are
    /// sent: poll meanwhile.
    ///
    /// Cancel safe.
    pub async fn stirred(&self) {
        self.heard.stirred.notified().await;
    }

    /// Resolves when attempts were taken from this worker, or when it may have missed that. Without a connection this waits
    /// for the next one, whose first word is that something may have been missed.
    ///
    /// What is told is a hint, since anybody may notify: [`fates`](crate::fate::fates) knows. One caller at a time; cancel safe.
    pub async fn told(&self) -> Tidings {
        self.heard.told.next().await
    }

    /// Closes the connection and waits until that is done, at most a few seconds. What is asked of the listener afterwards fails.
    pub async fn close(&self) {
        // It ends by itself when its runtime does.
        if self.commands.send(Command::Close).await.is_ok() {
            self.commands.closed().await;
        }
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
