//! The one rule for names, at its edges and on random text.

use proptest::prelude::*;

use super::{InvalidName, Kind, QueueName, check};

#[test]
fn odd_but_plain_names_are_data() {
    for name in
        ["a-b", "A.b", "a b", "it's", "\"x\"", "a;DROP TABLE t;--", "$$", "%s", "\\", "{}", "🦀", "مرحبا", "x ", "*"]
    {
        assert_eq!(QueueName::new(name).expect("allowed").as_str(), name);
        assert_eq!(Kind::new(name).expect("allowed").as_str(), name);
    }
}

#[test]
fn length_is_counted_in_bytes() {
    assert!(QueueName::new("x".repeat(128)).is_ok());
    assert!(QueueName::new("é".repeat(64)).is_ok());
    let refusal = QueueName::new("é".repeat(65)).expect_err("130 bytes").to_string();
    assert_eq!(refusal, format!("queue `{}…` has 130 bytes; it must have 1 to 128", "é".repeat(32)));
}

#[test]
fn an_error_names_what_was_wrong() {
    assert_eq!(Kind::new("").expect_err("empty").to_string(), "kind is empty; it must have 1 to 128 bytes");
    assert_eq!(
        Kind::new("a\0b").expect_err("NUL").to_string(),
        r#"kind "a\u0000b" has the control character U+0000 at byte 1; none are allowed"#
    );
}

#[test]
fn json_cannot_smuggle_in_a_wrong_name() {
    assert!(serde_json::from_str::<QueueName>(r#""mail""#).is_ok());
    assert!(serde_json::from_str::<QueueName>(r#""a\u0000""#).is_err());
}

proptest! {
    #[test]
    fn a_name_is_accepted_exactly_when_short_and_free_of_controls(name in "(?s).{0,140}") {
        let allowed = !name.is_empty() && name.len() <= 128 && !name.chars().any(char::is_control);
        match check("tag", &name) {
            Ok(()) => prop_assert!(allowed),
            Err(InvalidName::ControlCharacter { character, at, .. }) => {
                prop_assert!(!allowed);
                prop_assert_eq!(name[at..].chars().next(), Some(character));
            }
            Err(_) => prop_assert!(!allowed),
        }
    }
}
