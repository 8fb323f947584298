//! What a newcomer reads first is true: the README shows the quick start as it is, and it runs.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::Rig;

const README: &str = include_str!("../../../README.md");
const QUICK_START: &str = include_str!("../../examples/quickstart.rs");

#[test]
fn readme_shows_the_quick_start_as_it_is() {
    let shown = README.split("```rust,no_run\n").nth(1).and_then(|rest| rest.split("```").next());
    let code = shown.expect("the README shows code");
    assert!(QUICK_START.ends_with(code), "README.md and examples/quickstart.rs differ");
    assert!(code.lines().count() <= 40, "a quick start is short");
}

#[tokio::test]
async fn quick_start_runs_its_job_and_ends_when_told_to() {
    let rig = Rig::new().await;
    let mut quick_start = Command::new(example("quickstart"))
        .env("DATABASE_URL", rig.database.url())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example starts");
    let output = BufReader::new(quick_start.stdout.take().unwrap());
    let said = output.lines().map_while(Result::ok).find(|line| line.contains("6 words"));
    let told = Command::new("kill").args(["-INT", &quick_start.id().to_string()]).status().unwrap();
    assert!(said.is_some() && told.success());
    assert!(quick_start.wait().unwrap().success(), "it drains and ends");
    assert_eq!(rig.state(1, "completed").await.result, Some(6.into()));
}

/// Cargo puts examples beside the directory of the test program, and builds them along unless `--test` narrows it down.
pub(crate) fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("this program has a path");
    let program = tests.ancestors().nth(2).expect("it is in target/<profile>/deps").join("examples").join(name);
    if !program.exists() {
        let build = ["build", "--quiet", "--workspace", "--example", name];
        assert!(Command::new(env!("CARGO")).args(build).status().unwrap().success(), "the example builds");
    }
    program
}

/// I1 to I16 and no gap, each with tests that are there.
#[test]
fn every_test_that_the_invariants_name_exists() {
    let page = include_str!("../../../docs/invariants.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| I")).collect();
    let code = sources(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".."));
    for (number, row) in (1..).zip(&rows) {
        assert!(row.starts_with(&format!("| I{number} |")), "I{number} is missing");
        let tests: Vec<&str> = row.split('`').filter(|word| word.contains("::")).collect();
        assert!(!tests.is_empty(), "no test tries to break I{number}");
        for (module, name) in tests.iter().filter_map(|test| test.split_once("::")) {
            let there = |(path, text): &(PathBuf, String)| {
                path.components().any(|part| part.as_os_str().to_string_lossy().trim_end_matches(".rs") == module)
                    && text.contains(&format!("fn {name}("))
            };
            assert!(code.iter().any(there), "{module}::{name} of I{number} does not exist");
        }
    }
    assert_eq!(rows.len(), 16);
}

/// All Rust files of the workspace's crates.
fn sources(workspace: &Path) -> Vec<(PathBuf, String)> {
    let mut pending: Vec<PathBuf> = ["awa-model", "awa-storage", "awa-maintenance", "awa-worker", "migrations"]
        .iter()
        .flat_map(|name| [workspace.join(name).join("src"), workspace.join(name).join("tests")])
        .collect();
    let mut files = Vec::new();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            files.push((path, text));
        }
    }
    files
}
