//! Running other programs: cargo, git, and those of PostgreSQL. A program that fails is an error that quotes it.

use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What a command of this repository answers: nothing, or the reason for exit code 1.
pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// The directory of the workspace, wherever the command was started.
pub(crate) fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// The directory for build results, as cargo would choose it.
pub(crate) fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// What `cargo run` tells this program about its own package. A cargo below must not see it: build scripts of
/// dependencies (ring's) are run again when these change, and with them goes everything built on top.
const OF_THIS_PACKAGE: [&str; 5] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_NAME", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE"];

/// The cargo that runs this program, in the workspace, as if it had been called from a shell.
///
/// A `DATABASE_URL` of the developer stays out: only `migrate` and `pg` may read it.
pub(crate) fn cargo<I>(arguments: I) -> Command
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace()).args(arguments).env_remove("DATABASE_URL");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| OF_THIS_PACKAGE.iter().any(|prefix| name.starts_with(prefix))) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs to the end with input and output shared.
pub(crate) fn run(command: &mut Command) -> Result {
    let status = command.status().map_err(|error| format!("{}: {error}", name(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} failed ({status})", name(command)).into()) }
}

/// Runs to the end and keeps what it prints, which becomes the error if it fails.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let result = command.stdin(Stdio::null()).output().map_err(|error| format!("{}: {error}", name(command)))?;
    let Output { status, stdout, stderr } = result;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let said = [stdout, stderr].concat();
    Err(format!("{} failed ({status}):\n{}", name(command), String::from_utf8_lossy(&said).trim_end()).into())
}

/// A program and its first arguments, for messages.
fn name(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let arguments = command.get_args().take(4);
    let words: Vec<_> = std::iter::once(program).chain(arguments).map(OsStr::to_string_lossy).collect();
    words.join(" ")
}
