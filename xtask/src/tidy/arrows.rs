//! Which crate may use which. The arrows point one way, and the manifests say where they point.

use super::tree::{Finding, Tree};

/// A crate by its directory, and the crates of this workspace that it may depend on.
const ARROWS: [(&str, &[&str]); 20] = [
    ("awa-macros", &[]),
    ("awa-model", &[]),
    ("migrations", &[]),
    ("awa-storage", &["awa-model", "awa-migrations"]),
    ("awa-maintenance", &["awa-storage", "awa-model"]),
    ("awa-worker", &["awa-maintenance", "awa-storage", "awa-model", "awa-macros"]),
    ("awa-web", &["awa-storage", "awa-model"]),
    ("awa-cli", &["awa-web", "awa-maintenance", "awa-storage", "awa-model"]),
    ("benches", &["awa-worker", "awa-storage", "awa-model"]),
    ("xtask", &["awa-migrations"]),
    // A workspace of its own, whose programs know Awa by the door that services use.
    ("benches/peers", &["awa-peer"]),
    ("benches/peers/harness", &[]),
    ("benches/peers/apalis", &["awa-peer"]),
    ("benches/peers/awa", &["awa-peer", "awa-worker"]),
    ("benches/peers/awa-published", &["awa-peer", "awa-published"]),
    ("benches/peers/graphile_worker", &["awa-peer"]),
    ("benches/peers/pgmq", &["awa-peer"]),
    ("benches/peers/riverqueue", &["awa-peer"]),
    ("benches/peers/sqlxmq", &["awa-peer"]),
    ("benches/peers/underway", &["awa-peer"]),
];

/// Every dependency between crates of this workspace is one of [`ARROWS`]. Those of tests are free.
pub(super) fn crates_point_one_way(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.files().filter_map(|file| Some((file, file.path.strip_suffix("/Cargo.toml")?)));
    let mut findings = Vec::new();
    for (file, directory) in manifests {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == directory) else {
            findings.push(file.finding(1, "a crate without a line in xtask/src/tidy/arrows.rs"));
            continue;
        };
        for (line, name) in dependencies(&file.text) {
            if name.starts_with("awa-") && !allowed.contains(&name) {
                findings.push(file.finding(line, format!("{directory} may not depend on {name}")));
            }
        }
    }
    findings
}

/// Names under `[dependencies]`, `[build-dependencies]` and their forms for one target.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut within = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(manifest.lines()) {
        if let Some(section) = line.trim().strip_prefix('[') {
            let section = section.trim_end_matches(']');
            let (kind, name) = section.rsplit_once("dependencies").map_or(("dev-", ""), |(kind, name)| (kind, name));
            within = !kind.ends_with("dev-") && name.is_empty();
            // `[dependencies.awa-storage]` is a dependency too.
            if !kind.ends_with("dev-") && !name.is_empty() {
                found.push((number, name.trim_start_matches('.')));
            }
            continue;
        }
        let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
        if within && !name.is_empty() && !name.starts_with('#') {
            found.push((number, name));
        }
    }
    found
}
