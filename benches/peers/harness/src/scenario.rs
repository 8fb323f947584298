//! The scenarios, the same for every peer. `benches/peers/README.md` says what each one counts.

use std::io::BufRead as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout_at};

use crate::arguments::{Arguments, Scenario};
use crate::judge::Judge;
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::seen::Seen;
use crate::{Peer, Result, Settings, Setup};

/// Producers of `sustained`.
const PRODUCERS: usize = 8;
/// Jobs of one call there.
const BATCH: u64 = 500;
/// Jobs that wait at most there.
const BACKLOG_MAX: u64 = 10_000;
/// Jobs of one call where enqueueing is the question, and where a queue is filled.
const BATCH_LARGE: u64 = 1_000;
/// Jobs a second of `latency`.
const RATE: u32 = 500;
/// Between two jobs of `pickup`, at least; up to twice as long.
const IDLE: Duration = Duration::from_millis(100);
/// Jobs that go through before anything is measured, by settings: some defaults are one job every two seconds.
const WARM_UP: u64 = 200;
const WARM_UP_DEFAULTS: u64 = 4;
/// Between two looks at a count.
const PAUSE: Duration = Duration::from_millis(2);
/// Between two questions to the judge.
const QUESTION_PAUSE: Duration = Duration::from_millis(10);

/// A peer that is set up, and what watches it.
struct Run<'a, P> {
    peer: Arc<P>,
    seen: Seen,
    judge: Judge,
    arguments: &'a Arguments,
    /// Jobs before the measurement, which no figure contains.
    before: u64,
}

/// The work of the process.
pub(crate) async fn run<P: Peer>(arguments: &Arguments) -> Result {
    let seen = Seen::new()?;
    let setup = Setup { url: arguments.database_url.clone(), settings: arguments.settings, seen: seen.clone() };
    let peer = Arc::new(P::open(setup).await?);
    let judge = Judge::connect(&arguments.database_url, P::LEFT).await?;
    let mut run = Run { peer, seen, judge, arguments, before: 0 };
    run.prepare().await?;
    println!("ready");
    wait_for_line().await?;
    let outcome = match arguments.scenario {
        Scenario::Sustained => run.sustained().await?,
        Scenario::Drain => run.drain().await?,
        Scenario::EnqueueOne => run.enqueue(1).await?,
        Scenario::EnqueueMany => run.enqueue(BATCH_LARGE).await?,
        Scenario::Latency => run.latency().await?,
        Scenario::Pickup => run.pickup().await?,
    };
    println!("{}", serde_json::to_string(&outcome)?);
    while wait_for_line().await? {}
    Ok(())
}

/// True for a line, false at the end of standard input. On a thread of its own: the worker goes on.
async fn wait_for_line() -> Result<bool> {
    let read = || std::io::stdin().lock().read_line(&mut String::new());
    Ok(tokio::task::spawn_blocking(read).await?? > 0)
}

