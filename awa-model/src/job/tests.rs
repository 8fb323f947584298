//! Error lists as the database writes them, and as a careless hand may leave them.

use proptest::prelude::*;
use serde_json::json;

use super::{AttemptError, ErrorSource};
use crate::{RunLease, json::tests::any_json};

#[test]
fn an_entry_of_the_database_is_read_whole() {
    let stored = json!([{
        "at": "2031-05-06T07:08:09.123456+00:00",
        "attempt": 3,
        "lease": 5,
        "worker": "67e55044-10b1-426f-9247-bb680e5fe0c8",
        "source": "rescue",
        "error": "no heartbeat for 90 s",
    }]);
    let [error] = &AttemptError::list_from_json(Some(&stored))[..] else { panic!("one entry") };
    assert_eq!(error.at.expect("a time").to_rfc3339(), "2031-05-06T07:08:09.123456+00:00");
    assert_eq!((error.attempt, error.lease), (3, RunLease::new(5)));
    assert_eq!(error.worker.expect("a worker").to_string(), "67e55044-10b1-426f-9247-bb680e5fe0c8");
    assert_eq!((error.source, error.error.as_str()), (ErrorSource::Rescue, "no heartbeat for 90 s"));
}

#[test]
fn a_damaged_entry_shows_what_is_left_of_it() {
    let stored = json!([{ "attempt": 1e9, "worker": "me", "at": "yesterday", "source": "ghost" }, "oops"]);
    let errors = AttemptError::list_from_json(Some(&stored));
    assert_eq!(errors.len(), 2);
    assert_eq!((errors[0].attempt, errors[0].worker, errors[0].at), (0, None, None));
    assert_eq!(errors[0].source, ErrorSource::Unknown);
    assert_eq!(errors[1].error, r#""oops""#);
    assert_eq!(AttemptError::list_from_json(None), []);
    assert_eq!(AttemptError::list_from_json(Some(&json!(null))), []);
}

proptest! {
    #[test]
    fn no_stored_value_makes_reading_fail(value in any_json()) {
        AttemptError::list_from_json(Some(&value));
        AttemptError::list_from_json(Some(&json!([value, { "at": value, "lease": value, "error": value }])));
    }
}
