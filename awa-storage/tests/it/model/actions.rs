//! What producers and workers do in the model: one step each, and what must have come of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use awa_model::{Due, Inserted, JobState, Kind, OnConflict, PreparedJob, Transition, Unique, UniqueStates, WorkerId};
use awa_storage::{
    Cursors, Error, Guarded, Lease,
    attempt::heartbeat,
    enqueue::{enqueue, enqueue_many},
    ring::SettledMark,
    settle::{Completion, Settlement, Verdict, complete_alone, complete_many, settle_alone, settle_batch},
    testing::TestDatabase,
};
use rand::{RngExt as _, rngs::StdRng};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::{
    callbacks::Given,
    table::{Allowed, Table},
};
use crate::{
    producing::job,
    scene::{count, kinds, queue, registered, run},
};

/// How many different unique keys there are for each rule.
const KEYS: u32 = 3;

/// What happened in one step, what it may have changed, and what it must have.
pub(super) struct Step {
    pub(super) what: String,
    pub(super) allowed: Allowed,
    pub(super) must: Vec<(i64, Vec<JobState>)>,
    /// What was answered wrongly.
    pub(super) fault: Option<String>,
}

impl Step {
    pub(super) fn new(what: impl Into<String>, allowed: Allowed) -> Self {
        Self { what: what.into(), allowed, must: Vec::new(), fault: None }
    }

    pub(super) fn judge(&self, before: &Table, after: &Table) -> Result<(), String> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        for (id, states) in &self.must {
            let found = after.jobs.get(id);
            if found.is_none_or(|job| !states.contains(&job.state)) {
                return Err(format!(
                    "job {id} should be one of {states:?}: {:?} became {found:?}",
                    before.jobs.get(id)
                ));
            }
        }
        Ok(())
    }
}

pub(super) struct Worker {
    pub(super) id: WorkerId,
    cursors: Cursors,
}

/// A user's transaction that has enqueued something.
pub(super) struct Open {
    connection: PgConnection,
    keys: BTreeSet<String>,
}

pub(super) struct World<'a> {
    pub(super) pool: PgPool,
    database: &'a TestDatabase,
    pub(super) rng: StdRng,
    pub(super) workers: Vec<Worker>,
    pub(super) held: Vec<Lease>,
    settled: Vec<Settlement>,
    pub(super) open: Vec<Open>,
    pub(super) mark: SettledMark,
    /// What was answered to which callback, and took effect.
    pub(super) given: BTreeMap<Uuid, Given>,
    /// What came with the last answer to go on, for each job that got one.
    pub(super) resumed: BTreeMap<i64, Option<String>>,
}

pub(super) async fn worker(pool: &PgPool) -> Worker {
    let id = registered(pool).await;
    let cursors = Cursors::new(id, &kinds(&["work"]), &[queue("default"), queue("other")]);
    cursors.load(pool).await.expect("marks");
    Worker { id, cursors }
}

fn states(names: &[JobState]) -> UniqueStates {
    UniqueStates::of(names)
}

impl<'a> World<'a> {
    pub(super) async fn new(database: &'a TestDatabase, rng: StdRng) -> Self {
        let pool = database.pool();
        // A turn of the ring waits for the open transactions of this test only where a test is about that.
        run(&pool, "select awa.configure_ring(snapshot_patience => '0')").await;
        let workers = vec![worker(&pool).await, worker(&pool).await, worker(&pool).await];
        let (held, settled, open) = (Vec::new(), Vec::new(), Vec::new());
        let (given, resumed, mark) = (BTreeMap::new(), BTreeMap::new(), SettledMark::default());
        Self { pool, database, rng, workers, held, settled, open, mark, given, resumed }
    }

    pub(super) async fn step(&mut self, before: &Table) -> Step {
        match self.rng.random_range(0..158) {
            0..16 => self.enqueue().await,
            16..20 => self.enqueue_many().await,
            20..24 => self.open().await,
            24..28 => self.close().await,
            28..44 => self.claim(before).await,
            44..52 => self.complete(before).await,
            52..68 => self.settle(before).await,
            68..70 => self.repeat().await,
            70..73 => self.beat(before).await,
            73..80 => self.promote(before).await,
            80..84 => self.rescue(before).await,
            84..87 => self.rotate().await,
            87..89 => self.age().await,
            89..93 => self.recycle().await,
            93..95 => self.prune(before).await,
            95..98 => self.turn_claims().await,
            98..100 => self.audit().await,
            100..110 => self.operate(before).await,
            110..118 => self.edit(before).await,
            118..134 => self.open_callback(before).await,
            134..148 => self.answer(before).await,
            148..153 => self.expire(before, 0.3).await,
            153..155 => self.forget(before).await,
            _ => self.payload(before).await,
        }
    }

