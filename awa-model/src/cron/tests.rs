//! What the calendar answers, compared with an oracle that looks at every minute of the wall clock.

use std::collections::BTreeSet;

use chrono::{DateTime, Datelike as _, Days, LocalResult, NaiveDate, TimeDelta, TimeZone as _, Timelike as _, Utc};
use chrono_tz::Tz;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::{CronExpression, EXPRESSION_BYTES_MAX, InvalidCron};

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn cron(expression: &str, zone: &str) -> CronExpression {
    CronExpression::parse(expression, zone).unwrap()
}

/// The times of an expression after one time and until another, in its zone's own words.
fn times(expression: &str, zone: &str, after: &str, until: &str) -> Vec<String> {
    let cron = cron(expression, zone);
    let until = at(until);
    let times = cron.upcoming(at(after)).take_while(|time| *time <= until);
    times.map(|time| time.with_timezone(&cron.zone).format("%d %H:%M %:z").to_string()).collect()
}

#[test]
fn an_expression_of_too_few_or_too_many_fields_is_told_how_many_there_may_be() {
    for (expression, fields) in [("", 0), ("every day", 2), ("* * * * * * *", 7)] {
        let refused = CronExpression::parse(expression, "UTC").unwrap_err().to_string();
        let said = format!("cannot be read: it has {fields} fields; it must have 5, or 6 with seconds first");
        assert!(refused.ends_with(&said), "{refused}");
    }
    for expression in ["* * * * *", " 0 * * * * * ", "@daily", " @hourly"] {
        assert!(CronExpression::parse(expression, "UTC").is_ok(), "{expression:?}");
    }
}

// CRON-06
#[test]
fn a_time_of_day_in_the_gap_comes_at_its_end_and_the_next_day_as_ever() {
    for (zone, after, until, expected) in [
        ("America/New_York", "2026-03-07T12:00:00Z", "2026-03-09T12:00:00Z", ["08 03:00 -04:00", "09 02:30 -04:00"]),
        ("Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z", ["29 03:00 +02:00", "30 02:30 +02:00"]),
        // By half an hour, from 02:00 to 02:30: that is a time of the clock, and no gap.
        ("Australia/Lord_Howe", "2026-10-03T12:00:00Z", "2026-10-05T12:00:00Z", ["04 02:30 +11:00", "05 02:30 +11:00"]),
    ] {
        assert_eq!(times("30 2 * * *", zone, after, until), expected, "{zone}");
    }
    let berlin = cron("30 2 * * *", "Europe/Berlin");
    assert!(berlin.is_shifted(at("2026-03-29T01:00:00Z")) && !berlin.is_shifted(at("2026-03-30T00:30:00Z")));
    let half = times("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", "2026-10-04T12:00:00Z");
    assert_eq!(half, ["04 02:30 +11:00"]);
}

#[test]
fn a_time_of_day_that_is_repeated_comes_once_the_first_time() {
    for (zone, after, until, expected) in [
        ("America/New_York", "2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z", ["01 01:30 -04:00", "02 01:30 -05:00"]),
        ("Australia/Lord_Howe", "2026-04-04T10:00:00Z", "2026-04-06T10:00:00Z", ["05 01:30 +11:00", "06 01:30 +10:30"]),
    ] {
        assert_eq!(times("30 1 * * *", zone, after, until), expected, "{zone}");
    }
}

#[test]
fn intervals_follow_the_clock_on_the_wall() {
    let skipped = times("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:10:00Z", "2026-03-29T01:40:00Z");
    assert_eq!(skipped, ["29 01:30 +01:00", "29 03:00 +02:00", "29 03:30 +02:00"]);
    let repeated = times("30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z");
    assert_eq!(repeated, ["25 02:30 +02:00", "25 02:30 +01:00"]);
}

// CRON-11
#[test]
fn months_and_years_roll_over() {
    let first = |expression: &str, after: &str| cron(expression, "UTC").next_after(at(after)).unwrap();
    assert_eq!(first("0 0 1,16,31 * *", "2020-02-18T00:00:00Z"), at("2020-03-01T00:00:00Z"));
    assert_eq!(first("0 9 2 1 *", "2024-12-31T20:27:00Z"), at("2025-01-02T09:00:00Z"));
    assert_eq!(first("0 0 29 2 *", "2096-03-01T00:00:00Z"), at("2104-02-29T00:00:00Z"), "2100 is no leap year");
    assert_eq!(first("59 59 23 31 12 *", "2026-12-31T23:59:59Z"), at("2027-12-31T23:59:59Z"));
}

