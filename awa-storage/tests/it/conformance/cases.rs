//! The table: a job as JSON, and what every path has to make of it.

use serde_json::{Value, json};

/// One case. `before` is enqueued first, one by one.
pub(super) struct Case {
    pub(super) claim: &'static str,
    pub(super) before: Vec<Value>,
    pub(super) job: Value,
    /// The outcome, with the place of the job in `before` that it names; or the refusal.
    pub(super) expected: Result<&'static str, &'static str>,
    /// Rust's types do not allow to write it.
    pub(super) only_json: bool,
}

fn accept(claim: &'static str, job: Value) -> Case {
    Case { claim, before: Vec::new(), job, expected: Ok("inserted"), only_json: false }
}

fn refuse(refusal: &'static str, job: Value) -> Case {
    Case { claim: refusal, before: Vec::new(), job, expected: Err(refusal), only_json: false }
}

/// Two jobs: the first is inserted, the second meets it.
fn after(claim: &'static str, before: Value, job: Value, expected: Result<&'static str, &'static str>) -> Case {
    Case { claim, before: vec![before], job, expected, only_json: false }
}

/// A job of kind `work` with these options.
fn work(mut options: Value) -> Value {
    options["kind"] = json!("work");
    options
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inside, level| if level % 2 == 0 { json!([inside]) } else { json!({ "a": inside }) })
}

pub(super) fn cases() -> Vec<Case> {
    [accepted(), refused(), refused_documents(), unique(), refused_rules()].into_iter().flatten().collect()
}

fn accepted() -> Vec<Case> {
    let everything = json!({
        "args": { "path": "/srv/ä.png", "n": [1, null, 2.50] }, "queue": "images", "priority": 4, "run_in": 3600.5,
        "max_attempts": 1000, "timeout": 1.500001, "tags": ["one", "zwei, \"drei\" {}", "NULL", " "],
        "metadata": { "owner": "grüße 🦀" }, "unique_by": { "args": ["path"], "queue": true },
        "trace_context": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    });
    // BATCH-05: what text formats would have to escape.
    let awkward = json!({
        "args": ["", "NULL", "\\N", "\\.", "a\\b", "a\tb\r\nc", "\"q\" 'q'", ",", " x ", "\u{2028}", "\u{7f}"],
        "tags": ["NULL", "\\N", "\\.", "a\\b", "\"q\"", "a,b", " x ", "{}", "\u{2028}"],
        "metadata": { "": "", "\\N": "\\." }, "queue": "\\N", "trace_context": "\\N,\"x\"",
    });
    vec![
        accept("defaults", work(json!({}))),
        accept("every option", work(everything)),
        accept("nothing has to be escaped", work(awkward)),
        accept("a kind is plain data", json!({ "kind": "it's; \"x\" \\ {} 🦀 " })),
        accept("args may be null", work(json!({ "args": null }))),
        accept("args may be a scalar", work(json!({ "args": "x" }))),
        accept("numbers keep their digits", work(json!({ "args": [18446744073709551615_u64, -0.1, 1e20] }))),
        // BATCH-06: absent, past, now, soon, far.
        accept("a due time in the past", work(json!({ "run_at": "2020-02-29T12:34:56.789012Z" }))),
        accept("a due time in the future", work(json!({ "run_at": "2999-12-31T23:59:59.999999Z" }))),
        accept("a delay of nothing", work(json!({ "run_in": 0 }))),
        accept("a delay of a second", work(json!({ "run_in": 1 }))),
        accept("a delay of a year", work(json!({ "run_in": 31_536_000 }))),
        accept("the longest name", work(json!({ "queue": "ä".repeat(64), "tags": ["t".repeat(128)] }))),
        accept("the most tags", work(json!({ "tags": vec!["t"; 32] }))),
        accept("no tags", work(json!({ "tags": [] }))),
        accept("the deepest args", work(json!({ "args": nested(100) }))),
        accept("the longest args", work(json!({ "args": "x".repeat(1024 * 1024 - 2) }))),
        accept("the longest args of many parts", work(json!({ "args": vec![0; 512 * 1024 - 1] }))),
        accept("the longest metadata", work(json!({ "metadata": { "a": "x".repeat(64 * 1024 - 8) } }))),
        accept("the shortest timeout", work(json!({ "timeout": 0.000001 }))),
        accept("the longest timeout", work(json!({ "timeout": 316_224_000 }))),
    ]
}

