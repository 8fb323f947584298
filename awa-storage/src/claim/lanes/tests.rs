//! The lanes, step by step.

use super::{Ask, FOUND_MAX, Lanes, Looked, Stretch};

fn lanes() -> Lanes {
    let mut lanes = Lanes::starting_at(&[0, 0, 0, 0]);
    lanes.ring_is(0, 2);
    lanes
}

fn answer(reached: i64, found: &[(i64, i16)]) -> Looked {
    Looked { reached, found: found.to_vec(), ..Looked::default() }
}

fn main_ask(lanes: &Lanes, horizon: i64) -> Ask {
    lanes.asks(Stretch::Main, horizon)[0]
}

#[test]
fn an_overtaken_row_is_found_and_stays_until_it_is_seen_taken() {
    let mut lanes = lanes();
    lanes.claimed(0, 50, 1);
    let ask = main_ask(&lanes, 60);
    assert_eq!((ask.low, ask.high, ask.optimistic), (0, 60, 50));
    lanes.looked(Stretch::Main, &ask, &answer(60, &[(40, 1)]));
    assert_eq!(lanes.found(), [(0, 40, 1)]);
    assert_eq!(lanes.marks(None)[0], 39);
    lanes.lost(0, 40);
    assert_eq!(lanes.marks(None)[0], 60);
}

#[test]
fn a_found_row_above_what_all_segments_reached_is_left_for_the_next_look() {
    let mut lanes = lanes();
    lanes.claimed(0, 50, 1);
    let ask = main_ask(&lanes, 60);
    assert!(lanes.looked(Stretch::Main, &ask, &answer(30, &[(20, 0), (40, 1)])));
    assert_eq!(lanes.found(), [(0, 20, 0)]);
    assert_eq!(main_ask(&lanes, 60).low, 30);
}

#[test]
fn the_optimistic_cursor_never_lags_behind_the_exact_one() {
    let mut lanes = lanes();
    let ask = main_ask(&lanes, 60);
    lanes.looked(Stretch::Main, &ask, &answer(60, &[]));
    assert_eq!(lanes.starts(&[false]).0[0], 60);
}

#[test]
fn a_row_beyond_the_claims_stops_the_look_and_reopens_its_segment() {
    let mut lanes = lanes();
    lanes.answered(0, true, None);
    assert_eq!(lanes.lanes[0].skips, 0b011);
    let ask = main_ask(&lanes, 60);
    lanes.looked(Stretch::Main, &ask, &Looked { reached: 9, beyond_segments: vec![1], ..Looked::default() });
    assert_eq!((lanes.lanes[0].skips, lanes.lanes[0].exact), (0b001, 9));
    assert!(lanes.has_backlog(60));
}

#[test]
fn a_full_answer_tells_nothing_about_the_lane_it_ended_in() {
    let mut lanes = lanes();
    lanes.answered(0, false, Some(3));
    assert_eq!(lanes.lanes.iter().map(|lane| lane.skips).collect::<Vec<_>>(), [0b011, 0b011, 0, 0]);
}

#[test]
fn a_row_of_the_current_segment_says_that_the_closed_ones_of_its_lane_are_through() {
    let mut lanes = lanes();
    lanes.claimed(1, 50, 1);
    assert_eq!(lanes.lanes[1].skips, 0);
    lanes.claimed(1, 60, 2);
    assert_eq!(lanes.lanes.iter().map(|lane| lane.skips).collect::<Vec<_>>(), [0, 0b011, 0, 0]);
}

#[test]
fn only_a_queue_that_was_short_starts_early_and_leaves_no_segment_out() {
    let mut lanes = Lanes::starting_at(&[0; 8]);
    lanes.ring_is(0, 2);
    for lane in [0, 4] {
        lanes.claimed(lane, 50, 2);
    }
    let (starts, skips) = lanes.starts(&[false, true]);
    assert_eq!((starts[0], skips[0]), (50, 0b011));
    assert_eq!((starts[4], skips[4]), (0, 0));
}

