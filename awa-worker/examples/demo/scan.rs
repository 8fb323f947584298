//! Which files are indexed: every text file under a directory, in a fixed order, so that two scans agree.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

/// Directories that hold what tools made rather than what people wrote.
const SKIPPED: [&str; 3] = ["target", "node_modules", "vendor"];
/// A file larger than this is not somebody's text.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// A NUL this early marks a binary file, as `grep` and `git` judge.
const SAMPLE_BYTES: usize = 8 * 1024;

/// Absolute paths of all text files under `directory`, sorted. Hidden entries and symbolic links are left out.
pub(crate) fn text_files(directory: &Path) -> io::Result<Vec<String>> {
    let mut files = Vec::new();
    let mut pending = vec![directory.canonicalize()?];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(next)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.contains(&name) {
                pending.push(entry.path());
            } else if kind.is_file() && is_text(&entry.path(), entry.metadata()?.len())? {
                files.extend(printable(&entry.path()));
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn is_text(path: &Path, bytes: u64) -> io::Result<bool> {
    if bytes > FILE_BYTES_MAX {
        return Ok(false);
    }
    let mut sample = [0; SAMPLE_BYTES];
    let read = File::open(path)?.read(&mut sample)?;
    Ok(!sample[..read].contains(&0))
}

/// A path that is no valid text cannot be written down in a job's args, so such a file is left out.
fn printable(path: &Path) -> Option<String> {
    path.to_str().map(str::to_owned)
}
