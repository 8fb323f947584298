//! What somebody should look at now, and what ended jobs will take.

use serde::Deserialize;

/// What ended jobs take, and what they will take if as many go on to end as of late and are kept as long as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Size {
    /// Bytes of the live segments with their indexes.
    pub ring_bytes: u64,
    /// What these will take; `None` until a twenty-fourth of the retention has passed.
    pub ring_expected: Option<u64>,
    /// Bytes of the parked rows with their indexes.
    pub parked_bytes: u64,
    /// What failed and cancelled ones will take.
    pub parked_expected: u64,
    /// The sum, where what there is already counts if it is more.
    pub expected: u64,
    /// The setting `expected_bytes_max`; `None` if it is off.
    pub max: Option<u64>,
    /// Whether more is expected than that.
    pub is_exceeded: bool,
}

/// Something that somebody should look at.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Warning {
    /// What it is, for programs.
    pub code: WarningCode,
    /// The same as a sentence.
    pub explanation: String,
    /// What can be done.
    pub advice: String,
}

/// What somebody should look at, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WarningCode {
    /// Nobody has led for a minute, and no tick has told anything for an hour.
    NoLeader,
    /// Jobs have waited for a minute, and no worker is alive.
    NoWorker,
    /// A duty of maintenance has failed three times in a row.
    DutyFailing,
    /// A duty of maintenance is late.
    DutyLate,
    /// For ten minutes the oldest segment could not be emptied.
    RingStuck,
    /// Ended jobs will take more than the setting `expected_bytes_max`.
    SizeExpected,
    /// A holder holds something up for ten minutes or a million transactions, or is a slot that nobody reads.
    Holder,
    /// Jobs have waited for a minute in a queue that no live worker serves.
    QueueUnserved,
    /// A schedule enqueues nothing, since it cannot be read.
    ScheduleFault,
    /// The audit has found what must not be there.
    AuditFound,
    /// A worker is on the list and gives no sign of life.
    WorkerSilent,
    /// Something that a newer schema knows.
    #[serde(other)]
    Other,
}
