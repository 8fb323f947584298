//! Signs of life of running attempts, and the progress they carry.
//!
//! Each call is one statement, whatever the number of attempts. A write that finds a row missing looks a second time, in a
//! statement of its own over all segments, before it calls the lease lost: a row that is being moved keeps its lease (I13).
//! Promise I12: what these functions report as stored is stored.

use std::collections::HashSet;

use sqlx::{PgExecutor, PgPool};

use crate::{
    Error, Guarded,
    lease::{Held, newest},
};

/// Writes a sign of life for the given attempts, and leaves their progress alone. Returns those whose lease is lost.
///
/// # Errors
///
/// If the database does not answer; then each beat may or may not have been written. Safe to repeat.
pub async fn heartbeat(pool: &PgPool, held: &[Held]) -> Result<Vec<Held>, Error> {
    let beats: Vec<Beat<'_>> = held.iter().map(|held| Beat { held: *held, progress: None }).collect();
    beat(pool, beats, false).await
}

/// Writes a sign of life together with progress, a JSON text for each attempt. Returns those whose lease is lost; the
/// progress of all others is stored.
///
/// # Errors
///
/// If the database does not answer, or a text is not JSON; then the state of each row is unknown. Safe to repeat, as long as
/// nothing newer has been stored in between.
pub async fn heartbeat_with_progress(pool: &PgPool, held: &[(Held, String)]) -> Result<Vec<Held>, Error> {
    let beats: Vec<Beat<'_>> = held.iter().map(|(held, text)| Beat { held: *held, progress: Some(text) }).collect();
    beat(pool, beats, true).await
}

/// Stores the progress of one attempt now, and does not return before it is stored or the lease is known to be lost.
pub async fn flush_progress(db: impl PgExecutor<'_>, held: &Held, progress: &str) -> Result<Guarded<()>, Error> {
    let beats = vec![Beat { held: *held, progress: Some(progress) }];
    let lost = beat(db, beats, true).await?;
    Ok(if lost.is_empty() { Guarded::Applied(()) } else { Guarded::Lost })
}

struct Beat<'a> {
    held: Held,
    progress: Option<&'a str>,
}

async fn beat(db: impl PgExecutor<'_>, beats: Vec<Beat<'_>>, with_progress: bool) -> Result<Vec<Held>, Error> {
    if beats.is_empty() {
        return Ok(Vec::new());
    }
    // In the lock order of everything that touches several running rows.
    let places = newest(beats.iter().map(|beat| (beat.held.job_id, beat.held.run_lease)));
    let chosen = || places.iter().map(|place| &beats[*place]);
    let segments: Vec<i16> = chosen().map(|beat| beat.held.segment).collect();
    let ids: Vec<i64> = chosen().map(|beat| beat.held.job_id.get()).collect();
    let leases: Vec<i64> = chosen().map(|beat| beat.held.run_lease.get()).collect();
    // Texts all the way: the database keeps numbers that no Rust type could.
    let progress: Option<Vec<Option<String>>> =
        with_progress.then(|| chosen().map(|beat| beat.progress.map(str::to_owned)).collect());
    let rows =
        sqlx::query_file!("queries/attempt/beat.sql", &segments, &ids, &leases, progress as _).fetch_all(db).await?;
    let lost: HashSet<i64> = rows.into_iter().map(|row| row.id).collect();
    let alive: HashSet<Held> =
        chosen().map(|beat| beat.held).filter(|held| !lost.contains(&held.job_id.get())).collect();
    Ok(beats.iter().map(|beat| beat.held).filter(|held| !alive.contains(held)).collect())
}
