//! What the whole database looks like, and whether one look may follow another: the reference is `EDGES`.

use std::collections::{BTreeMap, BTreeSet};

use awa_model::{EDGES, Edge, JobState, Transition, UniqueStates};
use sqlx::PgPool;
use uuid::Uuid;

use super::answers::{self, Callback};

/// One job, in as much detail as is judged.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub(super) struct Job {
    pub(super) id: i64,
    pub(super) state: JobState,
    pub(super) attempt: i16,
    pub(super) max_attempts: i16,
    pub(super) run_lease: i64,
    pub(super) snoozes: i32,
    pub(super) unique_key: Option<Vec<u8>>,
    pub(super) unique_states: Option<i16>,
    pub(super) attempted_by: Option<Uuid>,
    /// How many errors it has had.
    pub(super) errors: i32,
    /// A segment, or nothing for the deferred plane.
    pub(super) segment: Option<i16>,
    pub(super) due: bool,
    /// Past every retention.
    pub(super) expired: bool,
    /// What no transition touches.
    pub(super) rest: String,
}

impl Job {
    fn holds_key_in(&self, state: JobState) -> bool {
        self.unique_states.is_some_and(|mask| UniqueStates::from_bits(mask).contains(state))
    }
}

/// All jobs, who holds which unique key, which attempts are listed, and what is waited for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(super) jobs: BTreeMap<i64, Job>,
    pub(super) claims: BTreeMap<Vec<u8>, i64>,
    pub(super) callbacks: BTreeMap<Uuid, Callback>,
    listed: BTreeSet<(i64, i64)>,
}

/// What a step may do to jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowed {
    pub(super) by: Vec<Transition>,
    /// Rows may change their place.
    pub(super) moves: bool,
    /// A person may change or delete anything but lease and history.
    pub(super) edits: bool,
    pub(super) deletes: bool,
    /// An attempt may open a callback, for which old ones of its job may make room.
    pub(super) opens: bool,
    /// Callbacks of jobs that are gone are swept up.
    pub(super) forgets: bool,
    /// A segment may go, and leaves the callbacks of its jobs behind.
    pub(super) recycles: bool,
}

impl Allowed {
    pub(super) fn by(by: &[Transition]) -> Self {
        Self { by: by.to_vec(), ..Self::default() }
    }

    pub(super) fn moves() -> Self {
        Self { by: vec![Transition::Prune], moves: true, recycles: true, ..Self::default() }
    }

    pub(super) fn edits(by: &[Transition]) -> Self {
        Self { edits: true, moves: true, ..Self::by(by) }
    }
}

const JOBS: &str = "
    select id, state, attempt, max_attempts, run_lease, snoozes, unique_key, unique_states, attempted_by, segment,
           run_at <= now() as due, coalesce(finalized_at < now() - interval '10 years', false) as expired,
           coalesce(jsonb_array_length(errors), 0) + coalesce(errors_dropped, 0) as errors,
           md5(row (kind, created_at, timeout, metadata, trace_context)::text) as rest
      from (select id, state, attempt, max_attempts, run_lease, snoozes, unique_key, unique_states, attempted_by, segment,
                   run_at, finalized_at, errors, errors_dropped, kind, created_at, timeout, metadata, trace_context
              from awa.jobs_hot
             union all
            select id, state, attempt, max_attempts, run_lease, snoozes, unique_key, unique_states, attempted_by, null,
                   run_at, finalized_at, errors, errors_dropped, kind, created_at, timeout, metadata, trace_context
              from awa.scheduled_jobs) as job";

/// Looks, and judges what can be judged from one look: I1, I4, I14, and that each job is where its state belongs.
pub(crate) async fn look(pool: &PgPool) -> Result<Table, String> {
    let mut table = Table::default();
    let jobs: Vec<Job> = sqlx::query_as(JOBS).fetch_all(pool).await.expect(JOBS);
    for job in jobs {
        if let Some(other) = table.jobs.insert(job.id, job) {
            return Err(format!("I1: job {} is there twice", other.id));
        }
    }
    let claims: Vec<(Vec<u8>, i64)> =
        sqlx::query_as("select unique_key, job_id from awa.job_unique_claims").fetch_all(pool).await.expect("claims");
    table.claims = claims.into_iter().collect();
    let listed = "select listed.id, listed.run_lease
                    from awa.active_claims as claim
                   cross join lateral unnest(claim.job_ids, claim.run_leases) as listed (id, run_lease)";
    let listed: Vec<(i64, i64)> = sqlx::query_as(listed).fetch_all(pool).await.expect("batches");
    table.listed = listed.into_iter().collect();
    table.callbacks = answers::look(pool).await;
    table.judge_alone()?;
    table.judge_callbacks_alone()?;
    let shown: i64 = sqlx::query_scalar("select count(*) from awa.jobs").fetch_one(pool).await.expect("a count");
    let expected = table.jobs.values().filter(|job| job.state != JobState::Completed || !job.expired).count();
    if usize::try_from(shown) != Ok(expected) {
        return Err(format!("I1: the view shows {shown} jobs, and there are {expected}"));
    }
    Ok(table)
}

