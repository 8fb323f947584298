//! The tables of `benches/README.md`, made from records and put between two markers.

use std::{fmt::Write as _, fs, path::Path};

use super::{
    Findings,
    options::{Scenario, Settings},
    record::Record,
};
use crate::{
    Result,
    numbers::{grouped, median},
};

/// Where the tables begin and end in the file.
const MARKERS: [&str; 2] = ["<!-- peers: begin -->", "<!-- peers: end -->"];

/// One line of a table: a peer with its settings.
struct Line<'a> {
    program: &'a str,
    settings: Settings,
    records: Vec<&'a Record>,
}

/// Replaces what is between the markers.
pub(super) fn put(path: &Path, table: &str) -> Result {
    let text = fs::read_to_string(path)?;
    let [begin, end] = MARKERS;
    let (before, rest) = text.split_once(begin).ok_or_else(|| format!("{} lacks {begin}", path.display()))?;
    let (_, after) = rest.split_once(end).ok_or_else(|| format!("{} lacks {end}", path.display()))?;
    Ok(fs::write(path, format!("{before}{begin}\n{table}{end}{after}"))?)
}

/// All tables.
pub(super) fn markdown(findings: &Findings) -> String {
    let lines = lines(&findings.records);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = heading(&mut text, findings);
    let _ = figures(&mut text, &lines);
    let _ = costs(&mut text, &lines);
    let _ = settings(&mut text, &lines);
    let _ = remarks(&mut text, findings);
    text
}

/// Peers in the order in which they came up, Awa at its best first.
fn lines(records: &[Record]) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for record in records {
        let known = |line: &&mut Line<'_>| line.program == record.program && line.settings == record.settings;
        match lines.iter_mut().find(known) {
            Some(line) => line.records.push(record),
            None => lines.push(Line { program: &record.program, settings: record.settings, records: vec![record] }),
        }
    }
    lines
}

impl Line<'_> {
    fn name(&self) -> String {
        let outcome = self.records.iter().find_map(|record| record.outcome.as_ref());
        outcome.map_or_else(|| self.program.to_owned(), |outcome| format!("{} {}", outcome.peer, outcome.version))
    }

    fn of(&self, scenario: Scenario) -> impl Iterator<Item = &Record> {
        self.records.iter().copied().filter(move |record| record.scenario == scenario)
    }

    /// The middle of a figure over all runs.
    fn middle(&self, scenario: Scenario, figure: impl Fn(&Record) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.of(scenario).filter_map(figure).collect();
        (!values.is_empty()).then(|| median(&values))
    }

    /// `12,345 (0.41)`, `3.1 / 9.8 (1.40)`, `failed`, or a dash where nothing was run.
    fn cell(&self, scenario: Scenario) -> String {
        let Some(figure) = self.middle(scenario, Record::figure) else {
            return if self.of(scenario).next().is_some() { "failed" } else { "–" }.to_owned();
        };
        let mut text = if scenario.is_time() {
            let p99 = self.middle(scenario, |record| record.outcome.as_ref()?.p99_ms).unwrap_or(figure);
            format!("{} / {}", milliseconds(figure), milliseconds(p99))
        } else {
            grouped(figure)
        };
        if let Some(ratio) = self.middle(scenario, |record| record.ratio) {
            let _ = write!(text, " ({})", times(ratio));
        }
        let unfinished = |record: &Record| record.outcome.as_ref().is_some_and(|outcome| !outcome.finished);
        if self.of(scenario).any(unfinished) {
            text.push('*');
        }
        text
    }
}

/// A ratio with two digits that say something.
pub(super) fn times(ratio: f64) -> String {
    match ratio {
        ..0.1 => format!("{ratio:.3}"),
        ..100.0 => format!("{ratio:.2}"),
        _ => grouped(ratio),
    }
}

fn milliseconds(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { grouped(value) }
}

fn heading(text: &mut String, findings: &Findings) -> std::fmt::Result {
    let setting = |name: &str| findings.settings.get(name).and_then(serde_json::Value::as_str).unwrap_or("?");
    writeln!(
        text,
        "{}, shared by server and client; PostgreSQL {}, shared_buffers {}, max_wal_size {}, fsync {}, synchronous_commit {}, \
         full_page_writes {}; commit {}.\n",
        setting("processor"),
        setting("server_version"),
        setting("shared_buffers"),
        setting("max_wal_size"),
        setting("fsync"),
        setting("synchronous_commit"),
        setting("full_page_writes"),
        setting("commit"),
    )
}

