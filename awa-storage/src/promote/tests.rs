//! Where a cursor starts, without a database.

use std::time::{Duration, Instant};

use awa_model::JobId;
use chrono::{DateTime, Utc};

use super::{PromoteCursor, scout::Scout};

fn at(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(second, 0).expect("a time of this century")
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_new_cursor_starts_at_the_head() {
    assert_eq!(PromoteCursor::default().start(Instant::now()), None);
}

#[test]
fn while_more_is_due_the_next_batch_starts_behind_the_last() {
    let (mut cursor, now) = (PromoteCursor::default(), Instant::now());
    cursor.start(now);
    cursor.advance(Some((at(10), JobId::new(7))), true, now);
    assert_eq!(cursor.start(now), Some((at(10), JobId::new(7))));
}

#[test]
fn a_cheap_sweep_is_repeated_at_once_and_a_slow_one_is_not() {
    let (mut cursor, now) = (PromoteCursor::default(), Instant::now());
    cursor.start(now);
    cursor.advance(Some((at(10), JobId::new(7))), false, now);
    assert_eq!(cursor.start(now), None);
    cursor.advance(Some((at(11), JobId::new(8))), false, now + 50 * MS);
    let behind = Some((at(10), JobId::new(i64::MIN)));
    assert_eq!(cursor.start(now + 100 * MS), behind);
    cursor.advance(None, false, now + 101 * MS);
    assert_eq!(cursor.start(now + 2000 * MS), None);
}

/// Where a scout is asked to look, as seconds, and which queues it passes by.
fn look(scout: &mut Scout, behind: i64, now: Instant) -> Option<(i64, String)> {
    let look = scout.next(Some((at(behind), JobId::new(0))), now)?;
    Some((look.behind.0.timestamp(), look.passed_by.join(" ")))
}

fn crowded(scout: &mut Scout, queues: &[&str]) {
    scout.crowded_by(queues.iter().map(|&queue| queue.to_owned()).collect());
}

#[test]
fn a_scout_looks_once_after_each_full_batch_and_never_without_one() {
    let (mut scout, now) = (Scout::default(), Instant::now());
    assert_eq!(look(&mut scout, 10, now), None);
    crowded(&mut scout, &["a"]);
    assert_eq!(look(&mut scout, 10, now), Some((10, "a".to_owned())));
    assert_eq!(look(&mut scout, 10, now), None);
    crowded(&mut scout, &[]);
    assert_eq!(look(&mut scout, 10, now), None);
}

#[test]
fn a_scout_goes_on_where_it_was_unless_the_batches_have_overtaken_it() {
    let (mut scout, now) = (Scout::default(), Instant::now());
    for (behind, looks_behind, reaches) in [(10, 10, 50), (20, 50, 90), (100, 100, 140)] {
        crowded(&mut scout, &["a"]);
        assert_eq!(look(&mut scout, behind, now), Some((looks_behind, "a".to_owned())));
        scout.looked((at(reaches), JobId::new(1)), false, MS);
    }
}

#[test]
fn a_queue_that_has_crowded_is_passed_by_until_the_round_ends_and_the_next_begins_when_it_is_cheap() {
    let (mut scout, now) = (Scout::default(), Instant::now());
    crowded(&mut scout, &["a"]);
    look(&mut scout, 10, now);
    scout.looked((at(50), JobId::new(1)), false, 10 * MS);
    crowded(&mut scout, &["b"]);
    assert_eq!(look(&mut scout, 20, now), Some((50, "a b".to_owned())));
    scout.looked((at(90), JobId::new(i64::MAX)), true, 10 * MS);
    // At the end it looks at what comes due, a little of it twice.
    crowded(&mut scout, &["b"]);
    assert_eq!(look(&mut scout, 30, now + 100 * MS), Some((89, "a b".to_owned())));
    scout.looked((at(91), JobId::new(i64::MAX)), true, Duration::ZERO);
    for _ in 0..29 {
        crowded(&mut scout, &["b"]);
        assert_eq!(look(&mut scout, 30, now + 100 * MS), Some((90, "a b".to_owned())));
        scout.looked((at(91), JobId::new(i64::MAX)), true, Duration::ZERO);
    }
    crowded(&mut scout, &["b"]);
    assert_eq!(look(&mut scout, 40, now + 800 * MS), Some((40, "b".to_owned())));
}

#[test]
fn a_scout_starts_over_rather_than_pass_by_ever_more_queues() {
    let (mut scout, now) = (Scout::default(), Instant::now());
    for batch in 0..100 {
        let queues: Vec<String> = (0..32).map(|queue| format!("{batch}-{queue}")).collect();
        scout.crowded_by(queues);
        let look = scout.next(Some((at(10), JobId::new(0))), now).expect("a backlog");
        assert!(look.passed_by.len() <= 64);
    }
}

#[test]
fn slow_looks_become_shorter_and_quick_ones_longer_within_limits() {
    let (mut scout, now) = (Scout::default(), Instant::now());
    let mut rows = |took: Duration| {
        for _ in 0..20 {
            crowded(&mut scout, &["a"]);
            scout.next(Some((at(10), JobId::new(0))), now);
            scout.looked((at(50), JobId::new(1)), false, took);
        }
        crowded(&mut scout, &["a"]);
        scout.next(Some((at(10), JobId::new(0))), now).map(|look| look.rows)
    };
    assert_eq!(rows(MS), Some(100_000));
    assert_eq!(rows(1000 * MS), Some(1000));
}

#[test]
fn a_queue_that_fills_four_batches_of_the_scout_is_passed_by_too() {
    let (mut scout, now) = (Scout::default(), Instant::now());
    for passed_by in ["a", "a", "a", "a", "a b"] {
        crowded(&mut scout, &["a"]);
        assert_eq!(look(&mut scout, 10, now), Some((10, passed_by.to_owned())));
        scout.full_of(vec!["b".to_owned()]);
    }
}