impl Table {
    fn judge_alone(&self) -> Result<(), String> {
        let mut expected = BTreeMap::new();
        for job in self.jobs.values() {
            let right_place = match job.state {
                JobState::Scheduled | JobState::Retryable => job.segment.is_none(),
                JobState::Available | JobState::Running => job.segment.is_some_and(|segment| segment >= 0),
                JobState::Completed => job.segment.is_some(),
                JobState::WaitingExternal | JobState::Failed | JobState::Cancelled => job.segment == Some(-1),
            };
            if !right_place {
                return Err(format!("{job:?} is in the wrong place"));
            }
            if let Some(key) = job.unique_key.clone().filter(|_| job.holds_key_in(job.state))
                && let Some(other) = expected.insert(key, job.id)
            {
                return Err(format!("I4: jobs {other} and {} both hold a key", job.id));
            }
            if job.state == JobState::Running && !self.listed.contains(&(job.id, job.run_lease)) {
                return Err(format!("I14: attempt {} of job {} is listed nowhere", job.run_lease, job.id));
            }
        }
        if expected == self.claims { Ok(()) } else { Err(format!("I4: {:?} instead of {expected:?}", self.claims)) }
    }

    /// May this look come after that one, when this was allowed in between?
    pub(super) fn judge_after(&self, before: &Self, allowed: &Allowed) -> Result<(), String> {
        for job in self.jobs.values() {
            match before.jobs.get(&job.id) {
                None => judge_new(job, allowed),
                Some(old) => self.judge_change(before, old, job, allowed),
            }?;
        }
        for old in before.jobs.values().filter(|old| !self.jobs.contains_key(&old.id)) {
            let pruned =
                allowed.by.contains(&Transition::Prune) && old.expired && Transition::Prune.is_allowed_from(old.state);
            if !pruned && !allowed.deletes {
                return Err(format!("I7: {old:?} is gone"));
            }
        }
        self.judge_callbacks_after(before, allowed)
    }

    fn judge_change(&self, before: &Self, old: &Job, new: &Job, allowed: &Allowed) -> Result<(), String> {
        let fault = |what: &str| Err(format!("{what}: {old:?} became {new:?}"));
        if new.rest != old.rest && !allowed.edits {
            return fault("a move changed a column");
        }
        if new.state == old.state {
            if (new.attempt, new.run_lease, new.errors, new.snoozes)
                != (old.attempt, old.run_lease, old.errors, old.snoozes)
            {
                return fault(if new.run_lease == old.run_lease { "nothing had happened" } else { "I2" });
            }
            if new.segment != old.segment && !allowed.moves {
                return fault("nobody moves rows");
            }
            return Ok(());
        }
        let by_due_time = [JobState::Scheduled, JobState::Available];
        if allowed.edits && by_due_time.contains(&old.state) && by_due_time.contains(&new.state) {
            return Ok(());
        }
        let Some(edge) = allowed.by.iter().flat_map(|by| by.edges_from(old.state)).find(|edge| fits(edge, old, new))
        else {
            return fault("no edge");
        };
        let (attempts, leases, errors) = effects(edge, old, new);
        if new.run_lease != old.run_lease + leases {
            return fault("I2");
        }
        // An operator may cancel without giving a reason.
        let told = new.errors == old.errors + errors || (edge.by == Transition::Cancel && new.errors == old.errors);
        if new.attempt != attempts || !told {
            return fault(edge.by.as_str());
        }
        if edge.by == Transition::Displace {
            // Its holder may have ended in the same step, after it.
            let is_held = |table: &Self| {
                let holder = old.unique_key.as_ref().and_then(|key| table.claims.get(key));
                holder.is_some_and(|holder| *holder != old.id)
            };
            if !is_held(self) && !is_held(before) {
                return fault("nobody displaced it");
            }
        }
        Ok(())
    }
}

fn fits(edge: &Edge, old: &Job, new: &Job) -> bool {
    let when = match edge.when {
        "attempts left" => old.attempt < old.max_attempts,
        "attempts spent" => old.attempt >= old.max_attempts,
        _ => true,
    };
    edge.to == Some(new.state) && when
}

/// The attempt after the edge, how many leases it takes, and how many errors it records.
fn effects(edge: &Edge, old: &Job, new: &Job) -> (i16, i64, i32) {
    match edge.by {
        Transition::Claim => (old.attempt + 1, 1, 0),
        Transition::Snooze | Transition::Release | Transition::Resume => (old.attempt - 1, 0, 0),
        Transition::OperatorRetry => (0, 0, 0),
        Transition::Park if edge.to == Some(JobState::Available) => (old.attempt - 1, 0, 0),
        Transition::Retry | Transition::Fail | Transition::Rescue | Transition::Displace | Transition::Cancel => {
            (old.attempt, 0, 1)
        }
        Transition::FailExternally | Transition::CallbackTimeout => (old.attempt, 0, 1),
        // Another job has its key: it says so and gives the key up.
        Transition::Complete | Transition::CompleteExternally
            if old.unique_key.is_some() && new.unique_key.is_none() =>
        {
            (old.attempt, 0, 1)
        }
        Transition::Promote if edge.to == Some(JobState::Failed) => (old.attempt, 0, 1),
        _ => (old.attempt, 0, 0),
    }
}

fn judge_new(job: &Job, allowed: &Allowed) -> Result<(), String> {
    let born = EDGES.iter().any(|edge| edge.from.is_none() && edge.to == Some(job.state));
    let clean = (job.attempt, job.run_lease, job.errors, job.snoozes) == (0, 0, 0, 0);
    if allowed.by.contains(&Transition::Enqueue) && born && clean {
        Ok(())
    } else {
        Err(format!("{job:?} came from nowhere"))
    }
}