fn refused() -> Vec<Case> {
    vec![
        refuse("kind is empty; it must have 1 to 128 bytes", json!({ "kind": "" })),
        refuse(
            "kind `kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk…` has 129 bytes; it must have 1 to 128",
            json!({ "kind": "k".repeat(129) }),
        ),
        refuse(
            "kind \"a\u{7f}\\\"b\" has the control character U+007F at byte 1; none are allowed",
            json!({ "kind": "a\u{7f}\"b" }),
        ),
        refuse("queue is empty; it must have 1 to 128 bytes", work(json!({ "queue": "" }))),
        // INPUT-09
        refuse(
            "queue `ääääääääääääääääääääääääääääääää…` has 130 bytes; it must have 1 to 128",
            work(json!({ "queue": "ä".repeat(65) })),
        ),
        refuse(
            "queue `qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq…` has 100000 bytes; it must have 1 to 128",
            work(json!({ "queue": "q".repeat(100_000) })),
        ),
        refuse(
            r#"queue "ä\n\u001b\\" has the control character U+000A at byte 2; none are allowed"#,
            work(json!({ "queue": "ä\n\u{1b}\\" })),
        ),
        refuse("priority is 0; it must be 1 to 4", work(json!({ "priority": 0 }))),
        refuse("priority is -1; it must be 1 to 4", work(json!({ "priority": -1 }))),
        refuse("priority is 9; it must be 1 to 4", work(json!({ "priority": 9 }))),
        refuse("max_attempts is 0; it must be 1 to 1000", work(json!({ "max_attempts": 0 }))),
        refuse("max_attempts is 1001; it must be 1 to 1000", work(json!({ "max_attempts": 1001 }))),
        // RETRY-06
        refuse("max_attempts is -1; it must be 1 to 1000", work(json!({ "max_attempts": -1 }))),
        refuse("max_attempts is 32767; it must be 1 to 1000", work(json!({ "max_attempts": 32767 }))),
        refuse(
            "run_at is in the year 10000; it must be in the years 1 to 9999",
            work(json!({ "run_at": "+10000-01-01T00:00:00Z" })),
        )
        .only_json_in_text(),
        refuse(
            "run_in is 31622400001 seconds; it must be 0 seconds to 1000 years",
            work(json!({ "run_in": 31_622_400_001_u64 })),
        ),
        refuse("timeout is 0 seconds; it must be 1 microsecond to 10 years", work(json!({ "timeout": 0 }))),
        refuse(
            "timeout is 316224000.5 seconds; it must be 1 microsecond to 10 years",
            work(json!({ "timeout": 316_224_000.5 })),
        ),
    ]
}

fn refused_documents() -> Vec<Case> {
    vec![
        refuse("tags is 33 tags; it must be at most 32 tags", work(json!({ "tags": vec!["t"; 33] }))),
        refuse("tag is empty; it must have 1 to 128 bytes", work(json!({ "tags": ["a", ""] }))),
        refuse(
            "tag `tttttttttttttttttttttttttttttttt…` has 3000 bytes; it must have 1 to 128",
            work(json!({ "tags": ["t".repeat(3000)] })),
        ),
        refuse("metadata is an array; it must be an object", work(json!({ "metadata": [] }))),
        refuse("metadata is a string; it must be an object", work(json!({ "metadata": "x" }))),
        refuse(
            "metadata has 65537 bytes as JSON; at most 65536 are allowed",
            work(json!({ "metadata": { "a": "x".repeat(64 * 1024 - 7) } })),
        ),
        refuse("metadata nests deeper than 100 levels", work(json!({ "metadata": { "a": nested(100) } }))),
        refuse("args nests deeper than 100 levels", work(json!({ "args": nested(101) }))),
        refuse(
            "args has 1048577 bytes as JSON; at most 1048576 are allowed",
            work(json!({ "args": "x".repeat(1024 * 1024 - 1) })),
        ),
        refuse(
            "args has 1048577 bytes as JSON; at most 1048576 are allowed",
            work(json!({ "args": vec![0; 512 * 1024] })),
        ),
        refuse(
            "trace_context is 1025 bytes; it must be at most 1024 bytes",
            work(json!({ "trace_context": "x".repeat(1025) })),
        ),
        refuse(
            r#"trace_context is "x\ty"; it must be free of control characters"#,
            work(json!({ "trace_context": "x\ty" })),
        ),
        refuse("args nests deeper than 100 levels", json!({ "kind": "", "priority": 9, "args": nested(101) })),
        refuse(
            "run_in is 1 seconds; it must be absent where run_at is given",
            work(json!({ "run_in": 1, "run_at": "2020-01-01T00:00:00Z" })),
        )
        .only_json(),
        refuse(
            r#"on_conflict is "update"; it must be skip, replace or error"#,
            work(json!({ "on_conflict": "update" })),
        )
        .only_json(),
        refuse("run_in is -1 seconds; it must be 0 seconds to 1000 years", work(json!({ "run_in": -1 }))).only_json(),
        refuse("timeout is -0.5 seconds; it must be 1 microsecond to 10 years", work(json!({ "timeout": -0.5 })))
            .only_json(),
        refuse("kind is absent; it must have 1 to 128 bytes", json!({})).only_json(),
    ]
}