// CRON-09
#[test]
fn dates_that_never_come_are_refused() {
    for expression in ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 31 2 *", "0 0 0 30 2 *"] {
        let refused = CronExpression::parse(expression, "Europe/Berlin").unwrap_err();
        assert_eq!(refused, InvalidCron::Never { expression: expression.to_owned() });
    }
    assert!(CronExpression::parse("0 0 29 2 *", "UTC").is_ok());
}

#[test]
fn what_is_no_expression_is_refused_and_named() {
    let long = "0,".repeat(EXPRESSION_BYTES_MAX);
    for expression in ["", "* * * *", "* * * * * * *", "60 * * * *", "a b c d e", "@never", "* * * * * 2026", &long] {
        let refused = CronExpression::parse(expression, "UTC").unwrap_err().to_string();
        assert!(refused.starts_with("expression "), "{refused}");
    }
    let refused = CronExpression::parse("* * * * *", "Europe/Atlantis").unwrap_err().to_string();
    assert!(refused.starts_with("timezone \"Europe/Atlantis\" is not known"), "{refused}");
}

#[test]
fn five_fields_and_six_and_names_are_read() {
    let first = |expression: &str| cron(expression, "UTC").next_after(at("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(first("30 4 * * *"), at("2026-01-01T04:30:00Z"));
    assert_eq!(first("15 30 4 * * *"), at("2026-01-01T04:30:15Z"));
    assert_eq!(first("0 9 * * MON"), at("2026-01-05T09:00:00Z"));
    assert_eq!(first("0 0 L * *"), at("2026-01-31T00:00:00Z"));
    assert_eq!(first("@hourly"), at("2026-01-01T01:00:00Z"));
    assert_eq!(first("0 9 * * 0"), first("0 9 * * 7"));
}

#[test]
fn the_latest_time_is_not_after_and_the_one_before_is_earlier() {
    let minutely = cron("* * * * *", "UTC");
    let noon = at("2026-01-01T12:00:00Z");
    assert_eq!(minutely.latest(noon), Some(noon));
    assert_eq!(minutely.latest(noon + TimeDelta::milliseconds(59_999)), Some(noon));
    assert_eq!(minutely.before(noon), Some(at("2026-01-01T11:59:00Z")));
    assert_eq!(minutely.next_after(noon - TimeDelta::milliseconds(1)), Some(noon));
}

/// An expression by the values of its fields; an empty set stands for `*`.
#[derive(Debug, Clone)]
struct Fields {
    minutes: BTreeSet<u32>,
    hours: BTreeSet<u32>,
    days: BTreeSet<u32>,
    months: BTreeSet<u32>,
    weekdays: BTreeSet<u32>,
}

impl Fields {
    fn text(&self) -> String {
        let field = |values: &BTreeSet<u32>| match values.len() {
            0 => "*".to_owned(),
            _ => values.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        };
        let fields = [&self.minutes, &self.hours, &self.days, &self.months, &self.weekdays];
        fields.map(field).join(" ")
    }

    fn has_day(&self, date: NaiveDate) -> bool {
        let day = self.days.contains(&date.day());
        let weekday = self.weekdays.contains(&date.weekday().num_days_from_sunday());
        let either = match (self.days.is_empty(), self.weekdays.is_empty()) {
            (true, true) => true,
            (false, true) => day,
            (true, false) => weekday,
            (false, false) => day || weekday,
        };
        either && fits(&self.months, date.month())
    }

    fn is_time_of_day(&self) -> bool {
        (self.minutes.len(), self.hours.len()) == (1, 1)
    }
}

fn fits(values: &BTreeSet<u32>, value: u32) -> bool {
    values.is_empty() || values.contains(&value)
}

/// Every time of these fields on the days from `first` on, minute by minute on the wall clock.
fn oracle(fields: &Fields, zone: Tz, first: NaiveDate, days: u64) -> Vec<DateTime<Utc>> {
    let mut times = BTreeSet::new();
    for date in (0..days).filter_map(|day| first.checked_add_days(Days::new(day))).filter(|date| fields.has_day(*date))
    {
        let midnight = date.and_hms_opt(0, 0, 0).unwrap();
        for minute in (0..24 * 60).map(|minute| midnight + TimeDelta::minutes(minute)) {
            if !fits(&fields.minutes, minute.minute()) || !fits(&fields.hours, minute.hour()) {
                continue;
            }
            match zone.from_local_datetime(&minute) {
                LocalResult::Single(time) => drop(times.insert(time.to_utc())),
                LocalResult::Ambiguous(one, _) if fields.is_time_of_day() => drop(times.insert(one.to_utc())),
                LocalResult::Ambiguous(one, two) => times.extend([one.to_utc(), two.to_utc()]),
                LocalResult::None if fields.is_time_of_day() => {
                    let later =
                        (1..=24 * 60).map(|later| zone.from_local_datetime(&(minute + TimeDelta::minutes(later))));
                    times.extend(later.filter_map(LocalResult::earliest).next().map(|time| time.to_utc()));
                }
                LocalResult::None => {}
            }
        }
    }
    times.into_iter().collect()
}

fn values(range: std::ops::RangeInclusive<u32>, most: usize) -> impl Strategy<Value = BTreeSet<u32>> {
    let all: Vec<u32> = range.collect();
    prop_oneof![Just(BTreeSet::new()), subsequence(all, 1..=most).prop_map(BTreeSet::from_iter)]
}

fn fields() -> impl Strategy<Value = Fields> {
    (values(0..=59, 3), values(0..=23, 3), values(1..=31, 4), values(1..=12, 4), values(0..=6, 2))
        .prop_map(|(minutes, hours, days, months, weekdays)| Fields { minutes, hours, days, months, weekdays })
}

/// Zones whose clocks change by an hour and by half an hour, in both hemispheres, at midnight, and never.
const ZONES: [Tz; 10] = [
    Tz::UTC,
    Tz::Europe__Berlin,
    Tz::America__New_York,
    Tz::America__Sao_Paulo,
    Tz::America__St_Johns,
    Tz::Australia__Lord_Howe,
    Tz::Asia__Kolkata,
    Tz::Africa__Cairo,
    Tz::Pacific__Chatham,
    Tz::America__Santiago,
];

/// Compares all times of some weeks, forwards and backwards.
fn compare(fields: &Fields, zone: Tz, first: NaiveDate, days: u64) -> Result<(), TestCaseError> {
    let Ok(cron) = CronExpression::parse(&fields.text(), zone.name()) else {
        // A date that never comes has no time for the oracle either.
        prop_assert!(oracle(fields, zone, first, days).is_empty());
        return Ok(());
    };
    let expected = oracle(fields, zone, first, days);
    let (Some(start), Some(end)) = (expected.first(), expected.last()) else { return Ok(()) };
    let forwards: Vec<_> =
        std::iter::once(*start).chain(cron.upcoming(*start)).take_while(|time| time <= end).collect();
    prop_assert_eq!(&forwards, &expected, "{} in {}", fields.text(), zone.name());
    let earlier = std::iter::successors(cron.latest(*end), |time| cron.before(*time));
    let mut backwards: Vec<_> = earlier.take(expected.len()).collect();
    backwards.reverse();
    prop_assert_eq!(&backwards, &expected, "{} in {}, backwards", fields.text(), zone.name());
    Ok(())
}

fn day_of(year: i32, ordinal: u32) -> NaiveDate {
    NaiveDate::from_yo_opt(year, ordinal).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    // CRON-06, CRON-11: two weeks around any day of five years, with its changes of clocks and leap days.
    #[test]
    fn times_are_those_of_the_wall_clock(
        fields in fields(),
        zone in select(ZONES.to_vec()),
        year in 2024..=2028_i32,
        ordinal in 1..=365_u32,
    ) {
        compare(&fields, zone, day_of(year, ordinal), 14)?;
    }

    // The days on which clocks change in one of the zones, which random days rarely meet.
    #[test]
    fn times_are_those_of_the_wall_clock_where_it_changes(
        fields in fields(),
        zone in select(ZONES.to_vec()),
        (month, day) in select(vec![(3, 7), (3, 28), (4, 4), (4, 23), (9, 5), (9, 26), (10, 3), (10, 24), (10, 29), (10, 31), (2, 27)]),
        hour in 0..=4_u32,
    ) {
        let fields = Fields { hours: BTreeSet::from([hour]), days: BTreeSet::new(), months: BTreeSet::new(), ..fields };
        compare(&fields, zone, NaiveDate::from_ymd_opt(2026, month, day).unwrap(), 4)?;
    }
}

mod long {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        // CRON-11
        #[test]
        fn times_of_five_years_are_those_of_the_wall_clock(fields in fields(), zone in select(ZONES.to_vec())) {
            // Every minute of five years is the same question 2.6 million times: hours of the day are asked.
            let minutes = if fields.minutes.is_empty() { BTreeSet::from([0]) } else { fields.minutes.clone() };
            compare(&Fields { minutes, ..fields }, zone, day_of(2024, 1), 5 * 365)?;
        }
    }
}
