//! `cargo xtask ci`: everything that has to hold before a change is taken, one step after the other.

use std::time::Instant;

use crate::command::{Result, cargo, run};

/// Name of a step, and what `cargo` is called with. The quick ones first: they find most mistakes. Benches are built and
/// run once, measuring nothing (`--long` because their programs know no names to skip).
const STEPS: [(&str, &[&str]); 12] = [
    ("format", &["fmt", "--all", "--check"]),
    // A workspace of its own, which is not built here: formatting needs none of its dependencies.
    ("format of the peers", &["fmt", "--all", "--check", "--manifest-path", "benches/peers/Cargo.toml"]),
    ("tidy", &["xtask", "tidy"]),
    ("clippy and query metadata", &["xtask", "sqlx", "--check"]),
    ("docs/schema.sql", &["xtask", "schema", "--check"]),
    ("rustdoc", &["doc", "--workspace", "--no-deps", "--quiet"]),
    ("tests and doc tests", &["xtask", "test"]),
    ("storage on the oldest server", &["xtask", "test", "--pg", "14", "--storage"]),
    ("storage on the newest server", &["xtask", "test", "--pg", "18", "--storage"]),
    ("storage and worker behind a pooler", &["xtask", "test", "--pooler"]),
    ("benches once", &["xtask", "test", "--long", "--", "--bench", "horizon", "--bench", "job", "--bench", "progress"]),
    ("demo", &["xtask", "demo", "--jobs", "40"]),
];

/// What is told but decides nothing, since a machine that is busy with something else measures badly: ratios to what the bare
/// statements reach in the same run. The programs are those of the tests, but for this workspace, which is optimized a little.
const REPORT: [&str; 7] = ["xtask", "bench", "quick", "--profile", "dev", "--seconds", "8"];

/// Runs every step up to the first that fails, and then the report.
pub(crate) fn ci() -> Result {
    let begun = Instant::now();
    for (title, arguments) in STEPS {
        println!("\n=== {title}: cargo {}", arguments.join(" "));
        let mut step = cargo(arguments);
        if title == "rustdoc" {
            step.env("RUSTDOCFLAGS", "-D warnings");
        }
        run(&mut step)?;
        println!("=== {title}: done, {} s since the start", begun.elapsed().as_secs());
    }
    println!("\n=== report: cargo {}", REPORT.join(" "));
    let outcome = match run(&mut cargo(&REPORT)) {
        Ok(()) => "done".to_owned(),
        Err(error) => format!("THE REPORT FAILED, which fails nothing else: {error}"),
    };
    println!("=== report: {outcome}, {} s since the start", begun.elapsed().as_secs());
    Ok(())
}
