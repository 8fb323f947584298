//! The buffer against a model of three lines: every short run, and many long ones.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use serde_json::json;

use super::*;

impl Numbered for u64 {
    fn generation(&self) -> u64 {
        *self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The handler reports the next value.
    Report,
    /// Somebody asks for the snapshot to be stored.
    Take,
    /// The database stored it and said so.
    Store,
    /// The database stored it, and the answer was lost.
    StoreUnheard,
    /// It never arrived.
    Lose,
}

const STEPS: [Step; 5] = [Step::Report, Step::Take, Step::Store, Step::StoreUnheard, Step::Lose];

/// What must hold, in three lines: the latest report, what the database holds, what is on its way.
#[derive(Debug, Clone, Default)]
struct Model {
    latest: u64,
    confirmed: u64,
    out: Option<u64>,
}

impl Model {
    fn step(&mut self, step: Step) {
        match step {
            Step::Report => self.latest += 1,
            Step::Take if self.out.is_none() && self.confirmed < self.latest => self.out = Some(self.latest),
            Step::Take => {}
            Step::Store => self.confirmed = self.out.take().unwrap_or(self.confirmed),
            Step::StoreUnheard | Step::Lose => self.out = None,
        }
    }
}

/// The buffer under test, with the database that it talks to. Values are the numbers 1, 2, 3 …
#[derive(Debug)]
struct Rig {
    buffer: Generations<u64>,
    out: Option<u64>,
    database: u64,
}

impl Rig {
    fn new() -> Self {
        Self { buffer: Generations::new(0), out: None, database: 0 }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Report => {
                *self.buffer.latest_mut() += 1;
            }
            Step::Take => {
                if let Some(value) = self.buffer.take() {
                    assert!(self.out.is_none(), "two snapshots are out");
                    self.out = Some(*value);
                }
            }
            Step::Store | Step::StoreUnheard => {
                if let Some(value) = self.out.take() {
                    assert!(value >= self.database, "an older value replaced a newer one");
                    self.database = value;
                    if step == Step::Store { self.buffer.acknowledge() } else { self.buffer.give_back() }
                }
            }
            Step::Lose => {
                if self.out.take().is_some() {
                    self.buffer.give_back();
                }
            }
        }
    }

    fn agrees_with(&self, model: &Model) {
        assert_eq!(*self.buffer.latest(), model.latest);
        assert_eq!(self.out, model.out);
        assert!(self.buffer.is_stored(model.confirmed) && !self.buffer.is_stored(model.confirmed + 1));
        assert_eq!(self.buffer.unconfirmed().copied(), (model.confirmed < model.latest).then_some(model.latest));
        // I12: what counts as acknowledged is in the database.
        assert!(self.database >= model.confirmed);
    }

    /// Whatever happened, one undisturbed round trip brings the database up to date.
    fn settles(mut self) {
        self.step(Step::Lose);
        self.step(Step::Take);
        self.step(Step::Store);
        assert_eq!(self.database, *self.buffer.latest());
        assert!(self.buffer.unconfirmed().is_none());
    }
}

fn run(steps: &[Step]) -> Rig {
    let (mut rig, mut model) = (Rig::new(), Model::default());
    for step in steps {
        rig.step(*step);
        model.step(*step);
        rig.agrees_with(&model);
    }
    rig
}

#[test]
fn every_interleaving_of_up_to_eight_steps_agrees_with_the_model() {
    let mut ends = BTreeSet::new();
    for length in 0..=8_u32 {
        for number in 0..STEPS.len().pow(length) {
            let steps: Vec<_> = (0..length).map(|place| STEPS[number / STEPS.len().pow(place) % STEPS.len()]).collect();
            let rig = run(&steps);
            ends.insert((*rig.buffer.latest(), rig.database, rig.out));
            rig.settles();
        }
    }
    assert!(ends.len() > 50, "the steps reach few states: {ends:?}");
}

struct Machine;

impl ReferenceStateMachine for Machine {
    type State = Model;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Model> {
        Just(Model::default()).boxed()
    }

    fn transitions(_: &Model) -> BoxedStrategy<Step> {
        proptest::sample::select(&STEPS[..]).boxed()
    }

    fn apply(mut model: Model, step: &Step) -> Model {
        model.step(*step);
        model
    }
}

impl StateMachineTest for Machine {
    type SystemUnderTest = Rig;
    type Reference = Self;

    fn init_test(_: &Model) -> Rig {
        Rig::new()
    }

    fn apply(mut rig: Rig, model: &Model, step: Step) -> Rig {
        rig.step(step);
        rig.agrees_with(model);
        rig
    }

    fn teardown(rig: Rig, _: Model) {
        rig.settles();
    }
}

prop_state_machine! {
    #[test]
    fn long_runs_agree_with_the_model(sequential 1..200 => Machine);
}

fn buffer(seed: Option<&Value>) -> Arc<ProgressBuffer> {
    Arc::new(ProgressBuffer::new(seed, awa_model::limits::PROGRESS_BYTES_MAX))
}

fn percent(buffer: &Arc<ProgressBuffer>, percent: u8) {
    buffer.set(i64::from(percent), String::new()).unwrap();
}

#[test]
fn newer_progress_survives_an_old_acknowledgement() {
    let buffer = buffer(None);
    percent(&buffer, 10);
    let old = buffer.snapshot().unwrap();
    percent(&buffer, 20);
    assert!(buffer.snapshot().is_none(), "one snapshot at a time");
    old.stored();
    assert!(buffer.snapshot().unwrap().json().contains("20"));
}

#[test]
fn a_dropped_snapshot_has_to_be_told_again() {
    let buffer = buffer(None);
    percent(&buffer, 10);
    drop(buffer.snapshot().unwrap());
    assert!(buffer.unconfirmed().is_some());
    buffer.snapshot().unwrap().stored();
    assert!(buffer.unconfirmed().is_none());
}

#[test]
fn the_progress_of_earlier_attempts_is_there_and_needs_no_telling() {
    let buffer = buffer(Some(&json!({ "percent": 40, "message": "half", "metadata": { "done": 7 }, "generation": 5 })));
    assert!(buffer.snapshot().is_none());
    assert!(buffer.unconfirmed().is_none());
    assert_eq!(buffer.read(|progress| progress.metadata().get("done").cloned()), Some(json!(7)));
}

#[test]
fn a_refused_change_changes_nothing() {
    let buffer = buffer(None);
    percent(&buffer, 10);
    buffer.snapshot().unwrap().stored();
    buffer.set(20, "a\u{0}b".to_owned()).unwrap_err();
    let large = "x".repeat(awa_model::limits::PROGRESS_BYTES_MAX);
    buffer.apply(MetadataChange::entries(json!({ "done": large })).unwrap()).unwrap_err();
    assert!(buffer.unconfirmed().is_none());
}

#[test]
fn a_panic_under_the_lock_poisons_nothing() {
    let buffer = buffer(None);
    let shared = Arc::clone(&buffer);
    std::thread::spawn(move || shared.read(|_| panic!("inside"))).join().unwrap_err();
    percent(&buffer, 30);
    assert!(buffer.unconfirmed().is_some());
}
