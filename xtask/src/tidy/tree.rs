//! The files of the repository as the rules see them, and what a rule finds in one.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::{Result, output};

/// A text file by its path from the root, with `/` on every platform.
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

impl File {
    /// Whether this is Rust that people write.
    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs") && !self.path.contains("/tests/ui/")
    }

    /// Whether this is a test: a file under `tests/`, or the sibling of a module.
    pub(super) fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    /// The lines up to the first test module: the code that ships, where tests stand at the end.
    pub(super) fn shipped_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_code = |line: &&str| line.trim() != "#[cfg(test)]";
        (1..).zip(self.text.lines().take_while(is_code)).filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// A finding in this file.
    pub(super) fn finding(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, message: message.into() }
    }
}

/// All files.
pub(super) struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// The files that git knows or would take; those that are no text are left out.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut git = Command::new("git");
        git.args(["ls-files", "--cached", "--others", "--exclude-standard"]).current_dir(root);
        let listed = output(&mut git)?;
        let read = |path: &str| Some(File { path: path.to_owned(), text: fs::read_to_string(root.join(path)).ok()? });
        Ok(Self { files: listed.lines().filter_map(read).collect() })
    }

    /// A tree for tests.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File { path: (*path).to_owned(), text: (*text).to_owned() };
        Self { files: files.iter().map(file).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }

    pub(super) fn find(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Files directly in `directory` whose names end in `suffix`, in the order of their names.
    pub(super) fn in_directory(&self, directory: &str, suffix: &str) -> Vec<&File> {
        let within = |file: &&File| {
            let name = file.path.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'));
            name.is_some_and(|name| !name.contains('/') && name.ends_with(suffix))
        };
        let mut files: Vec<&File> = self.files().filter(within).collect();
        files.sort_by(|one, other| one.path.cmp(&other.path));
        files
    }
}

/// A rule that is broken: where, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}
