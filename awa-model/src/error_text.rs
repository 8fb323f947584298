//! Makes any error text storable. An error that could not be recorded would keep its job running for ever, so nothing
//! here fails: what is too long is cut, what PostgreSQL cannot hold is replaced.

use std::fmt::{self, Write as _};

use crate::limits;

/// What a text ends in that was cut.
const CUT: &str = "… (cut)";

/// The text of `error`, at most 16 KiB: cut on a character boundary and marked if longer, U+0000 replaced by U+FFFD.
///
/// Memory is bounded too: formatting stops where the text is full, so an error that prints gigabytes costs kilobytes.
pub fn error_text(error: &(impl fmt::Display + ?Sized)) -> String {
    let mut text = Bounded { text: String::new(), is_full: false };
    // An error means full, or a Display that gave up; what was written by then is kept.
    let _ = write!(text, "{error}");
    let Bounded { mut text, is_full } = text;
    if is_full {
        text.truncate(text.floor_char_boundary(limits::ERROR_BYTES_MAX - CUT.len()));
        text.push_str(CUT);
    }
    text
}

struct Bounded {
    text: String,
    is_full: bool,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for (index, piece) in part.split('\0').enumerate() {
            if index > 0 {
                self.push(char::REPLACEMENT_CHARACTER.encode_utf8(&mut [0; 4]))?;
            }
            self.push(piece)?;
        }
        Ok(())
    }
}

impl Bounded {
    fn push(&mut self, piece: &str) -> fmt::Result {
        let room = limits::ERROR_BYTES_MAX - self.text.len();
        // Stays full: a Display may ignore the error and go on with something shorter.
        self.is_full = self.is_full || piece.len() > room;
        self.text.push_str(&piece[..piece.floor_char_boundary(room)]);
        if self.is_full { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use proptest::prelude::*;

    use super::error_text;
    use crate::limits::ERROR_BYTES_MAX;

    #[test]
    fn a_short_text_is_kept_with_nul_replaced() {
        assert_eq!(error_text("disk full"), "disk full");
        assert_eq!(error_text("a\0b\0"), "a\u{FFFD}b\u{FFFD}");
        assert_eq!(error_text(&"x".repeat(ERROR_BYTES_MAX)).len(), ERROR_BYTES_MAX);
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        let text = error_text(&"🦀".repeat(ERROR_BYTES_MAX));
        assert!(text.len() <= ERROR_BYTES_MAX && text.len() > ERROR_BYTES_MAX - 8, "{}", text.len());
        assert!(text.ends_with("🦀… (cut)"), "{}", &text[text.len() - 40..]);
    }

    #[test]
    fn formatting_stops_where_the_text_is_full() {
        struct Endless;

        impl fmt::Display for Endless {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                loop {
                    formatter.write_str("and so on, ")?;
                }
            }
        }

        assert!(error_text(&Endless).ends_with("… (cut)"));
    }

    #[test]
    fn a_display_that_gives_up_keeps_what_it_wrote() {
        struct Broken;

        impl fmt::Display for Broken {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("half")?;
                Err(fmt::Error)
            }
        }

        assert_eq!(error_text(&Broken), "half");
    }

    proptest! {
        #[test]
        fn any_text_becomes_storable(piece in "(?s).{1,20}", times in 1..4000_usize) {
            let text = error_text(&piece.repeat(times));
            prop_assert!(text.len() <= ERROR_BYTES_MAX);
            prop_assert!(!text.contains('\0'));
        }
    }
}
