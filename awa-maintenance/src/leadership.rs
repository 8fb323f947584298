//! Who leads. One process at a time does the duties, so that the others need not; that is all leadership is for (I10).
//!
//! The database's clock decides how long a term lasts. The leader itself goes by its monotonic clock: it trusts its term from
//! the moment *before* it asked, for a fifth less than the term, so that it has stopped before anybody else can be elected.
//! Where that clock stands still, in a suspended machine, two processes may lead for a moment: harmless, see above.
//!
//! An election is not assumed: a term belongs to one [`Term`], renewals match holder and number, and a term that was lost or
//! given up is never taken up again (LEADER-01).
//!
//! With each renewal goes what the duties did since the last one: no statement and no transaction more. Where that cannot be
//! written the term is renewed without it.

use std::{sync::Arc, time::Duration};

use awa_model::WorkerId;
use awa_storage::{
    Guarded,
    leader::{self, Term},
};
use sqlx::PgPool;
use tokio::{sync::watch, time::Instant};

use crate::{Error, contact::Contact, journal::Journal};

/// The duty that is led: all of maintenance.
pub const DUTY: &str = "maintenance";

/// A term is renewed this many times while it lasts.
const RENEWALS: u32 = 3;

/// Stands for election and holds the term.
#[derive(Debug)]
pub struct Elector {
    pool: PgPool,
    holder: WorkerId,
    lasts: Duration,
    term: Option<Term>,
    trusted_until: watch::Sender<Option<Instant>>,
    contact: Arc<Contact>,
    journal: Arc<Journal>,
}

/// Tells whether this process leads. Cheap to clone; goes by the monotonic clock, asks nobody.
#[derive(Clone, Debug)]
pub struct Trust {
    until: watch::Receiver<Option<Instant>>,
}

impl Elector {
    /// An elector that has not stood yet. `holder` has to be fresh for this process, `lasts` is how long a term lasts.
    pub fn new(pool: PgPool, holder: WorkerId, lasts: Duration) -> Self {
        Self {
            pool,
            holder,
            lasts,
            term: None,
            trusted_until: watch::Sender::new(None),
            contact: Arc::default(),
            journal: Arc::default(),
        }
    }

    /// Tells `contact` of every answer.
    pub(crate) fn telling(mut self, contact: Arc<Contact>) -> Self {
        self.contact = contact;
        self
    }

    /// Tells with each renewal what is new in `journal`.
    pub(crate) fn reporting(mut self, journal: Arc<Journal>) -> Self {
        self.journal = journal;
        self
    }

    /// Asks through this pool.
    pub(crate) fn through(mut self, pool: PgPool) -> Self {
        self.pool = pool;
        self
    }

    /// A handle that tells whether this process leads.
    pub fn trust(&self) -> Trust {
        Trust { until: self.trusted_until.subscribe() }
    }

    /// How long to wait between two calls of [`stand`](Self::stand).
    pub fn interval(&self) -> Duration {
        self.lasts / RENEWALS
    }

    /// Renews the term, or stands for election where there is none. Returns whether this process leads.
    ///
    /// # Errors
    ///
    /// If the database does not answer. The term is kept, and trusted as long as it was.
    pub async fn stand(&mut self) -> Result<bool, Error> {
        // Before the question: the term may have begun any time from here on.
        let asked = Instant::now();
        if let Some(term) = &self.term {
            let renewed = self.renew(term).await?;
            // Before the duties hear that they lead: rescue has to know by then whether the database was away.
            self.contact.answered(self.lasts);
            match renewed {
                Guarded::Applied(()) => {
                    self.trust_from(asked);
                    return Ok(true);
                }
                Guarded::Lost => {
                    tracing::info!(worker.id = %self.holder.get(), term = term.number(), "leads no longer");
                    self.term = None;
                    self.trusted_until.send_replace(None);
                }
            }
        }
        self.term = leader::acquire(&self.pool, DUTY, self.holder, self.lasts).await?;
        self.contact.answered(self.lasts);
        if let Some(term) = &self.term {
            tracing::info!(worker.id = %self.holder.get(), term = term.number(), "leads maintenance");
            // Before the duties hear that they lead.
            self.journal.begin_term();
            self.trust_from(asked);
        }
        Ok(self.term.is_some())
    }

    async fn renew(&self, term: &Term) -> Result<Guarded<()>, awa_storage::Error> {
        let news = self.journal.news();
        if !news.reports.is_empty() {
            match leader::renew_and_report(&self.pool, term, self.lasts, &news.reports).await {
                Ok(renewed) => {
                    self.journal.told(&news);
                    return Ok(renewed);
                }
                // The database has answered, and would not have it.
                Err(awa_storage::Error::Database(sqlx::Error::Database(error))) => {
                    tracing::warn!(%error, "what the duties did cannot be told: the lead is kept without that");
                }
                Err(error) => return Err(error),
            }
        }
        leader::renew(&self.pool, term, self.lasts).await
    }

    /// Gives the term up, so that another process can lead at once.
    ///
    /// # Errors
    ///
    /// If the database does not answer; then the term ends by itself. This process leads no longer in any case.
    pub async fn resign(&mut self) -> Result<(), Error> {
        self.trusted_until.send_replace(None);
        if let Some(term) = self.term.take() {
            let number = term.number();
            if leader::resign(&self.pool, term).await? == Guarded::Applied(()) {
                tracing::info!(worker.id = %self.holder.get(), term = number, "gave up the lead");
            }
        }
        Ok(())
    }

    fn trust_from(&self, asked: Instant) {
        self.trusted_until.send_replace(Some(asked + self.lasts * 4 / 5));
    }
}

impl Trust {
    /// Whether this process leads now.
    pub fn holds(&self) -> bool {
        self.until.borrow().is_some_and(|until| Instant::now() < until)
    }

    /// Waits until this process leads; for ever once its elector is gone.
    pub async fn until_leading(&mut self) {
        while !self.holds() {
            // Marks the value as seen, so that only a newer one wakes: one that has run out leads nowhere.
            if self.until.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
