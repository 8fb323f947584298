//! Tests wait for events and all of them run.

use super::tree::{Finding, Tree};

// Written in two parts, so that this file does not find itself.
const IGNORE: &str = concat!("#[ig", "nore");
const SLEEP: &str = concat!("sle", "ep(");

/// No test is ignored, and none sleeps: what takes long goes into a module named `long`.
pub(super) fn tests_neither_sleep_nor_hide(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        for (number, line) in (1..).zip(file.text.lines()) {
            if line.trim_start().starts_with(IGNORE) {
                findings.push(file.finding(number, "an ignored test: make it pass, or put it into a module `long`"));
            }
            // A statement may: that of a server's clock is what some tests are about.
            let line = line.replace("pg_sleep(", "");
            if file.is_test() && line.contains(SLEEP) && !line.trim_start().starts_with("//") {
                findings.push(file.finding(number, "a test that sleeps: wait for what it waits for"));
            }
        }
    }
    findings
}
