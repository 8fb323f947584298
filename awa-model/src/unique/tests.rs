//! The masks are a contract with `awa.state_bit`; the rules refuse what could never work.

use std::time::Duration;

use super::{Unique, UniqueStates};
use crate::JobState;

#[test]
fn masks_are_those_of_the_database() {
    assert_eq!(UniqueStates::UNFINISHED.bits(), 0b0001_1111);
    assert_eq!(UniqueStates::WAITING.bits(), 0b0001_0011);
    assert_eq!(UniqueStates::SUCCESSFUL.bits(), 0b0011_1111);
    assert_eq!(UniqueStates::from_bits(-1).bits(), 0b1111_1111);
    let function = include_str!("../../../migrations/0005_unique_claims.sql");
    for state in JobState::ALL {
        let line = format!("when '{state}' then {}\n", UniqueStates::of(&[state]).bits());
        assert!(function.contains(&line), "{line}");
    }
}

#[test]
fn unfinished_means_not_terminal() {
    for state in JobState::ALL {
        assert_eq!(UniqueStates::UNFINISHED.contains(state), !state.is_terminal(), "{state}");
    }
}

#[test]
fn impossible_rules_are_refused() {
    let refusal = |unique: Unique| unique.check().expect_err("must be refused").to_string();
    assert_eq!(
        refusal(Unique::default().states(UniqueStates::of(&[]))),
        "unique_by.states is empty; it must be at least one state"
    );
    assert_eq!(
        refusal(Unique::default().states(UniqueStates::of(&[JobState::Failed, JobState::Running]))),
        r#"unique_by.states is ["running", "failed"]; it must be with available where it has running"#
    );
    assert_eq!(
        refusal(Unique::within(Duration::from_millis(10))),
        "unique_by.period is 0.01 seconds; it must be 1 second to 10 years"
    );
    assert_eq!(refusal(Unique::default().fields([""; 0])), "unique_by.args is 0 names; it must be 1 to 32 names");
    assert_eq!(refusal(Unique::default().fields([""])), "unique_by.args is empty; it must have 1 to 128 bytes");
}

#[test]
fn sound_rules_are_accepted() {
    for unique in [
        Unique::until_finished(),
        Unique::while_waiting().per_queue().ignore_args(),
        Unique::within(Duration::from_secs(60)).fields(["account"]),
    ] {
        unique.check().expect("sound");
    }
}
