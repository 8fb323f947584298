//! Worker processes and their end: killed, asked to stop, or left running.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Application;
use crate::command::{Result, run, target_directory};

/// A worker that was asked to stop and has nothing to do needs no longer than this.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// How often to look whether it has stopped.
const STOP_POLL: Duration = Duration::from_millis(20);

/// The workers that are alive. Dropping it kills them.
pub(super) struct Fleet {
    workers: Vec<Worker>,
    logs: PathBuf,
}

/// One worker process.
pub(super) struct Worker {
    name: String,
    child: Child,
}

/// Signals that the demo sends.
#[derive(Clone, Copy)]
pub(super) enum Signal {
    /// Stand still, so that what it holds can be read without haste.
    Stop,
    /// Go on.
    Continue,
    /// Finish what is running and leave.
    Terminate,
}

impl Fleet {
    /// Starts `count` workers, whose logs go to files among the build results.
    pub(super) fn start(application: &Application<'_>, count: usize) -> Result<Self> {
        let logs = target_directory().join("demo");
        fs::create_dir_all(&logs)?;
        let mut fleet = Self { workers: Vec::new(), logs };
        for number in 1..=count {
            let name = format!("worker-{number}");
            let log = File::create(fleet.logs.join(format!("{name}.log")))?;
            let mut command = application.command("work");
            command.args(["--name", &name]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
            let child = command.spawn()?;
            println!("{name} is process {}", child.id());
            fleet.workers.push(Worker { name, child });
        }
        Ok(fleet)
    }

    /// Where the workers' logs are.
    pub(super) fn logs(&self) -> &Path {
        &self.logs
    }

    /// Process ids of the workers that are alive; an error if one has ended by itself.
    pub(super) fn pids(&mut self) -> Result<Vec<i32>> {
        let mut pids = Vec::new();
        for worker in &mut self.workers {
            if let Some(status) = worker.child.try_wait()? {
                return Err(format!("{} ended by itself: {status}; see {}", worker.name, self.logs.display()).into());
            }
            pids.push(worker.pid()?);
        }
        Ok(pids)
    }

    /// Kills one worker with SIGKILL and forgets it. Returns its name.
    pub(super) fn kill(&mut self, pid: i32) -> Result<String> {
        let position = self.workers.iter().position(|worker| worker.pid().is_ok_and(|own| own == pid));
        let mut worker = self.workers.swap_remove(position.ok_or("no such worker")?);
        worker.child.kill()?;
        worker.child.wait()?;
        Ok(std::mem::take(&mut worker.name))
    }

    /// Asks all workers to stop and waits for them; an error if one does not, or not cleanly.
    pub(super) async fn stop(mut self) -> Result {
        for pid in self.pids()? {
            signal(pid, Signal::Terminate)?;
        }
        let asked = Instant::now();
        for worker in &mut self.workers {
            let status = loop {
                if let Some(status) = worker.child.try_wait()? {
                    break status;
                }
                if asked.elapsed() > STOP_TIMEOUT {
                    return Err(format!("{} does not stop when asked to", worker.name).into());
                }
                tokio::time::sleep(STOP_POLL).await;
            };
            if !status.success() {
                return Err(
                    format!("{} did not stop cleanly: {status}; see {}", worker.name, self.logs.display()).into()
                );
            }
        }
        println!("the other workers stopped when asked to");
        Ok(())
    }

    /// Leaves the workers running.
    pub(super) fn leave(mut self) -> Result {
        let pids: Vec<String> = self.pids()?.iter().map(i32::to_string).collect();
        self.workers.clear();
        println!("the other workers stay, until: kill {}", pids.join(" "));
        Ok(())
    }
}

/// Sends a signal to a worker.
pub(super) fn signal(pid: i32, signal: Signal) -> Result {
    let name = match signal {
        Signal::Stop => "-STOP",
        Signal::Continue => "-CONT",
        Signal::Terminate => "-TERM",
    };
    // The standard library sends nothing but SIGKILL, and a program that does it needs no unsafe code of ours.
    run(Command::new("kill").args([name, &pid.to_string()]))
}

impl Worker {
    fn pid(&self) -> Result<i32> {
        Ok(i32::try_from(self.child.id())?)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            // One that has ended already is what we want.
            let _ = worker.child.kill();
            let _ = worker.child.wait();
        }
    }
}
