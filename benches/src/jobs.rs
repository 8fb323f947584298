//! The jobs that every scenario runs: kind `noop`, queue `default`, about 150 bytes of args, the same in every run; unless
//! their [`Shape`] is another.

use awa_model::{InvalidName, Kind, PreparedJob, QueueName};

use awa_worker::{JobArgs, NewJob};
use serde::{Deserialize, Serialize};

use crate::{Result, numbers::Dice};

/// Kind of all jobs here.
pub(crate) const KIND: &str = "noop";
/// Queue of all jobs here, where there is one.
pub(crate) const QUEUE: &str = "default";

/// What jobs are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Queues that they go to in turn.
    pub(crate) queues: u32,
    /// Bytes of args beyond the usual ones, which hardly compress.
    pub(crate) padding: usize,
}

impl Shape {
    /// One queue, 150 bytes.
    pub(crate) const USUAL: Self = Self { queues: 1, padding: 0 };

    /// The names of the queues.
    pub(crate) fn queue_names(self) -> Vec<String> {
        match self.queues {
            1 => vec![QUEUE.to_owned()],
            several => (0..several).map(|number| format!("queue_{number}")).collect(),
        }
    }
}

/// The args.
#[derive(Debug, Serialize, Deserialize, JobArgs)]
#[job(kind = "noop")]
pub(crate) struct Noop {
    /// Counts the jobs of one producer, from 1.
    pub(crate) number: u64,
    account: u64,
    address: String,
    template: String,
    trace: String,
    retries: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    padding: String,
}

/// The args of a job that was deferred.
#[derive(Debug, Serialize, Deserialize, JobArgs)]
#[job(kind = "deferred")]
pub(crate) struct Deferred {
    /// Counts them, from 1.
    pub(crate) number: u64,
}

const SEED: u64 = 20_240_601;

/// The kind as a checked name.
pub(crate) fn kind() -> std::result::Result<Kind, InvalidName> {
    Kind::new(KIND)
}

/// The queue as a checked name.
pub(crate) fn queue() -> std::result::Result<QueueName, InvalidName> {
    QueueName::new(QUEUE)
}

/// Makes jobs: of every ten one is of priority 1, one of 2, one of 3, and seven are of priority 4.
pub(crate) struct Jobs {
    dice: Dice,
    made: u64,
    queues: Vec<String>,
    padding: usize,
}

impl Jobs {
    /// The same jobs in every run; different ones for each `producer`.
    pub(crate) fn new(producer: u64, shape: Shape) -> Self {
        Self { dice: Dice::new(SEED + producer), made: 0, queues: shape.queue_names(), padding: shape.padding }
    }

    /// The next job.
    pub(crate) fn next(&mut self) -> Result<PreparedJob> {
        self.made += 1;
        let priority = match self.dice.below(10) {
            0 => 1,
            1 => 2,
            2 => 3,
            _ => 4,
        };
        let args = Noop {
            number: self.made,
            account: self.dice.below(1_000_000),
            address: format!("someone.{}@example.com", self.dice.below(10_000)),
            template: "order_confirmation".to_owned(),
            trace: format!("{:016x}", self.dice.roll()),
            retries: false,
            padding: (0..self.padding.div_ceil(16)).map(|_| format!("{:016x}", self.dice.roll())).collect(),
        };
        let queue = &self.queues[usize::try_from(self.made)? % self.queues.len()];
        Ok(NewJob::new(&args).queue(queue).priority(priority).prepare()?)
    }

    /// The next `count` jobs.
    pub(crate) fn batch(&mut self, count: usize) -> Result<Vec<PreparedJob>> {
        (0..count).map(|_| self.next()).collect()
    }
}
