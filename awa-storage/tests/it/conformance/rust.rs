//! The jobs of the table as a Rust program would write them.

use std::time::Duration;

use awa_model::{InvalidJob, JobArgs, JobState, NewJob, OnConflict, PreparedJob, Unique, UniqueStates};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A kind is a constant in Rust: one type for each that the table uses.
macro_rules! kinds {
    ($($Name:ident = $kind:expr),+ $(,)?) => {
        $(
            #[derive(Serialize, Deserialize)]
            #[serde(transparent)]
            struct $Name(Value);

            impl JobArgs for $Name {
                const KIND: &'static str = $kind;
                type Output = ();
            }
        )+

        fn new_job(kind: &str, args: Value, job: &Value) -> Option<Result<PreparedJob, InvalidJob>> {
            $(
                if kind == $kind {
                    return Some(configured(NewJob::new(&$Name(args)), job)?.prepare());
                }
            )+
            None
        }
    };
}

const LONG: &str = match std::str::from_utf8(&[b'k'; 129]) {
    Ok(long) => long,
    Err(_) => "",
};

kinds! {
    Work = "work",
    Empty = "",
    TooLong = LONG,
    Control = "a\u{7f}\"b",
    Odd = "it's; \"x\" \\ {} 🦀 ",
}

/// `None` if the job cannot be written in Rust: a key that does not exist, a value of another type.
pub(super) fn prepared(job: &Value) -> Option<Result<PreparedJob, InvalidJob>> {
    new_job(job["kind"].as_str()?, job.get("args").cloned().unwrap_or_else(|| serde_json::json!({})), job)
}

fn configured<A: JobArgs>(mut new: NewJob<A>, job: &Value) -> Option<NewJob<A>> {
    let policy = match job.get("on_conflict").map(|policy| policy.as_str()) {
        None | Some(Some("skip")) => OnConflict::Skip,
        Some(Some("replace")) => OnConflict::Replace,
        Some(Some("error")) => OnConflict::Error,
        Some(_) => return None,
    };
    if job.get("run_at").is_some() && job.get("run_in").is_some() {
        return None;
    }
    for (key, value) in job.as_object()? {
        new = match key.as_str() {
            "kind" | "args" | "on_conflict" => new,
            "queue" => new.queue(value.as_str()?),
            "priority" => new.priority(i16::try_from(value.as_i64()?).ok()?),
            "run_at" => new.run_at(value.as_str()?.parse().ok()?),
            "run_in" => new.run_in(seconds(value)?),
            "max_attempts" => new.max_attempts(i16::try_from(value.as_i64()?).ok()?),
            "timeout" => new.timeout(seconds(value)?),
            "tags" => new.tags(texts(value)?),
            "metadata" => new.metadata(value.clone()),
            "trace_context" => new.trace_context(value.as_str()?),
            "unique_by" => new.unique(rule(value)?.on_conflict(policy)),
            _ => return None,
        };
    }
    Some(new)
}

fn seconds(value: &Value) -> Option<Duration> {
    Duration::try_from_secs_f64(value.as_f64()?).ok()
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

fn rule(value: &Value) -> Option<Unique> {
    let period = value.get("period").map(seconds);
    let mut rule = match (value.get("preset").map(Value::as_str), period) {
        (None | Some(Some("until_finished")), _) => Unique::until_finished(),
        (Some(Some("while_waiting")), _) => Unique::while_waiting(),
        (Some(Some("within")), Some(period)) => Unique::within(period?),
        _ => return None,
    };
    for (key, value) in value.as_object()? {
        rule = match (key.as_str(), value) {
            ("preset", _) | ("args", Value::Bool(true)) | ("queue", Value::Bool(false)) => rule,
            ("args", Value::Bool(false)) => rule.ignore_args(),
            ("args", Value::Array(_)) => rule.fields(texts(value)?),
            ("queue", Value::Bool(true)) => rule.per_queue(),
            ("period", _) => rule.period(seconds(value)?),
            ("states", _) => {
                let states: Option<Vec<JobState>> = texts(value)?
                    .iter()
                    .map(|state| JobState::ALL.into_iter().find(|one| one.as_str() == state))
                    .collect();
                rule.states(UniqueStates::of(&states?))
            }
            _ => return None,
        };
    }
    Some(rule)
}
