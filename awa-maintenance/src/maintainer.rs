//! The loop of maintenance, the only one: while this process leads, each duty runs pass after pass in a task of its own.
//!
//! A slow duty delays no other (LEADER-04). A pass that fails is logged and repeated; a duty that panics is started again; a
//! database that is away is asked again until it is back (LEADER-03). On cancellation the duties stop, a statement on its way
//! takes effect as a whole or not at all, and the lead is given up so that another process can take over at once.

use std::{sync::Arc, time::Duration};

use awa_model::WorkerId;
use sqlx::PgPool;
use tokio::{task::JoinSet, time};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{Duty, Elector, Error, InvalidConfig, MaintenanceConfig, Pass, Trust, contact::Contact};

/// How long giving up the lead may take before the process stops all the same.
const RESIGN_TIME_MAX: Duration = Duration::from_secs(2);

/// Does maintenance while it leads, and stands for election while it does not.
pub struct Maintainer {
    elector: Elector,
    config: MaintenanceConfig,
    duties: Vec<Arc<dyn Duty>>,
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
        let contact = Arc::<Contact>::default();
        let duties = config.duties.iter().map(|name| name.duty(&pool, config, &contact)).collect();
        let mut maintainer = Self::with_duties(pool, holder, config, duties)?;
        maintainer.elector = maintainer.elector.telling(contact);
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
        config.validate()?;
        Ok(Self { elector: Elector::new(pool, holder, config.leader_term), config, duties })
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
            let (duty, trust) = (Arc::clone(duty), self.elector.trust());
            tasks.spawn(keep_up(duty, trust, self.config, cancelled.clone()));
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

/// Runs one duty until cancelled, and starts it again should it panic.
async fn keep_up(duty: Arc<dyn Duty>, trust: Trust, config: MaintenanceConfig, cancelled: CancellationToken) {
    loop {
        let passes = passes(Arc::clone(&duty), trust.clone(), config, cancelled.clone());
        // A task of its own, so that a panic ends here; aborted should this one be dropped.
        let task = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(passes));
        let Err(panic) = task.await else { return };
        tracing::error!(duty = duty.name(), %panic, "a duty has panicked and is started again");
        if cancelled.run_until_cancelled(time::sleep(config.retry_interval)).await.is_none() {
            return;
        }
    }
}

async fn passes(duty: Arc<dyn Duty>, mut trust: Trust, config: MaintenanceConfig, cancelled: CancellationToken) {
    loop {
        let step = async {
            trust.until_leading().await;
            let pause = match one_pass(&*duty, config.pass_time_max).await {
                Ok(pass) => pass.next.pause(),
                Err(error) => {
                    tracing::warn!(duty = duty.name(), %error, "a pass failed and is repeated");
                    config.retry_interval
                }
            };
            time::sleep(pause).await;
        };
        if cancelled.run_until_cancelled(step).await.is_none() {
            return;
        }
    }
}

pub(crate) async fn one_pass(duty: &dyn Duty, time_max: Duration) -> Result<Pass, Error> {
    time::timeout(time_max, duty.pass().instrument(duty.span()))
        .await
        .unwrap_or(Err(Error::TimedOut { after: time_max }))
}
