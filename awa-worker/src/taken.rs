//! Attempts that somebody else has ended: their handlers are asked to stop, and told why.
//!
//! A notification names them within milliseconds; a heartbeat that matches no row finds them in any case. Neither is taken
//! at its word for the reason: storage is asked what became of each. So a notification that anybody may have sent stops
//! nobody, and one that names an attempt by its lease never stops the next one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use awa_storage::fate::{Fate, fates};
use awa_storage::notify::{Listener, Tidings};
use awa_storage::{Error, Held};
use sqlx::PgPool;

use crate::attempts::{Attempt, CancelReason};
use crate::bounded::within;
use crate::engine::Engine;
use crate::telemetry::{JOB_ID, JOB_KIND};

/// Attempts that one statement asks about.
const ASKED_MAX: usize = 5000;

/// How long an answer is waited for before it is left to the heartbeats.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Acts on what this worker is told, until it is dropped.
pub(crate) async fn hear(engine: &Engine, pool: &PgPool, listener: Option<&Listener>) {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        let suspects = match listener.told().await {
            Tidings::Taken(told) => {
                let named: HashSet<_> = told.iter().map(|told| (told.job_id, told.run_lease)).collect();
                engine.attempts.select(|attempt| named.contains(&(attempt.job_id(), attempt.held.run_lease())))
            }
            Tidings::Missed => engine.attempts.all(),
        };
        for some in suspects.chunks(ASKED_MAX) {
            match within(ANSWER_MAX, why(pool, some)).await {
                Ok(answers) => {
                    for attempt in some.iter().filter(|attempt| !attempt.is_answered()) {
                        if let Some(fate) = answers.get(&attempt.held) {
                            tell(engine, attempt, *fate);
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "what became of running attempts could not be asked: heartbeats will tell");
                }
            }
        }
    }
}

/// Lets go of attempts whose lease is lost, on storage's word. One statement or two ask why; nobody waits for the answer longer
/// than `limit`, and without one the loss alone is the reason.
pub(crate) async fn lost(engine: &Engine, pool: &PgPool, limit: Duration, mut gone: Vec<Arc<Attempt>>) {
    // One whose outcome is on its way may have been settled since it was picked: the finalizer will hear.
    gone.retain(|attempt| !attempt.is_answered());
    let why = within(limit, why(pool, &gone)).await.unwrap_or_default();
    for attempt in &gone {
        let fate = why.get(&attempt.held).copied().unwrap_or(Fate::Rescued);
        if fate == Fate::Answered && attempt.may_be_complete() {
            // Its handler has completed the job, and is about to say so: the attempt ends when it does.
            engine.attempts.beaten(std::slice::from_ref(attempt), Instant::now());
            continue;
        }
        tell(engine, attempt, fate);
    }
}

async fn why(pool: &PgPool, attempts: &[Arc<Attempt>]) -> Result<HashMap<Held, Fate>, Error> {
    let held: Vec<Held> = attempts.iter().map(|attempt| attempt.held).collect();
    Ok(fates(pool, &held).await?.into_iter().collect())
}

/// Tells a handler that its attempt is over, and lets go of the attempt.
fn tell(engine: &Engine, attempt: &Arc<Attempt>, fate: Fate) {
    let (id, kind, reason) = (attempt.job_id().get(), &attempt.facts.kind, CancelReason::of(fate));
    if reason == CancelReason::LeaseLost {
        tracing::warn!(
            { JOB_ID } = id,
            { JOB_KIND } = %kind,
            "the lease of a running attempt is lost: its handler is asked to stop"
        );
    } else {
        tracing::info!({ JOB_ID } = id, { JOB_KIND } = %kind, ?reason, "a running job was ended: its handler is asked to stop");
    }
    engine.attempts.lose(attempt, reason);
}

/// Says of attempts whose outcome came too late what it came after: their handlers had returned before they could be told.
pub(crate) async fn unheard(engine: &Engine, lost: &[Arc<Attempt>]) {
    if lost.is_empty() {
        return;
    }
    let why = engine.bounded(why(&engine.pool, lost)).await.unwrap_or_default();
    for attempt in lost {
        attempt.cancel(CancelReason::of(why.get(&attempt.held).copied().unwrap_or(Fate::Rescued)));
        discarded(attempt);
    }
}

/// Says that what a handler returned has no effect.
pub(crate) fn discarded(attempt: &Attempt) {
    let (id, kind, reason) = (attempt.job_id().get(), &attempt.facts.kind, attempt.cancel_reason());
    match reason {
        Some(CancelReason::Answered) if attempt.may_be_complete() => tracing::info!(
            { JOB_ID } = id,
            { JOB_KIND } = %kind,
            "what the handler returned has no effect: it had completed the job in a transaction of its own"
        ),
        Some(CancelReason::Cancelled | CancelReason::Answered) => tracing::info!(
            { JOB_ID } = id,
            { JOB_KIND } = %kind,
            reason = reason.map(tracing::field::debug),
            "the job was ended while its handler ran: what the handler returned is discarded"
        ),
        _ => tracing::warn!(
            { JOB_ID } = id,
            { JOB_KIND } = %kind,
            reason = reason.map(tracing::field::debug),
            "the handler returned after its attempt had ended: what it returned is discarded"
        ),
    }
}
