//! Waiting for the outside: a handler opens a callback, tells its id to whoever is to answer, and returns
//! [`Outcome::wait_for`](crate::Outcome::wait_for). The job then waits without a worker until the answer comes or its time is
//! over.
//!
//! Anybody who knows the id may answer: through a [`Client`], through the functions here in a transaction of their own, or in
//! any language by SQL. An answer may come at any time, also before the handler has returned.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use awa_model::{CallbackId, json_text, limits};
use awa_storage::Guarded;
use awa_storage::callback::{self, Answered};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::PgExecutor;

use crate::attempts::CancelReason;
use crate::client::Client;
use crate::context::JobContext;
use crate::failure::Error;

/// An answer that brings nothing: `client.callback_resume(id, NO_PAYLOAD)`. JSON null is something: `Some(&())`.
pub const NO_PAYLOAD: Option<&'static ()> = None;

/// A callback that an attempt has opened. Displayed it is its id, as the outside needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Callback {
    id: CallbackId,
}

impl Callback {
    /// The id under which it is answered. Whoever knows it may answer.
    #[must_use]
    pub const fn id(&self) -> CallbackId {
        self.id
    }
}

impl fmt::Display for Callback {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(formatter)
    }
}

impl From<Callback> for CallbackId {
    fn from(callback: Callback) -> Self {
        callback.id
    }
}

impl From<&Callback> for CallbackId {
    fn from(callback: &Callback) -> Self {
        callback.id
    }
}

/// Waiting for the outside.
impl JobContext {
    /// Opens a callback, which can be answered from now on: it is in the database when this returns. Tell its id to whoever is
    /// to answer, then return [`Outcome::wait_for`](crate::Outcome::wait_for).
    ///
    /// `timeout` counts from now. A job that waits for longer is tried again as after an error, or fails without attempts
    /// left; its progress stays. A callback that the job does not wait for never times out. It ends with the attempt: whatever
    /// this handler returns instead, nobody can answer then. An attempt may open [`limits::CALLBACKS_MAX`].
    ///
    /// The handler may run again after it has told the id to the outside, as any handler may: then there are two callbacks, and
    /// only that of the newer attempt is good for anything. Should the outside have answered the older one by then, it was
    /// told so: its answer was refused.
    ///
    /// Dropping this future does not stop the write.
    ///
    /// # Errors
    /// [`Error::CallbackTimeout`] for a time outside of 1 ms to 1000 years, [`Error::LeaseLost`] when the attempt is no longer
    /// this process's, and [`Error::Storage`] when the database could not be asked, or there are too many.
    pub async fn callback(&self, timeout: Duration) -> Result<Callback, Error> {
        if !limits::CALLBACK_TIMEOUT.contains(&timeout) {
            return Err(Error::CallbackTimeout { timeout });
        }
        let (attempt, store) = (Arc::clone(self.running()), Arc::clone(self.store()));
        // On a task of its own: a statement that is cut off would cost the connection.
        let opening = self.runtime().spawn(async move {
            match store.open_callback(&attempt.held, timeout).await? {
                Guarded::Applied(id) => Ok(Callback { id }),
                Guarded::Lost => {
                    let fate = store.fate(&attempt.held).await.ok().flatten();
                    attempt.cancel(fate.map_or(CancelReason::LeaseLost, CancelReason::of));
                    Err(Error::LeaseLost)
                }
            }
        });
        opening.await.unwrap_or(Err(Error::Stopped { part: "runtime" }))
    }

    /// What came with the answer that let the job go on last: in whichever attempt that was, and however often the job has
    /// been tried since. `None` where nothing came, or it never was answered so; JSON null is `Some` of whatever `T` makes of
    /// null. Asks the database.
    ///
    /// A job that waits several times keeps in a checkpoint how far it is, since this is always the newest answer.
    ///
    /// # Errors
    /// [`Error::UnfitPayload`] when what came is not a `T`: returned by `?` it fails the job for good, since every attempt would
    /// find the same. [`Error::Storage`] when the database could not be asked.
    pub async fn callback_payload<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        let (attempt, store) = (Arc::clone(self.running()), Arc::clone(self.store()));
        let asking = self.runtime().spawn(async move { store.callback_payload(&attempt.held).await });
        let payload = asking.await.map_err(|_| Error::Stopped { part: "runtime" })??;
        payload.map(|text| serde_json::from_str(&text)).transpose().map_err(Error::UnfitPayload)
    }
}

