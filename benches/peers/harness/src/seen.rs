//! What handlers report to: a count for pacing, and the time from enqueueing to the start of the handler where that is the
//! question.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hdrhistogram::Histogram;

use crate::Result;
use crate::payload::now_us;

/// A handle on it; all clones are one.
#[derive(Clone, Debug)]
pub struct Seen(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    handled: AtomicU64,
    timing: AtomicBool,
    micros: Mutex<Histogram<u64>>,
}

impl Seen {
    pub(crate) fn new() -> Result<Self> {
        let micros = Mutex::new(Histogram::new_with_bounds(1, 600_000_000, 3)?);
        Ok(Self(Arc::new(Inner { handled: AtomicU64::new(0), timing: AtomicBool::new(false), micros })))
    }

    /// To be called first thing in every handler, with the `sent_us` of its payload.
    pub fn started(&self, sent_us: u64) {
        if self.0.timing.load(Ordering::Relaxed) {
            let micros = now_us().saturating_sub(sent_us);
            self.0.micros.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(micros);
        }
        self.0.handled.fetch_add(1, Ordering::Relaxed);
    }

    /// Handlers started so far: paces producers and says when to ask the judge, and is never a figure.
    pub(crate) fn handled(&self) -> u64 {
        self.0.handled.load(Ordering::Relaxed)
    }

    /// Keeps times from here on.
    pub(crate) fn time(&self) {
        self.0.timing.store(true, Ordering::Relaxed);
    }

    /// The value below which `percent` of the times are, in milliseconds; none without any.
    pub(crate) fn percentile_ms(&self, percent: f64) -> Option<f64> {
        let micros = self.0.micros.lock().unwrap_or_else(PoisonError::into_inner);
        (!micros.is_empty()).then(|| micros.value_at_quantile(percent / 100.0) as f64 / 1000.0)
    }
}
