//! What is known about one file: the pure work of a file job, and the yardstick of the final check.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Counts as `wc` counts them, and the hash as `sha256sum` prints it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Facts {
    pub(crate) lines: i64,
    pub(crate) words: i64,
    pub(crate) bytes: i64,
    pub(crate) sha256: String,
}

impl Facts {
    /// Reads off everything in one go.
    pub(crate) fn of(content: &[u8]) -> Self {
        let words = content.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        Self {
            lines: count(content.iter().filter(|byte| **byte == b'\n')),
            words: count(words),
            bytes: count(content.iter()),
            sha256: hex(&Sha256::digest(content)),
        }
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(digest: &[u8]) -> String {
    use std::fmt::Write as _;

    digest.iter().fold(String::with_capacity(2 * digest.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn count(things: impl Iterator) -> i64 {
    i64::try_from(things.count()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_as_wc_and_hashes_as_sha256sum() {
        let facts = Facts::of(b"two words\nand a tail without newline");
        assert_eq!((facts.lines, facts.words, facts.bytes), (1, 7, 36));
        assert_eq!(Facts::of(b"abc").sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn an_empty_file_counts_nothing() {
        let facts = Facts::of(b"");
        assert_eq!((facts.lines, facts.words, facts.bytes), (0, 0, 0));
    }
}
