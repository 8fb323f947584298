//! The table at the end: jobs by kind and state, what it took, and how long.

use crate::{check::Seen, kinds};
use std::{fmt::Write as _, time::Duration};

const HEADINGS: [&str; 7] = ["kind", "jobs", "completed", "attempts", "failures", "snoozes", "rescued"];

/// The table as text: a line for each kind, then the states, the time it took and the pace.
pub(crate) fn table(jobs: &[Seen], wall: Duration) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(kinds::ALL.map(|(kind, _)| row(kind, &jobs.iter().filter(|job| job.kind == kind).collect::<Vec<_>>())));
    rows.push(row("all", &jobs.iter().collect::<Vec<_>>()));
    let mut text = String::new();
    for row in &rows {
        for (column, cell) in row.iter().enumerate() {
            let width = rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
            let _ = if column == 0 { write!(text, "  {cell:<width$}") } else { write!(text, "  {cell:>width$}") };
        }
        text.push('\n');
    }
    let _ = write!(text, "\n  states: {}\n", states(jobs));
    let _ = writeln!(text, "  wall time: {:.1} s from enqueueing to the end of the last job", wall.as_secs_f64());
    let _ = writeln!(text, "  {}", pace(jobs));
    text
}

fn row(kind: &str, jobs: &[&Seen]) -> [String; 7] {
    let sum = |of: fn(&Seen) -> i64| jobs.iter().map(|job| of(job)).sum::<i64>().to_string();
    [
        kind.to_owned(),
        sum(|_| 1),
        sum(|job| i64::from(job.state == kinds::COMPLETED)),
        sum(|job| job.attempt),
        sum(|job| job.failures),
        sum(|job| job.snoozes),
        sum(|job| job.rescues),
    ]
}

/// The file jobs that went through undisturbed: the others, and those that wait by design, would only measure the waiting.
fn pace(jobs: &[Seen]) -> String {
    let undisturbed = || jobs.iter().filter(|job| job.kind == kinds::INDEX_FILE && job.attempt == 1);
    let begun = undisturbed().filter_map(|job| job.attempted_at).min();
    let ended = undisturbed().filter_map(|job| job.finalized_at).max();
    let (Some(begun), Some(ended)) = (begun, ended) else { return "no file job went through undisturbed".to_owned() };
    let seconds = (ended - begun).as_seconds_f64();
    let count = undisturbed().count();
    format!("file jobs: {count} undisturbed ones in {seconds:.1} s, {:.0} jobs/s", count as f64 / seconds.max(0.001))
}

fn states(jobs: &[Seen]) -> String {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for job in jobs {
        *counts.entry(&job.state).or_default() += 1;
    }
    counts.iter().map(|(state, count)| format!("{count} {state}")).collect::<Vec<_>>().join(", ")
}
