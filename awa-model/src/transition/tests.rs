//! What every state machine of this kind must satisfy, whatever its edges are.

use super::{EDGES, Transition};
use crate::JobState;

#[test]
fn no_edge_is_listed_twice() {
    for (index, edge) in EDGES.iter().enumerate() {
        let twin =
            EDGES[index + 1..].iter().find(|other| (other.from, other.by, other.to) == (edge.from, edge.by, edge.to));
        assert_eq!(twin, None);
    }
}

#[test]
fn edges_that_start_alike_say_when_each_is_taken() {
    for edge in EDGES {
        let alike = EDGES.iter().filter(|other| (other.from, other.by) == (edge.from, edge.by));
        let words: Vec<&str> = alike.map(|other| other.when).collect();
        let mut distinct = words.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), words.len(), "{edge:?}");
        assert!(words.len() == 1 || !words.contains(&""), "{edge:?}");
    }
}

#[test]
fn every_transition_has_an_edge() {
    for transition in Transition::ALL {
        assert!(EDGES.iter().any(|edge| edge.by == transition), "{transition}");
    }
}

#[test]
fn every_state_is_reached_and_left() {
    for state in JobState::ALL {
        assert!(EDGES.iter().any(|edge| edge.to == Some(state)), "{state} is never reached");
        assert!(EDGES.iter().any(|edge| edge.from == Some(state)), "{state} is never left");
    }
}

#[test]
fn only_an_operator_or_retention_ends_the_end() {
    for edge in EDGES.iter().filter(|edge| edge.from.is_some_and(JobState::is_terminal)) {
        assert!(matches!(edge.by, Transition::OperatorRetry | Transition::Delete | Transition::Prune), "{edge:?}");
    }
}

#[test]
fn completed_stays_completed() {
    for edge in EDGES.iter().filter(|edge| edge.from == Some(JobState::Completed)) {
        assert_eq!(edge.to, None, "{edge:?}");
    }
}

#[test]
fn anything_open_can_be_cancelled() {
    for state in JobState::ALL {
        assert_eq!(Transition::Cancel.is_allowed_from(state), !state.is_terminal(), "{state}");
    }
}

#[test]
fn only_a_claim_starts_a_run() {
    for edge in EDGES.iter().filter(|edge| edge.to == Some(JobState::Running)) {
        assert_eq!((edge.from, edge.by), (Some(JobState::Available), Transition::Claim));
    }
}
