//! The suites that depend on the server's version, run from what a run of all tests has built: another server is tried
//! without compiling anything again. (Cargo builds a package anew when it is asked for by itself, with other features.)

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command::{Result, cargo, output, run};
use crate::postgres::Target;

/// Packages whose tests are about statements.
const PACKAGES: [&str; 3] = ["awa-migrations", "awa-storage", "awa-maintenance"];

/// A program of tests, and the directory of its package.
#[derive(Debug, PartialEq, Eq)]
struct Suite {
    program: PathBuf,
    directory: PathBuf,
}

/// Runs every suite on this server; the error says how many failed.
pub(super) fn run_suites(server: &Target, arguments: &[&str]) -> Result {
    let mut build = cargo(["test", "--workspace", "--no-run", "--quiet", "--message-format=json-render-diagnostics"]);
    let suites = suites(&output(&mut build)?);
    if suites.is_empty() {
        return Err("cargo has built no suite of the storage: is its answer in another form?".into());
    }
    let mut failed = 0;
    for suite in &suites {
        println!("\n--- {}", suite.program.display());
        let mut command = Command::new(&suite.program);
        command.args(arguments).current_dir(&suite.directory).env("PATH", server.path()?);
        command.env("AWA_TEST_DATABASE_URL", server.url());
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
    let program = message["executable"].as_str()?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    // `path+file:///…/migrations#awa-migrations@0.1.0`, or `…/awa-storage#0.1.0` where the directory is named like it.
    let id = message["package_id"].as_str()?.replace('#', "/");
    let ours = PACKAGES.iter().any(|name| id.contains(&format!("/{name}@")) || id.contains(&format!("/{name}/")));
    let is_test = message["profile"]["test"].as_bool()?;
    (ours && is_test).then(|| Suite {
        program: program.into(),
        directory: manifest.parent().unwrap_or(Path::new(".")).to_path_buf(),
    })
}

#[cfg(test)]
mod tests {
    //! Messages as cargo prints them.

    use super::{Suite, suites};

    fn message(id: &str, executable: &str, test: bool) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"{id}","manifest_path":"/a/b/Cargo.toml",
               "profile":{{"test":{test}}},"executable":{executable}}}"#
        )
        .replace('\n', "")
    }

    #[test]
    fn suites_of_the_storage_are_picked_from_all_that_cargo_builds() {
        let messages = [
            message("path+file:///a/awa-storage#0.1.0", r#""/t/it-1""#, true),
            message("path+file:///a/migrations#awa-migrations@0.1.0", r#""/t/it-2""#, true),
            message("path+file:///a/awa-storage#0.1.0", "null", false),
            message("path+file:///a/awa-worker#0.1.0", r#""/t/it-3""#, true),
            message("path+file:///awa-storage/b#awa-cli@0.1.0", r#""/t/awa""#, false),
            "not a message".to_owned(),
        ];
        let suite = |program: &str| Suite { program: program.into(), directory: "/a/b".into() };
        assert_eq!(suites(&messages.join("\n")), [suite("/t/it-1"), suite("/t/it-2")]);
    }
}
