//! Workers in processes of their own: this program starts itself again. A child writes on its standard output how many jobs it
//! has handled, a line whenever that has grown, and stops in order when its standard input ends.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use awa_worker::CancellationToken;
use sqlx::{ConnectOptions as _, postgres::PgConnectOptions};
use tokio::{task, time};

use crate::{
    Result,
    consumer::{Late, Wants, worker},
    jobs::Shape,
};

/// How often a child tells, and how often it is looked whether all children live.
const TELLING: Duration = Duration::from_millis(10);

/// What a child is told.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Jobs that it holds at once.
    #[arg(long)]
    max_workers: usize,
}

/// Runs workers in `processes` processes until told to stop. `handled` counts what all of them do.
pub(crate) async fn run_many(
    options: &PgConnectOptions,
    processes: usize,
    max_workers: usize,
    handled: &Arc<AtomicU64>,
    stop: &CancellationToken,
) -> Result {
    let mut children = Vec::new();
    for _ in 0..processes {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["work", "--max-workers", &max_workers.to_string()])
            .args(["--database-url", options.to_url_lossy().as_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let told = child.stdout.take().ok_or("a child has no output")?;
        let handled = Arc::clone(handled);
        thread::spawn(move || {
            let mut before = 0;
            for count in BufReader::new(told).lines().map_while(std::result::Result::ok) {
                let Ok(count) = count.parse::<u64>() else { continue };
                handled.fetch_add(count - before, Ordering::Relaxed);
                before = count;
            }
        });
        children.push(child);
    }
    while stop.run_until_cancelled(time::sleep(TELLING)).await.is_some() {
        for child in &mut children {
            if let Some(status) = child.try_wait()? {
                return Err(format!("a worker process has ended: {status}").into());
            }
        }
    }
    task::spawn_blocking(move || children.into_iter().try_for_each(finish)).await?
}

/// Lets a child end, and waits for it.
fn finish(mut child: Child) -> Result {
    drop(child.stdin.take());
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(format!("a worker process has failed: {status}").into()) }
}

/// The child: a worker until standard input ends.
pub(crate) async fn work(options: &Options, connect: PgConnectOptions) -> Result {
    let (stop, handled) = (CancellationToken::new(), Arc::new(AtomicU64::new(0)));
    let stopping = stop.clone();
    thread::spawn(move || {
        // An error ends the input as well.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stopping.cancel();
    });
    let telling = tokio::spawn(keep_telling(Arc::clone(&handled)));
    let wants = Wants { max_workers: options.max_workers, reports: false, shape: Shape::USUAL };
    worker(connect, wants, Arc::clone(&handled), Late(Arc::default()), stop).await?;
    telling.abort();
    tell(&handled, &mut 0)
}

async fn keep_telling(handled: Arc<AtomicU64>) -> Result {
    let mut before = 0;
    loop {
        time::sleep(TELLING).await;
        tell(&handled, &mut before)?;
    }
}

fn tell(handled: &AtomicU64, before: &mut u64) -> Result {
    let count = handled.load(Ordering::Relaxed);
    if count != *before {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{count}")?;
        out.flush()?;
        *before = count;
    }
    Ok(())
}
