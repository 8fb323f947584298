//! What the derive writes, seen through the trait.

use std::time::Duration;

use awa_macros::JobArgs;
use awa_model::{IntoNewJob, JobArgs as _, JobState, NewJob, OnConflict, Unique, UniqueArgs, UniqueStates, limits};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, JobArgs)]
#[job(crate = "awa_model")]
struct SendHTTPRequest {
    url: String,
}

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Thumbnail {
    bytes: u64,
}

#[derive(Serialize, Deserialize, JobArgs)]
#[job(kind = "resize", queue = "images", priority = 1, max_attempts = 5, timeout = "1h30m")]
#[job(unique(args), output = std::collections::BTreeMap<String, Thumbnail>, crate = "awa_model")]
struct ResizeImage {
    path: String,
    width: u32,
}

#[derive(Serialize, Deserialize, JobArgs)]
#[job(
    unique(args(r#type, "page-size"), queue, period = "1h", states(available, waiting_external)),
    crate = "awa_model"
)]
struct Report {
    r#type: String,
    #[serde(rename = "page-size")]
    page_size: u32,
}

#[derive(Serialize, Deserialize, JobArgs)]
#[job(unique(no_args, while_waiting, on_conflict = "replace"), crate = "awa_model")]
enum Sweep {
    Everything,
    Only { path: String },
}

#[derive(Serialize, Deserialize, JobArgs)]
#[job(unique, crate = "awa_model")]
struct Tick;

#[derive(Serialize, Deserialize, JobArgs)]
#[job(unique(period = "1d"), crate = "awa_model")]
struct Daily(u32);

#[derive(Serialize, Deserialize, JobArgs)]
#[job(aliases("send_mail", "mail"), tags("post", "slow"), crate = "awa_model")]
struct SendPost;

fn output_of<A: awa_model::JobArgs<Output = O>, O>(_: &A) {}

#[test]
fn a_bare_derive_takes_all_defaults() {
    let args = SendHTTPRequest { url: "http://localhost".to_owned() };
    output_of::<_, ()>(&args);
    assert_eq!(SendHTTPRequest::KIND, "send_http_request");
    assert_eq!(SendHTTPRequest::QUEUE, limits::QUEUE_DEFAULT);
    assert_eq!(SendHTTPRequest::PRIORITY, limits::PRIORITY_DEFAULT);
    assert_eq!(SendHTTPRequest::MAX_ATTEMPTS, limits::MAX_ATTEMPTS_DEFAULT);
    assert_eq!(SendHTTPRequest::TIMEOUT, None);
    assert_eq!(SendHTTPRequest::unique(), None);
    assert!(SendHTTPRequest::ALIASES.is_empty() && SendHTTPRequest::TAGS.is_empty());
}

#[test]
fn every_key_arrives() {
    let args = ResizeImage { path: "a.png".to_owned(), width: 640 };
    output_of::<_, std::collections::BTreeMap<String, Thumbnail>>(&args);
    assert_eq!((ResizeImage::KIND, ResizeImage::QUEUE), ("resize", "images"));
    assert_eq!((ResizeImage::PRIORITY, ResizeImage::MAX_ATTEMPTS), (1, 5));
    assert_eq!(ResizeImage::TIMEOUT, Some(Duration::from_secs(5400)));
    assert_eq!(ResizeImage::unique(), Some(Unique::until_finished()));
}

#[test]
fn uniqueness_is_the_rule_that_was_written() {
    let rule = Report::unique().expect("unique");
    assert_eq!(rule.args, UniqueArgs::Fields(vec!["type".to_owned(), "page-size".to_owned()]));
    assert_eq!((rule.queue, rule.period), (true, Some(Duration::from_secs(3600))));
    assert_eq!(rule.states, UniqueStates::of(&[JobState::Available, JobState::WaitingExternal]));
    assert_eq!(Sweep::unique(), Some(Unique::while_waiting().ignore_args().on_conflict(OnConflict::Replace)));
    assert_eq!(Tick::unique(), Some(Unique::until_finished()));
    assert_eq!(Daily::unique(), Some(Unique::within(Duration::from_secs(24 * 60 * 60))));
}

#[test]
fn args_can_be_enqueued_owned_borrowed_and_with_options() {
    fn args<J: IntoNewJob>(job: J) -> String {
        job.into_new_job().prepare().expect("within limits").args
    }

    let report = || Report { r#type: "year".to_owned(), page_size: 7 };
    let expected = r#"{"type":"year","page-size":7}"#;
    assert_eq!(args(report()), expected);
    let borrowed = report();
    assert_eq!(args(&borrowed), expected);
    assert_eq!(args(NewJob::new(&borrowed)), expected);
    assert_eq!(args(Sweep::Only { path: "/".to_owned() }), r#"{"Only":{"path":"/"}}"#);
    assert_eq!(args(Sweep::Everything), r#""Everything""#);
    assert_eq!((args(Tick), args(Daily(3))), ("null".to_owned(), "3".to_owned()));
}

#[test]
fn tags_of_a_kind_are_given_to_each_job_before_its_own() {
    assert_eq!(SendPost::ALIASES, ["send_mail", "mail"]);
    let tags = |job: NewJob<SendPost>| job.prepare().expect("within limits").tags;
    assert_eq!(tags(NewJob::new(&SendPost)), ["post", "slow"]);
    assert_eq!(tags(NewJob::new(&SendPost).tag("today")), ["post", "slow", "today"]);
    assert_eq!(tags(NewJob::new(&SendPost).without_tags().tag("today")), ["today"]);
    let full = NewJob::new(&SendPost).tags((0..31).map(|number| number.to_string()));
    assert_eq!(full.prepare().unwrap_err().to_string(), "tags is 33 tags; it must be at most 32 tags");
}