    /// A job, and the name of its unique key.
    fn job(&mut self) -> (PreparedJob, Option<String>) {
        use JobState::{Available, Completed, Failed, Retryable, Scheduled};
        let key = self.rng.random_range(0..KEYS);
        let rules: [(&str, Option<Unique>); 8] = [
            ("none", None),
            ("none", None),
            ("unfinished", Some(Unique::until_finished())),
            ("waiting", Some(Unique::while_waiting())),
            ("waiting", Some(Unique::while_waiting())),
            ("between", Some(Unique::until_finished().states(states(&[Available, Retryable])))),
            ("ends", Some(Unique::until_finished().states(states(&[Scheduled, Available, Completed, Failed])))),
            ("first", Some(Unique::until_finished().states(states(&[Scheduled, Available])))),
        ];
        let (rule, unique) = rules[self.rng.random_range(0..rules.len())].clone();
        // Two rules share each key: what one does not hold the other may take.
        let shared = if rule == "unfinished" || rule == "waiting" { "a" } else { "b" };
        let name = unique.is_some().then(|| format!("{shared}{key}"));
        let mut job = job(&format!("{{\"key\": \"{shared}{key}\"}}"));
        job.kind = Kind::new("work").expect("a kind");
        job.unique = unique;
        job.queue = if self.rng.random() { queue("default") } else { queue("other") };
        job.max_attempts = self.rng.random_range(1..4);
        if self.rng.random_ratio(1, 3) {
            job.due = Due::In(Duration::from_secs(3600));
        }
        (job, name)
    }

    fn in_hand(&self, key: &str) -> bool {
        self.open.iter().any(|open| open.keys.contains(key))
    }

    /// A job whose key no open transaction has in hand: its enqueue would wait for that.
    fn free_job(&mut self) -> (PreparedJob, Option<String>) {
        loop {
            let (job, key) = self.job();
            if key.as_deref().is_none_or(|key| !self.in_hand(key)) {
                return (job, key);
            }
        }
    }

    async fn enqueue(&mut self) -> Step {
        let (mut job, key) = self.free_job();
        let on_conflict = [OnConflict::Skip, OnConflict::Replace, OnConflict::Error][self.rng.random_range(0..3)];
        job.unique = job.unique.map(|unique| unique.on_conflict(on_conflict));
        let allowed = if on_conflict == OnConflict::Replace {
            Allowed::edits(&[Transition::Enqueue])
        } else {
            Allowed::by(&[Transition::Enqueue])
        };
        let inserted = match enqueue(&self.pool, &job).await {
            Ok(inserted) => inserted,
            Err(Error::Duplicate { holder }) if on_conflict == OnConflict::Error => {
                return Step::new(format!("enqueue {key:?}: job {holder} has the key"), Allowed::default());
            }
            Err(error) => panic!("{error}"),
        };
        let mut step = Step::new(format!("enqueue {key:?} ({on_conflict:?}): {inserted:?}"), allowed);
        let expected = if matches!(job.due, Due::Now) { JobState::Available } else { JobState::Scheduled };
        if let Inserted::New(id) = inserted {
            step.must.push((id.get(), vec![expected]));
        }
        step
    }

    async fn enqueue_many(&mut self) -> Step {
        let number = self.rng.random_range(2..8);
        let jobs: Vec<PreparedJob> = (0..number).map(|_| self.free_job().0).collect();
        let inserted = enqueue_many(&self.pool, &jobs).await.expect("an answer");
        Step::new(format!("enqueue many: {inserted:?}"), Allowed::by(&[Transition::Enqueue]))
    }

    async fn open(&mut self) -> Step {
        if self.open.len() >= 2 {
            return self.close().await;
        }
        let mut connection = self.database.connect().await;
        run(&mut connection, "begin").await;
        let mut keys = BTreeSet::new();
        for _ in 0..2 {
            let (job, key) = self.free_job();
            // Its answer holds only once this commits, which is what a producer is told too.
            let _ = enqueue(&mut connection, &job).await.expect("an answer");
            keys.extend(key);
        }
        let step = Step::new(format!("open a transaction: {keys:?}"), Allowed::default());
        self.open.push(Open { connection, keys });
        step
    }

    async fn close(&mut self) -> Step {
        if self.open.is_empty() {
            return Step::new("nothing", Allowed::default());
        }
        let place = self.rng.random_range(0..self.open.len());
        let mut open = self.open.remove(place);
        let end = if self.rng.random_ratio(2, 3) { "commit" } else { "rollback" };
        run(&mut open.connection, end).await;
        Step::new(end, Allowed::by(&[Transition::Enqueue]))
    }