fn figures(text: &mut String, lines: &[Line<'_>]) -> std::fmt::Result {
    writeln!(
        text,
        "| | settings | sustained, jobs/s | drain, jobs/s | enqueue one, rows/s | enqueue many, rows/s | latency at 500/s, p50 / \
         p99 ms | idle pick-up, p50 / p99 ms |\n|---|---|---|---|---|---|---|---|"
    )?;
    for line in lines {
        write!(text, "| {} | {} |", line.name(), line.settings.name())?;
        for scenario in Scenario::ALL {
            write!(text, " {} |", line.cell(scenario))?;
        }
        writeln!(text)?;
    }
    writeln!(
        text,
        "\nRounds: {}; medians. In brackets: the peer's figure over that of Awa at its best in the run just before, median of \
         the pairs; for times of the p50. A star: not everything was completed in time, and only what was counts.\n",
        lines.iter().flat_map(|line| &line.records).map(|record| record.round).max().unwrap_or(0),
    )
}

fn costs(text: &mut String, lines: &[Line<'_>]) -> std::fmt::Result {
    let lines: Vec<_> = lines.iter().filter(|line| line.of(Scenario::Sustained).next().is_some()).collect();
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(
        text,
        "| `sustained` | settings | log, B/job | server CPU, us/job | client CPU, us/job |\n|---|---|---|---|---|"
    )?;
    let cell = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), grouped);
    for line in lines {
        let middle = |figure: fn(&Record) -> Option<f64>| cell(line.middle(Scenario::Sustained, figure));
        writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            line.name(),
            line.settings.name(),
            middle(|record| record.wal_bytes_per_job),
            middle(|record| record.server_cpu_us_per_job),
            middle(|record| record.client_cpu_us_per_job),
        )?;
    }
    writeln!(text)
}

fn settings(text: &mut String, lines: &[Line<'_>]) -> std::fmt::Result {
    writeln!(text, "| | settings | in words |\n|---|---|---|")?;
    for line in lines {
        let outcome = line.records.iter().find_map(|record| record.outcome.as_ref());
        let words = outcome.map_or("–", |outcome| outcome.configuration.as_str());
        writeln!(text, "| {} | {} | {words} |", line.name(), line.settings.name())?;
    }
    writeln!(text)
}

/// Whoever did not run, did not finish or ran something twice.
fn remarks(text: &mut String, findings: &Findings) -> std::fmt::Result {
    for (name, reason) in &findings.missing {
        writeln!(text, "- Not run: {name}, {reason}.")?;
    }
    for record in &findings.records {
        let who = format!(
            "{}, {}, {}, round {}",
            record.program,
            record.settings.name(),
            record.scenario.name(),
            record.round
        );
        if let Some(error) = &record.error {
            writeln!(text, "- Failed: {who}: {error}.")?;
        }
        let Some(outcome) = &record.outcome else { continue };
        if outcome.handled > outcome.jobs && !outcome.jobs.eq(&0) {
            writeln!(text, "- {who}: {} handlers ran for {} jobs.", outcome.handled, outcome.jobs)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! From records to the file.

    use super::{Findings, MARKERS, markdown, put};

    fn findings() -> Findings {
        let run = |program: &str, round: u32, rate: f64, ratio: Option<f64>| {
            serde_json::json!({
                "program": program, "settings": "best", "scenario": "drain", "round": round, "ratio": ratio,
                "outcome": {
                    "peer": program, "version": "1", "configuration": "as it comes", "jobs": 10, "completed": 10,
                    "handled": 10, "seconds": 1.0, "per_second": rate, "finished": true,
                },
            })
        };
        serde_json::from_value(serde_json::json!({
            "settings": {},
            "missing": [["pg-boss", "there is no node"]],
            "records": [
                run("awa", 1, 20_000.0, None), run("other", 1, 5_000.0, Some(0.25)),
                run("awa", 2, 10_000.0, None), run("other", 2, 5_000.0, Some(0.5)),
                run("awa", 3, 40_000.0, None), run("other", 3, 6_000.0, Some(0.15)),
            ],
        }))
        .expect("records as they are written")
    }

    #[test]
    fn table_has_medians_of_figures_and_of_ratios() {
        let table = markdown(&findings());
        assert!(table.contains("| awa 1 | best | – | 20,000 | – | – | – | – |"), "{table}");
        assert!(table.contains("| other 1 | best | – | 5,000 (0.25) | – | – | – | – |"), "{table}");
        assert!(table.contains("- Not run: pg-boss, there is no node."), "{table}");
    }

    #[test]
    fn table_replaces_what_is_between_the_markers_and_nothing_else() {
        let path = std::env::temp_dir().join(format!("awa-bench-table-{}", std::process::id()));
        let [begin, end] = MARKERS;
        std::fs::write(&path, format!("before\n{begin}\nold\n{end}\nafter\n")).expect("a temporary file");
        put(&path, "new\n").expect("it has markers");
        let text = std::fs::read_to_string(&path).expect("it is there");
        std::fs::remove_file(&path).expect("it is ours");
        assert_eq!(text, format!("before\n{begin}\nnew\n{end}\nafter\n"));
    }
}
