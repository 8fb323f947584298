//! The lanes of one process: a lane is (queue, priority), and two cursors walk it.
//!
//! The *optimistic* cursor O is where claims start: they take what lies beyond it, at once. It is only a hint, and any
//! value of it is safe. The *exact* cursor T follows the settled horizon: a plain look visits every row of (T, horizon]
//! once. An available row that O has passed already goes into *found*, and is claimed by its number before anything else,
//! until a later look sees it taken. One rule so covers late commits, claims that rolled back, and strays.
//!
//! Everything here is pure: requests are built from the state, answers are fed back into it.
//! Invariant I5 (docs/invariants.md): an available row of a known kind is found by the first look that begins after its
//! transaction has ended.

use std::collections::{BTreeMap, VecDeque};

/// A lane with this many found rows is not looked at further until some are claimed.
pub(crate) const FOUND_MAX: usize = 4096;
/// Claims that follow a short answer start at the exact cursor, if it is not further behind than this.
pub(crate) const EARLY_STRETCH_MAX: i64 = 20_000;
/// Priorities of a queue, hence lanes.
pub(crate) const PRIORITIES: usize = 4;
/// Segments of the ring.
const SEGMENTS: i64 = 8;

/// One lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    /// O: claims have passed everything up to here.
    pub(crate) optimistic: i64,
    /// T: everything up to here has been looked at.
    pub(crate) exact: i64,
    /// Stretches to be looked at once more: (done up to, end].
    pub(crate) late: VecDeque<(i64, i64)>,
    /// Available rows behind O: number and segment.
    pub(crate) found: BTreeMap<i64, i16>,
    /// The lowest available row of a kind this process does not run.
    pub(crate) other: Option<i64>,
    /// Segments that hold nothing beyond O, one bit each.
    pub(crate) skips: i16,
}

/// All lanes of a process, four to a queue, and where the ring stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lanes {
    pub(crate) lanes: Vec<Lane>,
    oldest: i64,
    current: i64,
}

/// Which stretch a look is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stretch {
    /// (T, horizon]: what has just been settled.
    Main,
    /// What a set-aside transaction may have left behind.
    Late,
}

/// One lane's part of a look, as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Place of the lane in [`Lanes::lanes`].
    pub(crate) lane: usize,
    pub(crate) low: i64,
    pub(crate) high: i64,
    pub(crate) optimistic: i64,
}

/// One lane's part of a look, as answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Looked {
    pub(crate) reached: i64,
    pub(crate) found: Vec<(i64, i16)>,
    pub(crate) beyond_segments: Vec<i16>,
    pub(crate) other: Option<i64>,
}

impl Lanes {
    /// Lanes that start at the persisted marks, in the order of the lanes.
    pub(crate) fn starting_at(marks: &[i64]) -> Self {
        let lanes = marks.iter().map(|&mark| Lane { optimistic: mark, exact: mark, ..Lane::default() }).collect();
        Self { lanes, oldest: 0, current: 0 }
    }

    /// Takes in where the ring stands. A segment that has become current again holds new rows: no lane skips it.
    pub(crate) fn ring_is(&mut self, oldest: i64, current: i64) {
        if current > self.current {
            let renewed = (self.current + 1..=current).fold(0_i16, |bits, generation| bits | segment_bit(generation));
            for lane in &mut self.lanes {
                lane.skips &= !renewed;
            }
        }
        self.oldest = oldest;
        self.current = current;
    }

    /// Where a claim starts in each lane, and which closed segments it leaves out. Lanes of a queue that is `early`, a flag each,
    /// start at T instead of O, for rows that were overtaken: any segment may hold some.
    pub(crate) fn starts(&self, early: &[bool]) -> (Vec<i64>, Vec<i16>) {
        let start = |(place, lane): (usize, &Lane)| {
            if !early[place / PRIORITIES] {
                (lane.optimistic, lane.skips)
            } else if lane.optimistic - lane.exact <= EARLY_STRETCH_MAX {
                (lane.optimistic.min(lane.exact), 0)
            } else {
                (lane.optimistic, 0)
            }
        };
        self.lanes.iter().enumerate().map(start).unzip()
    }

    /// A row of this segment was claimed from this lane. Older segments come first: a row of the current one says that the
    /// others hold nothing beyond O.
    pub(crate) fn claimed(&mut self, place: usize, seq: i64, segment: i16) {
        let closed = self.closed();
        let lane = &mut self.lanes[place];
        lane.optimistic = lane.optimistic.max(seq);
        lane.found.remove(&seq);
        if i64::from(segment) == self.current % SEGMENTS {
            lane.skips |= closed;
        }
    }

    /// The segments of the ring but the current one, one bit each.
    fn closed(&self) -> i16 {
        (self.oldest..self.current).fold(0, |bits, generation| bits | segment_bit(generation))
    }

    /// A claim for one queue has been answered: learn which closed segments hold nothing beyond O.
    ///
    /// `short` says that there was less than was asked for, so every segment was visited to its end. Otherwise only the
    /// priorities before the last one served were.
    pub(crate) fn answered(&mut self, queue: usize, short: bool, last_priority: Option<usize>) {
        let closed = self.closed();
        let exhausted = if short { PRIORITIES } else { last_priority.map_or(0, |priority| priority - 1) };
        for lane in &mut self.lanes[queue * PRIORITIES..queue * PRIORITIES + exhausted] {
            lane.skips |= closed;
        }
    }

