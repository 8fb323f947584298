//! Durations as people write them: `"500ms"`, `"2m"`, `"1h30m"`.

use std::time::Duration;

/// What an error says about the form.
pub(crate) const FORM: &str = "whole numbers with the units ms, s, m, h or d, like \"2m\" or \"1h30m\"";

/// The duration that `text` names; `None` if it names none or one beyond what a number of milliseconds can hold.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |character| !character.is_ascii_digit());
        let (unit, after) = split_where(after.trim_start(), |character| !character.is_ascii_alphabetic());
        let part = number.parse::<u64>().ok()?.checked_mul(milliseconds(unit)?)?;
        total = total.checked_add(part)?;
        rest = after.trim_start();
    }
    Some(Duration::from_millis(total))
}

fn split_where(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

fn milliseconds(unit: &str) -> Option<u64> {
    match unit {
        "ms" => Some(1),
        "s" => Some(1000),
        "m" => Some(60 * 1000),
        "h" => Some(60 * 60 * 1000),
        "d" => Some(24 * 60 * 60 * 1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let seconds = |text| parse(text).as_ref().map(Duration::as_secs_f64);
        for (text, expected) in [
            ("500ms", 0.5),
            ("0s", 0.0),
            ("2m", 120.0),
            ("1h30m", 5400.0),
            ("1h 30m", 5400.0),
            ("1d", 86400.0),
            (" 7 s ", 7.0),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_duration() {
        for text in ["", " ", "2", "m", "2 minutes", "-2m", "1.5h", "2m3", "2µs", "99999999999999999999d", "m2"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
