//! A process that outlives the command by a moment, to stop its server and remove its directory.
//!
//! It reads a pipe whose other end this command holds. Whatever ends the command (return, panic, Ctrl-C, kill), the
//! system closes the pipe, and the keeper does the rest. It is in a process group of its own, so that Ctrl-C on a terminal
//! does not reach it. No signal handler, no unsafe code, no server left behind.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::account::Account;
use super::cluster::{Cluster, stop};
use crate::command::Result;

/// What a command writes when its server is to stay.
const STAY: &[u8] = b"stay";

/// The command's end of the arrangement.
pub(super) struct Keeper {
    process: Child,
}

impl Keeper {
    /// Starts a keeper for `cluster`, which need not run yet.
    pub(super) fn watch(cluster: &Cluster) -> Result<Self> {
        let process = Command::new(std::env::current_exe()?)
            .arg("keep-server")
            .args(["--directory".as_ref(), cluster.directory().as_os_str()])
            .args(["--programs".as_ref(), cluster.binaries().directory().as_os_str()])
            .args(["--account", &cluster.account().to_argument()])
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()?;
        Ok(Self { process })
    }

    /// Tells the keeper to leave the server alone.
    pub(super) fn release(mut self) {
        if let Some(mut pipe) = self.process.stdin.take() {
            // A keeper that is gone leaves the server alone as well.
            let _ = pipe.write_all(STAY);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // The keeper says itself what went wrong.
        let _ = self.process.wait();
    }
}

/// Arguments of the keeper process.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    programs: PathBuf,
    #[arg(long)]
    account: String,
}

/// The keeper process: waits until the command is gone, then cleans up after it.
pub(crate) fn keep(options: &Options) -> Result {
    let mut said = Vec::new();
    std::io::stdin().read_to_end(&mut said)?;
    if said == STAY {
        return Ok(());
    }
    end_poolers(&options.directory);
    let account = Account::from_argument(&options.account)?;
    let data = Cluster::data_in(&options.directory);
    if data.join("postmaster.pid").exists() {
        // Immediate: the data is thrown away, and clients that still run shall not delay this.
        stop(&options.programs.join("pg_ctl"), &data, account, "immediate")?;
    }
    remove(&options.directory)
}

/// Poolers before the server, if there are any left: those whose command was killed.
fn end_poolers(directory: &Path) {
    let files = fs::read_dir(directory).into_iter().flatten().flatten().map(|file| file.path());
    for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "pid")) {
        if let Ok(pid) = fs::read_to_string(&file) {
            // One that ended orderly has removed its file; one that is gone otherwise does not mind.
            let _ = Command::new("kill").arg(pid.trim()).stderr(Stdio::null()).status();
        }
    }
}

fn remove(directory: &Path) -> Result {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{} stays behind: {error}", directory.display()).into())
        }
        _ => Ok(()),
    }
}
