//! CPU time from /proc: of the server with all its processes, and of this process by the names of its threads.
//!
//! Linux alone has it; elsewhere, and with a server on another machine, there are no such figures.

use std::{collections::BTreeMap, fs};

/// Ticks a second in /proc: fixed on every architecture that Linux still builds for.
const TICKS_PER_SECOND: f64 = 100.0;

/// One line of /proc/…/stat, as far as it matters.
struct Stat {
    comm: String,
    parent: i32,
    own_ticks: u64,
    /// Of children that have ended and were waited for.
    gone_ticks: u64,
}

fn stat(path: &str) -> Option<Stat> {
    let text = fs::read_to_string(path).ok()?;
    let (head, tail) = text.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let ticks = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some(Stat {
        comm: head.split_once('(')?.1.to_owned(),
        parent: fields.get(1)?.parse().ok()?,
        own_ticks: ticks(11)? + ticks(12)?,
        gone_ticks: ticks(13)? + ticks(14)?,
    })
}

/// A server on this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Server {
    postmaster: i32,
}

impl Server {
    /// The server that has `backend` among its processes, if that is a process of this machine.
    pub(crate) fn of_backend(backend: i32) -> Option<Self> {
        let parent = stat(&format!("/proc/{backend}/stat"))?.parent;
        let postmaster = stat(&format!("/proc/{parent}/stat"))?;
        postmaster.comm.starts_with("postgres").then_some(Self { postmaster: parent })
    }

    /// Seconds of CPU time of all its processes so far, those that have ended included.
    pub(crate) fn seconds(self) -> Option<f64> {
        family_seconds(self.postmaster)
    }
}

/// Seconds of CPU time of a process and its children so far, those that have ended included.
pub(crate) fn family_seconds(parent: i32) -> Option<f64> {
    let own = stat(&format!("/proc/{parent}/stat"))?;
    let mut ticks = own.own_ticks + own.gone_ticks;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) else {
            continue;
        };
        // A process may end between the listing and the look.
        if let Some(child) = stat(&format!("/proc/{pid}/stat")).filter(|child| child.parent == parent) {
            ticks += child.own_ticks;
        }
    }
    Some(ticks as f64 / TICKS_PER_SECOND)
}

/// Seconds of CPU time of one process so far.
pub(crate) fn seconds_of(pid: i32) -> Option<f64> {
    stat(&format!("/proc/{pid}/stat")).map(|stat| stat.own_ticks as f64 / TICKS_PER_SECOND)
}

/// Seconds of CPU time of this process so far, by the names of the threads that are alive.
pub(crate) fn own_seconds() -> BTreeMap<String, f64> {
    let mut seconds = BTreeMap::new();
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return seconds };
    for task in tasks.flatten() {
        if let Some(stat) = stat(&format!("{}/stat", task.path().display())) {
            *seconds.entry(stat.comm).or_insert(0.0) += stat.own_ticks as f64 / TICKS_PER_SECOND;
        }
    }
    seconds
}
