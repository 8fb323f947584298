//! Says where the source of sqlxmq lies, which has its migrations: a service is to copy them, and this one reads them there.

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=Cargo.toml");
    let metadata =
        Command::new(env::var("CARGO")?).args(["metadata", "--format-version", "1", "--offline"]).output()?.stdout;
    let metadata: Value = serde_json::from_slice(&metadata)?;
    let packages = metadata["packages"].as_array().ok_or("cargo lists no packages")?;
    let package = packages.iter().find(|package| package["name"] == "sqlxmq").ok_or("sqlxmq is not among them")?;
    let manifest = package["manifest_path"].as_str().ok_or("it has no place")?;
    let source = Path::new(manifest).parent().ok_or("it has no directory")?;
    println!("cargo::rustc-env=SQLXMQ_MIGRATIONS={}", source.join("migrations").display());
    Ok(())
}
