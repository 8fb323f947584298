//! Other queues, each in turn with Awa: A B A C A D …, so that a machine that slows down slows down both of a pair.
//!
//! A peer is a program (see `benches/peers/README.md`); which there are, and which there could not be and why, is in a file
//! that `cargo xtask bench peers` writes. Every run has a database of its own, and the server's log and CPU time are read
//! around it as for any scenario here. What counts is the ratio of a pair, and of several pairs the median.

mod options;
mod program;
mod record;
mod table;

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use options::Options;

use crate::{Arguments, Bench, Result, database::Scratch, meter::Meter, processor, report::Report};
use options::{PREPARATION_MAX, Scenario, Settings};
use program::{Program, Started};
use record::{Outcome, Record};

/// All that is known: what `--json` writes and `--add` reads, and what the table is made of.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Findings {
    /// Server, machine and commit of the last invocation.
    settings: Map<String, Value>,
    /// Programs that could not be made, with the reason.
    missing: Vec<(String, String)>,
    records: Vec<Record>,
}

/// What runs once.
#[derive(Clone, Copy)]
struct Call<'a> {
    program: &'a Program,
    settings: Settings,
    scenario: Scenario,
}

/// Runs every pair, and writes down what is known after each.
pub(crate) async fn run(options: &Options, arguments: &Arguments, bench: &Bench) -> Result {
    let programs = program::read(&options.programs)?;
    let reference = programs.iter().find(|program| program.is_reference()).ok_or("Awa is not among the peers")?;
    let json = arguments.json.as_deref();
    let mut findings = if options.add { read(json)? } else { Findings::default() };
    findings.settings.clear();
    findings.missing = programs.iter().filter_map(|one| Some((one.name.clone(), one.missing.clone()?))).collect();
    for (name, reason) in &findings.missing {
        println!("not run: {name}: {reason}");
    }
    for scenario in options.scenarios() {
        for round in 1..=options.rounds(arguments.runs) {
            for (program, settings) in opponents(options, &programs) {
                let first = Call { program: reference, settings: Settings::Best, scenario };
                let first = record(options, arguments, bench, first, round, &mut findings).await;
                println!("{first}");
                let second = Call { program, settings, scenario };
                let second = record(options, arguments, bench, second, round, &mut findings).await.against(&first);
                println!("{second}");
                findings.records.extend([first, second]);
                write(json, &findings)?;
            }
        }
    }
    let table = table::markdown(&findings);
    match &options.readme {
        Some(path) => table::put(path, &table),
        None => {
            print!("{table}");
            Ok(())
        }
    }
}

/// Everyone with both settings but Awa at its best, which is what they are measured against.
fn opponents<'a>(options: &'a Options, programs: &'a [Program]) -> impl Iterator<Item = (&'a Program, Settings)> {
    let chosen = programs.iter().filter(|program| program.missing.is_none() && options.wants(&program.name));
    let both = chosen.flat_map(|program| options.settings().into_iter().map(move |settings| (program, settings)));
    both.filter(|(program, settings)| !program.is_reference() || *settings != Settings::Best)
}

/// Measures; a run that fails is a record too, and stops nobody else.
async fn record(
    options: &Options,
    arguments: &Arguments,
    bench: &Bench,
    call: Call<'_>,
    round: u32,
    findings: &mut Findings,
) -> Record {
    let record = Record::new(&call, round);
    match measure(options, arguments, bench, call, findings).await {
        Ok((outcome, cost)) => record.with(outcome, cost),
        Err(error) => Record { error: Some(error.to_string()), ..record },
    }
}

/// What a run cost.
#[derive(Clone, Copy, Debug)]
struct Spent {
    wal_bytes: f64,
    server_seconds: Option<f64>,
    client_seconds: Option<f64>,
}

async fn measure(
    options: &Options,
    arguments: &Arguments,
    bench: &Bench,
    call: Call<'_>,
    findings: &mut Findings,
) -> Result<(Outcome, Spent)> {
    let scratch = Scratch::empty(bench).await?;
    let url = program::url_of(&arguments.database_url, scratch.name())?;
    let pool = scratch.pool(1);
    let run = async {
        let mut peer = Started::start(call.program, &url, &options.words(call.scenario, call.settings))?;
        peer.wait_until_ready(PREPARATION_MAX)?;
        if findings.settings.is_empty() {
            findings.settings = Report::new("peers", &pool).await?.settings;
        }
        let meter = Meter::start(pool.clone()).await?;
        let client = processor::family_seconds(peer.id());
        peer.go()?;
        let line = peer.line(options.run_max())?;
        let client = processor::family_seconds(peer.id()).zip(client).map(|(after, before)| after - before);
        let cost = meter.cost(0.0).await?;
        let outcome: Outcome = serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))?;
        let spent = Spent { wal_bytes: cost.wal_bytes, server_seconds: cost.server_seconds, client_seconds: client };
        Ok((outcome, spent))
    };
    let measured = run.await;
    pool.close().await;
    scratch.drop().await?;
    measured
}

fn read(json: Option<&Path>) -> Result<Findings> {
    let path = json.ok_or("--add needs --json")?;
    Ok(if path.exists() { serde_json::from_str(&fs::read_to_string(path)?)? } else { Findings::default() })
}

fn write(json: Option<&Path>, findings: &Findings) -> Result {
    match json {
        Some(path) => Ok(fs::write(path, serde_json::to_string_pretty(findings)? + "\n")?),
        None => Ok(()),
    }
}
