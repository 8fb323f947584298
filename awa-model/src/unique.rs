//! When a new job is a duplicate of one that exists. Only the rule is written here: the key that it stands for is computed
//! by the database alone, so that producers in different languages cannot disagree.

use std::{fmt, hash, mem, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    InvalidJob, JobId, JobState,
    insert::{field, list, seconds},
    limits, name,
};

/// Which jobs count as the same, and for how long.
///
/// Jobs are compared by their kind and, as chosen, by args, queue and period. While one of them is in a state of
/// [`states`](Self::states), another like it is not added: the enqueue answers [`Inserted::Duplicate`] with its id. This
/// holds on every path into the database and over all producers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unique {
    /// Which args are compared.
    pub args: UniqueArgs,
    /// Whether jobs in different queues are different.
    pub queue: bool,
    /// Jobs due in different periods are different. Periods follow one another without gaps from 1970-01-01 00:00 UTC on;
    /// they do not begin with the first job.
    pub period: Option<Duration>,
    /// The states in which a job stands in the way of another.
    pub states: UniqueStates,
    /// What becomes of the new job while another stands in its way.
    pub on_conflict: OnConflict,
}

/// What becomes of a new job while another stands in its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnConflict {
    /// It is not added; the answer is [`Inserted::Duplicate`].
    #[default]
    Skip,
    /// It is not added, but the other job, if it waits for a run, takes its args and due time and nothing else; the answer
    /// is [`Inserted::Replaced`]. So a burst of requests ends in one run, with the newest args. A job that runs already
    /// is left alone; the answer is [`Inserted::Duplicate`] then.
    ///
    /// A scheduled or available job goes where its new due time belongs, an available one to the end of its lane. One that
    /// waits for another attempt goes on waiting as such, until the new due time.
    Replace,
    /// The enqueue fails, with all that it would have added.
    Error,
}

impl OnConflict {
    /// Its name in the functions of the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Replace => "replace",
            Self::Error => "error",
        }
    }
}

/// Which args make jobs the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum UniqueArgs {
    /// None: all jobs of the kind are alike.
    Ignore,
    /// All, compared as JSON: neither the order of keys nor the form of numbers (1 and 1.0) matters, the order of arrays does.
    #[default]
    All,
    /// These top-level fields, by their names in JSON. One that is absent differs from one that is null; a job with none of
    /// them is refused, since a misspelt name would make duplicates of all jobs.
    Fields(Vec<String>),
}

impl Unique {
    /// One job with these args at a time: a second is a duplicate until the first is completed, failed or cancelled.
    pub fn until_finished() -> Self {
        Self {
            args: UniqueArgs::All,
            queue: false,
            period: None,
            states: UniqueStates::UNFINISHED,
            on_conflict: OnConflict::Skip,
        }
    }

    /// One job with these args in the waiting line: once it runs, the next may queue up behind it.
    pub fn while_waiting() -> Self {
        Self { states: UniqueStates::WAITING, ..Self::until_finished() }
    }

    /// One job with these args due in each period, however soon it completes; a failed or cancelled one makes room.
    ///
    /// A completed job stands in the way only as long as it is kept: a period longer than the retention of completed jobs
    /// (24 hours by default) ends with it.
    pub fn within(period: Duration) -> Self {
        Self { period: Some(period), states: UniqueStates::SUCCESSFUL, ..Self::until_finished() }
    }

    /// Compares only these top-level fields of the args, by their names in JSON.
    #[must_use]
    pub fn fields<I>(self, fields: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let fields = fields.into_iter().map(Into::into).collect();
        Self { args: UniqueArgs::Fields(fields), ..self }
    }

    /// Compares no args: all jobs of the kind are alike.
    #[must_use]
    pub fn ignore_args(self) -> Self {
        Self { args: UniqueArgs::Ignore, ..self }
    }

    /// Lets jobs in different queues be different.
    #[must_use]
    pub fn per_queue(self) -> Self {
        Self { queue: true, ..self }
    }

    /// Lets jobs due in different periods be different.
    #[must_use]
    pub fn period(self, period: Duration) -> Self {
        Self { period: Some(period), ..self }
    }

    /// Sets the states in which a job stands in the way: at least one, and available where there is running, since a claim
    /// takes no keys. Without running, a job may run while the next of its kind waits behind it.
    #[must_use]
    pub fn states(self, states: UniqueStates) -> Self {
        Self { states, ..self }
    }

    /// Sets what becomes of a new job while another stands in its way; it is skipped unless this says otherwise.
    #[must_use]
    pub fn on_conflict(self, on_conflict: OnConflict) -> Self {
        Self { on_conflict, ..self }
    }

