//! What a claim asks for, and what its answer teaches.

use std::time::{Duration, Instant};

use awa_model::QueueName;

use super::{ClaimedRow, Cursors, PRIORITIES, State, priority};

/// A claim after a short answer starts at the exact cursor, at most this often and this often times its own duration.
const EARLY_INTERVAL: Duration = Duration::from_millis(10);
const EARLY_SHARE: u32 = 4;
/// How long a process leaves a nearly empty queue to others before it insists on a claim of its own.
const YIELDS_FOR: Duration = Duration::from_millis(100);

/// The parameters of one claim.
#[derive(Default)]
pub(super) struct Request {
    /// Queues whose last answer was short: they are left to another process that claims from them at the moment.
    pub(super) yields: Vec<bool>,
    /// The same ones, now and then: their lanes start at the exact cursors.
    pub(super) early: Vec<bool>,
    pub(super) wants: Vec<i32>,
    pub(super) starts: Vec<i64>,
    pub(super) skips: Vec<i16>,
    pub(super) found_queues: Vec<i32>,
    pub(super) found_priorities: Vec<i16>,
    pub(super) found_segments: Vec<i16>,
    pub(super) found_seqs: Vec<i64>,
}

impl Request {
    pub(super) fn is_early(&self) -> bool {
        self.early.iter().zip(&self.wants).any(|(early, want)| *early && *want > 0)
    }

    pub(super) fn wanted(&self) -> i64 {
        self.wants.iter().map(|want| i64::from(*want)).sum()
    }
}

impl Cursors {
    pub(super) fn request(&self, wants: &[(QueueName, usize)], now: Instant) -> Request {
        let state = self.lock();
        let due = state.next_early.is_none_or(|next| now >= next);
        let early: Vec<bool> = state.short.iter().map(|short| due && *short).collect();
        let (starts, skips) = state.lanes.starts(&early);
        let yields = (0..self.queues.len()).map(|queue| state.yields(queue, now)).collect();
        let wants_none = vec![0; self.queues.len()];
        let mut request = Request { early, starts, skips, yields, wants: wants_none, ..Request::default() };
        for (name, want) in wants {
            if let Ok(queue) = self.queues.binary_search_by(|queue| queue.as_str().cmp(name.as_str())) {
                request.wants[queue] = request.wants[queue].saturating_add(i32::try_from(*want).unwrap_or(i32::MAX));
            }
        }
        for (lane, seq, segment) in state.lanes.found() {
            let place = i32::try_from(lane / PRIORITIES + 1).unwrap_or(i32::MAX);
            let want = request.wants[lane / PRIORITIES];
            let already = request.found_queues.iter().rev().take_while(|queue| **queue == place).count();
            if i32::try_from(already).is_ok_and(|already| already >= want) {
                continue;
            }
            request.found_queues.push(place);
            request.found_priorities.push(priority(lane));
            request.found_segments.push(segment);
            request.found_seqs.push(seq);
        }
        request
    }

    pub(super) fn answered(&self, request: &Request, rows: &[ClaimedRow], started: Instant) {
        let mut state = self.lock();
        let mut got = vec![(0_i32, None::<usize>); self.queues.len()];
        for row in rows {
            let Ok(queue) = self.queues.binary_search_by(|queue| queue.as_str().cmp(row.queue.as_str())) else {
                continue;
            };
            let priority = row.priority as usize;
            state.lanes.claimed(queue * PRIORITIES + priority - 1, row.seq, row.segment);
            got[queue].0 += 1;
            got[queue].1 = got[queue].1.max(Some(priority));
        }
        for (queue, (count, last_priority)) in got.into_iter().enumerate() {
            let want = request.wants[queue];
            if want > 0 {
                if count == 0 && request.yields[queue] {
                    // Empty, or passed by: nothing is known.
                    state.yielding_since[queue].get_or_insert(started);
                } else {
                    state.yielding_since[queue] = None;
                    state.lanes.answered(queue, count < want, last_priority);
                }
                state.short[queue] = count < want;
            }
        }
        if request.is_early() {
            let now = Instant::now();
            state.next_early = Some(now + EARLY_INTERVAL.max((now - started) * EARLY_SHARE));
        }
    }
}

impl State {
    /// Whether to leave a queue to another process that claims from it: not if there are found rows to be claimed, and not for
    /// long, since that process may hang.
    fn yields(&self, queue: usize, now: Instant) -> bool {
        let lanes = &self.lanes.lanes[queue * PRIORITIES..(queue + 1) * PRIORITIES];
        self.short[queue]
            && lanes.iter().all(|lane| lane.found.is_empty())
            && self.yielding_since[queue].is_none_or(|since| now.saturating_duration_since(since) < YIELDS_FOR)
    }
}
