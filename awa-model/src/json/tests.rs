//! Faults are found wherever they hide, and named by their place.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use super::{check, json_text, size};
use crate::limits;

fn refusal<T: Serialize>(value: &T) -> String {
    json_text("args", value, limits::ARGS_BYTES_MAX).expect_err("must be refused").to_string()
}

#[derive(Serialize)]
enum Shape {
    New(f64),
    Tuple(u8, f32),
    Struct { name: &'static str },
}

#[test]
fn nul_is_named_by_its_place() {
    let nul = "contains U+0000, which PostgreSQL cannot store";
    assert_eq!(refusal(&"\0"), format!("args {nul}"));
    assert_eq!(refusal(&'\0'), format!("args {nul}"));
    assert_eq!(refusal(&json!({ "a": [1, { "b c": "x\0" }] })), format!(r#"args.a[1]["b c"] {nul}"#));
    assert_eq!(refusal(&json!({ "a\0": 1 })), format!(r#"args["a\0"] {nul}"#));
    assert_eq!(refusal(&Some(Shape::Struct { name: "\0" })), format!("args.Struct.name {nul}"));
}

#[test]
fn nan_is_refused_instead_of_written_as_null() {
    let finite = "is not a finite number, which JSON cannot express";
    assert_eq!(refusal(&f64::NAN), format!("args {finite}"));
    assert_eq!(refusal(&vec![Some(1.0), Some(f64::INFINITY)]), format!("args[1] {finite}"));
    assert_eq!(refusal(&Shape::New(f64::NAN)), format!("args.New {finite}"));
    assert_eq!(refusal(&Shape::Tuple(1, f32::NAN)), format!("args.Tuple[1] {finite}"));
    assert_eq!(refusal(&BTreeMap::from([(7, f64::NAN)])), format!("args.7 {finite}"));
}

#[test]
fn numbers_read_back_bit_by_bit() {
    for number in [1.0072117513647481e-105, f64::MIN_POSITIVE, f64::MAX, -0.0, 0.1] {
        let text = json_text("args", &number, 100).expect("finite");
        let read: f64 = serde_json::from_str(&text).expect("a number");
        assert_eq!(read.to_bits(), number.to_bits(), "{text}");
    }
    let text = json_text("args", &(u64::MAX, i64::MIN, u128::MAX), 100).expect("integers");
    assert_eq!(serde_json::from_str::<(u64, i64, u128)>(&text).expect("three"), (u64::MAX, i64::MIN, u128::MAX));
}

#[test]
fn nul_is_found_in_raw_json_too() {
    let raw = |text: &str| RawValue::from_string(text.to_owned()).expect("well-formed");
    assert_eq!(
        refusal(&json_map("raw", raw(r#"["\u0000"]"#))),
        "args.raw[0] contains U+0000, which PostgreSQL cannot store"
    );
    assert_eq!(refusal(&json_map("raw", raw(r#""\ud800""#))), "args cannot be written as JSON");
    let escaped =
        json_text("args", &json_map("raw", raw(r#""\\u0000""#)), 100).expect("a backslash and five characters");
    assert_eq!(escaped, r#"{"raw":"\\u0000"}"#);
}

fn json_map<V>(key: &str, value: V) -> BTreeMap<&str, V> {
    BTreeMap::from([(key, value)])
}

#[test]
fn nesting_is_limited_before_readers_give_up() {
    let nested = |levels: usize| (0..levels).fold(Value::Null, |inner, _| json!([inner]));
    let deepest = json_text("args", &nested(limits::JSON_DEPTH_MAX), 1000).expect("allowed");
    serde_json::from_str::<Value>(&deepest).expect("readable");
    assert_eq!(refusal(&nested(limits::JSON_DEPTH_MAX + 1)), "args nests deeper than 100 levels");
}

#[test]
fn size_is_counted_to_the_end_although_memory_is_bounded() {
    assert_eq!(json_text("args", &"x".repeat(8), 10).expect("ten with quotes").len(), 10);
    assert_eq!(
        json_text("args", &"x".repeat(5000), 10).expect_err("too large").to_string(),
        "args has 5002 bytes as JSON; at most 10 are allowed"
    );
}

#[test]
fn a_failing_serialize_keeps_its_reason() {
    let error = json_text("args", &BTreeMap::from([(vec![1], 1)]), 100).expect_err("a list is no key");
    assert_eq!(error.to_string(), "args cannot be written as JSON");
    let source = std::error::Error::source(&error).expect("kept").to_string();
    assert_eq!(source, "key must be a string");
}

pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "(?s).{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("(?s).{0,4}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(map) => map.iter().any(|(key, value)| key.contains('\0') || has_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

proptest! {
    #[test]
    fn what_is_accepted_is_written_as_serde_json_writes_it(value in any_json()) {
        let plain = value.to_string();
        prop_assert_eq!(size(&value), plain.len());
        match json_text("args", &value, plain.len()) {
            Ok(text) => prop_assert_eq!(text, plain),
            Err(_) => prop_assert!(has_nul(&value)),
        }
        prop_assert_eq!(check("args", &value).is_err(), has_nul(&value));
    }
}
