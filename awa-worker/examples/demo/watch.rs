//! The onlooker: shows the run, and at its end says whether everything came out as it should. Nothing depends on it.

use crate::{
    args::Watch,
    check::{self, Expected, Found, Orphan},
    display::Display,
    facts::Facts,
    observe, report, scan,
    store::Store,
};
use serde::Deserialize;
use sqlx::PgPool;
use std::{error::Error, io, path::Path, time::Duration};
use tokio::{sync::mpsc, time::Instant};

/// How often to look.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// What whoever runs the fleet tells on standard input, a JSON object a line.
#[derive(Deserialize)]
struct Note {
    say: String,
    /// What a worker held when it was killed.
    killed: Option<Vec<Orphan>>,
}

/// Watches a run to its end; an error if it did not end, or not as it should.
pub(crate) async fn run(pool: PgPool, options: Watch) -> Result<(), Box<dyn Error>> {
    let directory = options.directory.clone();
    let items = usize::try_from(options.items)?;
    let files = tokio::task::spawn_blocking(move || compute(&directory, items)).await??;
    let mut display = Display::new();
    let (ended, killed) = until_ended(&pool, &options, &mut display).await?;
    display.end();

    let jobs = observe::jobs(&pool, options.run).await?;
    println!("\n{}", report::table(&jobs, observe::wall_time(&pool, options.run).await?));
    let store = Store::new(pool);
    let found = Found {
        jobs,
        files: store.index(options.run).await?.into_iter().collect(),
        announcements: store.announcements(options.run).await?,
    };
    let mut reasons = check::differences(&Expected { files, killed }, &found);
    if !ended {
        reasons.insert(0, format!("nothing has changed for {} s although jobs are left", options.patience));
    }
    if reasons.is_empty() {
        println!("  every job ended as it should; counts, hashes and totals equal a direct computation");
        return Ok(());
    }
    Err(summary(&reasons).into())
}

/// The same facts without any queue: what the run is held against.
fn compute(directory: &Path, items: usize) -> io::Result<Vec<(String, Facts)>> {
    let files = scan::text_files(directory)?;
    let read = |path: &String| std::fs::read(path).map(|content| (path.clone(), Facts::of(&content)));
    let once = files.iter().take(items).map(read).collect::<io::Result<Vec<_>>>()?;
    Ok(once.iter().cloned().cycle().take(items).collect())
}

/// Looks until all jobs have ended or nothing moves any more: whether they did, and what a killed worker held.
async fn until_ended(
    pool: &PgPool,
    options: &Watch,
    display: &mut Display,
) -> Result<(bool, Option<Vec<Orphan>>), Box<dyn Error>> {
    let mut notes = notes();
    let mut killed = options.expect_kill.then(Vec::new);
    let mut told = !options.expect_kill;
    let mut looks = tokio::time::interval(LOOK_INTERVAL);
    let mut last = (Instant::now(), observe::Standing::default());
    loop {
        tokio::select! {
            Some(note) = notes.recv() => {
                display.say(&note.say);
                if let Some(orphans) = note.killed {
                    (killed, told) = (Some(orphans), true);
                }
                continue;
            }
            _ = looks.tick() => {}
        }
        let standing = observe::standing(pool, options.run).await?;
        display.show(&standing);
        if standing != last.1 {
            last = (Instant::now(), standing);
        }
        let all_ended = last.1.jobs > 0 && last.1.ended == last.1.jobs;
        if (all_ended && told) || last.0.elapsed() > Duration::from_secs(options.patience) {
            return Ok((all_ended, killed));
        }
    }
}

/// Lines from standard input, read on a thread of their own because such a read cannot be given up.
fn notes() -> mpsc::Receiver<Note> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            let Ok(note) = serde_json::from_str(&line) else { continue };
            if sender.blocking_send(note).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The first reasons in full; a run that went wrong as a whole would fill the screen.
fn summary(reasons: &[String]) -> String {
    const SHOWN: usize = 20;
    let mut text = String::from("the run is not as it should be:");
    for reason in reasons.iter().take(SHOWN) {
        text.push_str("\n  - ");
        text.push_str(reason);
    }
    if reasons.len() > SHOWN {
        text.push_str(&format!("\n  and {} more", reasons.len() - SHOWN));
    }
    text
}
