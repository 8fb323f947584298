//! Each limit at its edge: the last value that is accepted, the first that is not, and what the refusal says.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Due, IntoNewJob, NewJob, PreparedJob};
use crate::{JobArgs, Unique};

#[derive(Serialize, Deserialize)]
struct Resize {
    path: String,
}

impl JobArgs for Resize {
    const KIND: &'static str = "resize";
    type Output = ();
    const QUEUE: &'static str = "images";
    const PRIORITY: i16 = 3;
    const MAX_ATTEMPTS: i16 = 7;
    const TIMEOUT: Option<Duration> = Some(Duration::from_secs(9));

    fn unique() -> Option<Unique> {
        Some(Unique::until_finished())
    }
}

fn resize() -> NewJob<Resize> {
    (&Resize { path: "a.png".to_owned() }).into_new_job()
}

#[track_caller]
fn accept(change: impl FnOnce(NewJob<Resize>) -> NewJob<Resize>) -> PreparedJob {
    change(resize()).prepare().expect("accepted")
}

#[track_caller]
fn refuse(change: impl FnOnce(NewJob<Resize>) -> NewJob<Resize>) -> String {
    change(resize()).prepare().expect_err("refused").to_string()
}

fn year(year: &str) -> DateTime<Utc> {
    format!("{year}-06-01T00:00:00Z").parse().expect("a time")
}

#[test]
fn a_job_starts_with_what_its_kind_says() {
    let job = accept(|job| job);
    assert_eq!((&*job.kind, &*job.queue, job.priority.get()), ("resize", "images", 3));
    assert_eq!((job.max_attempts, job.timeout), (7, Some(Duration::from_secs(9))));
    assert_eq!((&*job.args, job.due), (r#"{"path":"a.png"}"#, Due::Now));
    assert_eq!(job.unique, Some(Unique::until_finished()));
    assert_eq!((job.tags.len(), job.metadata, job.trace_context), (0, None, None));
}

#[test]
fn options_replace_what_the_kind_says() {
    let job = accept(|job| {
        job.queue("mail")
            .priority(1)
            .max_attempts(1)
            .timeout(Duration::from_secs(1))
            .not_unique()
            .tag("a")
            .tags(["b", "c"])
            .metadata(json!({ "by": 7 }))
            .trace_context("00-ab-cd-01")
            .run_at(year("2031"))
            .run_in(Duration::from_secs(60))
    });
    assert_eq!((&*job.queue, job.priority.get(), job.max_attempts), ("mail", 1, 1));
    assert_eq!((job.timeout, job.unique), (Some(Duration::from_secs(1)), None));
    assert_eq!(job.tags, ["a", "b", "c"]);
    assert_eq!(job.metadata, Some(json!({ "by": 7 })));
    assert_eq!(job.trace_context.as_deref(), Some("00-ab-cd-01"));
    assert_eq!(job.due, Due::In(Duration::from_secs(60)));
}

#[test]
fn every_limit_is_accepted_at_its_edge() {
    let day = Duration::from_secs(24 * 60 * 60);
    accept(|job| job.priority(4).max_attempts(1000).timeout(3660 * day).run_in(366_000 * day));
    accept(|job| job.timeout(Duration::from_micros(1)).run_in(Duration::ZERO));
    accept(|job| job.run_at(year("9999")));
    accept(|job| job.run_at(year("0001")));
    accept(|job| job.tags(vec!["t".repeat(128); 32]));
    accept(|job| job.metadata(json!({ "text": "x".repeat(64 * 1024 - 11) })));
    accept(|job| job.trace_context("x".repeat(1024)));
    accept(|job| job.unique(Unique::default().fields(["path", "page"])));
}

#[test]
fn numbers_beyond_their_limit_are_refused() {
    let day = Duration::from_secs(24 * 60 * 60);
    assert_eq!(refuse(|job| job.priority(0)), "priority is 0; it must be 1 to 4");
    assert_eq!(refuse(|job| job.max_attempts(0)), "max_attempts is 0; it must be 1 to 1000");
    assert_eq!(refuse(|job| job.max_attempts(1001)), "max_attempts is 1001; it must be 1 to 1000");
    assert_eq!(refuse(|job| job.timeout(Duration::ZERO)), "timeout is 0 seconds; it must be 1 microsecond to 10 years");
    assert_eq!(
        refuse(|job| job.timeout(3661 * day)),
        "timeout is 316310400 seconds; it must be 1 microsecond to 10 years"
    );
    assert_eq!(
        refuse(|job| job.run_in(Duration::MAX)),
        "run_in is 18446744073709551615.999999999 seconds; it must be 0 seconds to 1000 years"
    );
    assert_eq!(
        refuse(|job| job.run_at(year("+10000"))),
        "run_at is in the year 10000; it must be in the years 1 to 9999"
    );
    assert_eq!(
        refuse(|job| job.run_at(DateTime::<Utc>::MIN_UTC)),
        "run_at is in the year -262143; it must be in the years 1 to 9999"
    );
}

#[test]
fn texts_beyond_their_limit_are_refused() {
    assert_eq!(refuse(|job| job.queue("")), "queue is empty; it must have 1 to 128 bytes");
    assert_eq!(
        refuse(|job| job.tag("a\nb")),
        r#"tag "a\nb" has the control character U+000A at byte 1; none are allowed"#
    );
    assert_eq!(refuse(|job| job.tags(["t"; 33])), "tags is 33 tags; it must be at most 32 tags");
    assert_eq!(
        refuse(|job| job.trace_context("x".repeat(1025))),
        "trace_context is 1025 bytes; it must be at most 1024 bytes"
    );
    assert_eq!(
        refuse(|job| job.trace_context("a\0")),
        r#"trace_context is "a\u0000"; it must be free of control characters"#
    );
}

#[test]
fn documents_that_cannot_be_stored_are_refused() {
    assert_eq!(refuse(|job| job.metadata(7)), "metadata is a number; it must be an object");
    assert_eq!(
        refuse(|job| job.metadata(json!({ "by": ["\0"] }))),
        "metadata.by[0] contains U+0000, which PostgreSQL cannot store"
    );
    assert_eq!(
        refuse(|job| job.metadata(json!({ "text": "x".repeat(64 * 1024 - 10) }))),
        "metadata has 65537 bytes as JSON; at most 65536 are allowed"
    );
    let args = |path: String| NewJob::new(&Resize { path }).prepare().expect_err("refused").to_string();
    assert_eq!(args("\0".to_owned()), "args.path contains U+0000, which PostgreSQL cannot store");
    assert_eq!(args("x".repeat(1024 * 1024)), "args has 1048587 bytes as JSON; at most 1048576 are allowed");
}

#[test]
fn a_rule_over_fields_that_the_args_do_not_have_is_refused() {
    assert_eq!(
        refuse(|job| job.unique(Unique::default().fields(["pth"]))),
        r#"unique_by.args is ["pth"]; it must be names of fields, of which the args have at least one"#
    );
}

#[test]
fn debug_output_keeps_the_args_to_itself() {
    assert_eq!(format!("{:?}", resize()), r#"NewJob { kind: "resize", queue: "images", priority: 3, due: Now, .. }"#);
}
