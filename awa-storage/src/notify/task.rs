//! The task behind a [`Listener`](super::Listener): owns the connection, drains it, asks for gates on it, makes it again.

use std::{
    collections::{HashMap, HashSet},
    future::Future,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use awa_model::WorkerId;
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgListener},
};
use tokio::{
    select,
    sync::{mpsc, oneshot},
    time::{Instant, MissedTickBehavior, interval_at, sleep, timeout},
};

use super::{Heard, down, tidings::Told};
use crate::{Error, session};

/// The channel of all. Its payloads are hashes of queue names, so that their length does not matter.
const CHANNEL: &str = "awa";

/// What `awa.wake` appends to the gate if it means the one that dozes. Older versions do not understand it and pass it by.
const FOR_DOZERS: &str = " doze";

/// Longest time that a statement, a connection or a farewell may take before the connection counts as broken.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How often an idle connection is asked for a sign of life. One that has died without a word delivers nothing, and says so
/// only when asked.
const ASK_INTERVAL: Duration = Duration::from_secs(15);

/// Pause before the first new connection after one broke; each further pause is twice as long.
const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(100);

/// Longest pause between attempts to connect.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(10);

/// What the user of the listener asks of the task. A reply that nobody waits for any more is dropped.
pub(super) enum Command {
    TryGates { queues: Vec<String>, reply: oneshot::Sender<Result<bool, Error>> },
    ReleaseGates { queues: Vec<String>, reply: oneshot::Sender<Result<(), Error>> },
    Doze { queues: Vec<String> },
    Stir,
    Close,
}

impl Command {
    fn refuse(self) {
        match self {
            Self::TryGates { reply, .. } => drop(reply.send(Err(down()))),
            Self::ReleaseGates { reply, .. } => drop(reply.send(Err(down()))),
            Self::Doze { .. } | Self::Stir | Self::Close => {}
        }
    }
}

/// Whether the connection can be used on.
enum Next {
    Continue,
    Reconnect,
    Close,
}

/// The connection with what is known of its session, and where to signal.
pub(super) struct Drain {
    options: PgConnectOptions,
    worker: WorkerId,
    heard: Arc<Heard>,
    session: Session,
    /// Gates by queue, as the server computed them: they do not change while it runs the same version.
    gates: HashMap<String, i32>,
}

/// One connection. Its gates are those that it holds: they end with it.
struct Session {
    listener: PgListener,
    /// The listener takes its connection from a pool, which is here for nothing else, and closes it.
    pool: PgPool,
    held: HashSet<i32>,
    /// The gates of the queues whose doze locks it holds.
    dozing: HashSet<i32>,
}

