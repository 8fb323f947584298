//! Each rule, broken once, and the nearest thing that it allows.

use super::tree::{Finding, Tree};
use super::{arrows, changelog, limits, migrations, queries, sql, testing};

type Rule = fn(&Tree) -> Vec<Finding>;

/// Applies `rule` to one file and expects a finding on each of `lines`.
fn check(rule: Rule, path: &str, text: &str, lines: &[usize]) {
    check_tree(rule, &[(path, text)], lines);
}

fn check_tree(rule: Rule, files: &[(&str, &str)], lines: &[usize]) {
    let findings = rule(&Tree::of(files));
    let found: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
    assert_eq!(found, lines, "{findings:?}");
}

#[test]
fn long_file_is_found() {
    check(limits::files_are_short, "awa-model/src/job.rs", &"x\n".repeat(500), &[]);
    check(limits::files_are_short, "awa-model/src/job.rs", &"x\n".repeat(501), &[501]);
    check(limits::files_are_short, "migrations/0001_a.sql", &"x\n".repeat(151), &[151]);
    check(limits::files_are_short, "docs/schema.sql", &"x\n".repeat(900), &[]);
}

#[test]
fn long_function_is_found() {
    let function = |lines: usize| {
        format!(
            "impl A {{\n    pub(crate) async fn long(\n        &self,\n    ) {{\n{}    }}\n}}\n",
            "        x;\n".repeat(lines)
        )
    };
    check(limits::functions_are_short, "a/src/a.rs", &function(66), &[]);
    check(limits::functions_are_short, "a/src/a.rs", &function(67), &[2]);
}

#[test]
fn declarations_and_prose_are_no_functions() {
    let text = format!("trait A {{\n    fn short(&self);\n{}    }}\n}}\n// fn in prose\n", "    x\n".repeat(80));
    check(limits::functions_are_short, "a/src/a.rs", &text, &[]);
}

#[test]
fn module_that_does_not_say_why_is_found() {
    check(limits::modules_say_why, "a/src/a.rs", "//! Why.\n", &[]);
    check(limits::modules_say_why, "a/src/lib.rs", "#![forbid(unsafe_code)]\n//! Why.\n", &[]);
    check(limits::modules_say_why, "a/src/a.rs", "use x;\n//! Late.\n", &[1]);
    check(limits::modules_say_why, "awa-macros/tests/ui/fail/no_kind.rs", "fn main() {}\n", &[]);
}

#[test]
fn statement_outside_storage_is_found() {
    let text = "//! Why.\n// sqlx::query in a comment\nlet q = \"SELECT id from awa.jobs\";\nsqlx::query(q);\n";
    check(sql::statements_live_in_storage, "awa-worker/src/a.rs", text, &[3, 4]);
    check(sql::statements_live_in_storage, "awa-storage/src/a.rs", text, &[]);
    check(sql::statements_live_in_storage, "awa-worker/tests/it/a.rs", text, &[]);
    check(sql::statements_live_in_storage, "benches/src/seed.rs", text, &[]);
}

#[test]
fn statement_in_a_test_module_is_allowed() {
    let text = "//! Why.\n#[cfg(test)]\nmod tests { sqlx::query }\n";
    check(sql::statements_live_in_storage, "awa-worker/src/a.rs", text, &[]);
}

#[test]
fn state_as_text_is_found() {
    let text = "//! Why.\nif state == \"running\" {}\nlet running = \"still running\";\n";
    check(sql::states_are_named_once, "awa-worker/src/a.rs", text, &[2]);
    check(sql::states_are_named_once, "awa-model/src/state.rs", text, &[]);
}

#[test]
fn query_is_included_exactly_once() {
    let query = ("awa-storage/queries/claim/look.sql", "-- Look.\nselect 1;\n");
    let user = "//! Why.\nsqlx::query_file!(\n    \"queries/claim/look.sql\",\n)\n";
    let rule = queries::each_is_included_once;
    check_tree(rule, &[query, ("awa-storage/src/claim.rs", user)], &[]);
    check_tree(rule, &[query], &[1]);
    check_tree(rule, &[query, ("awa-storage/src/claim.rs", user), ("awa-storage/src/other.rs", user)], &[1]);
}

#[test]
fn query_that_does_not_exist_is_found() {
    let user = "//! Why.\nsqlx::query_file!(\"queries/claim/gone.sql\")\n";
    check(queries::each_is_included_once, "awa-storage/src/claim.rs", user, &[2]);
}