fn unique() -> Vec<Case> {
    let (one, other) = (json!({ "a": 1, "b": { "x": 1, "y": 2 } }), json!({ "b": { "y": 2.0, "x": 1e0 }, "a": 1 }));
    let all = |args: &Value| work(json!({ "args": args, "unique_by": {} }));
    let with = |args: &Value, options: Value| {
        let mut job = all(args);
        job.as_object_mut().expect("an object").append(&mut options.as_object().expect("options").clone());
        job
    };
    let hour = json!({ "preset": "within", "period": 3600 });
    let at = |time: &str| work(json!({ "unique_by": hour, "run_at": time }));
    vec![
        // UNIQ-01
        after("the order of keys and the form of numbers do not count", all(&one), all(&other), Ok("duplicate 0")),
        after("the order of arrays counts", all(&json!([1, 2])), all(&json!([2, 1])), Ok("inserted")),
        after("all args count", all(&json!({ "a": 1 })), all(&json!({ "a": 1, "b": null })), Ok("inserted")),
        after(
            "no args count where none shall",
            with(&one, json!({ "unique_by": { "args": false } })),
            with(&json!(7), json!({ "unique_by": { "args": false } })),
            Ok("duplicate 0"),
        ),
        after(
            "named fields alone count",
            with(&json!({ "a": 1, "n": 1 }), json!({ "unique_by": { "args": ["a"] } })),
            with(&json!({ "a": 1.0, "n": 2 }), json!({ "unique_by": { "args": ["a"] } })),
            Ok("duplicate 0"),
        ),
        after("queues do not count", all(&one), with(&one, json!({ "queue": "q" })), Ok("duplicate 0")),
        after(
            "queues count where they shall",
            with(&one, json!({ "unique_by": { "queue": true } })),
            with(&one, json!({ "queue": "q", "unique_by": { "queue": true } })),
            Ok("inserted"),
        ),
        after("one period", at("2020-01-01T10:00:00Z"), at("2020-01-01T10:59:59.999999Z"), Ok("duplicate 0")),
        after("the next period", at("2020-01-01T10:00:00Z"), at("2020-01-01T11:00:00Z"), Ok("inserted")),
        after("a job without a key is never a duplicate", all(&one), work(json!({ "args": one })), Ok("inserted")),
        after(
            "replace",
            all(&one),
            with(&other, json!({ "on_conflict": "replace", "run_at": "2999-12-31T23:59:59Z", "priority": 1 })),
            Ok("replaced 0"),
        ),
        after(
            "replace what waits",
            with(&one, json!({ "run_in": 60 })),
            with(&other, json!({ "on_conflict": "replace", "run_at": "2020-01-01T00:00:00Z" })),
            Ok("replaced 0"),
        ),
        after("error", all(&one), with(&other, json!({ "on_conflict": "error" })), Err("job 0 holds the unique key")),
        after("skip by name", all(&one), with(&other, json!({ "on_conflict": "skip" })), Ok("duplicate 0")),
        accept("a policy without a conflict", with(&one, json!({ "on_conflict": "error" }))),
        accept("while it waits", with(&one, json!({ "unique_by": { "preset": "while_waiting" } }))),
        accept(
            "states of one's own",
            with(&one, json!({ "unique_by": { "states": ["retryable", "available", "running"] } })),
        ),
        // UNIQ-08
        after(
            "a key of a megabyte",
            all(&json!("x".repeat(1024 * 1024 - 2))),
            all(&json!("x".repeat(1024 * 1024 - 2))),
            Ok("duplicate 0"),
        ),
    ]
}

