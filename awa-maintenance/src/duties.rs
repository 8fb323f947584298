//! The duties by name, and which of them a process does.

use std::sync::Arc;

use sqlx::PgPool;

use crate::{
    Auditor, CallbackKeeper, ClaimsKeeper, Duty, MaintenanceConfig, Promoter, Pruner, Rescuer, RingKeeper, Scheduler,
    contact::Contact, outlook::Outlook,
};

/// What the duties of one process tell each other, and hear of its elector. All of it saves work or waits; none of it is relied on.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) contact: Arc<Contact>,
    pub(crate) outlook: Arc<Outlook>,
}

/// One of the duties of maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DutyName {
    /// Deferred jobs whose time has come move into the ring.
    Promotion,
    /// Jobs of schedules are enqueued.
    Schedules,
    /// Jobs are taken from the dead.
    Rescue,
    /// Jobs that wait for an answer in vain wait no longer.
    Callbacks,
    /// The ring advances, and its oldest segment is emptied.
    Ring,
    /// The list of claimed batches is emptied.
    Claims,
    /// Failed, cancelled and long-kept jobs past their retention go.
    Retention,
    /// A slow walk looks for what should not exist.
    Audit,
}

impl DutyName {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Promotion,
        Self::Schedules,
        Self::Rescue,
        Self::Callbacks,
        Self::Ring,
        Self::Claims,
        Self::Retention,
        Self::Audit,
    ];

    /// The name in logs and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Promotion => "promotion",
            Self::Schedules => "schedules",
            Self::Rescue => "rescue",
            Self::Callbacks => "callbacks",
            Self::Ring => "ring",
            Self::Claims => "claims",
            Self::Retention => "retention",
            Self::Audit => "audit",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The duty itself.
    pub(crate) fn duty(self, pool: &PgPool, config: MaintenanceConfig, shared: &Shared) -> Arc<dyn Duty> {
        let pool = pool.clone();
        match self {
            Self::Promotion if config.duties.contains(Self::Schedules) => {
                Arc::new(Promoter::new(pool, config).looking_ahead(Arc::clone(&shared.outlook)))
            }
            Self::Promotion => Arc::new(Promoter::new(pool, config)),
            Self::Schedules if config.duties.contains(Self::Promotion) => {
                Arc::new(Scheduler::new(pool, config).hearing(Arc::clone(&shared.outlook)))
            }
            Self::Schedules => Arc::new(Scheduler::new(pool, config)),
            Self::Rescue => Arc::new(Rescuer::watching(pool, config, Arc::clone(&shared.contact))),
            Self::Callbacks => Arc::new(CallbackKeeper::new(pool, config)),
            Self::Ring => Arc::new(RingKeeper::new(pool, config)),
            Self::Claims => Arc::new(ClaimsKeeper::new(pool, config)),
            Self::Retention => Arc::new(Pruner::new(pool, config)),
            Self::Audit => Arc::new(Auditor::new(pool, config)),
        }
    }
}

impl std::str::FromStr for DutyName {
    type Err = UnknownDuty;

    fn from_str(name: &str) -> Result<Self, UnknownDuty> {
        Self::ALL.into_iter().find(|duty| duty.as_str() == name).ok_or_else(|| UnknownDuty(name.to_owned()))
    }
}

impl std::fmt::Display for DutyName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A name that no duty has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("duty {0:?} is not known; they are promotion, schedules, rescue, callbacks, ring, claims, retention and audit")]
pub struct UnknownDuty(String);

/// A set of duties.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Duties(u8);

impl Duties {
    /// All of them.
    #[must_use]
    pub const fn all() -> Self {
        Self(u8::MAX)
    }

    /// These without one.
    #[must_use]
    pub const fn without(self, duty: DutyName) -> Self {
        Self(self.0 & !duty.bit())
    }

    /// Whether it is one of these.
    #[must_use]
    pub const fn contains(self, duty: DutyName) -> bool {
        self.0 & duty.bit() != 0
    }

    /// These, in the order of [`DutyName::ALL`].
    pub fn iter(self) -> impl Iterator<Item = DutyName> {
        DutyName::ALL.into_iter().filter(move |duty| self.contains(*duty))
    }
}

impl Default for Duties {
    fn default() -> Self {
        Self::all()
    }
}

impl std::fmt::Debug for Duties {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_set().entries(self.iter().map(DutyName::as_str)).finish()
    }
}
