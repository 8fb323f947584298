//! The loop of maintenance, the only one: while this process leads, each duty runs pass after pass in a task of its own.
//!
//! A slow duty delays no other (LEADER-04). A pass that fails is logged and repeated; a duty that panics is started again; a
//! database that is away is asked again until it is back (LEADER-03). On cancellation the duties stop, a statement on its way
//! takes effect as a whole or not at all, and the lead is given up so that another process can take over at once.

use std::{sync::Arc, time::Duration};

use awa_model::WorkerId;
use sqlx::PgPool;
use tokio::{
    task::{JoinError, JoinSet},
    time,
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{
    Duty, DutyName, Elector, Error, InvalidConfig, MaintenanceConfig, Pass, Trust, duties::Shared, journal::Journal,
};

/// How long giving up the lead may take before the process stops all the same.
const RESIGN_TIME_MAX: Duration = Duration::from_secs(2);

/// Does maintenance while it leads, and stands for election while it does not.
pub struct Maintainer {
    elector: Elector,
    config: MaintenanceConfig,
    duties: Vec<Arc<dyn Duty>>,
    journal: Arc<Journal>,
}

impl std::fmt::Debug for Maintainer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let duties: Vec<_> = self.duties.iter().map(|duty| duty.name()).collect();
        formatter
            .debug_struct("Maintainer")
            .field("elector", &self.elector)
            .field("config", &self.config)
            .field("duties", &duties)
            .finish()
    }
}

impl Maintainer {
    /// A maintainer with the duties of `config`. `holder` has to be fresh for this process. It uses up to nine connections of the pool at
    /// once, and works with one.
    ///
    /// # Errors
    ///
    /// Every rule that the configuration breaks.
    pub fn new(pool: PgPool, holder: WorkerId, config: MaintenanceConfig) -> Result<Self, Vec<InvalidConfig>> {
        let shared = Shared::default();
        let duties = config.duties.iter().map(|name| name.duty(&pool, config, &shared)).collect();
        let left_out = DutyName::ALL.into_iter().filter(|name| !config.duties.contains(*name)).map(DutyName::as_str);
        let mut maintainer = Self::telling(pool, holder, config, duties, left_out.collect())?;
        maintainer.elector = maintainer.elector.telling(shared.contact);
        Ok(maintainer)
    }

    /// A maintainer with duties of the caller's choice.
    ///
    /// # Errors
    ///
    /// Every rule that the configuration breaks.
    pub fn with_duties(
        pool: PgPool,
        holder: WorkerId,
        config: MaintenanceConfig,
        duties: Vec<Arc<dyn Duty>>,
    ) -> Result<Self, Vec<InvalidConfig>> {
        Self::telling(pool, holder, config, duties, Vec::new())
    }

    fn telling(
        pool: PgPool,
        holder: WorkerId,
        config: MaintenanceConfig,
        duties: Vec<Arc<dyn Duty>>,
        left_out: Vec<&'static str>,
    ) -> Result<Self, Vec<InvalidConfig>> {
        config.validate()?;
        let journal = Arc::new(Journal::new(duties.iter().map(|duty| duty.name()), left_out));
        let elector = Elector::new(pool, holder, config.leader_term).reporting(Arc::clone(&journal));
        Ok(Self { elector, config, duties, journal })
    }

    /// Stands for election through another pool, so that duties which are stuck do not cost the lead.
    #[must_use]
    pub fn electing_through(mut self, pool: PgPool) -> Self {
        self.elector = self.elector.through(pool);
        self
    }

    /// Runs until cancelled. Dropping the future stops everything, too, but leaves the lead to run out.
    pub async fn run(mut self, cancelled: CancellationToken) {
        let mut tasks = JoinSet::new();
        for duty in &self.duties {
            let keeper = Keeper { duty: Arc::clone(duty), config: self.config, journal: Arc::clone(&self.journal) };
            tasks.spawn(keeper.keep_up(self.elector.trust(), cancelled.clone()));
        }
        while cancelled.run_until_cancelled(self.stand()).await.is_some() {}
        // Their statements are short or bounded, and hear the cancellation themselves.
        while tasks.join_next().await.is_some() {}
        match time::timeout(RESIGN_TIME_MAX, self.elector.resign()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the lead was not given up and runs out by itself"),
            Err(_) => tracing::warn!("the lead was not given up in time and runs out by itself"),
        }
    }

    async fn stand(&mut self) {
        let pause = match time::timeout(self.config.leader_term, self.elector.stand()).await {
            Ok(Ok(_)) => self.elector.interval(),
            Ok(Err(error)) => {
                tracing::warn!(%error, "could not stand for election");
                self.config.retry_interval.min(self.elector.interval())
            }
            Err(_) => {
                tracing::warn!("could not stand for election in time");
                self.config.retry_interval.min(self.elector.interval())
            }
        };
        time::sleep(pause).await;
    }
}

/// Keeps one duty going.
#[derive(Clone)]
struct Keeper {
    duty: Arc<dyn Duty>,
    config: MaintenanceConfig,
    journal: Arc<Journal>,
}

impl Keeper {
    /// Runs the duty until cancelled, and starts it again should it panic.
    async fn keep_up(self, trust: Trust, cancelled: CancellationToken) {
        loop {
            let passes = self.clone().passes(trust.clone(), cancelled.clone());
            // A task of its own, so that a panic ends here; aborted should this one be dropped.
            let task = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(passes));
            let Err(panic) = task.await else { return };
            let (duty, words) = (self.duty.name(), words(panic));
            tracing::error!(duty, panic = words, "a duty has panicked and is started again");
            self.journal.failed(&*self.duty, &Error::Panicked(words), self.config.retry_interval);
            if cancelled.run_until_cancelled(time::sleep(self.config.retry_interval)).await.is_none() {
                return;
            }
        }
    }

    async fn passes(self, mut trust: Trust, cancelled: CancellationToken) {
        while cancelled.run_until_cancelled(self.step(&mut trust)).await.is_some() {}
    }

    async fn step(&self, trust: &mut Trust) {
        trust.until_leading().await;
        self.journal.began(&*self.duty);
        match one_pass(&*self.duty, self.config.pass_time_max).await {
            Ok(pass) => {
                self.journal.passed(&*self.duty, pass);
                tokio::select! {
                    () = time::sleep(pass.next.pause()) => {}
                    () = self.duty.called() => {}
                }
            }
            Err(error) => {
                tracing::warn!(duty = self.duty.name(), %error, "a pass failed and is repeated");
                self.journal.failed(&*self.duty, &error, self.config.retry_interval);
                time::sleep(self.config.retry_interval).await;
            }
        }
    }
}

/// What somebody who panicked has said.
pub(crate) fn words(panic: JoinError) -> String {
    let Ok(said) = panic.try_into_panic() else { return "cut off".to_owned() };
    let text = said.downcast_ref::<String>().map(String::as_str).or_else(|| said.downcast_ref::<&str>().copied());
    text.unwrap_or("without a word").to_owned()
}

pub(crate) async fn one_pass(duty: &dyn Duty, time_max: Duration) -> Result<Pass, Error> {
    time::timeout(time_max, duty.pass().instrument(duty.span()))
        .await
        .unwrap_or(Err(Error::TimedOut { after: time_max }))
}
