//! Embeds every `NNNN_*.sql` and `functions/*.sql` of this directory, in order of their names.
//!
//! A build script rather than a macro, because cargo then rebuilds when a file is added or removed, not only when a
//! known one changes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // A directory stands for every file in it, those to come included.
    println!("cargo::rerun-if-changed=.");
    let mut code = String::from("const MIGRATIONS: &[Migration] = &[\n");
    for (stem, path) in sql_files(&root) {
        let (number, name) = numbered(&stem);
        let path = path.display();
        writeln!(
            code,
            "    Migration {{ version: {number}, name: {name:?}, sql: include_str!({:?}) }},",
            path.to_string()
        )
        .expect("a string takes whatever is written");
    }
    code.push_str("];\nconst FUNCTIONS: &[Function] = &[\n");
    for (name, path) in sql_files(&root.join("functions")) {
        writeln!(code, "    Function {{ name: {name:?}, sql: include_str!({:?}) }},", path.display().to_string())
            .expect("a string takes whatever is written");
    }
    code.push_str("];\n");
    fs::write(out.join("embedded.rs"), code).expect("OUT_DIR is writable");
}

/// The `.sql` files directly in `directory` by name; none if there is no such directory.
fn sql_files(directory: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut files: Vec<(String, PathBuf)> = entries
        .map(|entry| entry.expect("the directory can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .map(|path| (path.file_stem().expect("a file has a name").to_string_lossy().into_owned(), path))
        .collect();
    files.sort();
    files
}

/// `0003_job_tables` as number and name.
fn numbered(stem: &str) -> (i32, &str) {
    let parts = stem.split_once('_').and_then(|(number, name)| Some((number.parse().ok()?, name)));
    parts.unwrap_or_else(|| panic!("migrations are named NNNN_snake_case.sql, this one is not: {stem}.sql"))
}
