//! How long claims take, as the worker's own spans say: from the call to the answer, waiting for a connection included.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use awa_worker::telemetry;
use hdrhistogram::Histogram;
use tracing::{Metadata, Subscriber, span};
use tracing_subscriber::{Layer, filter::filter_fn, layer::Context, registry::LookupSpan};

/// Durations in microseconds since they were last taken.
static TAKEN: Mutex<Option<Histogram<u64>>> = Mutex::new(None);

/// The longest claim that can be recorded, microseconds.
const LONGEST: u64 = 600_000_000;

/// Measures the spans of claims, and no others.
struct Claims;

/// The layer to be put under a subscriber.
pub(crate) fn layer<S>() -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    Claims.with_filter(filter_fn(is_claim))
}

/// What was recorded since the last call.
pub(crate) fn take() -> Option<Histogram<u64>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn is_claim(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.name() == telemetry::CLAIM
}

impl<S> Layer<S> for Claims
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, _: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Instant::now());
        }
    }

    fn on_close(&self, id: span::Id, context: Context<'_, S>) {
        let begun = context.span(&id).and_then(|span| span.extensions().get::<Instant>().copied());
        let Some(begun) = begun else { return };
        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(LONGEST).clamp(1, LONGEST);
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let histogram =
            taken.get_or_insert_with(|| Histogram::new_with_bounds(1, LONGEST, 3).expect("bounds in order"));
        histogram.saturating_record(micros);
    }
}
