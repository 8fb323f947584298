//! The cursors of one process, and the statements that move them.

mod request;

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use awa_model::{Kind, QueueName, WorkerId};
use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use self::request::Request;
use super::{
    claimed::{Claimed, ClaimedRow},
    horizon::{Horizon, Observation},
    lanes::{Ask, Lanes, Looked, PRIORITIES, Stretch},
};
use crate::Error;

/// Rows that one look visits in a lane and segment, in the main stretch and in one that is looked at again.
const LOOK_ROWS_MAX: i32 = 20_000;
const LATE_LOOK_ROWS_MAX: i32 = 2_000;
/// Looks of the main stretch in one tick, and the time that looks of late stretches may take.
const LOOKS_MAX: usize = 8;
const LATE_LOOKS_TIME_MAX: Duration = Duration::from_millis(10);
/// How often pg_locks is asked which of the set-aside transactions write jobs.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);
/// How long claims lock rows first after one without was in somebody's way.
const LOCKS_FOR: Duration = Duration::from_secs(1);

/// What one process knows about its lanes; shared by its dispatcher and its ticker.
pub struct Cursors {
    worker: Uuid,
    kinds: Vec<String>,
    queues: Vec<String>,
    state: Mutex<State>,
}

struct State {
    /// Counts the times everything was forgotten: an answer that was asked for before is not taken in.
    epoch: u64,
    lanes: Lanes,
    horizon: Horizon,
    incarnation: Option<Uuid>,
    /// The last number that the sequence was seen at.
    seen_seq: i64,
    last_asked: Option<Instant>,
    /// Queues whose last answer was short.
    short: Vec<bool>,
    /// Since when claims that yield have brought nothing from a queue.
    yielding_since: Vec<Option<Instant>>,
    next_early: Option<Instant>,
    /// Somebody locked rows while a claim took them without a lock: until then claims lock first.
    locks_until: Option<Instant>,
    persisted: Vec<i64>,
}

/// What a tick saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// Something was inserted since the last tick or pulse.
    pub moved: bool,
    /// Nothing is left to be settled, looked at again or claimed behind the cursors: ticks may cease until a pulse moves.
    pub settled: bool,
    /// A transaction is set aside: go on ticking, at the pace of the idle poll.
    pub set_aside: bool,
    /// Rows that wait to be claimed ahead of everything else.
    pub found: usize,
    /// Some lane has rows that claims have not reached, for want of capacity or because its queue is paused.
    pub backlog: bool,
}

/// What an idle poll saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// Something was inserted since the last tick or pulse, or the server has been restarted: claim now.
    pub moved: bool,
    /// With a beat: whether the process is registered still.
    pub registered: Option<bool>,
}

impl Cursors {
    /// Cursors that know nothing yet: call [`load`](Self::load) next.
    pub fn new(worker: WorkerId, kinds: &[Kind], queues: &[QueueName]) -> Self {
        let mut queues: Vec<String> = queues.iter().map(ToString::to_string).collect();
        queues.sort();
        queues.dedup();
        let state = State::starting_at(&vec![0; queues.len() * PRIORITIES]);
        Self {
            worker: worker.get(),
            kinds: kinds.iter().map(ToString::to_string).collect(),
            queues,
            state: Mutex::new(state),
        }
    }

    /// Starts over from the persisted marks. Called once at start; a changed incarnation does it by itself.
    pub async fn load(&self, db: impl PgExecutor<'_>) -> Result<(), Error> {
        let rows = sqlx::query_file!("queries/claim/load_marks.sql", &self.queues).fetch_all(db).await?;
        let mut marks = vec![0; self.queues.len() * PRIORITIES];
        for row in rows {
            let queue = self.queues.iter().position(|queue| *queue == row.queue);
            if let (Some(queue), 1..=4) = (queue, row.priority) {
                marks[queue * PRIORITIES + row.priority as usize - 1] = row.seq;
            }
        }
        let mut state = self.lock();
        *state = State { epoch: state.epoch + 1, ..State::starting_at(&marks) };
        Ok(())
    }

