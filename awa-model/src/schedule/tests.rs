//! Which times are due, which are left out, and what is asked next, for each rule about missed times.

use chrono::{DateTime, TimeDelta, Utc};

use super::{InvalidSchedule, Missed, PreparedSchedule, SLOTS_AT_ONCE, Schedule, Slots};
use crate::{CronExpression, JobArgs, NewJob};

#[derive(serde::Serialize, serde::Deserialize)]
struct Report;

impl JobArgs for Report {
    const KIND: &'static str = "report";
    type Output = ();
}

fn at(text: &str) -> DateTime<Utc> {
    format!("2026-06-{text}Z").parse().unwrap()
}

/// What is due, left out and next, of a schedule of every minute that has handled everything before `from`.
fn check(missed: Missed, from: &str, now: &str, due: &[&str], left_out: Option<(&str, &str)>, next: &str) {
    let cron = CronExpression::parse("* * * * *", "UTC").unwrap();
    let slots = Slots::of(&cron, missed, at(from), at(now));
    let expected = Slots {
        due: due.iter().map(|time| at(time)).collect(),
        left_out: left_out.map(|(first, last)| (at(first), at(last))),
        next: Some(at(next)),
    };
    assert_eq!(slots, expected, "{missed:?} from {from} at {now}");
}

const ALL: [Missed; 3] = [Missed::Coalesce, Missed::Skip, Missed::CatchUp { max: 1000 }];

#[test]
fn nothing_is_due_before_its_time() {
    for missed in ALL {
        check(missed, "01T12:00:00", "01T11:59:59.999", &[], None, "01T12:00:00");
    }
}

#[test]
fn one_time_that_has_come_is_due_whatever_the_rule() {
    for missed in ALL {
        check(missed, "01T12:00:00", "01T12:00:00", &["01T12:00:00"], None, "01T12:01:00");
        check(missed, "01T12:00:00", "01T12:00:59.999", &["01T12:00:00"], None, "01T12:01:00");
    }
}

// CRON-13
#[test]
fn coalescing_makes_one_of_thirty_days_and_says_which_it_stands_for() {
    let span = Some(("01T00:00:00", "30T23:57:00"));
    check(Missed::Coalesce, "01T00:00:00", "30T23:58:30", &["30T23:58:00"], span, "30T23:59:00");
}

#[test]
fn skipping_leaves_out_what_is_more_than_a_minute_late() {
    let span = Some(("01T00:00:00", "01T11:59:00"));
    check(Missed::Skip, "01T00:00:00", "01T12:00:40", &["01T12:00:00"], span, "01T12:01:00");
    let daily = CronExpression::parse("0 12 * * *", "UTC").unwrap();
    let slots = |now| Slots::of(&daily, Missed::Skip, at("01T12:00:00"), at(now));
    assert_eq!(slots("01T12:01:00").due, [at("01T12:00:00")]);
    let late = slots("01T12:01:00.001");
    assert_eq!((late.due, late.left_out), (vec![], Some((at("01T12:00:00"), at("01T12:00:00")))));
    assert_eq!(late.next, Some(at("02T12:00:00")));
}

#[test]
fn catching_up_takes_the_newest_in_order_and_a_part_at_a_time() {
    check(
        Missed::CatchUp { max: 3 },
        "01T12:00:00",
        "01T12:05:30",
        &["01T12:03:00", "01T12:04:00", "01T12:05:00"],
        Some(("01T12:00:00", "01T12:02:00")),
        "01T12:06:00",
    );
    let cron = CronExpression::parse("* * * * *", "UTC").unwrap();
    let (mut from, now) = (at("01T00:00:00"), at("01T05:00:00"));
    let mut all = Vec::new();
    while from <= now {
        let slots = Slots::of(&cron, Missed::CatchUp { max: 250 }, from, now);
        assert!(slots.due.len() <= SLOTS_AT_ONCE);
        // What was left out was so the first time alone.
        assert_eq!(slots.left_out.is_some(), all.is_empty());
        all.extend(slots.due);
        from = slots.next.unwrap();
    }
    let newest: Vec<_> = (0..250).rev().map(|minutes| now - TimeDelta::minutes(minutes)).collect();
    assert_eq!(all, newest);
}

#[test]
fn times_of_a_schedule_of_every_second_for_a_year_are_not_gone_through() {
    let cron = CronExpression::parse("* * * * * *", "UTC").unwrap();
    let from: DateTime<Utc> = "2020-01-01T00:00:00Z".parse().unwrap();
    for missed in ALL {
        let slots = Slots::of(&cron, missed, from, at("01T00:00:00"));
        assert!(!slots.due.is_empty() && slots.left_out.is_some());
    }
}

fn refusal(schedule: Schedule) -> String {
    schedule.prepare().unwrap_err().to_string()
}

#[test]
fn what_cannot_be_is_refused_with_field_value_and_limit() {
    let schedule = || Schedule::new("report", "@daily", &Report);
    assert_eq!(refusal(Schedule::new("", "@daily", &Report)), "schedule is empty; it must have 1 to 128 bytes");
    assert!(refusal(Schedule::new("a", "0 0 30 2 *", &Report)).contains("never comes"));
    assert!(refusal(schedule().timezone("Moon")).contains("timezone \"Moon\""));
    let attempts = NewJob::new(&Report).max_attempts(0);
    assert_eq!(refusal(Schedule::new("a", "@daily", attempts)), "job.max_attempts is 0; it must be 1 to 1000");
    let due = NewJob::new(&Report).run_in(std::time::Duration::from_secs(1));
    let error = Schedule::new("a", "@daily", due).prepare().unwrap_err();
    assert_eq!(error, InvalidSchedule::JobIsDue { field: "run_in" });
    for max in [0, 10_001] {
        assert_eq!(
            refusal(schedule().missed(Missed::CatchUp { max })),
            format!("catch_up max is {max}; it must be 1 to 10000")
        );
    }
    let PreparedSchedule { name, .. } = schedule().timezone("Europe/Berlin").prepare().unwrap();
    assert_eq!(name, "report");
}
