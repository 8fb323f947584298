//! Sizes: what one file and one function may hold, and the sentence that every module opens with.

use super::tree::{File, Finding, Tree};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const MIGRATION_LINES_MAX: usize = 150;

/// Files that are written by machines.
const GENERATED: [&str; 2] = ["docs/schema.sql", "docs/state-machine.md"];

/// Rust and SQL files are at most 500 lines long, numbered migrations at most 150.
pub(super) fn files_are_short(tree: &Tree) -> Vec<Finding> {
    let measured = tree.files().filter(|file| file.path.ends_with(".rs") || file.path.ends_with(".sql"));
    measured
        .filter(|file| !GENERATED.contains(&file.path.as_str()))
        .filter_map(|file| {
            let (lines, limit) = (file.text.lines().count(), line_limit(file));
            (lines > limit)
                .then(|| file.finding(limit + 1, format!("{lines} lines, at most {limit}: find the second duty")))
        })
        .collect()
}

fn line_limit(file: &File) -> usize {
    let numbered =
        file.path.strip_prefix("migrations/").is_some_and(|name| name.starts_with(|c: char| c.is_ascii_digit()));
    if numbered { MIGRATION_LINES_MAX } else { FILE_LINES_MAX }
}

/// Functions are at most 70 lines long, signature and braces included.
///
/// It reads the layout that rustfmt gives: a function ends at the brace that is indented as its first line is.
pub(super) fn functions_are_short(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(long_functions).collect()
}

fn long_functions(file: &File) -> Vec<Finding> {
    let lines: Vec<&str> = file.text.lines().collect();
    let starts = lines.iter().enumerate().filter(|(_, line)| starts_function(line));
    starts
        .filter_map(|(start, line)| {
            let indent = &line[..line.len() - line.trim_start().len()];
            let closing = format!("{indent}}}");
            let length = 1 + lines[start..].iter().position(|line| *line == closing)?;
            // A declaration without a body has no brace of its own.
            let has_body = lines[start..start + length].iter().find(|line| line.ends_with(['{', ';']))?.ends_with('{');
            (has_body && length > FUNCTION_LINES_MAX)
                .then(|| file.finding(start + 1, format!("{length} lines of function, at most {FUNCTION_LINES_MAX}")))
        })
        .collect()
}

fn starts_function(line: &str) -> bool {
    let mut words = line.split_whitespace().peekable();
    let before = |word: &&str| word.starts_with("pub") || ["const", "async", "extern", "default", "in"].contains(word);
    while words.next_if(before).is_some() {}
    words.next() == Some("fn")
}

/// Every Rust file opens by saying why it exists; attributes of the crate may stand before it.
pub(super) fn modules_say_why(tree: &Tree) -> Vec<Finding> {
    let says_why = |file: &&File| {
        let opening = file.text.lines().find(|line| !line.starts_with("#!["));
        opening.is_some_and(|line| line.starts_with("//! "))
    };
    let silent = tree.rust().filter(|file| !says_why(file));
    silent.map(|file| file.finding(1, "opens without `//!` saying why the module exists")).collect()
}
