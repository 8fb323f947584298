//! A network between client and server, with the faults of one: stalls in either direction, cuts, refusals.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// What a connection lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Everything.
    Free,
    /// Nothing from the client: the server hears nothing more.
    Mute,
    /// Nothing from the server: what is sent takes effect, and no answer comes.
    Deaf,
    /// Nothing at all.
    Stalled,
    /// Closed.
    Cut,
}

/// A proxy before one server. Its connections end with it.
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<()>,
}

struct Shared {
    server: SocketAddr,
    /// By the port from which the server sees the connection come, which `pg_stat_activity` shows.
    lines: Mutex<HashMap<u16, watch::Sender<Flow>>>,
    /// What new connections are given.
    entrance: Mutex<Flow>,
    turned_away: watch::Sender<usize>,
}

impl Proxy {
    pub(crate) async fn before(options: &PgConnectOptions) -> Self {
        let server = format!("{}:{}", options.get_host(), options.get_port());
        let server = tokio::net::lookup_host(server).await.expect("an address").next().expect("an address");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let shared = Arc::new(Shared {
            server,
            lines: Mutex::default(),
            entrance: Mutex::new(Flow::Free),
            turned_away: watch::Sender::new(0),
        });
        let task = AbortOnDropHandle::new(tokio::spawn(serve(listener, Arc::clone(&shared))));
        Self { port, shared, _task: task }
    }

    /// The same database through the proxy.
    pub(crate) fn options(&self, direct: PgConnectOptions) -> PgConnectOptions {
        direct.host("127.0.0.1").port(self.port)
    }

    /// Sets what new connections are given: [`Flow::Cut`] turns them away.
    pub(crate) fn admit(&self, flow: Flow) {
        *self.shared.entrance.lock().unwrap_or_else(PoisonError::into_inner) = flow;
    }

    /// Changes the connection that the server sees come from this port.
    pub(crate) fn set(&self, port: u16, flow: Flow) {
        self.shared.lines().get(&port).expect("a connection through the proxy").send_replace(flow);
    }

    /// Changes all connections that there are.
    pub(crate) fn set_all(&self, flow: Flow) {
        self.shared.lines().values().for_each(|line| {
            line.send_replace(flow);
        });
    }

    /// Waits until so many more connections were turned away.
    pub(crate) async fn turned_away(&self, more: usize) {
        let mut count = self.shared.turned_away.subscribe();
        let enough = *count.borrow() + more;
        count.wait_for(|count| *count >= enough).await.expect("the sender is in self");
    }
}

impl Shared {
    fn lines(&self) -> MutexGuard<'_, HashMap<u16, watch::Sender<Flow>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut lines = tokio::task::JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let flow = *shared.entrance.lock().unwrap_or_else(PoisonError::into_inner);
        if flow == Flow::Cut {
            shared.turned_away.send_modify(|count| *count += 1);
        } else {
            lines.spawn(carry(client, Arc::clone(&shared), flow));
        }
    }
}

async fn carry(client: TcpStream, shared: Arc<Shared>, flow: Flow) {
    // A server that is not there is as good as a line that was cut.
    let Ok(server) = TcpStream::connect(shared.server).await else { return };
    let Ok(address) = server.local_addr() else { return };
    let (flow, mut cut) = watch::channel(flow);
    shared.lines().insert(address.port(), flow.clone());
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = pump(from_client, to_server, flow.subscribe(), &[Flow::Free, Flow::Deaf]) => {}
        () = pump(from_server, to_client, flow.subscribe(), &[Flow::Free, Flow::Mute]) => {}
        _ = cut.wait_for(|flow| *flow == Flow::Cut) => {}
    }
    shared.lines().remove(&address.port());
}

/// Carries one direction. In a stall the end of a connection does not get through either.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut flow: watch::Receiver<Flow>, open: &[Flow]) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        if flow.wait_for(|flow| open.contains(flow)).await.is_err() || read == 0 {
            return;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
