//! Numbered migrations: no number missing or used twice, a header that answers three questions, and no change after a
//! release.

use awa_migrations::Migration;

use super::tree::{File, Finding, Tree};

/// Checksums of the migrations that were released, one a line: `0001_name checksum`.
pub(super) const LOCK: &str = "migrations/released.lock";

/// Each header says these.
const QUESTIONS: [&str; 3] = ["-- Why:", "-- Previous binary:", "-- Locks:"];

fn numbered(tree: &Tree) -> Vec<&File> {
    tree.in_directory("migrations", ".sql")
}

/// The file's name without directory and ending.
fn title(file: &File) -> &str {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    name.strip_suffix(".sql").unwrap_or(name)
}

/// Migrations are 0001, 0002, 0003 …, each with the header that migrations/README.md asks for.
pub(super) fn numbers_have_no_hole(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, file) in (1..).zip(numbered(tree)) {
        if !title(file).starts_with(&format!("{number:04}_")) {
            findings.push(file.finding(1, format!("migration {number:04} is expected here")));
        }
        for question in QUESTIONS.iter().filter(|question| !file.text.contains(**question)) {
            findings.push(file.finding(1, format!("the header lacks `{question}`")));
        }
    }
    findings
}

/// Statements that would end the transaction of the runner, or start one in it.
const TRANSACTION_CONTROL: [&str; 6] = ["begin;", "commit;", "end;", "rollback", "start transaction", "savepoint"];

/// The runner owns the one transaction: a file that left it would leave half a schema behind when a later one fails.
pub(super) fn files_stay_in_the_transaction(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in numbered(tree).into_iter().chain(tree.in_directory("migrations/functions", ".sql")) {
        for (number, line) in (1..).zip(file.text.lines()) {
            // Unindented only: `end;` closes blocks of PL/pgSQL too.
            if TRANSACTION_CONTROL.iter().any(|statement| line.to_lowercase().starts_with(statement)) {
                findings.push(file.finding(number, "leaves the transaction of the runner"));
            }
        }
    }
    findings
}

/// What was released is there, unchanged.
pub(super) fn locked_ones_are_unchanged(tree: &Tree) -> Vec<Finding> {
    let Some(lock) = tree.find(LOCK) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(lock.text.lines()).filter(|(_, line)| !line.starts_with('#')) {
        let found = numbered(tree).into_iter().find(|file| line.split(' ').next() == Some(title(file)));
        match found {
            None => {
                let message = format!("{line}: the migration is gone, databases still have it");
                findings.push(lock.finding(number, message));
            }
            Some(file) if lock_line(file) != line => {
                findings.push(file.finding(1, "was released and may not change: write a new migration"));
            }
            Some(_) => {}
        }
    }
    findings
}

/// The text of the lock file with every migration that there is; lines that it has stay as they are.
pub(super) fn lock(tree: &Tree) -> String {
    let known = tree.find(LOCK).map_or("", |file| file.text.as_str());
    let mut text = match known {
        "" => "# Migrations that were released; they never change again. `cargo xtask tidy --lock` adds new ones.\n"
            .to_owned(),
        known => known.to_owned(),
    };
    for file in numbered(tree) {
        if !known.lines().any(|line| line.split(' ').next() == Some(title(file))) {
            text.push_str(&lock_line(file));
            text.push('\n');
        }
    }
    text
}

fn lock_line(file: &File) -> String {
    // The checksum that databases keep is the one to compare.
    let migration = Migration { version: 0, name: "", sql: Box::leak(file.text.clone().into_boxed_str()) };
    format!("{} {}", title(file), migration.checksum())
}
