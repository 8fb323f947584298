//! Checks the values of `#[job(…)]` by the rules that hold when a job is enqueued, so that a mistake shows at compile time.
//! The limits are those of awa-model, which this crate cannot depend on; a test compares them.

use std::{ops::RangeInclusive, time::Duration};

use syn::{LitInt, LitStr};

use crate::{duration, error::Errors};

pub(crate) const NAME_BYTES_MAX: usize = 128;
pub(crate) const TAGS_MAX: usize = 32;
pub(crate) const PRIORITIES: RangeInclusive<i16> = 1..=4;
pub(crate) const MAX_ATTEMPTS: RangeInclusive<i16> = 1..=1000;
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

/// The name of a queue, kind, tag or field; `None`, and a note, if it cannot be one.
pub(crate) fn name(what: &str, literal: &LitStr, errors: &mut Errors) -> Option<String> {
    let name = literal.value();
    let a = if what == "alias" { "an" } else { "a" };
    let message = if name.is_empty() {
        format!("{a} {what} must not be empty; it may have up to {NAME_BYTES_MAX} bytes")
    } else if name.len() > NAME_BYTES_MAX {
        format!("{a} {what} may have up to {NAME_BYTES_MAX} bytes; this one has {}", name.len())
    } else if let Some(character) = name.chars().find(|character| character.is_control()) {
        format!("{a} {what} must not contain control characters; this one has U+{:04X}", u32::from(character))
    } else {
        return Some(name);
    };
    errors.at(literal, message);
    None
}

/// Names of one sort, each given once; what cannot be one is noted and left out.
pub(crate) fn names(what: &str, literals: &[LitStr], errors: &mut Errors) -> Vec<String> {
    let mut names = Vec::new();
    for literal in literals {
        match name(what, literal, errors) {
            Some(name) if names.contains(&name) => errors.at(literal, format_args!("{name:?} is given twice")),
            name => names.extend(name),
        }
    }
    names
}

/// A number of `range`; `None`, and a note, if it is outside.
pub(crate) fn number(what: &str, literal: &LitInt, range: &RangeInclusive<i16>, errors: &mut Errors) -> Option<i16> {
    match literal.base10_parse::<i16>() {
        Ok(number) if range.contains(&number) => Some(number),
        Ok(_) | Err(_) => {
            errors.at(literal, format_args!("`{what}` must be a number from {} to {}", range.start(), range.end()));
            None
        }
    }
}

/// A duration of at least `min` and at most ten years; `None`, and a note, if it is not.
pub(crate) fn duration(what: &str, literal: &LitStr, min: Duration, errors: &mut Errors) -> Option<Duration> {
    let message = match duration::parse(&literal.value()) {
        None => format!("`{what}` must be {}", duration::FORM),
        Some(duration) if duration < min => format!("`{what}` must be at least {min:?}"),
        Some(duration) if duration > DURATION_MAX => {
            format!("`{what}` must be at most ten years (\"3660d\")")
        }
        Some(duration) => return Some(duration),
    };
    errors.at(literal, message);
    None
}

#[cfg(test)]
mod tests {
    use awa_model::limits;

    #[test]
    fn limits_are_those_of_the_model() {
        assert_eq!(1..=super::NAME_BYTES_MAX, limits::NAME_BYTES);
        assert_eq!(super::TAGS_MAX, limits::TAGS_MAX);
        assert_eq!(super::PRIORITIES, limits::PRIORITIES);
        assert_eq!(super::MAX_ATTEMPTS, limits::MAX_ATTEMPTS);
        assert_eq!(super::DURATION_MAX, limits::TIMEOUT_MAX);
        assert_eq!(crate::unique::PERIOD_MIN..=super::DURATION_MAX, limits::UNIQUE_PERIOD);
        assert_eq!(crate::unique::FIELDS_MAX, limits::UNIQUE_FIELDS_MAX);
    }
}
