//! The last resort: PostgreSQL programs that are published as an npm package for each platform.
//!
//! They let the tests run on a machine without PostgreSQL and without the right to install it. Unpacked under the target
//! directory, once a version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::account::Account;
use super::binaries::Binaries;
use crate::command::{Result, output, target_directory};

const HOW_TO_INSTALL: &str = "install it (Debian, Ubuntu: `sudo apt-get install postgresql`; macOS: \
    `brew install postgresql@17`), or npm, or point AWA_PG_BIN at the directory of initdb, pg_ctl and postgres";

/// The directory of the programs, after a download if need be.
pub(crate) fn install(major: Option<u32>, account: Account) -> Result<PathBuf> {
    let wanted = major.map_or_else(|| "PostgreSQL 14 or newer".to_owned(), |major| format!("PostgreSQL {major}"));
    let missing = |reason: &str| format!("{wanted} was not found{reason}: {HOW_TO_INSTALL}");
    let package = package().ok_or_else(|| missing(""))?;
    let label = major.map_or_else(|| "latest".to_owned(), |major| major.to_string());
    let home = target_directory().join("postgres").join(label);
    let root = home.join("node_modules").join(&package);
    if !root.join("awa-complete").exists() {
        eprintln!("{wanted} is not installed: unpacking the npm package {package} under {}", home.display());
        download(&package, major, &home, &root)
            .map_err(|error| missing(&format!(", and npm did not help ({error})")))?;
    }
    let programs = root.join("native/bin");
    if Binaries::at(&programs, account).is_some() {
        return Ok(programs);
    }
    // The clone may lie in a directory that the server's account cannot enter, such as /root.
    copy_outside(&root.join("native"))
}

/// The package of this platform, if there is one.
fn package() -> Option<String> {
    let system = match std::env::consts::OS {
        "linux" => "linux",
        "macos" => "darwin",
        _ => return None,
    };
    let processor = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        _ => return None,
    };
    Some(format!("@embedded-postgres/{system}-{processor}"))
}

fn download(package: &str, major: Option<u32>, home: &Path, root: &Path) -> Result {
    fs::create_dir_all(home)?;
    let version = match major {
        Some(major) => newest(package, major)?,
        None => "latest".to_owned(),
    };
    // Not npm's scripts: the one that is needed is run here, so that no setting of the machine can skip it.
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]).arg(home);
    output(npm.arg(format!("{package}@{version}")))?;
    output(Command::new("node").arg("scripts/hydrate-symlinks.js").current_dir(root))?;
    fs::write(root.join("awa-complete"), version)?;
    Ok(())
}

/// The newest version of `major`. All are pre-releases in the registry's eyes, so a range would match none.
fn newest(package: &str, major: u32) -> Result<String> {
    let listed = output(Command::new("npm").args(["view", package, "versions", "--json"]))?;
    let versions: Vec<String> = serde_json::from_str(&listed)?;
    let prefix = format!("{major}.");
    let newest = versions.into_iter().rfind(|version| version.starts_with(&prefix));
    newest.ok_or_else(|| format!("{package} has no version {major}").into())
}

fn copy_outside(native: &Path) -> Result<PathBuf> {
    let name = native.to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let copy = std::env::temp_dir().join(format!("awa-postgres{name}"));
    if !copy.join("complete").exists() {
        output(Command::new("cp").arg("-R").arg(native).arg(&copy))?;
        fs::write(copy.join("complete"), "")?;
    }
    Ok(copy.join("bin"))
}
