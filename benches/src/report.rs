//! What a run found, for machines (the JSON object of `--json`) and for people.

use std::{
    collections::BTreeMap,
    fmt, fs,
    process::{Command, Stdio},
    thread,
};

use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::{Map, Value, json};
use sqlx::{PgPool, Row as _};

use crate::{
    Result,
    meter::Cost,
    numbers::{grouped, mean, median},
    sampler::Samples,
    statements::Statement,
};

/// Settings of the server that matter here.
const SERVER_SETTINGS: &[&str] = &[
    "server_version",
    "shared_buffers",
    "max_wal_size",
    "checkpoint_timeout",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_compression",
    "autovacuum",
    "jit",
];

/// Percentiles of a latency, milliseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    p95: f64,
    pub(crate) p99: f64,
    max: f64,
}

/// The result of one run. A figure that a scenario does not have is null.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Report {
    /// Which scenario.
    pub(crate) scenario: &'static str,
    /// Jobs through, a second; of `enqueue`, rows in by single calls.
    pub(crate) jobs_per_s: f64,
    /// The same second by second.
    pub(crate) per_second: Vec<f64>,
    /// What it is the latency of is in `settings`.
    pub(crate) latency_ms: Option<Latency>,
    /// The same whole, microseconds.
    #[serde(skip)]
    pub(crate) histogram: Option<Histogram<u64>>,
    /// Bytes of log a job, from enqueue to completion.
    pub(crate) wal_bytes_per_job: Option<f64>,
    /// Transactions of this database a job, those that only read too.
    pub(crate) transactions_per_job: Option<f64>,
    /// Bytes that the tables of Awa have grown by, their indexes included.
    pub(crate) growth_bytes: Option<f64>,
    /// Full-page images a job.
    pub(crate) fpi_per_job: Option<f64>,
    /// The share of updates in the ring that were HOT.
    pub(crate) hot_ratio: Option<f64>,
    /// The most dead rows of each table outside the ring.
    pub(crate) dead_tuples: BTreeMap<String, i64>,
    /// CPU time of the server.
    pub(crate) server_cpu_us_per_job: Option<f64>,
    /// CPU time of this process, which is producer, worker and sampler in one.
    pub(crate) client_cpu_us_per_job: Option<f64>,
    /// The same by threads.
    pub(crate) client_cpu_us_by_thread: BTreeMap<String, f64>,
    /// Figures of this scenario alone.
    pub(crate) figures: BTreeMap<String, f64>,
    /// Scenario, server, machine, commit.
    pub(crate) settings: Map<String, Value>,
    /// `jobs_per_s` of all runs, of which this is the median one.
    pub(crate) runs: Vec<f64>,
    /// The most expensive statements, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) statements: Vec<Statement>,
}

impl Latency {
    /// The percentiles of values in microseconds.
    pub(crate) fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        (!histogram.is_empty()).then(|| Self {
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: histogram.max() as f64 / 1e3,
        })
    }
}

impl Report {
    /// An empty report with the settings of server, machine and commit.
    pub(crate) async fn new(scenario: &'static str, pool: &PgPool) -> Result<Self> {
        let mut settings = Map::new();
        let rows = sqlx::query("select name, current_setting(name) as value from pg_settings where name = any ($1)")
            .bind(SERVER_SETTINGS)
            .fetch_all(pool)
            .await?;
        for row in rows {
            settings.insert(row.try_get("name")?, Value::String(row.try_get("value")?));
        }
        let cores = thread::available_parallelism().map_or(0, usize::from);
        settings.insert("processor".to_owned(), json!(format!("{cores} x {}", processor_model())));
        settings.insert("commit".to_owned(), json!(commit()));
        Ok(Self { scenario, settings, ..Self::default() })
    }

    /// Notes a figure of this scenario.
    pub(crate) fn figure(&mut self, name: impl Into<String>, value: f64) {
        self.figures.insert(name.into(), value);
    }

    /// Notes a latency, and what it is that of.
    pub(crate) fn latency(&mut self, of: &str, micros: Histogram<u64>) {
        self.setting("latency_ms", of);
        self.latency_ms = Latency::of(&micros);
        self.histogram = Some(micros);
    }

    /// Notes a setting of the scenario.
    pub(crate) fn setting(&mut self, name: &str, value: impl Into<Value>) {
        self.settings.insert(name.to_owned(), value.into());
    }

    /// Takes in what was spent on `jobs` jobs.
    pub(crate) fn cost(&mut self, cost: &Cost, jobs: f64) {
        self.wal_bytes_per_job = Some(cost.wal_bytes / jobs);
        self.fpi_per_job = Some(cost.images / jobs);
        self.transactions_per_job = Some(cost.transactions / jobs);
        self.growth_bytes = Some(cost.growth_bytes);
        self.server_cpu_us_per_job = cost.server_seconds.map(|seconds| seconds * 1e6 / jobs);
        let by_thread = cost.own_seconds.iter().map(|(thread, seconds)| (thread.clone(), seconds * 1e6 / jobs));
        self.client_cpu_us_by_thread = by_thread.filter(|(_, micros)| *micros > 0.0).collect();
        self.client_cpu_us_per_job = Some(self.client_cpu_us_by_thread.values().sum());
    }

