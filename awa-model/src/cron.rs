//! The times of a cron expression in a time zone. Parsing and the calendar are croner's, the zones are IANA's (chrono-tz).
//!
//! # When the clocks change
//! - An expression with one second, one minute and one hour names a time of day, and comes once on each of its days: where
//!   the clocks skip that time, at the first moment after the gap; where they repeat it, the first time.
//! - Any other expression follows the clock on the wall: what is skipped does not come, what is repeated comes again.

use chrono::{DateTime, SubsecRound as _, TimeZone as _, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

/// Length of an expression, in bytes.
const EXPRESSION_BYTES_MAX: usize = 256;

/// A cron expression of five fields (minute, hour, day of month, month, day of week) or six (seconds first), in a time zone.
///
/// Fields take `*`, lists, ranges and steps, names of months and days, `L` (the last), `W` (the nearest weekday) and `#` (the
/// nth day of week); `@hourly`, `@daily`, `@weekly`, `@monthly` and `@yearly` stand for the usual ones. Where both the day of
/// month and the day of week are given, either is enough, as in Vixie cron; a `+` before the day of week asks for both.
///
/// ```
/// use awa_model::CronExpression;
///
/// let at = |text: &str| text.parse().unwrap();
/// let daily = CronExpression::parse("30 2 * * *", "Europe/Berlin")?;
/// assert_eq!(daily.next_after(at("2026-01-01T12:00:00Z")), Some(at("2026-01-02T01:30:00Z")));
/// // On 29 March the clocks go from 02:00 to 03:00.
/// assert_eq!(daily.next_after(at("2026-03-28T12:00:00Z")), Some(at("2026-03-29T01:00:00Z")));
/// assert!(CronExpression::parse("0 0 30 2 *", "UTC").is_err());
/// # Ok::<(), awa_model::InvalidCron>(())
/// ```
#[derive(Clone, Debug)]
pub struct CronExpression {
    expression: String,
    cron: Cron,
    zone: Tz,
}

/// Why an expression in a time zone cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCron {
    /// Not a cron expression.
    #[error("expression {expression:?} cannot be read: {reason}")]
    Unreadable {
        /// What was given.
        expression: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An expression that is too long to be one.
    #[error("expression has {bytes} bytes; it must have at most {EXPRESSION_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// A date that no calendar has, like 30 February.
    #[error("expression {expression:?} names a date that never comes")]
    Never {
        /// What was given.
        expression: String,
    },
    /// Not the name of a time zone.
    #[error("timezone {timezone:?} is not known; it must be a name of the IANA database, like Europe/Berlin or UTC")]
    Timezone {
        /// What was given.
        timezone: String,
    },
}

impl CronExpression {
    /// Reads an expression and the name of a zone.
    ///
    /// # Errors
    /// When either cannot be read, or no date fits the expression.
    pub fn parse(expression: &str, timezone: &str) -> Result<Self, InvalidCron> {
        if expression.len() > EXPRESSION_BYTES_MAX {
            return Err(InvalidCron::TooLong { bytes: expression.len() });
        }
        let unreadable = |reason: String| InvalidCron::Unreadable { expression: expression.to_owned(), reason };
        // croner counts the fields in the words of its own options.
        let fields = expression.split_whitespace().count();
        if !matches!(fields, 5 | 6) && !expression.trim_start().starts_with('@') {
            return Err(unreadable(format!("it has {fields} fields; it must have 5, or 6 with seconds first")));
        }
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser.parse(expression).map_err(|error| unreadable(error.to_string()))?;
        let zone = timezone.parse().map_err(|_| InvalidCron::Timezone { timezone: timezone.to_owned() })?;
        let read = Self { expression: expression.to_owned(), cron, zone };
        // Without a year, dates repeat within 400 years: what does not come from any one day on never does.
        let any_day = Utc.with_ymd_and_hms(2000, 1, 1, 0, 0, 0).single().unwrap_or_default();
        match read.next_after(any_day) {
            Some(_) => Ok(read),
            None => Err(InvalidCron::Never { expression: expression.to_owned() }),
        }
    }

    /// The expression as it was given.
    #[must_use]
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The name of the zone.
    #[must_use]
    pub fn timezone(&self) -> &'static str {
        self.zone.name()
    }

    /// The first time after this one; `None` where the calendar ends.
    #[must_use]
    pub fn next_after(&self, time: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let from = self.local(time);
        self.cron.find_next_occurrence(&from, false).ok().map(|found| found.to_utc())
    }

    /// The last time that is not after this one; `None` where the calendar begins.
    #[must_use]
    pub fn latest(&self, until: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.cron.find_previous_occurrence(&self.local(until), true).ok().map(|found| found.to_utc())
    }

    /// The last time before this one.
    #[must_use]
    pub fn before(&self, time: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.latest(time - chrono::TimeDelta::nanoseconds(1))
    }

    /// The next times after this one, in order.
    pub fn upcoming(&self, after: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> {
        std::iter::successors(self.next_after(after), |last| self.next_after(*last))
    }

    /// Whether this time comes in place of one that the clocks have skipped.
    #[must_use]
    pub fn is_shifted(&self, time: DateTime<Utc>) -> bool {
        !self.cron.is_time_matching(&self.local(time)).unwrap_or(true)
    }

    /// The expression in English.
    #[must_use]
    pub fn describe(&self) -> String {
        self.cron.describe()
    }

    /// Whole seconds, in the zone.
    fn local(&self, time: DateTime<Utc>) -> DateTime<Tz> {
        time.trunc_subsecs(0).with_timezone(&self.zone)
    }
}

impl PartialEq for CronExpression {
    fn eq(&self, other: &Self) -> bool {
        (&self.expression, self.zone) == (&other.expression, other.zone)
    }
}

impl Eq for CronExpression {}

#[cfg(test)]
mod tests;
