//! The rules between settings.

use std::time::Duration;

use super::{InvalidConfig, MaintenanceConfig, TERM_MIN, YEAR};

fn broken(change: impl FnOnce(&mut MaintenanceConfig)) -> Vec<InvalidConfig> {
    let mut config = MaintenanceConfig::default();
    change(&mut config);
    config.validate().err().unwrap_or_default()
}

#[test]
fn the_defaults_break_no_rule() {
    assert_eq!(broken(|_| ()), []);
}

#[test]
fn staleness_below_three_heartbeats_is_refused() {
    let (heartbeat, staleness) = (Duration::from_secs(30), Duration::from_secs(89));
    assert_eq!(
        broken(|config| config.staleness = staleness),
        [InvalidConfig::StalenessTooShort { staleness, heartbeat }]
    );
    assert_eq!(broken(|config| config.staleness = heartbeat * 3), []);
}

#[test]
fn zero_is_refused_but_for_the_grace() {
    assert_eq!(broken(|config| config.prune_batch_max = 0), [InvalidConfig::Zero { setting: "prune_batch_max" }]);
    assert_eq!(broken(|config| config.heartbeat = Duration::ZERO), [InvalidConfig::Zero { setting: "heartbeat" }]);
    assert_eq!(broken(|config| config.deadline_grace = Duration::ZERO), []);
}

#[test]
fn every_broken_rule_is_named() {
    let found = broken(|config| {
        config.promote_interval_min = Duration::from_secs(2);
        config.leader_term = TERM_MIN / 2;
        config.prune_interval = YEAR * 2;
    });
    assert_eq!(
        found,
        [
            InvalidConfig::TooLong { setting: "prune_interval" },
            InvalidConfig::TermTooShort { term: TERM_MIN / 2, least: TERM_MIN },
            InvalidConfig::WrongOrder { lower: "promote_interval_min", upper: "promote_interval_max" },
        ]
    );
}

#[test]
fn a_fleet_is_given_the_grace_of_its_handlers_and_time_to_say_so() {
    for grace in [0, 5, 600].map(Duration::from_secs) {
        let config = MaintenanceConfig::of_fleet(Duration::from_secs(30), Duration::from_secs(90), grace);
        assert_eq!((config.deadline_grace, config.validate()), (grace + Duration::from_secs(6), Ok(())));
    }
}
