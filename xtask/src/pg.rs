//! `cargo xtask pg`: a private server for development, which keeps its data between `stop` and `start`.

use std::path::PathBuf;
use std::process::Command;

use clap::Subcommand;

use crate::command::{Result, run, workspace};
use crate::postgres::{Cluster, Profile};

/// What to do with the server.
#[derive(Subcommand)]
pub(crate) enum Action {
    /// Start it, after making it if there is none, and print its URL.
    Start {
        /// Version of PostgreSQL, for a server that is made.
        #[arg(long, value_parser = clap::value_parser!(u32).range(14..))]
        pg: Option<u32>,
    },
    /// Stop it.
    Stop {
        /// Remove its data too.
        #[arg(long)]
        wipe: bool,
    },
    /// Print $DATABASE_URL if it is set, else the URL of the private server.
    Url,
    /// Open psql on the same database; what follows `--` goes to psql.
    Psql {
        /// Arguments of psql.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
}

/// Does it.
pub(crate) fn pg(action: &Action) -> Result {
    match action {
        Action::Start { pg } => {
            println!("{}", start(*pg)?.url());
            Ok(())
        }
        Action::Stop { wipe } => stop(*wipe),
        Action::Url => {
            println!("{}", url()?);
            Ok(())
        }
        Action::Psql { arguments } => psql(arguments),
    }
}

fn start(major: Option<u32>) -> Result<Cluster> {
    if let Some(mut cluster) = Cluster::load(directory())? {
        if !cluster.is_running() {
            cluster.start(Profile::Durable)?;
        }
        return Ok(cluster);
    }
    let mut cluster = Cluster::prepare(directory(), major)?;
    cluster.initialise()?;
    cluster.start(Profile::Durable)?;
    Ok(cluster)
}

fn stop(wipe: bool) -> Result {
    if let Some(cluster) = Cluster::load(directory())?
        && cluster.is_running()
    {
        cluster.stop()?;
    }
    if wipe && directory().exists() {
        std::fs::remove_dir_all(directory())?;
    }
    Ok(())
}

/// The database of the developer: their own if they name one, else the private server's.
fn url() -> Result<String> {
    if let Ok(url) = std::env::var("DATABASE_URL") {
        return Ok(url);
    }
    let cluster = Cluster::load(directory())?.filter(Cluster::is_running);
    Ok(cluster.ok_or("no private server runs: `cargo xtask pg start`")?.url())
}

fn psql(arguments: &[String]) -> Result {
    // Beside the server if it is there, since an old psql misreads a new server.
    let beside = Cluster::load(directory())?.map(|cluster| cluster.binaries().program("psql"));
    let program = beside.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from("psql"));
    run(Command::new(program).arg(url()?).args(arguments))
}

/// One server a workspace, outside it: the account of the server may not be able to enter a home directory.
fn directory() -> PathBuf {
    let name = workspace().to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    std::env::temp_dir().join(format!("awa-pg-dev{name}"))
}