    pub(crate) fn check(&self) -> Result<(), InvalidJob> {
        if self.states.bits() == 0 {
            return Err(InvalidJob::out_of_range(field::UNIQUE_STATES, "empty", "at least one state"));
        }
        if self.states.contains(JobState::Running) && !self.states.contains(JobState::Available) {
            let states = list(&self.states.iter().map(JobState::as_str).collect::<Vec<_>>());
            return Err(InvalidJob::out_of_range(field::UNIQUE_STATES, states, "with available where it has running"));
        }
        if let Some(period) = self.period.filter(|period| !limits::UNIQUE_PERIOD.contains(period)) {
            return Err(InvalidJob::out_of_range(field::UNIQUE_PERIOD, seconds(period), "1 second to 10 years"));
        }
        let UniqueArgs::Fields(fields) = &self.args else {
            return Ok(());
        };
        let count = fields.len();
        if !(1..=limits::UNIQUE_FIELDS_MAX).contains(&count) {
            let allowed = format!("1 to {} names", limits::UNIQUE_FIELDS_MAX);
            return Err(InvalidJob::out_of_range(field::UNIQUE_ARGS, format!("{count} names"), allowed));
        }
        fields.iter().try_for_each(|one| name::check(field::UNIQUE_ARGS, one)).map_err(InvalidJob::from)
    }
}

impl Default for Unique {
    fn default() -> Self {
        Self::until_finished()
    }
}

/// A set of job states: one bit each, numbered in the order of [`JobState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
pub struct UniqueStates(i16);

impl UniqueStates {
    /// Every state but completed, failed and cancelled.
    pub const UNFINISHED: Self = Self::of(&[
        JobState::Scheduled,
        JobState::Available,
        JobState::Running,
        JobState::WaitingExternal,
        JobState::Retryable,
    ]);

    /// Before a run, or between two: scheduled, available and retryable.
    pub const WAITING: Self = Self::of(&[JobState::Scheduled, JobState::Available, JobState::Retryable]);

    /// Every state but failed and cancelled.
    pub const SUCCESSFUL: Self = Self(Self::UNFINISHED.0 | Self::bit(JobState::Completed));

    /// The set of `states`.
    pub const fn of(states: &[JobState]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < states.len() {
            bits |= Self::bit(states[index]);
            index += 1;
        }
        Self(bits)
    }

    /// The set that a row carries; bits of no state are dropped.
    pub const fn from_bits(bits: i16) -> Self {
        Self(bits & Self::of(&JobState::ALL).0)
    }

    /// The set as the database stores it.
    pub const fn bits(self) -> i16 {
        self.0
    }

    /// Whether `state` is in the set.
    pub const fn contains(self, state: JobState) -> bool {
        self.0 & Self::bit(state) != 0
    }

    /// The states in the set, in the order of [`JobState`].
    pub fn iter(self) -> impl Iterator<Item = JobState> {
        JobState::ALL.into_iter().filter(move |state| self.contains(*state))
    }

    const fn bit(state: JobState) -> i16 {
        1 << state as u8
    }
}

/// What became of an enqueue. May be ignored where it is all the same; of a job that is unique it says whether it was added.
pub enum Inserted<A = ()> {
    /// The job was added.
    New(JobId<A>),
    /// A job like it existed already; this is its id, and nothing was added.
    Duplicate(JobId<A>),
    /// A job like it was waiting; this is its id. It took the args and the due time of this one ([`OnConflict::Replace`]).
    Replaced(JobId<A>),
}

impl<A> Inserted<A> {
    /// The id of the job that exists now, whoever added it.
    pub const fn id(&self) -> JobId<A> {
        match self {
            Self::New(id) | Self::Duplicate(id) | Self::Replaced(id) => *id,
        }
    }

    /// Whether this enqueue added it.
    pub const fn is_new(&self) -> bool {
        matches!(self, Self::New(_))
    }

    /// The same answer, about a job taken to have args `B`; see [`JobId::assume`].
    pub const fn assume<B>(self) -> Inserted<B> {
        match self {
            Self::New(id) => Inserted::New(id.assume()),
            Self::Duplicate(id) => Inserted::Duplicate(id.assume()),
            Self::Replaced(id) => Inserted::Replaced(id.assume()),
        }
    }
}

/// The id of the job that exists now, so that both an id and an answer name a job.
impl<A> From<&Inserted<A>> for JobId<A> {
    fn from(inserted: &Inserted<A>) -> Self {
        inserted.id()
    }
}

impl<A> Clone for Inserted<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Inserted<A> {}

// By hand, as for `JobId`: a derive would ask the args for the same traits.
impl<A> fmt::Debug for Inserted<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::New(_) => "New",
            Self::Duplicate(_) => "Duplicate",
            Self::Replaced(_) => "Replaced",
        };
        formatter.debug_tuple(name).field(&self.id()).finish()
    }
}

impl<A> PartialEq for Inserted<A> {
    fn eq(&self, other: &Self) -> bool {
        mem::discriminant(self) == mem::discriminant(other) && self.id() == other.id()
    }
}

impl<A> Eq for Inserted<A> {}

impl<A> hash::Hash for Inserted<A> {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        (mem::discriminant(self), self.id()).hash(state);
    }
}

#[cfg(test)]
mod tests;
