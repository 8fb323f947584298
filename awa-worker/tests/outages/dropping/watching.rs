//! Waits for jobs, and the streams of their changes. One poller looks for all who wait, and ends with the last of them.

use std::pin::pin;

use awa_worker::{Client, JobEdit, JobId, JobState, NewJob, WaitError};
use futures_util::StreamExt as _;
use tokio::runtime::Handle;

use super::{Scene, polled};
use crate::support::{PATIENCE, Probe, probe, soon, until};

/// How often a wait is polled before it is dropped, at most: it waits for longer than that.
const POLLS: usize = 8;

async fn job(scene: &Scene) -> JobId<Probe> {
    scene.client.enqueue(NewJob::new(&probe("a")).run_in(PATIENCE)).await.unwrap().id()
}

/// Changes the job again and again, so that whoever watches it has something to see.
async fn changes(client: &Client, job: JobId<Probe>) {
    for number in 1_u32.. {
        let _ = client.edit(job, JobEdit::new().run_in(PATIENCE * number)).await.unwrap();
    }
}

/// Drops a wait after 0, 1, 2 … polls, while its job changes. Each is dropped while it waits.
async fn dropped_while_it_waits<T, F: Future<Output = T>>(scene: &Scene, job: JobId<Probe>, wait: impl Fn() -> F) {
    for times in 0..POLLS {
        let mut polls = pin!(polled(times, wait()));
        let ended = soon("polls", async {
            tokio::select! {
                biased;
                ended = &mut polls => ended.is_some(),
                () = changes(&scene.client, job) => unreachable!("it changes for ever"),
            }
        });
        assert!(!ended.await, "it ended at poll {times}");
    }
}

/// Judges that nobody looks any more, and that the pool is whole.
async fn judge(scene: &Scene, tasks: usize) {
    let alive = || Handle::current().metrics().num_alive_tasks();
    until("the poller ends", async || alive() <= tasks).await;
    scene.judge("a wait").await;
}

/// How many tasks there are while nobody waits.
async fn tasks(scene: &Scene) -> usize {
    scene.judge("warming up").await;
    until("the pool is at rest", async || scene.pool.num_idle() == scene.pool.size() as usize).await;
    Handle::current().metrics().num_alive_tasks()
}

// CONN-11
#[tokio::test]
async fn dropped_wait_leaves_nobody_looking() {
    let scene = Scene::new().await;
    let id = job(&scene).await;
    let tasks = tasks(&scene).await;
    dropped_while_it_waits(&scene, id, || scene.client.wait(id, PATIENCE)).await;
    judge(&scene, tasks).await;
    assert_eq!(scene.client.job_status(id).await.unwrap().unwrap().state, JobState::Scheduled);
    // And the next one is served as if it were the first.
    let _ = scene.client.cancel(id, Some("enough")).await.unwrap();
    let ended = scene.client.wait(id, PATIENCE).await;
    assert!(matches!(ended, Err(WaitError::Cancelled { .. })), "{ended:?}");
    judge(&scene, tasks).await;
}

// CONN-11: the stream with whoever asks it.
#[tokio::test]
async fn dropped_watch_leaves_nobody_looking() {
    let scene = Scene::new().await;
    let id = job(&scene).await;
    let tasks = tasks(&scene).await;
    dropped_while_it_waits(&scene, id, || async {
        let mut watch = scene.client.watch(id);
        while watch.next().await.is_some() {}
    })
    .await;
    dropped_while_it_waits(&scene, id, || scene.client.watch(id).for_each(async |seen| drop(seen.unwrap()))).await;
    judge(&scene, tasks).await;
}

// CONN-11: the stream goes on where it was.
#[tokio::test]
async fn watch_whose_next_was_dropped_misses_no_change() {
    let scene = Scene::new().await;
    let id = job(&scene).await;
    let tasks = tasks(&scene).await;
    let mut watch = scene.client.watch(id);
    let mut seen = Vec::new();
    let changes = [JobEdit::new().run_in(2 * PATIENCE), JobEdit::new().run_in(3 * PATIENCE), JobEdit::new()];
    for (change, edit) in changes.into_iter().enumerate() {
        // Seen while it is polled again and again, each time by another future that is dropped after one poll.
        while seen.len() <= change {
            seen.extend(polled(1, watch.next()).await.flatten().map(Result::unwrap));
            tokio::task::yield_now().await;
        }
        if change < 2 {
            let _ = scene.client.edit(id, edit).await.unwrap();
        } else {
            let _ = scene.client.cancel(id, None).await.unwrap();
        }
    }
    while let Some(last) = soon("the next", watch.next()).await {
        seen.push(last.unwrap());
    }
    let states: Vec<JobState> = seen.iter().map(|status| status.state).collect();
    use JobState::{Cancelled, Scheduled};
    assert_eq!(states, [Scheduled, Scheduled, Scheduled, Cancelled]);
    assert!(seen.windows(2).take(2).all(|pair| pair[0].run_at < pair[1].run_at), "each change once");
    judge(&scene, tasks).await;
}
