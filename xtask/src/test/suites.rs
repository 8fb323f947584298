//! The suites that depend on what is at the other end, run from what a run of all tests has built: another server, or a
//! pooler before it, is tried without compiling anything again. (Cargo builds a package anew when it is asked for by itself,
//! with other features.)

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command::{Result, cargo, output, run};
use crate::pooler::Pooler;
use crate::postgres::Target;

/// Packages whose tests are about statements: another version of the server may answer them in another way.
const STATEMENTS: &[&str] = &["awa-migrations", "awa-storage", "awa-maintenance"];

/// Packages whose tests in `tests/it` are about sessions: a pooler may lend each transaction another one.
const SESSIONS: &[&str] = &["awa-storage", "awa-worker"];

/// A program of tests, its name for cargo, and the directory of its package and the id of it.
#[derive(Debug, PartialEq, Eq)]
struct Suite {
    program: PathBuf,
    name: String,
    directory: PathBuf,
    package: String,
}

impl Suite {
    /// Whether its package is one of these. Ids are `path+file:///…/migrations#awa-migrations@0.1.0`, or
    /// `…/awa-storage#0.1.0` where the directory is named like the package.
    fn is_of(&self, packages: &[&str]) -> bool {
        let id = self.package.replace('#', "/");
        packages.iter().any(|name| id.contains(&format!("/{name}@")) || id.contains(&format!("/{name}/")))
    }
}

/// Runs what depends on the version of this server.
pub(super) fn on_server(server: &Target, arguments: &[&str]) -> Result {
    run_suites(server, &[], arguments, |suite| suite.is_of(STATEMENTS))
}

/// Runs what depends on sessions, through this pooler before the server.
pub(super) fn through_pooler(server: &Target, pooler: &Pooler, arguments: &[&str]) -> Result {
    let url = pooler.url();
    run_suites(server, &[("AWA_TEST_POOLER_URL", &url)], arguments, |suite| suite.is_of(SESSIONS) && suite.name == "it")
}

/// Runs each suite that is `wanted`; the error says how many failed.
fn run_suites(
    server: &Target,
    environment: &[(&str, &str)],
    arguments: &[&str],
    wanted: impl Fn(&Suite) -> bool,
) -> Result {
    let mut build = cargo(["test", "--workspace", "--no-run", "--quiet", "--message-format=json-render-diagnostics"]);
    let suites: Vec<Suite> = suites(&output(&mut build)?).into_iter().filter(wanted).collect();
    if suites.is_empty() {
        return Err("cargo has built no such suite: is its answer in another form?".into());
    }
    let mut failed = 0;
    for suite in &suites {
        println!("\n--- {}", suite.program.display());
        let mut command = Command::new(&suite.program);
        command.args(arguments).current_dir(&suite.directory).env("PATH", server.path()?);
        command.env("AWA_TEST_DATABASE_URL", server.url()).envs(environment.iter().copied());
        if let Err(error) = run(&mut command) {
            eprintln!("{error}");
            failed += 1;
        }
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} of {} suites failed", suites.len()).into()) }
}

/// The suites among the messages of cargo, one a line.
fn suites(messages: &str) -> Vec<Suite> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.filter_map(|message| suite(&message)).collect()
}

fn suite(message: &Value) -> Option<Suite> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let suite = Suite {
        program: message["executable"].as_str()?.into(),
        name: text(&message["target"]["name"])?,
        directory: manifest.parent().unwrap_or(Path::new(".")).to_path_buf(),
        package: text(&message["package_id"])?,
    };
    message["profile"]["test"].as_bool()?.then_some(suite)
}

#[cfg(test)]
mod tests {
    //! Messages as cargo prints them.

    use super::{SESSIONS, STATEMENTS, suites};

    fn message(id: &str, name: &str, executable: &str, test: bool) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"{id}","manifest_path":"/a/b/Cargo.toml",
               "target":{{"name":"{name}"}},"profile":{{"test":{test}}},"executable":{executable}}}"#
        )
        .replace('\n', "")
    }

    fn check(packages: &[&str], expected: &[&str]) {
        let messages = [
            message("path+file:///a/awa-storage#0.1.0", "it", r#""/t/it-1""#, true),
            message("path+file:///a/migrations#awa-migrations@0.1.0", "it", r#""/t/it-2""#, true),
            message("path+file:///a/awa-storage#0.1.0", "awa_storage", "null", false),
            message("path+file:///a/awa-worker#0.1.0", "it", r#""/t/it-3""#, true),
            message("path+file:///awa-storage/b#awa-cli@0.1.0", "awa", r#""/t/awa""#, false),
            "not a message".to_owned(),
        ];
        let found = suites(&messages.join("\n")).into_iter().filter(|suite| suite.is_of(packages));
        assert_eq!(found.map(|suite| suite.program.display().to_string()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn suites_of_statements_are_picked_from_all_that_cargo_builds() {
        check(STATEMENTS, &["/t/it-1", "/t/it-2"]);
    }

    #[test]
    fn suites_of_sessions_are_picked_from_all_that_cargo_builds() {
        check(SESSIONS, &["/t/it-1", "/t/it-3"]);
    }
}
