//! The lease of an attempt: who may write about a job, as a value.

use std::collections::BTreeMap;

use awa_model::{JobId, RunLease};

/// Proof that this process claimed an attempt: `(job_id, run_lease)`.
///
/// `run_lease` grows with every claim of the job and never falls, so at most one lease of a job is valid at a time, and every
/// statement that writes about an attempt matches it together with `state = 'running'`. Made only by a claim. Losing the
/// value loses nothing but the chance to settle the attempt: rescue takes it when its heartbeat is stale.
#[must_use = "an unsettled attempt will be rescued"]
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    job_id: JobId,
    run_lease: RunLease,
    location: Location,
}

/// The name of an attempt, for those who report on it without owning it: heartbeats, progress, logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Held {
    pub(crate) job_id: JobId,
    pub(crate) run_lease: RunLease,
    pub(crate) segment: i16,
}

impl Held {
    /// The job.
    pub const fn job_id(&self) -> JobId {
        self.job_id
    }

    /// The claim.
    pub const fn run_lease(&self) -> RunLease {
        self.run_lease
    }
}

/// The places of the attempts in a batch, in the order of their jobs; of several attempts of one job only the newest, since a
/// later claim means that the earlier ones are lost. Statements find an attempt's values by the id of its job.
pub(crate) fn newest(attempts: impl Iterator<Item = (JobId, RunLease)>) -> Vec<usize> {
    let mut places: BTreeMap<JobId, (RunLease, usize)> = BTreeMap::new();
    for (place, (job_id, run_lease)) in attempts.enumerate() {
        let newest = places.entry(job_id).or_insert((run_lease, place));
        *newest = (*newest).max((run_lease, place));
    }
    places.into_values().map(|(_, place)| place).collect()
}

/// Where a row was seen when it was claimed: a hint that saves an index look-up, right or wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Location {
    pub(crate) segment: i16,
    pub(crate) block: u32,
    pub(crate) offset: u16,
}

impl Lease {
    pub(crate) const fn new(job_id: JobId, run_lease: RunLease, location: Location) -> Self {
        Self { job_id, run_lease, location }
    }

    /// The job.
    pub const fn job_id(&self) -> JobId {
        self.job_id
    }

    /// The claim that this lease stands for.
    pub const fn run_lease(&self) -> RunLease {
        self.run_lease
    }

    /// The attempt's name, to beat and report progress with.
    pub const fn held(&self) -> Held {
        Held { job_id: self.job_id, run_lease: self.run_lease, segment: self.location.segment }
    }

    pub(crate) const fn location(&self) -> Location {
        self.location
    }
}

impl Location {
    /// Reads a tuple id as PostgreSQL prints it: `(block,offset)`.
    pub(crate) fn parse(segment: i16, tuple: &str) -> Option<Self> {
        let (block, offset) = tuple.strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
        Some(Self { segment, block: block.parse().ok()?, offset: offset.parse().ok()? })
    }

    /// The tuple id as PostgreSQL reads it.
    pub(crate) fn tuple(&self) -> String {
        format!("({},{})", self.block, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::Location;

    #[test]
    fn a_tuple_id_reads_back() {
        let location = Location::parse(3, "(17,4)").expect("a tuple id");
        assert_eq!((location.segment, location.tuple().as_str()), (3, "(17,4)"));
        assert_eq!(Location::parse(3, "17,4"), None);
    }
}