    async fn claim(&mut self, before: &Table) -> Step {
        let want = self.rng.random_range(1..6);
        let place = self.rng.random_range(0..self.workers.len());
        let worker = &self.workers[place];
        for _ in 0..2 {
            worker.cursors.tick(&self.pool).await.expect("a tick");
        }
        let demand = [(queue("default"), want), (queue("other"), want)];
        let claimed = worker.cursors.claim(&self.pool, &demand).await.expect("a claim");
        let mut step = Step::new(format!("claim {}", claimed.len()), Allowed::by(&[Transition::Claim]));
        for job in claimed {
            let id = job.lease.job_id().get();
            if before.jobs.get(&id).is_none_or(|job| job.state != JobState::Available) {
                step.fault = Some(format!("job {id} was not available"));
            }
            step.must.push((id, vec![JobState::Running]));
            self.held.push(job.lease);
        }
        step
    }

    /// Some of the leases that are held, good ones and stale ones.
    fn some_leases(&mut self) -> Vec<Lease> {
        let number = self.rng.random_range(1..4).min(self.held.len());
        (0..number)
            .map(|_| {
                let place = self.rng.random_range(0..self.held.len());
                self.held.swap_remove(place)
            })
            .collect()
    }

    pub(super) fn is_good(before: &Table, lease: &Lease) -> bool {
        before
            .jobs
            .get(&lease.job_id().get())
            .is_some_and(|job| job.state == JobState::Running && job.run_lease == lease.run_lease().get())
    }

    /// A job that is back in the queue under the eyes of its attempt is as a release or a snooze would leave it.
    fn waits_unclaimed(before: &Table, one: &Settlement) -> Option<JobState> {
        let job = before.jobs.get(&one.lease.job_id().get())?;
        let state = match one.verdict {
            Verdict::Release => JobState::Available,
            Verdict::Snooze { .. } => JobState::Scheduled,
            _ => return None,
        };
        (job.state == state && job.run_lease == one.lease.run_lease().get()).then_some(state)
    }

    /// It was completed from outside under this lease, which is what its attempt wants.
    fn completed_before(before: &Table, lease: &Lease) -> bool {
        before
            .jobs
            .get(&lease.job_id().get())
            .is_some_and(|job| job.state == JobState::Completed && job.run_lease == lease.run_lease().get())
    }

    async fn complete(&mut self, before: &Table) -> Step {
        let batch: Vec<Completion> =
            self.some_leases().into_iter().map(|lease| Completion { lease, result: None }).collect();
        let answers = match complete_many(&self.pool, &batch).await {
            Ok(answers) => answers.into_iter().map(Some).collect(),
            // Somebody has the key of one of them: each alone.
            Err(_) => {
                let mut answers = Vec::new();
                for one in &batch {
                    answers.push(complete_alone(&self.pool, one).await.ok());
                }
                answers
            }
        };
        let mut step = Step::new(format!("complete {batch:?}: {answers:?}"), Allowed::by(&[Transition::Complete]));
        step.allowed.edits = true;
        for (one, answer) in batch.into_iter().zip(answers) {
            match answer {
                Some(answer) if Self::completed_before(before, &one.lease) => {
                    step.fault = step.fault.or((!answer.is_applied()).then(|| format!("{:?} is lost", one.lease)));
                }
                Some(answer) => {
                    Self::expect(&mut step, before, &one.lease, answer.is_applied(), &[JobState::Completed]);
                }
                None if self.open.is_empty() => step.fault = Some(format!("{:?} failed", one.lease)),
                None => self.held.push(one.lease),
            }
        }
        step
    }

    /// The answer is yes if and only if the lease was good, and then the job is in one of these states.
    fn expect(step: &mut Step, before: &Table, lease: &Lease, applied: bool, states: &[JobState]) {
        if applied != Self::is_good(before, lease) {
            step.fault = Some(format!("{lease:?} was answered with applied = {applied}"));
        }
        if applied {
            step.must.push((lease.job_id().get(), states.to_vec()));
        }
    }

    fn verdict(&mut self) -> Verdict {
        let error = || "wrong".to_owned();
        match self.rng.random_range(0..7) {
            0 | 1 => Verdict::Retry { after: None, error: error() },
            2 => Verdict::Retry { after: Some(Duration::from_secs(60)), error: error() },
            3 => Verdict::Snooze { after: Duration::from_secs(60) },
            4 => Verdict::Fail { error: error() },
            5 => Verdict::Cancel { reason: error() },
            _ => Verdict::Release,
        }
    }