#[test]
fn a_segment_that_is_current_again_is_visited_again() {
    let mut lanes = lanes();
    lanes.answered(0, true, None);
    lanes.ring_is(1, 8);
    assert_eq!(lanes.lanes[0].skips, 0b010);
}

#[test]
fn an_ended_transaction_costs_each_lane_its_stretch_once() {
    let mut lanes = lanes();
    let ask = main_ask(&lanes, 60);
    lanes.looked(Stretch::Main, &ask, &answer(60, &[]));
    lanes.look_again_from(20);
    assert_eq!(lanes.marks(None)[0], 20);
    let ask = lanes.asks(Stretch::Late, 60)[0];
    assert_eq!((ask.low, ask.high, ask.optimistic), (20, 60, i64::MAX));
    assert!(lanes.looked(Stretch::Late, &ask, &answer(30, &[(25, 0)])));
    let ask = lanes.asks(Stretch::Late, 60)[0];
    assert_eq!(ask.low, 30);
    assert!(!lanes.looked(Stretch::Late, &ask, &answer(60, &[])));
    assert!(lanes.asks(Stretch::Late, 60).is_empty());
    assert_eq!(lanes.found(), [(0, 25, 0)]);
}

#[test]
fn a_row_of_another_kind_holds_back_the_mark_but_not_the_cursor() {
    let mut lanes = lanes();
    let ask = main_ask(&lanes, 60);
    lanes.looked(Stretch::Main, &ask, &Looked { reached: 60, other: Some(7), ..Looked::default() });
    assert_eq!((lanes.lanes[0].exact, lanes.marks(None)[0]), (60, 6));
}

#[test]
fn a_lane_full_of_found_rows_is_not_looked_at() {
    let mut lanes = lanes();
    let ask = main_ask(&lanes, 100_000);
    let rows: Vec<(i64, i16)> = (1..=FOUND_MAX as i64).map(|seq| (seq, 0)).collect();
    lanes.looked(Stretch::Main, &ask, &answer(5_000, &rows));
    assert!(lanes.asks(Stretch::Main, 100_000).iter().all(|ask| ask.lane != 0));
}

#[test]
fn a_claim_after_a_short_answer_starts_at_the_exact_cursor_unless_it_is_far_behind() {
    let mut lanes = lanes();
    lanes.claimed(0, 50, 1);
    lanes.claimed(1, 50_000, 1);
    assert_eq!(lanes.starts(&[true]).0[..2], [0, 50_000]);
    assert_eq!(lanes.starts(&[false]).0[..2], [50, 50_000]);
}

#[test]
fn a_probe_clears_what_is_gone_and_nothing_that_it_did_not_see() {
    let mut lanes = lanes();
    let ask = main_ask(&lanes, 60);
    lanes.looked(Stretch::Main, &ask, &Looked { reached: 60, other: Some(7), ..Looked::default() });
    let probe = lanes.probes()[0];
    assert_eq!((probe.low, probe.high), (6, 60));
    // While the probe is on its way the cursor goes on.
    let ask = main_ask(&lanes, 90);
    lanes.looked(Stretch::Main, &ask, &Looked { reached: 90, other: Some(70), ..Looked::default() });
    lanes.probed(&probe, 60);
    assert_eq!(lanes.marks(None)[0], 60);
    let probe = lanes.probes()[0];
    lanes.probed(&probe, 69);
    assert_eq!(lanes.marks(None)[0], 69);
    let probe = lanes.probes()[0];
    lanes.probed(&probe, 90);
    assert_eq!(lanes.marks(None)[0], 90);
}

#[test]
fn a_probe_does_not_hide_a_lower_row_met_meanwhile() {
    let mut lanes = lanes();
    let ask = main_ask(&lanes, 60);
    lanes.looked(Stretch::Main, &ask, &Looked { reached: 60, other: Some(50), ..Looked::default() });
    let probe = lanes.probes()[0];
    lanes.look_again_from(10);
    let ask = lanes.asks(Stretch::Late, 60)[0];
    lanes.looked(Stretch::Late, &ask, &Looked { reached: 60, other: Some(20), ..Looked::default() });
    lanes.probed(&probe, 60);
    assert_eq!(lanes.marks(None)[0], 19);
}
