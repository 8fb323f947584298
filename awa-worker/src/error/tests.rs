//! What is recorded of an error, however it behaves.

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("outer")]
struct Outer(#[source] Inner);

#[derive(Debug, thiserror::Error)]
#[error("inner")]
struct Inner;

#[derive(Debug, thiserror::Error)]
#[error("shows its source: {0}")]
struct Echo(#[source] Inner);

#[derive(Debug)]
struct Hostile;

impl fmt::Display for Hostile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("so far ")?;
        panic!("no text for you");
    }
}

impl StdError for Hostile {}

#[derive(Debug)]
struct Loop;

impl fmt::Display for Loop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("round")
    }
}

impl StdError for Loop {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self)
    }
}

fn text(error: impl Into<JobError>) -> String {
    error.into().describe()
}

#[test]
fn every_cause_is_recorded_once() {
    assert_eq!(text(Outer(Inner)), "outer: inner");
    assert_eq!(text(Echo(Inner)), "shows its source: inner");
    assert_eq!(text(Loop), "round");
    assert_eq!(text("a plain text"), "a plain text");
}

#[test]
fn a_display_that_panics_is_recorded_as_such() {
    let text = text(Hostile);
    assert!(text.starts_with("<the error could not be shown: "), "{text}");
    assert!(text.contains("no text for you"), "{text}");
}

#[test]
fn a_chain_of_long_texts_is_cut_as_a_whole() {
    #[derive(Debug, thiserror::Error)]
    #[error("{}", "x".repeat(10_000))]
    struct Long(#[source] Echo);
    let text = text(Long(Echo(Inner)));
    assert!(text.len() > 10_000 && text.len() <= awa_model::limits::ERROR_BYTES_MAX);
    assert!(super::describe(&Long(Echo(Inner))).ends_with("shows its source: inner"));
}

#[test]
fn the_last_word_on_what_follows_counts() {
    let minute = Duration::from_secs(60);
    assert_eq!(JobError::from("x").next(), Next::Retry);
    assert_eq!(JobError::fatal("x").next(), Next::Fail);
    assert_eq!(JobError::fatal("x").retry_after(minute).next(), Next::RetryAfter(minute));
    let nested: Result<(), _> = Err::<(), _>("x").retry_after(minute).fatal();
    assert!(nested.unwrap_err().is_fatal());
}

#[test]
fn the_error_inside_can_be_looked_at() {
    assert!(JobError::from(Inner).downcast_ref::<Inner>().is_some());
    assert!(JobError::from("text").downcast_ref::<Inner>().is_none());
}
