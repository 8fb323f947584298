//! The horizon against a model of transactions that draw numbers, commit out of order, roll back or stay open.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use proptest::prelude::*;

use super::{Horizon, Observation, PATIENCE};

fn seen(open: &[i64], seq: i64, xid: Option<i64>) -> Observation {
    Observation { open: open.to_vec(), seq, xid }
}

#[test]
fn a_mark_is_not_settled_by_the_observation_that_took_it() {
    let mut horizon = Horizon::default();
    horizon.observe(&seen(&[], 10, Some(100)), Instant::now());
    assert_eq!(horizon.settled(), 0);
    horizon.observe(&seen(&[], 10, None), Instant::now());
    assert_eq!(horizon.settled(), 10);
}

#[test]
fn a_younger_open_transaction_holds_nothing_back() {
    let start = Instant::now();
    let mut horizon = Horizon::default();
    horizon.observe(&seen(&[], 10, Some(100)), start);
    horizon.observe(&seen(&[101], 10, None), start);
    assert_eq!(horizon.settled(), 10);
}

#[test]
fn an_older_one_holds_it_back_until_patience_ends_then_is_set_aside() {
    let start = Instant::now();
    let mut horizon = Horizon::starting_at(4);
    horizon.observe(&seen(&[99], 10, Some(100)), start);
    horizon.observe(&seen(&[99], 10, None), start + PATIENCE);
    assert_eq!(horizon.settled(), 4);
    horizon.observe(&seen(&[99], 10, None), start + PATIENCE + Duration::from_millis(1));
    assert_eq!((horizon.settled(), horizon.safe()), (10, 4));
    assert_eq!(horizon.set_aside(), [99]);
}

#[test]
fn the_end_of_a_set_aside_transaction_asks_for_its_stretch_once() {
    let start = Instant::now();
    let late = start + PATIENCE * 2;
    let mut horizon = Horizon::starting_at(4);
    horizon.observe(&seen(&[99], 10, Some(100)), start);
    horizon.observe(&seen(&[99], 10, None), late);
    assert_eq!(horizon.observe(&seen(&[], 10, None), late), Some(4));
    assert_eq!(horizon.observe(&seen(&[], 10, None), late), None);
    assert_eq!(horizon.safe(), 10);
}

#[test]
fn an_idle_writer_starts_at_todays_horizon() {
    let start = Instant::now();
    let late = start + PATIENCE * 2;
    let mut horizon = Horizon::starting_at(4);
    horizon.observe(&seen(&[98, 99], 10, Some(100)), start);
    horizon.observe(&seen(&[98, 99], 10, None), late);
    horizon.raise_idle(HashSet::from([98]));
    assert_eq!(horizon.safe(), 4, "one reading is not enough");
    horizon.raise_idle(HashSet::from([98]));
    assert_eq!(horizon.safe(), 4, "99 writes");
    assert_eq!(horizon.observe(&seen(&[99], 10, None), late), Some(10));
}

/// It drew, and committed after it was last observed: that it holds no lock says nothing then.
#[test]
fn a_transaction_that_ended_since_it_was_observed_keeps_its_stretch() {
    let start = Instant::now();
    let late = start + PATIENCE * 2;
    let mut horizon = Horizon::starting_at(4);
    horizon.observe(&seen(&[99], 10, Some(100)), start);
    horizon.observe(&seen(&[99], 10, None), late);
    horizon.raise_idle(HashSet::new());
    horizon.raise_idle(HashSet::new());
    assert_eq!(horizon.observe(&seen(&[], 10, None), late), Some(4));
}

/// What one transaction of the model does next.
#[derive(Clone, Debug)]
enum Event {
    Begin,
    Draw(usize),
    End(usize),
    Observe(u8),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(
        prop_oneof![
            3 => Just(Event::Begin),
            6 => any::<usize>().prop_map(Event::Draw),
            3 => any::<usize>().prop_map(Event::End),
            4 => any::<u8>().prop_map(Event::Observe),
        ],
        1..200,
    )
}

proptest! {
    /// I5: at every observation, a number at or below the horizon belongs to a transaction that has ended, or to one that
    /// is set aside with a horizon below the number; and an ended one that drew below the horizon while it was set aside is
    /// named by the stretch returned.
    #[test]
    fn nothing_below_the_horizon_is_undecided(events in events()) {
        let mut horizon = Horizon::default();
        let mut clock = Instant::now();
        let (mut next_xid, mut next_seq) = (100_i64, 1_i64);
        // (xid, numbers drawn)
        let mut open: Vec<(i64, Vec<i64>)> = Vec::new();
        // Numbers whose transaction ended after the horizon had passed them: still owed a look.
        let mut owed: Vec<i64> = Vec::new();
        for event in events {
            match event {
                Event::Begin => {
                    open.push((next_xid, Vec::new()));
                    next_xid += 1;
                }
                Event::Draw(which) if !open.is_empty() => {
                    let place = which % open.len();
                    open[place].1.push(next_seq);
                    next_seq += 1;
                }
                Event::End(which) if !open.is_empty() => {
                    let (_, drawn) = open.swap_remove(which % open.len());
                    owed.extend(drawn.into_iter().filter(|seq| *seq <= horizon.settled()));
                }
                Event::Observe(wait) => {
                    clock += Duration::from_millis(u64::from(wait));
                    let xids: Vec<i64> = open.iter().map(|(xid, _)| *xid).collect();
                    let drawn = next_seq - 1;
                    let xid = (drawn != horizon.last_marked()).then(|| {
                        next_xid += 1;
                        next_xid - 1
                    });
                    if let Some(from) = horizon.observe(&seen(&xids, drawn, xid), clock) {
                        owed.retain(|seq| *seq <= from);
                    }
                    prop_assert!(owed.is_empty(), "numbers {owed:?} are owed a look and nobody asked for one");
                    for (xid, drawn) in &open {
                        for seq in drawn.iter().filter(|seq| **seq <= horizon.settled()) {
                            prop_assert!(horizon.set_aside().contains(xid), "{seq} of open {xid} is below the horizon");
                            prop_assert!(horizon.safe() < *seq, "{seq} of open {xid} is below the safe bound");
                        }
                    }
                }
                _ => {}
            }
        }
    }
}
