//! Statements in files of their own: each one used, each one explained.

use super::tree::{File, Finding, Tree};

const DIRECTORY: &str = "awa-storage/queries/";

fn queries(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files().filter(|file| file.path.starts_with(DIRECTORY) && file.path.ends_with(".sql"))
}

/// Each file of queries/ is included by exactly one line of awa-storage, and none is included that does not exist.
pub(super) fn each_is_included_once(tree: &Tree) -> Vec<Finding> {
    let included: Vec<(&File, usize, &str)> = tree
        .rust()
        .filter(|file| file.path.starts_with("awa-storage/src/"))
        .flat_map(|file| {
            (1..).zip(file.text.lines()).filter_map(move |(number, line)| Some((file, number, included(line)?)))
        })
        .collect();
    let mut findings = Vec::new();
    for query in queries(tree) {
        let name = &query.path["awa-storage/".len()..];
        match included.iter().filter(|(_, _, path)| *path == name).count() {
            1 => {}
            0 => findings.push(query.finding(1, "no statement of awa-storage includes this file")),
            count => findings.push(query.finding(1, format!("included {count} times: one function a statement"))),
        }
    }
    for (file, line, path) in included {
        if tree.find(&format!("awa-storage/{path}")).is_none() {
            findings.push(file.finding(line, format!("{path} does not exist")));
        }
    }
    findings
}

/// The path in a line such as `"queries/claim/claim.sql",`.
fn included(line: &str) -> Option<&str> {
    if line.trim_start().starts_with("//") {
        return None;
    }
    let start = line.find("\"queries/")? + 1;
    let length = line[start..].find('"')?;
    Some(&line[start..start + length])
}

/// Each query and each function opens with a comment: purpose, parameters, index, lock order.
pub(super) fn each_opens_with_a_comment(tree: &Tree) -> Vec<Finding> {
    let functions = tree.in_directory("migrations/functions", ".sql");
    let silent = queries(tree).chain(functions).filter(|file| !file.text.starts_with("-- "));
    silent.map(|file| file.finding(1, "opens without a comment: purpose, parameters, index, locks")).collect()
}
