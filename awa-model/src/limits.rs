//! Every limit of a job, by name. The enqueue functions of the database refuse the same values, so a job that this crate
//! accepts is accepted there, and one written in another language meets the same rules.

use std::{ops::RangeInclusive, time::Duration};

/// Length of a queue, kind or tag in bytes of UTF-8. Control characters (U+0000–U+001F, U+007F–U+009F) are refused.
pub const NAME_BYTES: RangeInclusive<usize> = 1..=128;

/// The queue of a job that names none.
pub const QUEUE_DEFAULT: &str = "default";

/// Priorities, the most urgent first.
pub const PRIORITIES: RangeInclusive<i16> = 1..=4;

/// The priority of a job that names none.
pub const PRIORITY_DEFAULT: i16 = 2;

/// How often a job may be tried.
pub const MAX_ATTEMPTS: RangeInclusive<i16> = 1..=1000;

/// How often a job is tried that does not say.
pub const MAX_ATTEMPTS_DEFAULT: i16 = 25;

/// Size of the args as compact JSON, in bytes. Larger input belongs into a store of its own, with its key in the args: one
/// huge job would hold up all others that are claimed along with it.
pub const ARGS_BYTES_MAX: usize = 1024 * 1024;

/// Size of the metadata as compact JSON, in bytes.
pub const METADATA_BYTES_MAX: usize = 64 * 1024;

/// How deep args, metadata and progress may nest. Readers of JSON stop soon after (serde_json at 127 levels).
pub const JSON_DEPTH_MAX: usize = 100;

/// Number of tags on one job.
pub const TAGS_MAX: usize = 32;

/// Size of a propagated trace context, in bytes.
pub const TRACE_CONTEXT_BYTES_MAX: usize = 1024;

/// Longest time that one attempt may be given: ten years of 366 days, so that ten
/// years are in it however a language counts them.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

/// Longest delay counted from now: a thousand years of 366 days.
pub const RUN_IN_MAX: Duration = Duration::from_secs(1000 * 366 * 24 * 60 * 60);

/// Years in which `run_at` may lie.
pub const RUN_AT_YEARS: RangeInclusive<i32> = 1..=9999;

/// Number of args that a uniqueness rule may name.
pub const UNIQUE_FIELDS_MAX: usize = 32;

/// Shortest and longest period of a uniqueness rule: one second to ten years of 366 days, so that ten
/// years are in it however a language counts them.
pub const UNIQUE_PERIOD: RangeInclusive<Duration> = Duration::from_secs(1)..=TIMEOUT_MAX;

/// Longest delay before another attempt, whatever a retry policy asks for.
pub const RETRY_DELAY_MAX: Duration = TIMEOUT_MAX;

/// Size of a progress message, in bytes. Longer ones are cut.
pub const PROGRESS_MESSAGE_BYTES_MAX: usize = 1024;

/// Size of the whole progress as compact JSON, in bytes, unless a worker is configured otherwise.
pub const PROGRESS_BYTES_MAX: usize = 64 * 1024;

/// Shortest and longest time that a job may wait for a callback.
pub const CALLBACK_TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=RUN_IN_MAX;

/// Callbacks that one attempt may open.
pub const CALLBACKS_MAX: usize = 32;

/// Size of what comes with the answer to a callback as compact JSON, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

/// Size of one recorded error text, in bytes. Longer ones are cut.
pub const ERROR_BYTES_MAX: usize = 16 * 1024;

/// Number of errors kept on a job. Older ones are dropped and counted.
pub const ERRORS_MAX: usize = 20;
