//! Where SQL and the names of states may be written: in one place each, where they are checked.

use super::tree::{File, Finding, Tree};

/// Crates that contain SQL because that is what they are for.
const HOME: [&str; 2] = ["awa-storage/", "migrations/"];

/// Others that may, each for a reason of its own.
const EXEMPT: [(&str, &str); 4] = [
    ("xtask/", "makes scratch databases, and compiles while query metadata is stale"),
    ("benches/", "seeds and measures by statements that no service needs"),
    ("awa-worker/examples/", "an example has tables of its own, as a service has"),
    ("awa-worker/tests/processes/", "judges a fleet from outside"),
];

/// What betrays a statement in Rust.
const MARKS: [&str; 10] = [
    "sqlx::query",
    "query_as(",
    "query_scalar(",
    "raw_sql(",
    "QueryBuilder",
    "\"select ",
    "\"insert into ",
    "\"update awa.",
    "\"delete from ",
    "\"truncate ",
];

/// SQL is in awa-storage and migrations/ alone; tests may look at tables, as they judge what they find.
pub(super) fn statements_live_in_storage(tree: &Tree) -> Vec<Finding> {
    let elsewhere = tree.rust().filter(|file| !file.is_test() && !starts_with_any(file, HOME));
    elsewhere
        .filter(|file| !starts_with_any(file, EXEMPT.map(|(path, _)| path)))
        .flat_map(|file| {
            let marked = file.shipped_lines().filter(|(_, line)| MARKS.iter().any(|mark| contains(line, mark)));
            marked.map(|(line, _)| file.finding(line, "SQL outside awa-storage and migrations/")).collect::<Vec<_>>()
        })
        .collect()
}

/// Whatever the case of keywords, since a statement in capitals is one as well.
fn contains(line: &str, mark: &str) -> bool {
    line.contains(mark) || (mark.starts_with('"') && line.to_lowercase().contains(mark))
}

/// The states, as the database spells them.
const STATES: [&str; 8] =
    ["scheduled", "available", "running", "waiting_external", "retryable", "completed", "failed", "cancelled"];

/// Where the enum and its spelling are, and the macro that reads the spelling in attributes before there is an enum.
const STATE_HOMES: [&str; 2] = ["awa-model/src/", "awa-macros/src/"];

/// Code names states by `JobState`; their spelling is in awa-model and in SQL.
pub(super) fn states_are_named_once(tree: &Tree) -> Vec<Finding> {
    let code = tree.rust().filter(|file| !file.is_test() && !starts_with_any(file, STATE_HOMES));
    code.filter(|file| !starts_with_any(file, EXEMPT.map(|(path, _)| path)))
        .flat_map(|file| {
            let spelled = file.shipped_lines().filter(|(_, line)| STATES.iter().any(|state| spells(line, state)));
            spelled
                .map(|(line, _)| file.finding(line, "a state as text: use JobState, or move it to SQL"))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn spells(line: &str, state: &str) -> bool {
    line.contains(&format!("\"{state}\"")) || line.contains(&format!("'{state}'"))
}

fn starts_with_any<const N: usize>(file: &File, paths: [&str; N]) -> bool {
    paths.iter().any(|path| file.path.starts_with(path))
}
