//! A private PostgreSQL: found, initialised, started on a free port, and gone again with the command that needed it.
//!
//! However that command ends, a keeper process (see [`keeper`]) stops the server and removes its directory. The server
//! listens on the loopback interface only and asks for a password that is drawn for it.

mod account;
mod binaries;
mod cluster;
mod keeper;
mod npm;

pub(crate) use cluster::{Cluster, Profile};
pub(crate) use keeper::{Options as KeeperOptions, keep};

use std::env;
use std::ffi::OsString;

use keeper::Keeper;

use crate::command::Result;

/// A running private server. It ends with this value.
pub(crate) struct Server {
    cluster: Cluster,
    // None once the server is to stay.
    keeper: Option<Keeper>,
}

impl Server {
    /// Starts a server in a temporary directory; `major` asks for that version of PostgreSQL.
    pub(crate) fn start(profile: Profile, major: Option<u32>) -> Result<Self> {
        let mut cluster = Cluster::prepare(cluster::temporary_directory()?, major)?;
        // The keeper first: from here on nothing stays behind, whatever goes wrong.
        let keeper = Keeper::watch(&cluster)?;
        cluster.initialise()?;
        cluster.start(profile)?;
        eprintln!("PostgreSQL {} on port {}", cluster.version(), cluster.port());
        Ok(Self { cluster, keeper: Some(keeper) })
    }

    /// URL of its database `postgres`, as superuser.
    pub(crate) fn url(&self) -> String {
        self.cluster.url()
    }

    /// Its data directory and programs.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Leaves the server running when this value goes.
    fn leave(mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.release();
        }
        let data = Cluster::data_in(self.cluster.directory());
        println!(
            "the server stays, until: kill -INT $(head -1 {}/postmaster.pid); its files are in {}",
            data.display(),
            self.cluster.directory().display()
        );
    }
}

/// A server that somebody named, or else a private one for as long as the value lives.
pub(crate) enum Target {
    /// Given by `--database-url`.
    Given(String),
    /// Started for this command.
    Private(Server),
}

impl Target {
    /// The server at `url` if there is one, else a new private server.
    pub(crate) fn choose(url: Option<&str>, profile: Profile, major: Option<u32>) -> Result<Self> {
        match url {
            Some(url) => Ok(Self::Given(url.to_owned())),
            None => Server::start(profile, major).map(Self::Private),
        }
    }

    /// The URL to connect to.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Given(url) => url.clone(),
            Self::Private(server) => server.url(),
        }
    }

    /// The path for programs that tests may call: those of the server come first, so that pg_dump is of its version.
    pub(crate) fn path(&self) -> Result<OsString> {
        let own = match self {
            Self::Given(_) => None,
            Self::Private(server) => Some(server.cluster.binaries().directory().to_path_buf()),
        };
        let path = env::var_os("PATH").unwrap_or_default();
        Ok(env::join_paths(own.into_iter().chain(env::split_paths(&path)))?)
    }

    /// Leaves a private server running when this value goes.
    pub(crate) fn leave(self) {
        if let Self::Private(server) = self {
            server.leave();
        }
    }
}