/// Answers a callback: nothing is left to do. The job has completed, and `payload` is its result. On whatever connection or
/// transaction the caller has; see [`Client::callback_complete`].
///
/// # Errors
/// As [`Client::callback_complete`].
pub async fn callback_complete<T: Serialize + ?Sized>(
    db: impl PgExecutor<'_>,
    callback: impl Into<CallbackId>,
    payload: Option<&T>,
) -> Result<Answered, Error> {
    Ok(callback::complete(db, callback.into(), encoded(payload)?.as_deref()).await?)
}

/// Answers a callback: the job goes on, and its next attempt is told `payload`. On whatever connection or transaction the
/// caller has; see [`Client::callback_resume`].
///
/// # Errors
/// As [`Client::callback_complete`].
pub async fn callback_resume<T: Serialize + ?Sized>(
    db: impl PgExecutor<'_>,
    callback: impl Into<CallbackId>,
    payload: Option<&T>,
) -> Result<Answered, Error> {
    Ok(callback::resume(db, callback.into(), encoded(payload)?.as_deref()).await?)
}

/// Answers a callback: the job has failed for good. On whatever connection or transaction the caller has; see
/// [`Client::callback_fail`].
///
/// # Errors
/// As [`Client::callback_complete`].
pub async fn callback_fail(
    db: impl PgExecutor<'_>,
    callback: impl Into<CallbackId>,
    error: &str,
) -> Result<Answered, Error> {
    let text = awa_model::error_text(&error);
    Ok(callback::fail(db, callback.into(), &text).await?)
}

fn encoded<T: Serialize + ?Sized>(payload: Option<&T>) -> Result<Option<String>, Error> {
    payload
        .map(|payload| json_text("the payload", payload, limits::PAYLOAD_BYTES_MAX))
        .transpose()
        .map_err(Error::InvalidPayload)
}

/// Answers to callbacks, through the client's pool. The [`Answered`] says whether the answer took effect, and why not.
impl Client {
    /// Answers a callback: nothing is left to do. The job has completed, and `payload` is its result. A handler that still
    /// runs is told, and what it returns is ignored.
    ///
    /// # Errors
    /// [`Error::InvalidPayload`] for a payload that cannot be stored or has more than [`limits::PAYLOAD_BYTES_MAX`] bytes;
    /// [`Error::Storage`] if the database does not answer. Safe to repeat.
    pub async fn callback_complete<T: Serialize + ?Sized>(
        &self,
        callback: impl Into<CallbackId>,
        payload: Option<&T>,
    ) -> Result<Answered, Error> {
        callback_complete(self.pool(), callback, payload).await
    }

    /// Answers a callback: the job goes on. It is available at once, its attempt does not count, and the next one gets
    /// `payload` from [`JobContext::callback_payload`]. While the handler still runs the answer is kept, and the job does not
    /// wait then.
    ///
    /// # Errors
    /// As [`Client::callback_complete`].
    pub async fn callback_resume<T: Serialize + ?Sized>(
        &self,
        callback: impl Into<CallbackId>,
        payload: Option<&T>,
    ) -> Result<Answered, Error> {
        callback_resume(self.pool(), callback, payload).await
    }

    /// Answers a callback: the job has failed for good. `error` is recorded among its errors; its progress stays. A handler
    /// that still runs is told, and what it returns is ignored.
    ///
    /// # Errors
    /// [`Error::Storage`] if the database does not answer. Safe to repeat.
    pub async fn callback_fail(&self, callback: impl Into<CallbackId>, error: &str) -> Result<Answered, Error> {
        callback_fail(self.pool(), callback, error).await
    }
}