    /// Claims up to the given number of jobs from each queue, in one statement. A queue that these cursors do not serve is
    /// passed by.
    ///
    /// The claim is committed when this returns, synchronously, so that a lease number is never handed out twice. If it
    /// fails or the future is dropped, the statement may still have committed: such attempts are rescued once they are
    /// stale, like those of a crashed process.
    pub async fn claim(&self, pool: &PgPool, wants: &[(QueueName, usize)]) -> Result<Vec<Claimed>, Error> {
        let request = self.request(wants, Instant::now());
        // What a claim without locks passes by, the next one after a short answer finds.
        let locks = request.is_early() || self.lock().locks_until.is_some_and(|until| Instant::now() < until);
        match self.claim_by(pool, &request, locks).await {
            Err(error) if !locks && error.is_lock_timeout() => {
                self.lock().locks_until = Some(Instant::now() + LOCKS_FOR);
                self.claim_by(pool, &request, true).await
            }
            answer => answer,
        }
    }

    /// The same on a connection that may be in a transaction, which decides whether the claim takes effect.
    pub async fn claim_in(&self, db: &mut PgConnection, wants: &[(QueueName, usize)]) -> Result<Vec<Claimed>, Error> {
        let mut request = self.request(wants, Instant::now());
        // The gate would be kept until the transaction ends.
        request.yields.fill(false);
        self.claim_by(db, &request, true).await
    }

    async fn claim_by(&self, db: impl PgExecutor<'_>, request: &Request, locks: bool) -> Result<Vec<Claimed>, Error> {
        let started = Instant::now();
        if request.wanted() == 0 {
            return Ok(Vec::new());
        }
        let rows = sqlx::query_file_as!(
            ClaimedRow,
            "queries/claim/claim.sql",
            self.worker,
            &self.kinds,
            &self.queues,
            &request.wants,
            &request.starts,
            &request.skips,
            &request.found_queues,
            &request.found_priorities,
            &request.found_segments,
            &request.found_seqs,
            locks,
            &request.yields,
        )
        .fetch_all(db)
        .await?;
        self.answered(request, &rows, started);
        Ok(rows.into_iter().filter_map(readable).collect())
    }

    /// Observes the horizon and looks at what has been settled since. Call every 25 ms while work flows.
    pub async fn tick(&self, pool: &PgPool) -> Result<Tick, Error> {
        let moved = self.observe(pool).await?;
        self.ask_who_is_idle(pool).await?;
        self.look(pool).await?;
        self.recheck_found(pool).await?;
        let state = self.lock();
        let quiet = state.lanes.is_quiet() && state.horizon.has_caught_up();
        Ok(Tick {
            moved,
            settled: quiet && state.horizon.set_aside().is_empty() && !state.lanes.has_backlog(state.horizon.settled()),
            set_aside: !state.horizon.set_aside().is_empty(),
            found: state.lanes.found().len(),
            backlog: state.lanes.has_backlog(state.horizon.settled()),
        })
    }

    /// The poll of an idle process: one statement, without a transaction id unless `beat` writes the sign of life.
    ///
    /// Enough only while the last [`Tick`] was settled: then a job can have become available only if the sequence moved.
    pub async fn pulse(&self, pool: &PgPool, beat: bool) -> Result<Pulse, Error> {
        let row = sqlx::query_file!("queries/claim/pulse.sql", self.worker, beat).fetch_one(pool).await?;
        if self.lock().incarnation.is_some_and(|known| known != row.incarnation) {
            self.forget(pool, row.incarnation).await?;
            return Ok(Pulse { moved: true, registered: row.registered });
        }
        let mut state = self.lock();
        state.lanes.ring_is(row.oldest, row.current);
        let moved = state.saw(row.seq);
        Ok(Pulse { moved, registered: row.registered })
    }

    /// Persists how far each lane is settled for every kind, where that has moved. Call every few seconds and at the end.
    pub async fn persist_marks(&self, pool: &PgPool) -> Result<(), Error> {
        self.probe_other_kinds(pool).await?;
        let (marks, moved) = {
            let state = self.lock();
            let marks = state.lanes.marks(state.horizon.lowest_aside());
            let moved: Vec<usize> = (0..marks.len()).filter(|&lane| marks[lane] > state.persisted[lane]).collect();
            (marks, moved)
        };
        if moved.is_empty() {
            return Ok(());
        }
        let queues: Vec<String> = moved.iter().map(|lane| self.queue(*lane).to_owned()).collect();
        let priorities: Vec<i16> = moved.iter().map(|lane| priority(*lane)).collect();
        let seqs: Vec<i64> = moved.iter().map(|lane| marks[*lane]).collect();
        sqlx::query_file!("queries/claim/persist_marks.sql", &queues, &priorities, &seqs).execute(pool).await?;
        let mut state = self.lock();
        for (lane, seq) in moved.into_iter().zip(seqs) {
            state.persisted[lane] = seq;
        }
        Ok(())
    }

