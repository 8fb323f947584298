//! `cargo xtask sqlx`: writes the query metadata that ordinary builds check statements against.
//!
//! Compiling awa-storage against a migrated database writes it; sqlx-cli is not needed. Everything is written anew, so
//! that the metadata of a statement that is gone goes too. What compiles is clippy, over the whole workspace: a check has
//! seen both, and builds nothing that another command would build again with other features.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::command::{Result, cargo, run, target_directory, workspace};
use crate::database::Scratch;
use crate::postgres::{Profile, Target};

/// Arguments of `sqlx`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Change nothing; fail if the metadata is not what it should be, or if clippy warns.
    #[arg(long)]
    check: bool,
    /// Use this server instead of a private one: a scratch database is made and dropped there.
    #[arg(long)]
    database_url: Option<String>,
}

/// Writes or checks.
pub(crate) fn sqlx(options: &Options) -> Result {
    let fresh = target_directory().join("sqlx-fresh");
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    fs::create_dir_all(&fresh)?;
    let server = Target::choose(options.database_url.as_deref(), Profile::Test, None)?;
    let scratch = Scratch::migrated(&server.url())?;
    touch_sources()?;
    let mut clippy = cargo(["clippy", "--quiet", "--workspace", "--all-targets", "--"]);
    if options.check {
        clippy.args(["-D", "warnings"]);
    }
    run(clippy.env("AWA_SQLX_DATABASE_URL", scratch.url()).env("SQLX_OFFLINE_DIR", &fresh))?;
    let committed = workspace().join("awa-storage/.sqlx");
    let (old, new) = (read(&committed)?, read(&fresh)?);
    if old == new {
        println!("{} statements, metadata current", new.len());
        return Ok(());
    }
    if options.check {
        let stale = differences(&old, &new).join("\n  ");
        return Err(format!("query metadata is stale: run `cargo xtask sqlx`\n  {stale}").into());
    }
    write(&committed, &old, &new)?;
    println!("{} statements, metadata written", new.len());
    Ok(())
}

/// Compiling writes the metadata, and cargo compiles what is newer than its last result.
fn touch_sources() -> Result {
    let roots = ["src/lib.rs", "tests/it/main.rs"].map(|path| workspace().join("awa-storage").join(path));
    for root in roots.iter().filter(|root| root.exists()) {
        // The clock of the file system is meant here, not the time of any job.
        #[allow(clippy::disallowed_methods)]
        File::options().append(true).open(root)?.set_modified(SystemTime::now())?;
    }
    Ok(())
}

type Metadata = BTreeMap<PathBuf, serde_json::Value>;

/// The metadata files of a directory by name. As values: formatting is no difference.
fn read(directory: &Path) -> Result<Metadata> {
    let mut files = Metadata::new();
    if directory.exists() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_name().map(PathBuf::from).unwrap_or_default();
            files.insert(name, serde_json::from_slice(&fs::read(&path)?)?);
        }
    }
    Ok(files)
}

fn differences(old: &Metadata, new: &Metadata) -> Vec<String> {
    let name = |path: &PathBuf, what| format!("{what}: {}", path.display());
    let gone = old.keys().filter(|path| !new.contains_key(*path)).map(|path| name(path, "no such statement"));
    let other = new.iter().filter(|(path, value)| old.get(*path) != Some(value)).map(|(path, _)| name(path, "missing"));
    gone.chain(other).collect()
}

fn write(directory: &Path, old: &Metadata, new: &Metadata) -> Result {
    fs::create_dir_all(directory)?;
    for path in old.keys().filter(|path| !new.contains_key(*path)) {
        fs::remove_file(directory.join(path))?;
    }
    for (path, value) in new.iter().filter(|(path, value)| old.get(*path) != Some(value)) {
        let text = serde_json::to_string_pretty(value)?;
        fs::write(directory.join(path), format!("{text}\n"))?;
    }
    Ok(())
}
