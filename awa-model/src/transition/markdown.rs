//! Renders the state machine as `docs/state-machine.md`, and holds the file to it.

use std::{env, fmt::Write as _, fs, path::Path};

use super::{EDGES, Edge, Transition};
use crate::{JobState, Plane};

const UPDATE: &str = "AWA_UPDATE_DOCS";

#[test]
fn the_documented_state_machine_is_the_real_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/state-machine.md");
    let rendered = render();
    if env::var_os(UPDATE).is_some() {
        fs::write(&path, &rendered).expect("the file can be written");
    }
    let documented = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        documented == rendered,
        "docs/state-machine.md is out of date; run: {UPDATE}=1 cargo test -p awa-model documented"
    );
}

fn render() -> String {
    let parts = [heading(), states(), diagram(), edges(), transitions()];
    parts.join("\n")
}

fn heading() -> String {
    format!(
        "<!-- Rendered from EDGES in awa-model/src/transition.rs: {UPDATE}=1 cargo test -p awa-model documented -->\n\n\
         # State machine\n\n\
         Every edge that a job can take. Whatever is not listed changes nothing and is refused.\n"
    )
}

fn states() -> String {
    let mut text = "## States\n\n| State | Plane | Ends the job |\n|---|---|---|\n".to_owned();
    for state in JobState::ALL {
        let plane = match state.plane() {
            Plane::Hot => "hot",
            Plane::Deferred => "deferred",
        };
        let end = if state.is_terminal() { "yes" } else { "" };
        line(&mut text, format_args!("| {state} | {plane} | {end} |"));
    }
    text
}

fn diagram() -> String {
    let mut text = "## Diagram\n\n```mermaid\nstateDiagram-v2\n".to_owned();
    // One edge a pair of states: GitHub draws parallel ones over each other.
    for (index, edge) in EDGES.iter().enumerate() {
        let is_pair = |other: &&Edge| (other.from, other.to) == (edge.from, edge.to);
        if EDGES[..index].iter().any(|other| is_pair(&other)) {
            continue;
        }
        let by: Vec<&str> = EDGES.iter().filter(is_pair).map(|other| other.by.as_str()).collect();
        let (from, to) = (name(edge.from, "[*]"), name(edge.to, "[*]"));
        line(&mut text, format_args!("    {from} --> {to}: {}", by.join(", ")));
    }
    text + "```\n"
}

fn edges() -> String {
    let mut text = "## Edges\n\n| From | By | To | Where |\n|---|---|---|---|\n".to_owned();
    for Edge { from, by, to, when } in EDGES {
        let (from, to) = (name(*from, "(new)"), name(*to, "(gone)"));
        line(&mut text, format_args!("| {from} | {by} | {to} | {when} |"));
    }
    text
}

fn transitions() -> String {
    let mut text =
        "## Transitions\n\n| Transition | What happens | Effects beside the state |\n|---|---|---|\n".to_owned();
    for transition in Transition::ALL {
        let (meaning, effects) = (transition.meaning(), transition.effects());
        line(&mut text, format_args!("| {transition} | {meaning} | {effects} |"));
    }
    text
}

fn name(state: Option<JobState>, none: &'static str) -> &'static str {
    state.map_or(none, JobState::as_str)
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    writeln!(text, "{content}").expect("a String takes everything");
}