    /// The bound below which every row is decided: what emptying a segment may rely on.
    pub fn safe_horizon(&self) -> i64 {
        self.lock().horizon.safe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state holds hints and facts already proven; a panic in between leaves both usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, lane: usize) -> &str {
        &self.queues[lane / PRIORITIES]
    }

    async fn observe(&self, pool: &PgPool) -> Result<bool, Error> {
        let last_marked = self.lock().horizon.last_marked();
        let row = sqlx::query_file!("queries/claim/horizon.sql", last_marked).fetch_one(pool).await?;
        if self.lock().incarnation.is_some_and(|known| known != row.incarnation) {
            self.forget(pool, row.incarnation).await?;
            return Ok(true);
        }
        let mut state = self.lock();
        state.incarnation = Some(row.incarnation);
        state.lanes.ring_is(row.oldest, row.current);
        let moved = state.saw(row.seq);
        let seen = Observation { open: row.open, seq: row.seq, xid: row.xid };
        if let Some(from) = state.horizon.observe(&seen, Instant::now()) {
            state.lanes.look_again_from(from);
        }
        Ok(moved)
    }

    /// Another incarnation of the server: nothing that is known holds.
    async fn forget(&self, pool: &PgPool, incarnation: Uuid) -> Result<(), Error> {
        tracing::warn!("the database server has restarted after a crash, or another took over: dispatch starts anew");
        self.load(pool).await?;
        self.lock().incarnation = Some(incarnation);
        Ok(())
    }

    async fn ask_who_is_idle(&self, pool: &PgPool) -> Result<(), Error> {
        let aside = {
            let mut state = self.lock();
            let aside = state.horizon.set_aside();
            if aside.is_empty() || state.last_asked.is_some_and(|last| last.elapsed() < IDLE_INTERVAL) {
                return Ok(());
            }
            state.last_asked = Some(Instant::now());
            aside
        };
        let idle = idle_writers(pool, &aside).await?;
        self.lock().horizon.raise_idle(idle);
        Ok(())
    }

    async fn look(&self, pool: &PgPool) -> Result<(), Error> {
        for _ in 0..LOOKS_MAX {
            if !self.look_once(pool, Stretch::Main, LOOK_ROWS_MAX).await? {
                break;
            }
        }
        let started = Instant::now();
        while self.look_once(pool, Stretch::Late, LATE_LOOK_ROWS_MAX).await? && started.elapsed() < LATE_LOOKS_TIME_MAX
        {
        }
        Ok(())
    }

    /// One look at the next piece of each lane. Returns whether some lane moved and has further to go.
    async fn look_once(&self, pool: &PgPool, stretch: Stretch, rows_max: i32) -> Result<bool, Error> {
        let (epoch, asks) = {
            let state = self.lock();
            (state.epoch, state.lanes.asks(stretch, state.horizon.settled()))
        };
        if asks.is_empty() {
            return Ok(false);
        }
        let answers = self.ask(pool, &asks, Some(&self.kinds), rows_max).await?;
        let mut state = self.lock();
        if state.epoch != epoch {
            return Ok(false);
        }
        let mut further = false;
        for (ask, answer) in asks.iter().zip(&answers) {
            further |= state.lanes.looked(stretch, ask, answer);
        }
        Ok(further)
    }