impl<P: Peer> Run<'_, P> {
    /// Everything that is not measured: a queue is filled, or a worker started and warmed up.
    async fn prepare(&mut self) -> Result {
        match self.arguments.scenario {
            Scenario::Drain => {
                self.fill(self.arguments.jobs).await?;
                self.judge.analyze().await?;
            }
            Scenario::EnqueueOne | Scenario::EnqueueMany => {
                self.fill(self.warm_up()).await?;
                self.before = self.warm_up();
            }
            Scenario::Sustained | Scenario::Latency | Scenario::Pickup => {
                self.peer.start().await?;
                for number in 0..self.warm_up() {
                    self.peer.enqueue_one(Payload::new(number)).await?;
                }
                if !self.settled(self.warm_up()).await?.finished {
                    return Err("the worker does not get through the first jobs".into());
                }
                self.before = self.seen.handled();
            }
        }
        Ok(())
    }

    const fn warm_up(&self) -> u64 {
        match self.arguments.settings {
            Settings::Best => WARM_UP,
            Settings::Defaults => WARM_UP_DEFAULTS,
        }
    }

    async fn fill(&self, jobs: u64) -> Result {
        let mut first = 0;
        while first < jobs {
            let count = BATCH_LARGE.min(jobs - first);
            self.peer.enqueue_many(Payload::batch(first, count)).await?;
            first += count;
        }
        Ok(())
    }

    /// An outcome with all that does not depend on the scenario.
    fn outcome(&self) -> Outcome {
        Outcome {
            peer: P::NAME,
            version: P::VERSION,
            scenario: self.arguments.scenario.name(),
            settings: match self.arguments.settings {
                Settings::Best => "best",
                Settings::Defaults => "defaults",
            },
            configuration: P::configuration(self.arguments.settings),
            handled: self.seen.handled().saturating_sub(self.before),
            ..Outcome::default()
        }
    }

    /// Completed jobs a second over everything that was enqueued, up to the moment when none is left.
    async fn sustained(&self) -> Result<Outcome> {
        let begun = Instant::now();
        let until = begun + self.arguments.seconds;
        let sent = Arc::new(AtomicU64::new(0));
        let mut producers = JoinSet::new();
        for _ in 0..PRODUCERS {
            let (peer, seen, sent, before) =
                (Arc::clone(&self.peer), self.seen.clone(), Arc::clone(&sent), self.before);
            producers.spawn(async move {
                while Instant::now() < until {
                    match reserve(&sent, seen.handled().saturating_sub(before)) {
                        Some(first) => peer.enqueue_many(Payload::batch(first, BATCH)).await?,
                        None => sleep(PAUSE).await,
                    }
                }
                Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
            });
        }
        while let Some(ended) = producers.join_next().await {
            ended??;
        }
        self.judged(begun, sent.load(Ordering::Relaxed)).await
    }

    async fn drain(&self) -> Result<Outcome> {
        let begun = Instant::now();
        self.peer.start().await?;
        self.judged(begun, self.arguments.jobs).await
    }

    /// Rows a second of one producer that waits for each answer.
    async fn enqueue(&self, batch: u64) -> Result<Outcome> {
        let begun = Instant::now();
        let mut sent = 0;
        while begun.elapsed() < self.arguments.seconds {
            if batch == 1 {
                self.peer.enqueue_one(Payload::new(sent)).await?;
            } else {
                self.peer.enqueue_many(Payload::batch(sent, batch)).await?;
            }
            sent += batch;
        }
        let took = begun.elapsed();
        let there = self.judge.left().await?.saturating_sub(self.before);
        let outcome = Outcome { jobs: sent, completed: 0, finished: there == sent, ..self.outcome() };
        Ok(outcome.rate(there, took))
    }

    /// A job every two milliseconds, whatever the ones before are doing; times count from when a job was due.
    async fn latency(&self) -> Result<Outcome> {
        self.seen.time();
        let begun = Instant::now();
        let jobs = u64::from(RATE) * self.arguments.seconds.as_secs();
        let mut ticks = interval(Duration::from_secs(1) / RATE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut calls = JoinSet::new();
        for number in 0..jobs {
            ticks.tick().await;
            let (peer, payload) = (Arc::clone(&self.peer), Payload::new(number));
            calls.spawn(async move { peer.enqueue_one(payload).await });
            while let Some(ended) = calls.try_join_next() {
                ended??;
            }
        }
        let limit = Instant::now() + self.arguments.limit;
        while let Ok(Some(ended)) = timeout_at(limit, calls.join_next()).await {
            ended??;
        }
        self.judged(begun, jobs).await
    }

    /// One job at a time, with a pause of another length after each so that no poll can be in step with it.
    async fn pickup(&self) -> Result<Outcome> {
        self.seen.time();
        let begun = Instant::now();
        let mut sent = 0;
        while begun.elapsed() < self.arguments.seconds {
            self.peer.enqueue_one(Payload::new(sent)).await?;
            sent += 1;
            let part = u32::try_from(sent.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54).unwrap_or_default();
            sleep(IDLE + IDLE * part / 1024).await;
        }
        self.judged(begun, sent).await
    }

    /// Waits for `jobs` to be completed and says how it went.
    async fn judged(&self, begun: Instant, jobs: u64) -> Result<Outcome> {
        let Settled { at, left, finished } = self.settled(self.before + jobs).await?;
        let completed = jobs.saturating_sub(left);
        let outcome = Outcome {
            jobs,
            completed,
            finished,
            p50_ms: self.seen.percentile_ms(50.0),
            p95_ms: self.seen.percentile_ms(95.0),
            p99_ms: self.seen.percentile_ms(99.0),
            ..self.outcome()
        };
        Ok(outcome.rate(completed, at - begun))
    }

    /// Waits until `handled` handlers have started, and then for the database to say that nothing is left. The end is the
    /// start of the question that found nothing: what the questions cost is in no figure.
    async fn settled(&self, handled: u64) -> Result<Settled> {
        let limit = Instant::now() + self.arguments.limit;
        while self.seen.handled() < handled && Instant::now() < limit {
            sleep(PAUSE).await;
        }
        loop {
            let at = Instant::now();
            let left = self.judge.left().await?;
            if left == 0 || at >= limit {
                return Ok(Settled { at, left, finished: left == 0 });
            }
            sleep(QUESTION_PAUSE).await;
        }
    }
}

/// How waiting ended.
struct Settled {
    at: Instant,
    left: u64,
    finished: bool,
}

/// The number of the first job of a batch that may be sent now.
fn reserve(sent: &AtomicU64, handled: u64) -> Option<u64> {
    let next = |sent: u64| (sent + BATCH <= handled + BACKLOG_MAX).then_some(sent + BATCH);
    sent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()
}
