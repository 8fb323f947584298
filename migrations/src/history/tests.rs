//! Each history that a binary may meet, and what it makes of it.

use super::{Applied, FunctionsStatus, judge};
use crate::{Error, Function, Migration, Schema};

fn schema(count: i32, function: &'static str, release: &str) -> Schema {
    let migrations = (1..=count).map(|version| Migration { version, name: "step", sql: "select 1;" }).collect();
    Schema::new(migrations, vec![Function { name: "claim", sql: function }], release)
}

/// The rows that applying `schema` leaves behind.
fn rows(schema: &Schema) -> Vec<Applied> {
    let row = |version, name: &str, checksum| Applied {
        version,
        name: name.to_owned(),
        checksum,
        release: schema.release().to_owned(),
        applied_at: String::new(),
    };
    let functions = row(0, "functions", schema.functions_checksum());
    let migrations =
        schema.migrations().iter().map(|migration| row(migration.version, migration.name, migration.checksum()));
    std::iter::once(functions).chain(migrations).collect()
}

#[test]
fn empty_database_needs_everything() {
    let status = judge(Vec::new(), &schema(2, "a", "1.0.0")).expect("an empty database can be migrated");
    assert_eq!((status.found, status.needed, status.pending.len()), (0, 2, 2));
    assert_eq!(status.functions, FunctionsStatus::Pending);
    assert!(!status.is_current());
}

#[test]
fn own_history_is_current() {
    let schema = schema(2, "a", "1.0.0");
    assert!(judge(rows(&schema), &schema).expect("its own history").is_current());
}

#[test]
fn newer_history_is_refused_by_both_versions() {
    let refusal = judge(rows(&schema(9, "a", "2.0.0")), &schema(2, "a", "1.0.0"));
    assert!(matches!(refusal, Err(Error::TooNew { found: 9, known: 2 })), "{refusal:?}");
}

#[test]
fn newer_history_is_refused_even_with_a_hole() {
    let mut history = rows(&schema(9, "a", "2.0.0"));
    history.remove(1);
    assert!(matches!(judge(history, &schema(2, "a", "1.0.0")), Err(Error::TooNew { .. })));
}

#[test]
fn hole_is_named() {
    let mut history = rows(&schema(3, "a", "1.0.0"));
    history.remove(2);
    assert!(matches!(judge(history, &schema(3, "a", "1.0.0")), Err(Error::Hole { version: 2 })));
}

#[test]
fn changed_migration_is_named() {
    let mut history = rows(&schema(3, "a", "1.0.0"));
    history[2].checksum = "other".to_owned();
    assert!(matches!(judge(history, &schema(3, "a", "1.0.0")), Err(Error::Changed { version: 2, .. })));
}

#[test]
fn functions_go_forward_and_never_back() {
    let check = |installed: (&'static str, &str), own: (&'static str, &str), expected| {
        let history = rows(&schema(1, installed.0, installed.1));
        let status = judge(history, &schema(1, own.0, own.1)).expect("the same migrations");
        assert_eq!(status.functions, expected, "{installed:?} installed, {own:?} starts");
    };
    check(("old", "1.9.0"), ("new", "1.10.0"), FunctionsStatus::Pending);
    check(("new", "1.10.0"), ("old", "1.9.0"), FunctionsStatus::Newer);
    check(("mine", "1.0.0"), ("edited", "1.0.0"), FunctionsStatus::Pending);
    check(("same", "2.0.0"), ("same", "1.0.0"), FunctionsStatus::Current);
}

#[test]
fn new_migration_brings_the_functions_along() {
    let status = judge(rows(&schema(1, "same", "1.0.0")), &schema(2, "same", "1.0.0")).expect("one behind");
    assert_eq!(status.functions, FunctionsStatus::Pending);
}

#[test]
fn refusals_name_versions_and_command() {
    let schema = schema(3, "a", "1.0.0");
    let text = |rows| {
        let status = judge(rows, &schema).expect("a history that can be continued");
        status.require_current(&schema).expect_err("it is not current").to_string()
    };
    let empty = text(Vec::new());
    assert!(empty.contains("version 0") && empty.contains("version 3") && empty.contains("awa migrate"), "{empty}");
    let mut stale = rows(&schema);
    stale[0].checksum = "other".to_owned();
    assert!(text(stale).contains("functions"));
}