    async fn ask(
        &self,
        pool: &PgPool,
        asks: &[Ask],
        kinds: Option<&[String]>,
        rows_max: i32,
    ) -> Result<Vec<Looked>, Error> {
        let queues: Vec<String> = asks.iter().map(|ask| self.queue(ask.lane).to_owned()).collect();
        let priorities: Vec<i16> = asks.iter().map(|ask| priority(ask.lane)).collect();
        let lows: Vec<i64> = asks.iter().map(|ask| ask.low).collect();
        let highs: Vec<i64> = asks.iter().map(|ask| ask.high).collect();
        let optimistic: Vec<i64> = asks.iter().map(|ask| ask.optimistic).collect();
        let rows = sqlx::query_file!(
            "queries/claim/look.sql",
            &queues,
            &priorities,
            &lows,
            &highs,
            &optimistic,
            kinds as Option<&[String]>,
            rows_max,
        )
        .fetch_all(pool)
        .await?;
        // A lane that is not answered holds nothing.
        let mut answers: Vec<Looked> =
            asks.iter().map(|ask| Looked { reached: ask.high, ..Looked::default() }).collect();
        for row in rows {
            let place = usize::try_from(row.lane - 1).unwrap_or(usize::MAX);
            if let Some(answer) = answers.get_mut(place) {
                *answer = Looked {
                    reached: row.reached,
                    found: row.found_seqs.into_iter().zip(row.found_segments).collect(),
                    beyond_segments: row.beyond_segments,
                    other: row.other,
                };
            }
        }
        Ok(answers)
    }

    async fn recheck_found(&self, pool: &PgPool) -> Result<(), Error> {
        let found = self.lock().lanes.found();
        if found.is_empty() {
            return Ok(());
        }
        let places: Vec<i32> = (0..).take(found.len()).collect();
        let queues: Vec<String> = found.iter().map(|(lane, ..)| self.queue(*lane).to_owned()).collect();
        let priorities: Vec<i16> = found.iter().map(|(lane, ..)| priority(*lane)).collect();
        let segments: Vec<i16> = found.iter().map(|(_, _, segment)| *segment).collect();
        let seqs: Vec<i64> = found.iter().map(|(_, seq, _)| *seq).collect();
        let rows =
            sqlx::query_file!("queries/claim/still_available.sql", &places, &queues, &priorities, &segments, &seqs)
                .fetch_all(pool)
                .await?;
        let still: HashSet<usize> = rows.into_iter().filter_map(|row| usize::try_from(row.place).ok()).collect();
        let mut state = self.lock();
        for (place, (lane, seq, _)) in found.into_iter().enumerate() {
            if !still.contains(&place) {
                state.lanes.lost(lane, seq);
            }
        }
        Ok(())
    }

    /// Where rows of other kinds hold a lane's mark back: is the lowest of them still there?
    async fn probe_other_kinds(&self, pool: &PgPool) -> Result<(), Error> {
        let (epoch, asks) = {
            let state = self.lock();
            (state.epoch, state.lanes.probes())
        };
        if asks.is_empty() {
            return Ok(());
        }
        let answers = self.ask(pool, &asks, None, LOOK_ROWS_MAX).await?;
        let mut state = self.lock();
        if state.epoch != epoch {
            return Ok(());
        }
        for (ask, answer) in asks.iter().zip(answers) {
            state.lanes.probed(ask, answer.reached);
        }
        Ok(())
    }
}

/// One row that cannot be read keeps nobody from running the others of its batch (I6).
fn readable(row: ClaimedRow) -> Option<Claimed> {
    let id = row.id;
    let claimed = row.into_claimed();
    claimed.inspect_err(|error| tracing::error!(job.id = id, %error, "a claimed row is left to rescue")).ok()
}

impl State {
    fn starting_at(marks: &[i64]) -> Self {
        let lowest = marks.iter().copied().min().unwrap_or(0);
        Self {
            epoch: 0,
            lanes: Lanes::starting_at(marks),
            horizon: Horizon::starting_at(lowest),
            incarnation: None,
            seen_seq: lowest,
            last_asked: None,
            short: vec![false; marks.len() / PRIORITIES],
            yielding_since: vec![None; marks.len() / PRIORITIES],
            next_early: None,
            locks_until: None,
            persisted: marks.to_vec(),
        }
    }

    fn saw(&mut self, seq: i64) -> bool {
        std::mem::replace(&mut self.seen_seq, seq) != seq
    }
}

/// Which of the transactions are open and have drawn no number yet.
pub(crate) async fn idle_writers(pool: &PgPool, xids: &[i64]) -> Result<HashSet<i64>, Error> {
    let rows = sqlx::query_file!("queries/claim/idle_writers.sql", xids).fetch_all(pool).await?;
    Ok(rows.into_iter().map(|row| row.xid).collect())
}

fn priority(lane: usize) -> i16 {
    (lane % PRIORITIES + 1) as i16
}
