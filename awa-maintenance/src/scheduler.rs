//! Periodic jobs: enqueues what is due, as soon as it is.
//!
//! A pass asks which schedules want something, decides in memory what each does ([`Slots`]), and writes that down in one statement
//! each. A bad schedule is noted as such and stops no other (I6). Then the duty sleeps until the next time comes, but no longer
//! than `schedule_interval_max`: one that was set in the meantime may be due sooner. While promotion says often enough that nothing
//! is due ([`Outlook`]), a pass asks the database nothing.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use awa_model::Slots;
use awa_storage::schedule::{DueSchedule, Fired, Outcome, due, fire, fire_waiting, plan, prune_ticks};
use sqlx::PgPool;
use tracing::Span;

use crate::{Duty, Error, MaintenanceConfig, Next, Pass, outlook::Outlook};

/// Schedules that one pass looks at; more are looked at by the next, at once.
const SCHEDULES_AT_ONCE: u32 = 100;

/// Times that are forgotten in one statement.
const PRUNE_BATCH: u32 = 1000;

/// The time between two looks for times to forget, when the last found none.
const PRUNE_INTERVAL: Duration = Duration::from_secs(3600);

/// The shortest sleep: clocks of this process and of the database differ, and asking a little too soon must cost little.
const SLEEP_MIN: Duration = Duration::from_millis(10);

/// The sleep while every schedule that is due is locked by somebody.
const LOCKED_PAUSE: Duration = Duration::from_millis(100);

/// Enqueues the jobs of schedules.
#[derive(Debug)]
pub struct Scheduler {
    pool: PgPool,
    config: MaintenanceConfig,
    prune_at: Mutex<Option<Instant>>,
    outlook: Option<Arc<Outlook>>,
}

impl Scheduler {
    /// A scheduler; all it has to know is in the database.
    pub fn new(pool: PgPool, config: MaintenanceConfig) -> Self {
        Self { pool, config, prune_at: Mutex::default(), outlook: None }
    }

    /// One that rests while promotion says that nothing is due.
    pub(crate) fn hearing(mut self, outlook: Arc<Outlook>) -> Self {
        self.outlook = Some(outlook);
        self
    }

    /// The longest time between two looks, whoever looks.
    fn most(&self) -> Duration {
        let most = self.config.schedule_interval_max;
        // Promotion comes as often, and a moment later each time: it is to be heard before anybody looks for himself.
        let allowance = self.config.promote_interval_min.min(most / 4);
        if self.outlook.is_some() { most + allowance } else { most }
    }

    fn is_to_prune(&self) -> bool {
        let at = *self.prune_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        at.is_none_or(|at| at <= Instant::now())
    }

    async fn look(&self) -> Result<Pass, Error> {
        let due = due(&self.pool, SCHEDULES_AT_ONCE).await?;
        let (mut changed, mut failed) = (0, None);
        for schedule in &due.schedules {
            match self.handle(schedule).await {
                Ok(handled) => changed += handled,
                // The others must not wait for this one.
                Err(error) => {
                    tracing::warn!(schedule = schedule.name, %error, "a schedule could not be handled: it is tried again");
                    failed = Some(error);
                }
            }
        }
        Span::current().record("batch.size", changed);
        if changed == 0
            && let Some(error) = failed
        {
            return Err(error);
        }
        changed += self.prune().await?;
        let most = self.most();
        let next = if changed > 0 {
            // Where one batch of times was handled, the next may be due by now.
            Next::Now
        } else {
            match due.next_in {
                Some(Duration::ZERO) => Next::In(LOCKED_PAUSE),
                next => Next::In(next.unwrap_or(most).clamp(SLEEP_MIN, most)),
            }
        };
        Ok(Pass { changed, next })
    }

    /// Handles one schedule. Answers how many times were handled.
    async fn handle(&self, schedule: &DueSchedule) -> Result<usize, Error> {
        let cron = match schedule.cron() {
            Ok(cron) => cron,
            Err(fault) => {
                // A zone that a newer release knows may be unknown here: noted, shown, and tried anew once it is changed.
                if plan(&self.pool, schedule, Err(&fault.to_string())).await? {
                    tracing::warn!(schedule = schedule.name, %fault, "a schedule cannot be read: it is not run");
                    return Ok(1);
                }
                return Ok(0);
            }
        };
        let Some(from) = schedule.next_at else {
            return Ok(usize::from(plan(&self.pool, schedule, Ok(cron.next_after(schedule.now))).await?));
        };
        let slots = Slots::of(&cron, schedule.missed, from, schedule.now);
        let mut fired = Vec::new();
        if from <= schedule.now {
            fired = fire(&self.pool, schedule, &slots).await?;
            if let Some((first, last)) = slots.left_out.filter(|_| !fired.is_empty() || slots.due.is_empty()) {
                tracing::warn!(schedule = schedule.name, %first, %last, "times of a schedule were missed and are left out");
            }
        }
        if schedule.is_waiting {
            fired.extend(fire_waiting(&self.pool, schedule).await?);
        }
        for fired in &fired {
            if cron.is_shifted(fired.slot) {
                let (name, slot) = (&schedule.name, fired.slot);
                tracing::info!(schedule = name, %slot, "the clocks skip the time of a schedule: it comes at the end of the gap");
            }
            report(schedule, fired);
        }
        Ok(fired.len())
    }

    /// Forgets old times, a batch at a time. Answers how many.
    async fn prune(&self) -> Result<usize, Error> {
        if !self.is_to_prune() {
            return Ok(0);
        }
        let pruned = prune_ticks(&self.pool, PRUNE_BATCH).await?;
        if pruned == 0 {
            let mut at = self.prune_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            *at = Some(Instant::now() + PRUNE_INTERVAL);
        }
        Ok(pruned)
    }
}

#[async_trait]
impl Duty for Scheduler {
    fn name(&self) -> &'static str {
        "schedules"
    }

    fn span(&self) -> Span {
        tracing::debug_span!("awa.schedules", batch.size = tracing::field::Empty)
    }

    async fn pass(&self) -> Result<Pass, Error> {
        let Some(outlook) = &self.outlook else { return self.look().await };
        if let Some(rest) = outlook.rest(self.most()).filter(|_| !self.is_to_prune()) {
            return Ok(Pass { changed: 0, next: Next::In(rest.max(SLEEP_MIN)) });
        }
        outlook.look();
        let pass = self.look().await?;
        outlook.looked();
        Ok(pass)
    }

    async fn called(&self) {
        match &self.outlook {
            Some(outlook) => outlook.news().await,
            None => std::future::pending().await,
        }
    }
}

fn report(schedule: &DueSchedule, fired: &Fired) {
    let (name, slot) = (&schedule.name, fired.slot);
    let job = fired.job.map(awa_model::JobId::get);
    match fired.outcome {
        Outcome::Refused => tracing::error!(
            schedule = name,
            %slot,
            error = fired.error.as_deref().unwrap_or_default(),
            "the job of a schedule cannot be enqueued: this time is left out"
        ),
        Outcome::Duplicate => {
            tracing::info!(schedule = name, %slot, job.id = job, "the unique key of a periodic job is held: nothing is added");
        }
        Outcome::Overlap => {
            tracing::info!(schedule = name, %slot, job.id = job, "an earlier job has not ended: this time is left out");
        }
        _ => {
            tracing::debug!(schedule = name, %slot, job.id = job, outcome = ?fired.outcome, "a schedule has come round");
        }
    }
}