fn refused_rules() -> Vec<Case> {
    let rule = |refusal, rule: Value| refuse(refusal, work(json!({ "args": { "path": 1 }, "unique_by": rule })));
    vec![
        rule(r#"unique_by.args is ["pth"]; it must be names of fields, of which the args have at least one"#, json!({ "args": ["pth"] })),
        rule("unique_by.args is 0 names; it must be 1 to 32 names", json!({ "args": [] })),
        rule("unique_by.args is 33 names; it must be 1 to 32 names", json!({ "args": vec!["path"; 33] })),
        rule("unique_by.args is empty; it must have 1 to 128 bytes", json!({ "args": ["path", ""] })),
        rule("unique_by.period is 0.01 seconds; it must be 1 second to 10 years", json!({ "period": 0.01 })),
        rule("unique_by.period is 316224001 seconds; it must be 1 second to 10 years", json!({ "preset": "within", "period": 316_224_001 })),
        rule("unique_by.states is empty; it must be at least one state", json!({ "states": [] })),
        // UNIQ-05
        rule(r#"unique_by.states is ["running", "failed"]; it must be with available where it has running"#, json!({ "states": ["failed", "running"] })),
        rule("unique_by.period is absent; it must be 1 second to 10 years", json!({ "preset": "within" })).only_json(),
        rule(r#"unique_by.preset is "never"; it must be until_finished, while_waiting or within"#, json!({ "preset": "never" })).only_json(),
        rule("unique_by.colour is not known; the keys are preset, args, queue, period and states", json!({ "colour": 1 })).only_json(),
        rule("unique_by.queue is 1; it must be true or false", json!({ "queue": 1 })).only_json(),
        rule("unique_by.args is [1]; it must be true, false or an array of names of fields", json!({ "args": [1] })).only_json(),
        rule(r#"unique_by.period is "soon"; it must be a number of seconds or an interval like "90 seconds""#, json!({ "period": "soon" })).only_json(),
        rule(r#"unique_by.states is ["done"]; it must be an array of scheduled, available, running, waiting_external, retryable, completed, failed and cancelled"#, json!({ "states": ["done"] })).only_json(),
        refuse("unique_by is 3; it must be an object", work(json!({ "unique_by": 3 }))).only_json(),
    ]
}

impl Case {
    fn only_json(self) -> Self {
        Self { only_json: true, ..self }
    }

    /// PostgreSQL reads years beyond 9999 without the sign that chrono wants.
    fn only_json_in_text(mut self) -> Self {
        self.job["run_at"] = json!("10000-01-01T00:00:00Z");
        self.only_json()
    }
}

/// Texts of JSON that hold no jobs, and the refusal.
pub(super) const NO_JOBS: &[(&str, &str)] = &[
    ("7", "jobs is a number; it must be an array"),
    ("{}", "jobs is an object; it must be an array"),
    ("null", "jobs is null; it must be an array"),
    ("[[]]", "jobs[0] is []; it must be an object"),
    (r#"[{"kind":"a"},null]"#, "jobs[1] is null; it must be an object"),
    (r#"[{"kind":"a"},{"kind":7}]"#, "jobs[1].kind is 7; it must be a text"),
    (r#"[{"kind":"a","priority":"x"}]"#, r#"jobs[0].priority is "x"; it must be an integer"#),
    (r#"[{"kind":"a","priority":2.5}]"#, "jobs[0].priority is 2.5; it must be 1 to 4"),
    (
        r#"[{"kind":"a","priority":1e400}]"#,
        "jobs[0].priority is 1000000000000000000000000000000000000000000000000000000000000000…; it must be 1 to 4",
    ),
    // RETRY-06
    (r#"[{"kind":"a","max_attempts":32768}]"#, "jobs[0].max_attempts is 32768; it must be 1 to 1000"),
    (r#"[{"kind":"a","max_attempts":-99999999999}]"#, "jobs[0].max_attempts is -99999999999; it must be 1 to 1000"),
    (r#"[{"kind":"a","tags":"x"}]"#, r#"jobs[0].tags is "x"; it must be an array of texts"#),
    (r#"[{"kind":"a","tags":[["x"]]}]"#, r#"jobs[0].tags is [["x"]]; it must be an array of texts"#),
    (r#"[{"kind":"a","tags":["x",1]}]"#, r#"jobs[0].tags is ["x", 1]; it must be an array of texts"#),
    (
        r#"[{"kind":"a","timeout":"soon"}]"#,
        r#"jobs[0].timeout is "soon"; it must be a number of seconds or an interval like "90 seconds""#,
    ),
    (
        r#"[{"kind":"a","run_at":"tomorrow"}]"#,
        r#"jobs[0].run_at is "tomorrow"; it must be a time with an offset like "2026-01-31T12:00:00Z""#,
    ),
    (
        r#"[{"kind":"a","run_at":"2026-13-31T12:00:00Z"}]"#,
        r#"jobs[0].run_at is "2026-13-31T12:00:00Z"; it must be a time with an offset like "2026-01-31T12:00:00Z""#,
    ),
    (
        r#"[{"kind":"a","colour":1}]"#,
        "jobs[0].colour is not known; the keys are kind, args, queue, priority, run_at, run_in, max_attempts, timeout, \
         tags, metadata, unique_by, on_conflict and trace_context",
    ),
    (
        r#"[{"kind":"a","id":1}]"#,
        "jobs[0].id is not known; the keys are kind, args, queue, priority, run_at, run_in, \
         max_attempts, timeout, tags, metadata, unique_by, on_conflict and trace_context",
    ),
];
