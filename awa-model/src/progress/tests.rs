//! Progress against a model of it: a merge is a map update, an error changes nothing, and nothing stored can make
//! reading fail.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{MetadataChange, Progress, ProgressError};
use crate::{json::tests::any_json, limits};

fn set_step(progress: &mut Progress, name: &str, result: impl serde::Serialize) -> Result<(), ProgressError> {
    progress.apply(MetadataChange::step(name, &result, limits::PROGRESS_BYTES_MAX)?)
}

fn stored(progress: &Progress) -> Value {
    serde_json::from_str(&progress.to_json()).expect("progress is JSON")
}

#[test]
fn it_is_stored_as_one_object_without_what_was_not_reported() {
    let mut progress = Progress::new();
    assert!(progress.is_empty());
    assert_eq!(progress.to_json(), "{}");
    progress.set(50, "half").expect("fits");
    progress.update_metadata(json!({ "done": 1234 })).expect("fits");
    assert_eq!(progress.to_json(), r#"{"percent":50,"message":"half","metadata":{"done":1234},"generation":2}"#);
}

#[test]
fn percentages_are_clamped() {
    let mut progress = Progress::new();
    let mut percent_after = |percent: i64| {
        progress.set(percent, "").expect("fits");
        progress.percent()
    };
    assert_eq!(
        [i64::MIN, -1, 0, 100, 101, i64::MAX].map(&mut percent_after),
        [Some(0), Some(0), Some(0), Some(100), Some(100), Some(100)]
    );
    progress.set(u64::MAX, "").expect("fits");
    assert_eq!(progress.percent(), Some(100));
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let mut progress = Progress::new();
    progress.set(1, "é".repeat(513)).expect("cut");
    assert_eq!(progress.message(), Some(format!("{}…", "é".repeat(510)).as_str()));
    progress.set(1, "x".repeat(1024)).expect("just fits");
    assert_eq!(progress.message().map(str::len), Some(1024));
}

#[test]
fn set_keeps_the_metadata() {
    let mut progress = Progress::new();
    progress.set_checkpoint("page", &7).expect("fits");
    progress.set(10, "next").expect("fits");
    assert_eq!(progress.checkpoint("page"), Some(&json!(7)));
}

#[test]
fn a_merge_replaces_whole_values_and_keeps_null() {
    let mut progress = Progress::new();
    progress.update_metadata(json!({ "a": { "x": 1 }, "b": 2 })).expect("fits");
    progress.update_metadata(json!({ "a": { "y": 1 }, "c": null })).expect("fits");
    assert_eq!(Value::from(progress.metadata().clone()), json!({ "a": { "y": 1 }, "b": 2, "c": null }));
}

#[test]
fn a_refused_change_changes_nothing() {
    let mut progress = Progress::new();
    progress.set(10, "ok").expect("fits");
    progress.update_metadata(json!({ "a": 1 })).expect("fits");
    let before = progress.clone();
    let large = "x".repeat(limits::PROGRESS_BYTES_MAX);
    let refusals = [
        progress.set(20, "a\0"),
        progress.update_metadata(json!([1])),
        progress.update_metadata(json!({ "b": 1, "$steps": {} })),
        progress.update_metadata(json!({ "b": 1, "c": ["\0"] })),
        progress.update_metadata(json!({ "b": large })),
        progress.set_checkpoint("b", &f64::NAN),
        progress.set_checkpoint("$mine", &1),
        set_step(&mut progress, "\0", 1),
        set_step(&mut progress, "a", "\0"),
    ]
    .map(|refusal| refusal.expect_err("must be refused").to_string());
    assert_eq!(
        refusals,
        [
            "progress.message contains U+0000, which PostgreSQL cannot store",
            "progress metadata is an array; it must be an object",
            r#"the key "$steps" of progress metadata is reserved, as all are that begin with `$`"#,
            "progress.metadata.c[0] contains U+0000, which PostgreSQL cannot store",
            "progress has 65606 bytes as JSON; at most 65536 are allowed",
            "progress is not a finite number, which JSON cannot express",
            r#"the key "$mine" of progress metadata is reserved, as all are that begin with `$`"#,
            r#"step "\u0000" has the control character U+0000 at byte 0; none are allowed"#,
            "progress contains U+0000, which PostgreSQL cannot store",
        ]
    );
    assert_eq!(progress, before);
}

#[test]
fn steps_keep_their_results_beside_the_metadata() {
    let mut progress = Progress::new();
    assert_eq!(progress.step("fetch"), None);
    set_step(&mut progress, "fetch", ["a", "b"]).expect("fits");
    set_step(&mut progress, "store", ()).expect("fits");
    progress.update_metadata(json!({ "mine": 1 })).expect("fits");
    let read = Progress::from_json(stored(&progress));
    assert_eq!(read.step("fetch"), Some(&json!(["a", "b"])));
    assert_eq!(read.step("store"), Some(&Value::Null));
}

#[test]
fn the_limit_is_configurable() {
    let mut progress = Progress::new().with_bytes_max(50);
    progress.set(1, "x".repeat(2)).expect("fits");
    assert!(progress.set(1, "x".repeat(30)).is_err());
}

#[test]
fn edits_from_outside_are_read_leniently() {
    let read = |stored| {
        let progress = Progress::from_json(stored);
        (progress.percent(), progress.message().map(str::len), progress.metadata().len())
    };
    assert_eq!(read(json!(null)), (None, None, 0));
    assert_eq!(read(json!([1, 2])), (None, None, 0));
    assert_eq!(read(json!({ "percent": "7", "message": 7, "metadata": [7] })), (None, None, 0));
    assert_eq!(read(json!({ "percent": 1e300, "message": "x".repeat(5000) })), (Some(100), Some(1024), 0));
    assert_eq!(read(json!({ "percent": -0.5, "metadata": { "a": 1 } })), (Some(0), None, 1));
}

#[test]
fn keys_of_another_version_survive_a_change() {
    let mut progress = Progress::from_json(json!({ "percent": 1, "eta": "2031-01-01" }));
    progress.set(2, "on").expect("fits");
    assert_eq!(stored(&progress), json!({ "percent": 2, "message": "on", "eta": "2031-01-01", "generation": 1 }));
}

#[test]
fn what_was_made_too_large_from_outside_can_shrink() {
    let large = "x".repeat(limits::PROGRESS_BYTES_MAX);
    let mut progress = Progress::from_json(json!({ "metadata": { "a": large } }));
    assert!(progress.update_metadata(json!({ "b": 1 })).is_err());
    progress.update_metadata(json!({ "a": 1 })).expect("shrinks");
    assert_eq!(progress.checkpoint("a"), Some(&json!(1)));
}

#[test]
fn the_generation_goes_on_from_what_is_stored_unless_that_is_none() {
    let next = |generation: Value| {
        let mut progress = Progress::from_json(json!({ "generation": generation }));
        progress.set(1, "").expect("fits");
        progress.generation()
    };
    let stored =
        [json!(7), json!(7.5), json!(-1), json!(1e300), json!(9_007_199_254_740_993_u64), json!("7"), json!(null)];
    assert_eq!(stored.map(next), [8, 8, 1, 1, 1, 1, 1]);
}

#[test]
fn steps_that_are_no_object_are_replaced() {
    let mut progress = Progress::from_json(json!({ "metadata": { "$steps": [1, 2] } }));
    set_step(&mut progress, "a", 1).expect("fits");
    assert_eq!(stored(&progress)["metadata"], json!({ "$steps": { "a": 1 } }));
}

/// Room for one byte less than the value has: refused, and with it, taken.
fn is_exactly_as_large_as_it_says(change: impl Fn(Progress) -> Result<Progress, ProgressError>, before: &Progress) {
    let Ok(changed) = change(before.clone()) else { return };
    let bytes = changed.to_json().len();
    let with_room = |bytes| change(before.clone().with_bytes_max(bytes));
    assert!(with_room(bytes).is_ok(), "{} has {bytes} bytes", changed.to_json());
    // What is too large already may shrink.
    if bytes > before.to_json().len() {
        let refused = with_room(bytes - 1).expect_err("too large").to_string();
        assert!(refused.starts_with(&format!("progress has {bytes} bytes")), "{refused}: {}", changed.to_json());
    }
}

proptest! {
    #[test]
    fn a_size_kept_as_a_sum_is_the_size(
        before in prop::collection::btree_map("[a-d\"$]{0,2}", any_json(), 0..4),
        others in prop::collection::btree_map("[x-z]{1,2}", any_json(), 0..3),
        changes in prop::collection::vec(("[a-d\"]", any_json(), 0_u8..3), 1..6),
        generation in prop::sample::select(vec![0, 8, 9, 98, 99]),
    ) {
        let mut document = serde_json::Map::from_iter(others);
        document.insert("generation".to_owned(), json!(generation));
        document.insert("metadata".to_owned(), before.into_iter().collect());
        let mut progress = Progress::from_json(document.into());
        for (key, value, what) in changes {
            let change = |mut progress: Progress| {
                match what {
                    0 => progress.set(key.len() as i64, value.to_string())?,
                    1 => progress.set_checkpoint(&key, &value)?,
                    _ => set_step(&mut progress, &key, &value)?,
                }
                Ok(progress)
            };
            is_exactly_as_large_as_it_says(change, &progress);
            progress = change(progress.clone()).unwrap_or(progress);
        }
    }

    #[test]
    fn a_merge_is_a_map_update(changes in prop::collection::vec(
        prop::collection::btree_map("[a-d]", any_json(), 0..4), 0..6,
    )) {
        let mut progress = Progress::new();
        let mut model = BTreeMap::new();
        for change in changes {
            let object: Value = change.clone().into_iter().collect::<serde_json::Map<_, _>>().into();
            if progress.update_metadata(object).is_ok() {
                model.extend(change);
            }
        }
        let metadata: BTreeMap<_, _> = progress.metadata().clone().into_iter().collect();
        prop_assert_eq!(metadata, model);
    }

    #[test]
    fn anything_stored_can_be_read_and_reads_back_the_same(value in any_json(), percent in any_json()) {
        Progress::from_json(value.clone());
        let progress = Progress::from_json(json!({ "percent": percent, "message": value, "metadata": value }));
        prop_assert!(progress.percent().is_none_or(|percent| percent <= 100));
        prop_assert_eq!(Progress::from_json(stored(&progress)), progress);
    }
}
