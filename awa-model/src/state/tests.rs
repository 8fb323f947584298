//! The order and labels of the states are a contract with the database; these tables pin them.

use super::{JobState, Plane};

const GOLDEN: &str = "\
0 scheduled deferred open
1 available hot open
2 running hot open
3 waiting_external hot open
4 retryable deferred open
5 completed hot terminal
6 failed hot terminal
7 cancelled hot terminal
";

#[test]
fn states_keep_their_order_labels_and_planes() {
    let rendered: String = JobState::ALL
        .into_iter()
        .map(|state| {
            let plane = match state.plane() {
                Plane::Hot => "hot",
                Plane::Deferred => "deferred",
            };
            let end = if state.is_terminal() { "terminal" } else { "open" };
            format!("{} {state} {plane} {end}\n", state as u8)
        })
        .collect();
    assert_eq!(rendered, GOLDEN);
}

#[test]
fn the_database_type_lists_the_same_labels_in_the_same_order() {
    let migration = include_str!("../../../migrations/0001_job_state.sql");
    let (_, labels) = migration.split_once("create type awa.job_state as enum (").expect("the type is created here");
    let (labels, _) = labels.split_once(')').expect("the list ends");
    let labels: Vec<&str> = labels.split(',').map(|label| label.trim().trim_matches('\'')).collect();
    assert_eq!(labels, JobState::ALL.map(JobState::as_str));
}

#[test]
fn a_label_reads_back_as_its_state() {
    for state in JobState::ALL {
        assert_eq!(state.as_str().parse(), Ok(state));
        assert_eq!(serde_json::to_value(state).expect("a state is a string"), state.as_str());
    }
}

#[test]
fn an_unknown_label_is_refused_with_the_known_ones() {
    let refusal = "done".parse::<JobState>().expect_err("there is no such state").to_string();
    assert!(refusal.starts_with("`done` is not a job state"), "{refusal}");
    for state in JobState::ALL {
        assert!(refusal.contains(state.as_str()), "{refusal}");
    }
}
