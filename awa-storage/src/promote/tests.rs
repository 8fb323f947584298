//! Where a cursor starts, without a database.

use std::time::{Duration, Instant};

use awa_model::JobId;
use chrono::{DateTime, Utc};

use super::PromoteCursor;

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