impl Session {
    async fn open(options: &PgConnectOptions, worker: WorkerId) -> Result<Self, Error> {
        let pool = session::pool_options(false, ANSWER_TIMEOUT)
            .max_connections(1)
            .max_lifetime(None)
            .idle_timeout(None)
            .acquire_timeout(ANSWER_TIMEOUT)
            .connect_lazy_with(options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        // A new connection would hold no gates: it is made here, where that is known.
        listener.eager_reconnect(false);
        listener.listen_all([CHANNEL, &own_channel(worker)]).await?;
        Ok(Self { listener, pool, held: HashSet::new(), dozing: HashSet::new() })
    }

    async fn close(self) {
        drop(self.listener);
        // A connection that no longer answers is left to its socket.
        let _ = timeout(ANSWER_TIMEOUT, self.pool.close()).await;
    }
}

/// The channel of one worker, as `awa.tell_worker` names it: too short for the server to cut it.
fn own_channel(worker: WorkerId) -> String {
    format!("{CHANNEL}_{}", worker.get().simple())
}

impl Drain {
    pub(super) async fn connect(options: PgConnectOptions, worker: WorkerId, heard: Arc<Heard>) -> Result<Self, Error> {
        let session = Session::open(&options, worker).await?;
        Ok(Self { options, worker, heard, session, gates: HashMap::new() })
    }

    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let mut asks = interval_at(Instant::now() + ASK_INTERVAL, ASK_INTERVAL);
        asks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let next = select! {
                received = self.session.listener.try_recv() => match received {
                    Ok(Some(notification)) => self.pass_on(notification.channel(), notification.payload()),
                    Ok(None) | Err(_) => Next::Reconnect,
                },
                command = inbox.recv() => match command {
                    Some(command) => self.obey(command).await,
                    None => Next::Close,
                },
                _ = asks.tick() => self.ask().await,
            };
            match next {
                Next::Continue => {}
                Next::Reconnect => {
                    let Some(connected) = self.reconnected(&mut inbox).await else { return };
                    self = connected;
                }
                Next::Close => return self.session.close().await,
            }
        }
    }

    /// Passes on what is told to this worker alone, and signals if the notification is about a queue that was ever asked for.
    fn pass_on(&self, channel: &str, payload: &str) -> Next {
        if channel != CHANNEL {
            match Told::read(payload) {
                Some(told) => self.heard.told.put(told),
                None => tracing::debug!(payload, "a notification on the worker's own channel says nothing"),
            }
            return Next::Continue;
        }
        if let Some(gate) = payload.strip_suffix(FOR_DOZERS) {
            if gate.parse().is_ok_and(|gate: i32| self.session.dozing.contains(&gate)) {
                self.heard.stirred.notify_one();
            }
            return Next::Continue;
        }
        let concerns_us = payload.parse().is_ok_and(|gate: i32| self.gates.values().any(|known| *known == gate));
        if concerns_us {
            self.heard.work.notify_one();
        }
        Next::Continue
    }

    async fn ask(&mut self) -> Next {
        match timeout(ANSWER_TIMEOUT, session::backend(&mut self.session.listener)).await {
            Ok(Ok(_)) => Next::Continue,
            Ok(Err(_)) | Err(_) => Next::Reconnect,
        }
    }

    async fn obey(&mut self, command: Command) -> Next {
        match command {
            Command::TryGates { queues, reply } => answer(reply, self.try_gates(queues)).await,
            Command::ReleaseGates { queues, reply } => answer(reply, self.release_gates(&queues)).await,
            Command::Doze { queues } => timely(self.doze(queues)).await.0,
            Command::Stir => timely(self.stir()).await.0,
            Command::Close => Next::Close,
        }
    }

    async fn try_gates(&mut self, queues: Vec<String>) -> Result<bool, Error> {
        self.end_doze().await?;
        let wanted: Vec<String> = queues.into_iter().filter(|queue| !self.holds(queue)).collect();
        let mut all = true;
        if wanted.is_empty() {
            return Ok(all);
        }
        let asked =
            sqlx::query_file!("queries/notify/try_gates.sql", &wanted).fetch_all(&mut self.session.listener).await?;
        for gate in asked {
            match gate.holder.as_str() {
                "held" => drop(self.session.held.insert(gate.id)),
                "writer" => all = false,
                // Another sleeper: its notification goes to all that listen.
                _ => {}
            }
            self.gates.insert(gate.queue, gate.id);
        }
        Ok(all)
    }

    fn holds(&self, queue: &str) -> bool {
        self.gates.get(queue).is_some_and(|gate| self.session.held.contains(gate))
    }

    async fn release_gates(&mut self, queues: &[String]) -> Result<(), Error> {
        let gates: HashSet<i32> = queues.iter().filter_map(|queue| self.gates.get(queue).copied()).collect();
        self.release(gates.intersection(&self.session.held).copied().collect()).await
    }

    async fn release(&mut self, held: Vec<i32>) -> Result<(), Error> {
        if held.is_empty() {
            return Ok(());
        }
        sqlx::query_file!("queries/notify/release_gates.sql", &held).fetch_all(&mut self.session.listener).await?;
        self.session.held.retain(|gate| !held.contains(gate));
        Ok(())
    }

    async fn doze(&mut self, queues: Vec<String>) -> Result<(), Error> {
        self.release(self.session.held.iter().copied().collect()).await?;
        let dozes = |queue: &String| self.gates.get(queue).is_some_and(|gate| self.session.dozing.contains(gate));
        let wanted: Vec<String> = queues.into_iter().filter(|queue| !dozes(queue)).collect();
        if !wanted.is_empty() {
            let tried =
                sqlx::query_file!("queries/notify/try_doze.sql", &wanted).fetch_all(&mut self.session.listener).await?;
            for gate in tried {
                if gate.held {
                    self.session.dozing.insert(gate.id);
                }
                self.gates.insert(gate.queue, gate.id);
            }
        }
        self.heard.dozing.store(self.session.dozing.len(), Ordering::Relaxed);
        Ok(())
    }

    async fn stir(&mut self) -> Result<(), Error> {
        self.release(self.session.held.iter().copied().collect()).await?;
        self.end_doze().await
    }

    async fn end_doze(&mut self) -> Result<(), Error> {
        let held: Vec<i32> = self.session.dozing.drain().collect();
        self.heard.dozing.store(0, Ordering::Relaxed);
        if !held.is_empty() {
            sqlx::query_file!("queries/notify/end_doze.sql", &held).fetch_all(&mut self.session.listener).await?;
        }
        Ok(())
    }

    /// A new session in place of one that broke, or nothing if the listener is closed meanwhile.
    async fn reconnected(self, inbox: &mut mpsc::Receiver<Command>) -> Option<Self> {
        let Self { options, worker, heard, session, gates } = self;
        tracing::warn!("the connection that listens is lost: polling goes on until there is a new one");
        // The gates go with the old connection as soon as the server notices; nothing may hold it open here.
        tokio::spawn(session.close());
        heard.dozing.store(0, Ordering::Relaxed);
        // Wake whoever sleeps, now: while there is no connection, nothing is announced.
        heard.work.notify_one();
        Unconnected { options, worker, heard, gates }.connected(inbox).await
    }
}

