//! The scout: in a backlog it runs ahead of the ordinary batches and sees to the queues that do not crowd it.
//!
//! Jobs are promoted by their due time, whatever their queue, so a million jobs of one queue would hold up a single one of
//! another. While batches are full, the scout looks at a stretch of what is due between two of them, and promotes what
//! belongs to other queues. It goes round: from behind the ordinary batches until nothing more is due, which costs a small
//! part of what promoting all that takes; from then on it looks at what has come due in the meantime, and starts the next
//! round when that is cheap.
//!
//! What the scout finds may be a crowd too: a queue that has filled several of its batches is passed by as well.
//!
//! A queue that has crowded a batch stays passed by until the round ends, for the scout has left jobs of it behind: what it
//! found further on must not overtake them. So within a queue the order of due times is as it would be without a scout.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use super::{OVERLAP, Place};

/// The most and the fewest rows that one look takes in. How many it is follows from how long the last one took.
const LOOK_MAX: u32 = 100_000;
const LOOK_MIN: u32 = 1000;

/// A look that took longer is followed by one half as long, one that took less than half by one twice as long.
const LOOK_TIME: Duration = Duration::from_millis(50);

/// Queues that a round passes by. Where there are more, it starts over with those that crowd now.
const PASSED_BY_MAX: usize = 64;

/// Rounds after the first may take this part of the time.
const ROUND_SHARE: u32 = 40;

/// Looks, at least, from one round to the next, however cheap one is.
const ROUND_LOOKS_MIN: u32 = 32;

/// Batches of its own that the scout lets a queue crowd in a round.
const FULL_MAX: usize = 4;

/// Where the scout is. A hint, as the whole cursor is.
#[derive(Debug)]
pub(super) struct Scout {
    /// Passed by since the round began; empty where there is no backlog.
    passed_by: Vec<String>,
    /// How far it has looked in this round.
    reached: Option<Place>,
    /// What has crowded since the last look.
    crowding: Vec<String>,
    /// What has crowded the batches of the scout itself in this round, once for each batch.
    filled: Vec<String>,
    round_from: Option<Instant>,
    looks: u32,
    spent: Duration,
    at_end: bool,
    look: u32,
}

impl Default for Scout {
    fn default() -> Self {
        Self {
            passed_by: Vec::new(),
            reached: None,
            crowding: Vec::new(),
            filled: Vec::new(),
            round_from: None,
            looks: 0,
            spent: Duration::ZERO,
            at_end: false,
            look: LOOK_MAX / 10,
        }
    }
}

/// What to look at now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look<'a> {
    pub(super) passed_by: &'a [String],
    pub(super) behind: Place,
    pub(super) rows: u32,
}

impl Scout {
    /// Takes in which queues took most of a batch; none, where it was not full: then the backlog is over, and all is forgotten
    /// but how much a look costs.
    pub(super) fn crowded_by(&mut self, queues: Vec<String>) {
        if queues.is_empty() {
            *self = Self { look: self.look, ..Self::default() };
        } else {
            self.crowding = queues;
        }
    }

    /// What to look at, given how far the ordinary batches have got. Nothing more until another batch was full.
    pub(super) fn next(&mut self, behind: Option<Place>, now: Instant) -> Option<Look<'_>> {
        let crowding = std::mem::take(&mut self.crowding);
        let behind = behind.filter(|_| !crowding.is_empty())?;
        let newcomers = crowding.iter().filter(|queue| !self.passed_by.contains(queue)).count();
        let ends = self.at_end
            && self.looks >= ROUND_LOOKS_MIN
            && self.round_from.is_none_or(|from| now.duration_since(from) >= self.spent * ROUND_SHARE);
        if ends || self.round_from.is_none() || self.passed_by.len() + newcomers > PASSED_BY_MAX {
            *self = Self { passed_by: crowding, round_from: Some(now), look: self.look, ..Self::default() };
        } else {
            crowding.into_iter().for_each(|queue| self.pass_by(queue));
        }
        let behind = self.reached.map_or(behind, |reached| reached.max(behind));
        Some(Look { passed_by: &self.passed_by, behind, rows: self.look })
    }

    /// Takes in how far a look got, whether nothing more was due behind that, and what it took.
    pub(super) fn looked(&mut self, last: Place, at_end: bool, took: Duration) {
        self.looks += 1;
        self.spent += took;
        self.at_end |= at_end;
        // Of what came due around the end of the look, some may be committed later.
        let from = |last: DateTime<Utc>| last.checked_sub_signed(OVERLAP).unwrap_or(last);
        self.reached = Some(if at_end { (from(last.0), awa_model::JobId::new(i64::MIN)) } else { last });
        if took > LOOK_TIME {
            self.look = (self.look / 2).max(LOOK_MIN);
        } else if took < LOOK_TIME / 2 && !at_end {
            self.look = (self.look * 2).min(LOOK_MAX);
        }
    }

    /// Takes in which queues took most of a batch that the scout has filled; none, where it was not full.
    pub(super) fn full_of(&mut self, queues: Vec<String>) {
        for queue in queues {
            self.filled.push(queue.clone());
            if self.filled.iter().filter(|filled| **filled == queue).count() >= FULL_MAX {
                self.pass_by(queue);
            }
        }
    }

    fn pass_by(&mut self, queue: String) {
        if !self.passed_by.contains(&queue) {
            self.passed_by.push(queue);
        }
    }
}