#[test]
fn query_without_a_comment_is_found() {
    let rule = queries::each_opens_with_a_comment;
    check(rule, "awa-storage/queries/claim/look.sql", "select 1;\n", &[1]);
    check(rule, "migrations/functions/look.sql", "select 1;\n", &[1]);
    check(rule, "migrations/functions/look.sql", "-- Looks.\nselect 1;\n", &[]);
}

const HEADER: &str = "-- Why: a.\n-- Previous binary: b.\n-- Locks: c.\n";

#[test]
fn hole_in_the_numbers_is_found() {
    let rule = migrations::numbers_have_no_hole;
    check_tree(rule, &[("migrations/0002_b.sql", HEADER), ("migrations/0001_a.sql", HEADER)], &[]);
    check_tree(rule, &[("migrations/0001_a.sql", HEADER), ("migrations/0003_c.sql", HEADER)], &[1]);
    check_tree(rule, &[("migrations/0001_a.sql", HEADER), ("migrations/0001_b.sql", HEADER)], &[1]);
}

#[test]
fn header_that_leaves_a_question_open_is_found() {
    check(migrations::numbers_have_no_hole, "migrations/0001_a.sql", "-- Why: a.\n-- Locks: c.\n", &[1]);
}

#[test]
fn migration_that_leaves_its_transaction_is_found() {
    let rule = migrations::files_stay_in_the_transaction;
    check(rule, "migrations/0001_a.sql", "create table a ();\nCOMMIT;\n", &[2]);
    check(rule, "migrations/functions/a.sql", "do $$\nbegin\n    perform 1;\nend\n$$;\n", &[]);
}

#[test]
fn released_migration_may_not_change_or_go() {
    let rule = migrations::locked_ones_are_unchanged;
    let released = Tree::of(&[("migrations/0001_a.sql", "select 1;\n")]);
    let lock = migrations::lock(&released);
    let lock = (migrations::LOCK, lock.as_str());
    let added = ("migrations/0002_b.sql", "select 2;\n");
    check_tree(rule, &[lock, ("migrations/0001_a.sql", "select 1;\n"), added], &[]);
    check_tree(rule, &[lock, ("migrations/0001_a.sql", "select 2;\n"), added], &[1]);
    check_tree(rule, &[lock, added], &[2]);
}

#[test]
fn locking_again_keeps_what_was_locked() {
    let first = migrations::lock(&Tree::of(&[("migrations/0001_a.sql", "select 1;\n")]));
    let changed = [("migrations/0001_a.sql", "changed"), ("migrations/0002_b.sql", "new"), (migrations::LOCK, &first)];
    let second = migrations::lock(&Tree::of(&changed));
    assert!(second.starts_with(&first) && second.lines().count() == 3, "{second}");
}

#[test]
fn arrow_the_wrong_way_is_found() {
    let rule = arrows::crates_point_one_way;
    let manifest = "[package]\nname = \"x\"\n[dependencies]\nawa-worker.workspace = true\nserde = \"1\"\n";
    check(rule, "awa-storage/Cargo.toml", manifest, &[4]);
    check(rule, "benches/Cargo.toml", manifest, &[]);
    check(rule, "xtask/Cargo.toml", "[dependencies.awa-storage]\npath = \"..\"\n", &[1]);
    check(rule, "awa-model/Cargo.toml", "[target.'cfg(unix)'.dependencies]\nawa-storage = \"1\"\n", &[2]);
    check(rule, "awa-model/Cargo.toml", "[dev-dependencies]\nawa-storage = \"1\"\n", &[]);
}

#[test]
fn crate_without_arrows_is_found() {
    check(arrows::crates_point_one_way, "awa-new/Cargo.toml", "[package]\n", &[1]);
}

#[test]
fn long_line_of_the_changelog_is_found() {
    let text = format!("{}\n{}\n", "ä".repeat(120), "b".repeat(121));
    check(changelog::lines_are_short, "CHANGELOG.md", &text, &[2]);
}

#[test]
fn test_that_sleeps_or_is_ignored_is_found() {
    let text = concat!("//! Why.\n    #[ig", "nore = \"slow\"]\ntokio::time::sle", "ep(SECOND).await;\n");
    check(testing::tests_neither_sleep_nor_hide, "awa-worker/tests/it/a.rs", text, &[2, 3]);
    check(testing::tests_neither_sleep_nor_hide, "awa-worker/src/a.rs", text, &[2]);
}