    /// Transactions that were set aside have ended: everything from `from` on that was looked at is looked at once more.
    pub(crate) fn look_again_from(&mut self, from: i64) {
        for lane in &mut self.lanes {
            if from < lane.exact {
                lane.late.push_back((from, lane.exact));
            }
        }
    }

    /// What there is to look at up to `horizon`.
    pub(crate) fn asks(&self, stretch: Stretch, horizon: i64) -> Vec<Ask> {
        let mut asks = Vec::new();
        for (place, lane) in self.lanes.iter().enumerate().filter(|(_, lane)| lane.found.len() < FOUND_MAX) {
            match stretch {
                Stretch::Main if lane.exact < horizon => asks.push(Ask {
                    lane: place,
                    low: lane.exact,
                    high: horizon,
                    optimistic: lane.optimistic.max(lane.exact),
                }),
                Stretch::Late => asks.extend(lane.late.front().map(|&(low, high)| Ask {
                    lane: place,
                    low,
                    high,
                    // Whatever is available in there was overtaken, wherever claims are.
                    optimistic: i64::MAX,
                })),
                Stretch::Main => {}
            }
        }
        asks
    }

    /// Takes in the answer to one ask. Returns whether the lane's cursor moved and has further to go.
    pub(crate) fn looked(&mut self, stretch: Stretch, ask: &Ask, answer: &Looked) -> bool {
        let closed = self.closed();
        let lane = &mut self.lanes[ask.lane];
        // A later segment may have narrowed the stretch after an earlier one had found rows above it.
        lane.found.extend(answer.found.iter().copied().filter(|(seq, _)| *seq <= answer.reached));
        if let Some(other) = answer.other {
            lane.other = Some(lane.other.map_or(other, |lowest| lowest.min(other)));
        }
        for segment in &answer.beyond_segments {
            lane.skips &= !(1 << segment);
        }
        match stretch {
            Stretch::Main => {
                if answer.reached >= ask.high && answer.beyond_segments.is_empty() {
                    // Through: only the current segment takes rows that come from now on.
                    lane.skips |= closed;
                }
                let moved = answer.reached > lane.exact;
                lane.exact = lane.exact.max(answer.reached);
                lane.optimistic = lane.optimistic.max(lane.exact);
                moved && lane.exact < ask.high
            }
            Stretch::Late => {
                if answer.reached >= ask.high {
                    lane.late.pop_front();
                } else if let Some(first) = lane.late.front_mut() {
                    first.0 = first.0.max(answer.reached);
                }
                !lane.late.is_empty()
            }
        }
    }

    /// Found rows of all lanes: (lane, number, segment).
    pub(crate) fn found(&self) -> Vec<(usize, i64, i16)> {
        self.lanes
            .iter()
            .enumerate()
            .flat_map(|(place, lane)| lane.found.iter().map(move |(&seq, &segment)| (place, seq, segment)))
            .collect()
    }

    /// A found row is available no more.
    pub(crate) fn lost(&mut self, lane: usize, seq: i64) {
        self.lanes[lane].found.remove(&seq);
    }

    /// Bounds below which no row of any kind is or can become available, a lane each; `aside` is the lowest horizon that a
    /// transaction was set aside with.
    pub(crate) fn marks(&self, aside: Option<i64>) -> Vec<i64> {
        self.lanes
            .iter()
            .map(|lane| {
                [
                    aside,
                    lane.late.iter().map(|stretch| stretch.0).min(),
                    lane.found.first_key_value().map(|(&seq, _)| seq - 1),
                    lane.other.map(|seq| seq - 1),
                ]
                .into_iter()
                .flatten()
                .fold(lane.exact, i64::min)
            })
            .collect()
    }

    /// Where rows of other kinds hold a mark back: looks that stop before the first available row of whatever kind.
    pub(crate) fn probes(&self) -> Vec<Ask> {
        let lanes = self.lanes.iter().enumerate();
        lanes
            .filter_map(|(place, lane)| {
                let low = lane.other? - 1;
                // A cursor below everything: no available row is taken for one that claims have passed.
                (low < lane.exact).then_some(Ask { lane: place, low, high: lane.exact, optimistic: -1 })
            })
            .collect()
    }

    /// Takes in the answer to a probe: every kind is decided up to `reached`.
    pub(crate) fn probed(&mut self, probe: &Ask, reached: i64) {
        let lane = &mut self.lanes[probe.lane];
        if lane.other != Some(probe.low + 1) {
            // A look has met a lower one meanwhile.
            return;
        }
        lane.other = if reached < probe.high {
            Some(reached + 1)
        } else if probe.high < lane.exact {
            // The cursor has gone on, past rows that the probe did not ask about.
            Some(probe.high + 1)
        } else {
            None
        };
    }

    /// Whether nothing is left to look at again or to claim behind the cursors.
    pub(crate) fn is_quiet(&self) -> bool {
        self.lanes.iter().all(|lane| lane.late.is_empty() && lane.found.is_empty())
    }

    /// Whether some lane has rows that claims have not reached.
    pub(crate) fn has_backlog(&self, horizon: i64) -> bool {
        self.lanes.iter().any(|lane| lane.exact < horizon)
    }
}

fn segment_bit(generation: i64) -> i16 {
    1 << (generation % SEGMENTS)
}

#[cfg(test)]
mod tests;
