//! What becomes of the outputs of handlers.

use super::*;

#[test]
fn results_that_the_database_cannot_hold_fail_the_attempt() {
    let nul = encode(Outcome::Complete("a\0".to_owned())).unwrap_err();
    assert!(nul.describe().contains("U+0000"));
    let large = encode(Outcome::Complete("x".repeat(RESULT_BYTES_MAX))).unwrap_err();
    assert!(large.describe().contains("are allowed"));
}

#[test]
fn no_output_is_no_result() {
    assert_eq!(encode(Outcome::Complete(())).unwrap(), Outcome::Complete(None));
    assert_eq!(encode(Outcome::Complete(7)).unwrap(), Outcome::Complete(Some("7".to_owned())));
}
