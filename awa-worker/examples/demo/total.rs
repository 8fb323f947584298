//! The merge as a value: sums over all files and a running digest. It is also the checkpoint of the merge job, which is
//! why it remembers how far it came: a merge that resumes must not count a file twice, and the digest would show it.

use crate::facts::{Facts, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Sums over the first `items` files, in order.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Total {
    pub(crate) items: i32,
    pub(crate) lines: i64,
    pub(crate) words: i64,
    pub(crate) bytes: i64,
    /// Hash over the previous digest and the next file's path and hash: it depends on every file, and on their order.
    pub(crate) digest: String,
}

impl Total {
    /// Takes the next file in.
    pub(crate) fn add(&mut self, path: &str, facts: &Facts) {
        self.items += 1;
        self.lines += facts.lines;
        self.words += facts.words;
        self.bytes += facts.bytes;
        let link = Sha256::new().chain_update(&self.digest).chain_update(path).chain_update(&facts.sha256);
        self.digest = hex(&link.finalize());
    }

    /// How far along this is, of `items` in all.
    pub(crate) fn percent(&self, items: i32) -> u8 {
        let percent = i64::from(self.items) * 100 / i64::from(items.max(1));
        u8::try_from(percent.clamp(0, 100)).unwrap_or(100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(paths: &[&str]) -> Total {
        let mut total = Total::default();
        for path in paths {
            total.add(path, &Facts::of(path.as_bytes()));
        }
        total
    }

    #[test]
    fn the_digest_tells_order_repetition_and_omission() {
        let right = merged(&["a", "b", "c"]);
        assert_ne!(right.digest, merged(&["a", "c", "b"]).digest);
        assert_ne!(right.digest, merged(&["a", "b", "b", "c"]).digest);
        assert_ne!(right.digest, merged(&["a", "b"]).digest);
    }

    #[test]
    fn a_checkpoint_goes_on_to_the_same_end() {
        let half = serde_json::to_value(merged(&["a", "b"])).unwrap();
        let mut resumed: Total = serde_json::from_value(half).unwrap();
        resumed.add("c", &Facts::of(b"c"));
        assert_eq!(resumed, merged(&["a", "b", "c"]));
    }

    #[test]
    fn percent_is_never_out_of_range() {
        assert_eq!(Total::default().percent(0), 0);
        assert_eq!(merged(&["a"]).percent(3), 33);
        assert_eq!(merged(&["a", "b", "c"]).percent(3), 100);
    }
}
