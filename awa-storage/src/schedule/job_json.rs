//! A job and a schedule as the functions of the database read them from JSON.

use awa_model::{PreparedJob, PreparedSchedule, Unique, UniqueArgs};
use serde_json::{Map, Value, json};

/// One element of what `awa.declare_schedules` takes.
pub(super) fn schedule(schedule: &PreparedSchedule) -> String {
    let mut fields = Map::new();
    fields.insert("name".to_owned(), json!(schedule.name));
    fields.insert("expression".to_owned(), json!(schedule.cron.expression()));
    fields.insert("timezone".to_owned(), json!(schedule.cron.timezone()));
    fields.insert("missed".to_owned(), json!(schedule.missed.as_str()));
    fields.insert("catch_up_max".to_owned(), json!(schedule.missed.catch_up_max()));
    fields.insert("overlap".to_owned(), json!(schedule.overlap.as_str()));
    with(&fields, "job", &job(&schedule.job))
}

/// One element of what `awa.enqueue_many` takes, without a due time. The args stay the text that they are, so that numbers of
/// any size arrive as they were given.
pub(super) fn job(job: &PreparedJob) -> String {
    let mut fields = Map::new();
    fields.insert("kind".to_owned(), json!(job.kind.as_str()));
    fields.insert("queue".to_owned(), json!(job.queue.as_str()));
    fields.insert("priority".to_owned(), json!(job.priority.get()));
    fields.insert("max_attempts".to_owned(), json!(job.max_attempts));
    let optional = [
        ("timeout", job.timeout.map(|timeout| json!(timeout.as_secs_f64()))),
        ("tags", Some(json!(job.tags)).filter(|_| !job.tags.is_empty())),
        ("metadata", job.metadata.clone()),
        ("trace_context", job.trace_context.clone().map(Value::from)),
        ("unique_by", job.unique.as_ref().map(unique_by)),
        ("on_conflict", job.unique.as_ref().map(|unique| json!(unique.on_conflict.as_str()))),
    ];
    fields.extend(optional.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    with(&fields, "args", &job.args)
}

fn unique_by(unique: &Unique) -> Value {
    let args = match &unique.args {
        UniqueArgs::Ignore => json!(false),
        UniqueArgs::All => json!(true),
        UniqueArgs::Fields(fields) => json!(fields),
    };
    let states: Vec<_> = unique.states.iter().map(awa_model::JobState::as_str).collect();
    let mut rule = json!({ "args": args, "queue": unique.queue, "states": states });
    if let Some(period) = unique.period {
        rule["period"] = json!(period.as_secs_f64());
    }
    rule
}

/// An object with one more field, whose value is JSON already.
fn with(fields: &Map<String, Value>, key: &str, json: &str) -> String {
    let mut text = Value::Object(fields.clone()).to_string();
    // An object with fields: the last character closes it.
    text.pop();
    format!("{text},\"{key}\":{json}}}")
}
