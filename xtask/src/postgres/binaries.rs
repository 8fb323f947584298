//! Finds the programs of a PostgreSQL server: where the developer says, where the machine keeps them, or on npm.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::account::Account;
use super::npm;
use crate::command::{Result, output};

/// The oldest server that awa works with.
const MAJOR_MIN: u32 = 14;

/// Directories that hold one directory a version, and the way from there to the programs.
const VERSIONED: [(&str, &str); 5] = [
    ("/usr/lib/postgresql", "bin"),
    ("/usr/local/pgsql", "bin"),
    ("/opt/homebrew/opt", "bin"),
    ("/usr/local/opt", "bin"),
    ("/Applications/Postgres.app/Contents/Versions", "bin"),
];

/// Directories with the programs themselves.
const PLAIN: [&str; 3] = ["/usr/local/pgsql/bin", "/usr/pgsql/bin", "/usr/bin"];

/// What is needed to make and run a server.
const PROGRAMS: [&str; 3] = ["initdb", "pg_ctl", "postgres"];

/// The programs of one version.
#[derive(Debug, Clone)]
pub(crate) struct Binaries {
    directory: PathBuf,
    version: String,
}

impl Binaries {
    /// The first suitable ones, in the order that CONTRIBUTING.md states.
    pub(crate) fn find(major: Option<u32>, account: Account) -> Result<Self> {
        if let Some(directory) = env::var_os("AWA_PG_BIN") {
            let named = Self::at(Path::new(&directory), account).ok_or_else(|| {
                format!("AWA_PG_BIN: {} lacks one of {PROGRAMS:?}, or they do not run", directory.display())
            })?;
            if named.suits(major) {
                return Ok(named);
            }
            if major.is_none() {
                return Err(
                    format!("AWA_PG_BIN has PostgreSQL {}, awa needs {MAJOR_MIN} or newer", named.version).into()
                );
            }
            // Another version was asked for: it may be elsewhere.
        }
        let installed = candidates().into_iter().filter_map(|directory| Self::at(&directory, account));
        if let Some(found) = { installed }.find(|found| found.suits(major)) {
            return Ok(found);
        }
        let directory = npm::install(major, account)?;
        Self::at(&directory, account).ok_or_else(|| format!("{} does not run here", directory.display()).into())
    }

    /// A program of this version; it need not exist unless it is one of [`PROGRAMS`].
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The directory of the programs.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The version as the server states it, such as 15.18.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// The programs in `directory`, if all are there and `account` can run them.
    pub(crate) fn at(directory: &Path, account: Account) -> Option<Self> {
        if !PROGRAMS.iter().all(|program| directory.join(program).is_file()) {
            return None;
        }
        let said = output(account.apply(Command::new(directory.join("postgres")).arg("--version"))).ok()?;
        let version = parse_version(&said)?;
        Some(Self { directory: directory.to_path_buf(), version })
    }

    fn suits(&self, major: Option<u32>) -> bool {
        let own = major_of(&self.version);
        match major {
            Some(major) => own == major,
            None => own >= MAJOR_MIN,
        }
    }
}

/// Every directory that may hold the programs, the most deliberate choice first.
fn candidates() -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Ok(directory) = output(Command::new("pg_config").arg("--bindir")) {
        found.push(PathBuf::from(directory.trim()));
    }
    found.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
    for (parent, rest) in VERSIONED {
        found.extend(newest_first(Path::new(parent)).into_iter().map(|directory| directory.join(rest)));
    }
    // Fedora and its kin: /usr/pgsql-16/bin.
    found.extend(newest_first(Path::new("/usr")).into_iter().map(|directory| directory.join("bin")));
    found.extend(PLAIN.map(PathBuf::from));
    found
}

/// Directories in `parent` whose names end in a version, optionally after `pgsql-` or `postgresql@`.
fn newest_first(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version = name.strip_prefix("pgsql-").or_else(|| name.strip_prefix("postgresql@")).unwrap_or(&name);
            Some((version.parse().ok()?, entry.path()))
        })
        .collect();
    found.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    found.into_iter().map(|(_, path)| path).collect()
}

/// `postgres (PostgreSQL) 15.18 (Debian …)` as `15.18`.
fn parse_version(said: &str) -> Option<String> {
    said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit())).map(str::to_owned)
}

/// `15.18`, `19devel` and `18beta1` as 15, 19 and 18.
fn major_of(version: &str) -> u32 {
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    //! Versions as the packagers write them.

    use super::{major_of, parse_version};

    #[test]
    fn version_is_read_however_it_was_packaged() {
        let check = |said, version, major| {
            let parsed = parse_version(said).expect("there is a version");
            assert_eq!((parsed.as_str(), major_of(&parsed)), (version, major));
        };
        check("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", "15.18", 15);
        check("postgres (PostgreSQL) 18beta1\n", "18beta1", 18);
        check("postgres (PostgreSQL) 14.9\n", "14.9", 14);
    }
}
