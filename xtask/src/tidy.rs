//! `cargo xtask tidy`: the rules of this repository that machines can keep, each in one function under `tidy/`.
//!
//! A rule looks at the texts of all files and answers with findings; it reads nothing itself, so its tests are small
//! trees that break it.

mod arrows;
mod changelog;
mod limits;
mod migrations;
mod queries;
mod sql;
mod testing;
mod tree;

#[cfg(test)]
mod tests;

use std::fs;

use crate::command::{Result, workspace};
use tree::{Finding, Tree};

/// Arguments of `tidy`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Note the checksums of migrations that are to be released: from then on they may not change.
    #[arg(long)]
    lock: bool,
}

/// Every rule, in the order in which findings are told.
const RULES: [fn(&Tree) -> Vec<Finding>; 13] = [
    limits::files_are_short,
    limits::functions_are_short,
    limits::modules_say_why,
    sql::statements_live_in_storage,
    sql::states_are_named_once,
    queries::each_is_included_once,
    queries::each_opens_with_a_comment,
    migrations::numbers_have_no_hole,
    migrations::files_stay_in_the_transaction,
    migrations::locked_ones_are_unchanged,
    arrows::crates_point_one_way,
    changelog::lines_are_short,
    testing::tests_neither_sleep_nor_hide,
];

/// Checks all rules and tells every finding at once.
pub(crate) fn tidy(options: &Options) -> Result {
    let tree = Tree::read(&workspace())?;
    if options.lock {
        fs::write(workspace().join(migrations::LOCK), migrations::lock(&tree))?;
    }
    let findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    if findings.is_empty() {
        println!("{} files are tidy", tree.len());
        return Ok(());
    }
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    Err(format!("{} findings\n{}", lines.len(), lines.join("\n")).into())
}
