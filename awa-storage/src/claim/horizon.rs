//! The settled horizon: a seq up to which every inserting transaction has ended, or is set aside by name.
//!
//! Each tick takes a mark (S, X): S is the last number the sequence has handed out, X a transaction id taken in a later
//! statement. A row numbered up to S was drawn before S was read, and its inserter owned its transaction id before it drew,
//! so that id is below X. Once no id below X is open, every row up to S is visible or gone for good, and the horizon is S.
//!
//! One transaction that stays open must not hold the horizon back: after a moment's patience it is *set aside* with the
//! horizon as it stands, and the horizon goes on without it. Its rows are numbered above that horizon, because every mark
//! popped so far was popped while it was not open below the mark's X. When it ends, the stretch from there is looked at once
//! more. One that is open and holds no lock on a job table has drawn nothing yet, so its stretch may start at today's horizon.
//!
//! Marks are never persisted: transaction ids start anew after a restore.
//! Proof and measurements: docs/adr/0002.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

/// How long an open transaction may hold the horizon back before it is set aside.
pub const PATIENCE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
struct Mark {
    seq: i64,
    xid: i64,
}

/// What one process knows of the horizon. Pure: fed with observations, holds no connection.
#[derive(Debug, Default)]
pub struct Horizon {
    settled: i64,
    last_marked: i64,
    marks: VecDeque<Mark>,
    aside: BTreeMap<i64, i64>,
    first_seen_open: HashMap<i64, Instant>,
    idle_before: HashSet<i64>,
}

/// One answer of `awa.horizon`: its three parts were read in this order.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Ids of the transactions that are open.
    pub open: Vec<i64>,
    /// The last number the sequence has handed out.
    pub seq: i64,
    /// A transaction id taken after that, if the number had moved.
    pub xid: Option<i64>,
}

impl Horizon {
    /// A horizon that starts at `settled`: a bound that is known to hold, such as the lowest persisted lane mark.
    pub fn starting_at(settled: i64) -> Self {
        Self { settled, last_marked: settled, ..Self::default() }
    }

    /// Every row numbered up to here has been decided, but for those of transactions that are set aside.
    pub fn settled(&self) -> i64 {
        self.settled
    }

    /// The last S that was marked; hand it to `awa.horizon`, so that an unmoved sequence costs no transaction id.
    pub fn last_marked(&self) -> i64 {
        self.last_marked
    }

    /// Every row numbered up to here has been decided, without exception.
    pub fn safe(&self) -> i64 {
        self.aside.values().copied().fold(self.settled, i64::min)
    }

    /// The lowest horizon a transaction was set aside with, if any is.
    pub fn lowest_aside(&self) -> Option<i64> {
        self.aside.values().copied().min()
    }

    /// Ids of the transactions that are set aside.
    pub fn set_aside(&self) -> Vec<i64> {
        self.aside.keys().copied().collect()
    }

    /// No mark waits for its transactions: the horizon has reached the last number marked.
    pub fn has_caught_up(&self) -> bool {
        self.marks.is_empty()
    }

    /// Takes in one observation. If transactions that were set aside have ended, returns the seq from which on everything
    /// has to be looked at once more.
    pub fn observe(&mut self, seen: &Observation, now: Instant) -> Option<i64> {
        let open: HashSet<i64> = seen.open.iter().copied().collect();
        self.first_seen_open.retain(|xid, _| open.contains(xid));
        for &xid in &seen.open {
            self.first_seen_open.entry(xid).or_insert(now);
        }
        let late_from = self.take_ended(&open);
        self.advance(&open, now);
        if let Some(xid) = seen.xid {
            // Only a later observation may check this mark: its snapshot has to be younger than X.
            self.marks.push_back(Mark { seq: seen.seq, xid });
            self.last_marked = seen.seq;
        }
        late_from
    }

    /// Takes note of which set-aside transactions are open and hold no lock on a job table: they have drawn nothing yet, and
    /// whatever they will draw is above today's horizon. One that has ended is not among them, and must not be: it may have
    /// drawn and committed since it was last observed.
    ///
    /// A transaction counts as idle when two questions in a row have said so: while it is being prepared its locks change
    /// hands one by one, and a single reading may see only half of them.
    pub fn raise_idle(&mut self, idle: HashSet<i64>) {
        for (xid, low) in &mut self.aside {
            if idle.contains(xid) && self.idle_before.contains(xid) {
                *low = (*low).max(self.settled);
            }
        }
        self.idle_before = idle;
    }

    fn take_ended(&mut self, open: &HashSet<i64>) -> Option<i64> {
        let mut late_from = None;
        self.aside.retain(|xid, low| {
            let stays = open.contains(xid);
            if !stays {
                late_from = Some(late_from.map_or(*low, |lowest: i64| lowest.min(*low)));
            }
            stays
        });
        late_from
    }

    fn advance(&mut self, open: &HashSet<i64>, now: Instant) {
        while let Some(mark) = self.marks.front().copied() {
            let mut waits = false;
            for &xid in open.iter().filter(|xid| **xid < mark.xid) {
                if self.aside.contains_key(&xid) {
                    continue;
                }
                let open_for =
                    self.first_seen_open.get(&xid).map_or(Duration::ZERO, |since| now.duration_since(*since));
                if open_for > PATIENCE {
                    self.aside.insert(xid, self.settled);
                } else {
                    waits = true;
                }
            }
            if waits {
                return;
            }
            self.settled = mark.seq;
            self.marks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
