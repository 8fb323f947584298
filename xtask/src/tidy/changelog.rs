//! The changelog is read in terminals and in mails.

use super::tree::{Finding, Tree};

const COLUMNS_MAX: usize = 120;

/// Lines of the changelog have at most 120 columns: one sentence an entry.
pub(super) fn lines_are_short(tree: &Tree) -> Vec<Finding> {
    let Some(file) = tree.find("CHANGELOG.md") else {
        return Vec::new();
    };
    let lines = (1..).zip(file.text.lines());
    lines
        .filter(|(_, line)| line.chars().count() > COLUMNS_MAX)
        .map(|(number, line)| file.finding(number, format!("{} columns, at most {COLUMNS_MAX}", line.chars().count())))
        .collect()
}