/// What a connection is made from, as often as it takes.
pub(super) struct Unconnected {
    options: PgConnectOptions,
    worker: WorkerId,
    heard: Arc<Heard>,
    gates: HashMap<String, i32>,
}

impl Unconnected {
    pub(super) fn new(options: PgConnectOptions, worker: WorkerId, heard: Arc<Heard>) -> Self {
        Self { options, worker, heard, gates: HashMap::new() }
    }

    pub(super) async fn run(self, mut inbox: mpsc::Receiver<Command>) {
        if let Some(drain) = self.connected(&mut inbox).await {
            drain.run(inbox).await;
        }
    }

    /// Connects, or nothing if the listener is closed meanwhile.
    async fn connected(self, inbox: &mut mpsc::Receiver<Command>) -> Option<Drain> {
        let Self { options, worker, heard, gates } = self;
        let mut pause = RECONNECT_PAUSE_MIN;
        loop {
            let opening = async {
                sleep(pause).await;
                Session::open(&options, worker).await
            };
            match refusing(inbox, opening).await? {
                Ok(session) => {
                    tracing::info!("listening again");
                    heard.work.notify_one();
                    heard.told.may_have_missed();
                    return Some(Drain { options, worker, heard, session, gates });
                }
                Err(error) => {
                    tracing::debug!(%error, "the connection that listens could not be made");
                    pause = (pause * 2).min(RECONNECT_PAUSE_MAX);
                }
            }
        }
    }
}

/// Any error, lateness included, condemns the connection: its state is not known.
async fn timely<T>(work: impl Future<Output = Result<T, Error>>) -> (Next, Result<T, Error>) {
    let outcome = timeout(ANSWER_TIMEOUT, work).await.unwrap_or_else(|_| Err(down()));
    let next = if outcome.is_ok() { Next::Continue } else { Next::Reconnect };
    (next, outcome)
}

/// Sends the outcome to whoever asked.
async fn answer<T>(reply: oneshot::Sender<Result<T, Error>>, work: impl Future<Output = Result<T, Error>>) -> Next {
    let (next, outcome) = timely(work).await;
    // Whoever asked may have given up; the gates it got are given back by its next release, or with the connection.
    drop(reply.send(outcome));
    next
}

/// Drives `work` while turning every command away. Nothing if the listener is closed meanwhile.
async fn refusing<T>(inbox: &mut mpsc::Receiver<Command>, work: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(work);
    loop {
        select! {
            done = &mut work => return Some(done),
            command = inbox.recv() => match command? {
                Command::Close => return None,
                command => command.refuse(),
            },
        }
    }
}
