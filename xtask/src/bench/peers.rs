//! Builds and installs the peers of `cargo xtask bench peers`, and lists them for the bench program.
//!
//! A peer that cannot be had on this machine (no node, no python, a crate that does not build) is listed with the reason:
//! it is missing from the table and fails nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::command::{Result, cargo, output, target_directory, workspace};

/// Peers in Rust, by the names of their packages without `peer-`.
const RUST: [&str; 8] =
    ["awa", "awa-published", "riverqueue", "graphile-worker-rs", "apalis", "underway", "sqlxmq", "pgmq"];
/// Peers for Node.js, by the names of their files.
const NODE: [&str; 2] = ["graphile-worker", "pg-boss"];
/// The oldest Node.js that both of them run on.
const NODE_VERSION_MIN: (u32, u32) = (22, 18);
/// Peers in Python, and their files.
const PYTHON: [(&str, &str); 1] = [("procrastinate", "procrastinate_peer.py")];

/// The file that lists all peers, after everything was built that can be.
pub(super) fn prepare(profile: &str) -> Result<PathBuf> {
    let home = target_directory().join("peers");
    fs::create_dir_all(&home)?;
    let mut list = rust(&home, profile)?;
    list.extend(installed(&NODE.map(|name| (name, format!("{name}.mjs"))), node(&home)));
    list.extend(installed(&PYTHON.map(|(name, file)| (name, file.to_owned())), python(&home)));
    let path = home.join("programs.json");
    fs::write(&path, serde_json::to_string_pretty(&list)?)?;
    Ok(path)
}

/// The workspace of the peers.
fn directory() -> PathBuf {
    workspace().join("benches/peers")
}

fn missing(name: &str, reason: &str) -> Value {
    // One line, as it goes into a list: what failed, and what it said first.
    let reason: Vec<&str> = reason.lines().map(str::trim).filter(|line| !line.is_empty()).take(2).collect();
    json!({ "name": name, "missing": reason.join(" ") })
}

/// Builds every Rust peer that builds. All at once, since each alone would build its dependencies with other features.
fn rust(home: &Path, profile: &str) -> Result<Vec<Value>> {
    let mut build = cargo(["build", "--workspace", "--bins", "--keep-going", "--profile", profile]);
    build.arg("--message-format=json-render-diagnostics").arg("--target-dir").arg(home.join("rust"));
    // Its own toolchain settings, if it ever has any, and never query metadata of a database that happens to be there.
    build.current_dir(directory()).env("SQLX_OFFLINE", "true").stdin(Stdio::null()).stderr(Stdio::inherit());
    let built = String::from_utf8_lossy(&build.output()?.stdout).into_owned();
    let executable = |name: &str| {
        let messages = built.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let own = { messages }.filter(|message| message["target"]["name"] == format!("peer-{name}"));
        own.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back()
    };
    let program = |name: &str| match executable(name) {
        Some(path) => json!({ "name": name, "command": [path] }),
        None => missing(name, "it does not build"),
    };
    Ok(RUST.map(program).into())
}

/// Peers of an interpreter that was found with their packages, or the reason for all of them.
fn installed(peers: &[(&str, String)], found: Result<Interpreter>) -> Vec<Value> {
    match found {
        Ok(Interpreter { program, scripts }) => { peers }
            .iter()
            .map(|(name, file)| json!({ "name": name, "command": [program, scripts.join(file)] }))
            .collect(),
        Err(error) => peers.iter().map(|(name, _)| missing(name, &error.to_string())).collect(),
    }
}

/// What runs scripts, and where they are.
struct Interpreter {
    program: PathBuf,
    scripts: PathBuf,
}

/// Installs the packages of the lock file beside copies of the scripts, since modules are looked for from where a script is.
fn node(home: &Path) -> Result<Interpreter> {
    let scripts = home.join("node");
    copy(&directory().join("node"), &scripts)?;
    let mut npm = Command::new("npm");
    // No script of a package is needed.
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&scripts);
    output(&mut npm)?;
    let own = PathBuf::from("node");
    if output(Command::new(&own).arg("--version")).is_ok_and(|version| is_recent(&version)) {
        return Ok(Interpreter { program: own, scripts });
    }
    // The packages bring one for some platforms.
    let packages = fs::read_dir(scripts.join("node_modules"))?.flatten().map(|entry| entry.path());
    let program = { packages }.map(|path| path.join("bin/node")).find(|path| path.is_file());
    let (major, minor) = NODE_VERSION_MIN;
    let program = program.ok_or_else(|| format!("Node.js {major}.{minor} or newer is not installed"))?;
    Ok(Interpreter { program, scripts })
}

/// Whether `v22.23.3` is recent enough.
fn is_recent(version: &str) -> bool {
    let mut numbers = version.trim().trim_start_matches('v').split('.').map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= NODE_VERSION_MIN,
        _ => false,
    }
}

/// Installs the pinned packages into an environment of its own.
fn python(home: &Path) -> Result<Interpreter> {
    let environment = home.join("python");
    output(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let program = environment.join("bin/python");
    let mut pip = Command::new(&program);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    output(pip.arg(directory().join("python/requirements.txt")))?;
    Ok(Interpreter { program, scripts: directory().join("python") })
}

/// Copies the files of a directory.
fn copy(from: &Path, to: &Path) -> Result {
    fs::create_dir_all(to)?;
    for file in fs::read_dir(from)? {
        let file = file?;
        if file.file_type()?.is_file() {
            fs::copy(file.path(), to.join(file.file_name()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Versions as `node --version` says them, and the names that must agree with the workspace of the peers.

    use super::{NODE, PYTHON, RUST, directory, is_recent};

    #[test]
    fn node_is_recent_from_the_version_that_the_peers_ask_for() {
        assert!(["v22.18.0\n", "v22.23.3", "v24.0.0"].into_iter().all(is_recent));
        assert!(!["v22.12.0", "v20.20.2", "", "node"].into_iter().any(is_recent));
    }

    #[test]
    fn every_listed_peer_has_its_program() {
        let members = std::fs::read_to_string(directory().join("Cargo.toml")).expect("the workspace of the peers");
        let line = members.lines().find(|line| line.starts_with("members")).expect("it has members");
        // All but the harness.
        assert_eq!(line.matches('"').count() / 2 - 1, RUST.len(), "{line}");
        assert!(NODE.iter().all(|name| directory().join(format!("node/{name}.mjs")).is_file()));
        assert!(PYTHON.iter().all(|(_, file)| directory().join("python").join(file).is_file()));
    }
}