    /// Takes in how long claims took.
    pub(crate) fn claims(&mut self, micros: &Histogram<u64>) {
        for (name, quantile) in [("claim_ms_p50", 0.5), ("claim_ms_p95", 0.95), ("claim_ms_p99", 0.99)] {
            self.figure(name, micros.value_at_quantile(quantile) as f64 / 1e3);
        }
        self.figure("claims", micros.len() as f64);
    }

    /// Takes in what was completed, second by second, of which the first `seconds` count.
    pub(crate) fn samples(&mut self, samples: &Samples, seconds: usize) {
        self.dead_tuples = samples.dead_rows.clone();
        self.per_second = samples.per_second.iter().take(seconds).map(|rate| rate.round()).collect();
        self.jobs_per_s = mean(&self.per_second).round();
        let half = median(&self.per_second);
        let slowest = self.per_second.iter().copied().fold(f64::INFINITY, f64::min);
        self.figure("median_second", half);
        self.figure("slowest_second", slowest);
        self.figure("slowest_of_median", slowest / half);
        let stalled = self.per_second.iter().filter(|rate| **rate < half / 4.0).count();
        self.figure("seconds_below_a_quarter", stalled as f64);
        let rates = (self.per_second.first_chunk::<10>(), self.per_second.last_chunk::<10>());
        if let (Some(first), Some(last)) = rates {
            let (first, last) = (mean(first), mean(last));
            self.figure("first_10", first.round());
            self.figure("last_10", last.round());
            self.figure("last_10_of_first_10", last / first);
        }
        let cpu: Vec<f64> = samples.cpu_per_second.iter().copied().take(seconds).collect();
        if let (Some(first), Some(last)) = (cpu.first_chunk::<10>(), cpu.last_chunk::<10>()) {
            self.figure("server_cpu_us_per_job_first_10", mean(first));
            self.figure("server_cpu_us_per_job_last_10", mean(last));
        }
        let dead = self.dead_tuples.values().copied().max().unwrap_or(0);
        self.figure("dead_rows_max_of_a_table", dead as f64);
    }

    /// The run in the middle by jobs a second, with those of all.
    pub(crate) fn median(mut reports: Vec<Self>) -> Option<Self> {
        let runs = reports.iter().map(|report| report.jobs_per_s).collect();
        reports.sort_by(|one, other| one.jobs_per_s.total_cmp(&other.jobs_per_s));
        let middle = reports.len() / 2;
        let report = reports.into_iter().nth(middle)?;
        Some(Self { runs, ..report })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "  {:<34}{}", "jobs/s", grouped(self.jobs_per_s))?;
        if !self.runs.is_empty() {
            let runs: Vec<String> = self.runs.iter().map(|rate| grouped(*rate)).collect();
            writeln!(out, "  {:<34}{}", "  of runs", runs.join("  "))?;
        }
        if let Some(latency) = &self.latency_ms {
            let Latency { p50, p95, p99, max } = latency;
            writeln!(out, "  {:<34}p50 {p50:.2}  p95 {p95:.2}  p99 {p99:.2}  max {max:.2}", "latency, ms")?;
        }
        let figures = [
            ("log, bytes/job", self.wal_bytes_per_job),
            ("full-page images/job", self.fpi_per_job),
            ("transactions/job", self.transactions_per_job),
            ("tables grown, MiB", self.growth_bytes.map(|bytes| bytes / f64::from(1 << 20))),
            ("HOT", self.hot_ratio),
            ("server CPU, us/job", self.server_cpu_us_per_job),
            ("client CPU, us/job", self.client_cpu_us_per_job),
        ];
        for (name, value) in figures {
            if let Some(value) = value {
                writeln!(out, "  {name:<34}{}", rounded(value))?;
            }
        }
        for (thread, micros) in &self.client_cpu_us_by_thread {
            writeln!(out, "  {:<34}{micros:.1}", format!("  {thread}"))?;
        }
        for (name, value) in &self.figures {
            writeln!(out, "  {:<34}{}", name.replace('_', " "), rounded(*value))?;
        }
        for (table, dead) in self.dead_tuples.iter().filter(|(_, dead)| **dead >= 100) {
            writeln!(out, "  {:<34}{dead} {table}", "dead rows")?;
        }
        for (name, value) in &self.settings {
            writeln!(out, "  {name:<34}{}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))?;
        }
        for one in &self.statements {
            let calls = one.calls.max(1) as f64;
            writeln!(
                out,
                "  {:>9.0} ms {:>8} calls {:>8.3} ms/call {:>7.1} rows {:>8.1} pages {:>8.0} B  {}",
                one.total_ms,
                one.calls,
                one.total_ms / calls,
                one.rows as f64 / calls,
                one.pages as f64 / calls,
                one.wal_bytes / calls,
                one.text
            )?;
        }
        Ok(())
    }
}

fn rounded(value: f64) -> String {
    if value.abs() < 100.0 { format!("{value:.3}") } else { grouped(value) }
}

fn processor_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    line.map_or_else(|| std::env::consts::ARCH.to_owned(), |line| line.trim_start_matches([':', '\t', ' ']).to_owned())
}

/// The commit that is checked out, marked if something was changed since.
fn commit() -> String {
    let git =
        Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=10"]).stderr(Stdio::null()).output();
    git.ok()
        .filter(|output| output.status.success())
        .map_or_else(|| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
