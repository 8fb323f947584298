//! The rules between settings, each broken once.

use super::*;

#[test]
fn the_defaults_are_fine() {
    assert_eq!(Config::default().mistakes(), []);
}

#[test]
fn a_heartbeat_slower_than_a_third_of_staleness_is_refused() {
    let second = Duration::from_secs(1);
    for (heartbeat_interval, stale_after) in
        [(90 * second, 90 * second), (91 * second, 90 * second), (31 * second, 90 * second)]
    {
        let mistakes = Config { heartbeat_interval, stale_after, ..Config::default() }.mistakes();
        assert_eq!(mistakes, [Mistake::HeartbeatTooSlow { heartbeat_interval, stale_after }]);
    }
    let zero = Config { heartbeat_interval: Duration::ZERO, ..Config::default() }.mistakes();
    assert!(matches!(zero[..], [Mistake::DurationOutOfRange { setting: "heartbeat_interval", .. }]));
}

#[test]
fn all_mistakes_are_reported_together() {
    let config = Config { connections: 0, claim_batch_max: 0, poll_interval: Duration::ZERO, ..Config::default() };
    assert_eq!(config.mistakes().len(), 3);
}

#[test]
fn queues_are_checked_one_by_one() {
    let given = ["a", "a", "", "b\n"].map(|name| (name.to_owned(), QueueConfig::new()));
    let (served, mistakes) = check_queues(&given);
    assert_eq!(served.len(), 1);
    assert!(matches!(
        mistakes[..],
        [Mistake::QueueTwice { .. }, Mistake::InvalidQueue { .. }, Mistake::InvalidQueue { .. }]
    ));
    let (_, mistakes) = check_queues(&[("a".to_owned(), QueueConfig::new().max_workers(0))]);
    assert_eq!(mistakes, [Mistake::NoWorkers { queue: "a".to_owned() }]);
}

#[test]
fn the_message_names_every_mistake() {
    let error = BuildError::unless_empty(vec![Mistake::NoHandlers, Mistake::KindTwice { kind: "resize" }]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the client cannot be built: queues are given, but no handler is registered; kind \"resize\" has two handlers"
    );
}