    async fn settle(&mut self, before: &Table) -> Step {
        let leases = self.some_leases();
        let batch: Vec<Settlement> = leases
            .into_iter()
            .map(|lease| {
                let verdict = self.parking(before, &lease).unwrap_or_else(|| self.verdict());
                Settlement { lease, verdict, progress: Some("{}".to_owned()) }
            })
            .collect();
        let together = settle_batch(&self.pool, &batch).await;
        let mut answers = Vec::new();
        for (place, one) in batch.iter().enumerate() {
            answers.push(match &together {
                Ok(together) => match together[place] {
                    Some(answer) => Some(answer),
                    None => settle_alone(&self.pool, one).await.ok(),
                },
                Err(_) => settle_alone(&self.pool, one).await.ok(),
            });
        }
        let by = [
            Transition::Retry,
            Transition::Snooze,
            Transition::Fail,
            Transition::Cancel,
            Transition::Release,
            Transition::Park,
            Transition::Displace,
        ];
        let mut step = Step::new(format!("settle {batch:?}: {answers:?}"), Allowed::by(&by));
        let parked: Vec<bool> = batch.iter().map(|one| Self::parked_before(before, one, &batch)).collect();
        for ((one, answer), parked) in batch.into_iter().zip(answers).zip(parked) {
            match answer {
                Some(answer) => {
                    let states = match answer {
                        Guarded::Applied(state) => vec![state],
                        Guarded::Lost => Vec::new(),
                    };
                    let as_it_would_be = Self::waits_unclaimed(before, &one).map(Guarded::Applied);
                    if parked && !Self::is_good(before, &one.lease) {
                        step.fault = step.fault.or((!answer.is_applied()).then(|| format!("{one:?} is lost")));
                    } else if as_it_would_be != Some(answer) {
                        Self::judge_parking(&mut step, before, &one, answer);
                        Self::expect(&mut step, before, &one.lease, answer.is_applied(), &states);
                    }
                    self.settled.push(one);
                }
                None if self.open.is_empty() => step.fault = Some(format!("{:?} failed", one.lease)),
                None => self.held.push(one.lease),
            }
        }
        step
    }

    /// An answer got lost: the same again changes nothing.
    async fn repeat(&mut self) -> Step {
        if self.settled.is_empty() {
            return Step::new("nothing", Allowed::default());
        }
        let place = self.rng.random_range(0..self.settled.len());
        let one = &self.settled[place];
        let answer = settle_alone(&self.pool, one).await;
        Step::new(format!("settle again {one:?}: {answer:?}"), Allowed::default())
    }

    async fn beat(&mut self, before: &Table) -> Step {
        let held: Vec<_> = self.held.iter().map(Lease::held).collect();
        let lost = heartbeat(&self.pool, &held).await.expect("beats");
        let expected: Vec<_> =
            self.held.iter().filter(|lease| !Self::is_good(before, lease)).map(Lease::held).collect();
        let mut step = Step::new(format!("beat for {}", held.len()), Allowed::default());
        let sorted = |mut held: Vec<_>| {
            held.sort();
            held
        };
        if sorted(lost.clone()) != sorted(expected.clone()) {
            step.fault = Some(format!("I13: lost {lost:?} instead of {expected:?}"));
        }
        step
    }

    /// Whether the job might have to wait for an open transaction.
    pub(super) fn may_wait(&self) -> bool {
        self.open.iter().any(|open| !open.keys.is_empty())
    }

    /// Runs everything to an end, as a system does that is left alone. Every job must get there.
    pub(super) async fn run_to_the_end(&mut self) -> Result<(), String> {
        while !self.open.is_empty() {
            self.close().await;
        }
        let unfinished = "select count(*) from awa.jobs where state not in ('completed', 'failed', 'cancelled')";
        for _ in 0..200 {
            run(&self.pool, "update awa.scheduled_jobs set run_at = now() where run_at > now()").await;
            let table = super::table::look(&self.pool).await?;
            let _ = self.promote(&table).await;
            let table = super::table::look(&self.pool).await?;
            let _ = self.rescue(&table).await;
            let table = super::table::look(&self.pool).await?;
            let expired = self.expire(&table, 1.0).await;
            if let Some(fault) = expired.fault {
                return Err(fault);
            }
            let table = super::table::look(&self.pool).await?;
            let _ = self.claim(&table).await;
            let table = super::table::look(&self.pool).await?;
            while !self.held.is_empty() {
                let step = self.complete(&table).await;
                if let Some(fault) = step.fault {
                    return Err(fault);
                }
            }
            if count(&self.pool, unfinished).await == 0 {
                let table = super::table::look(&self.pool).await?;
                return self.forget(&table).await.fault.map_or(Ok(()), Err);
            }
        }
        Err(format!("jobs are lost: {:?}", super::table::look(&self.pool).await?.jobs))
    }
}
