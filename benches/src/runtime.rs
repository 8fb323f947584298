//! Runtimes of their own for producer, consumer and sampler: threads by name, so that the CPU time of each can be told.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Mutex, PoisonError},
    thread,
};

use tokio::sync::oneshot;

use crate::{Result, processor};

/// CPU time of crews that have ended, by name.
static ENDED: Mutex<BTreeMap<String, f64>> = Mutex::new(BTreeMap::new());

/// Work on a runtime of its own.
pub(crate) struct Crew<T> {
    answer: oneshot::Receiver<Result<T>>,
    thread: thread::JoinHandle<()>,
}

/// Runs `work` on `threads` threads called `name`, at most 15 bytes long.
pub(crate) fn start<T, F>(name: &'static str, threads: usize, work: impl FnOnce() -> F + Send + 'static) -> Crew<T>
where
    T: Send + 'static,
    F: Future<Output = Result<T>>,
{
    let (reply, answer) = oneshot::channel();
    let body = move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(threads).thread_name(name).enable_all().build();
        let outcome = match runtime {
            Ok(runtime) => {
                let outcome = runtime.block_on(work());
                // While its threads are still there to be asked.
                let seconds = processor::own_seconds().get(name).copied().unwrap_or(0.0);
                *ENDED.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_insert(0.0) += seconds;
                outcome
            }
            Err(error) => Err(error.into()),
        };
        // Whoever started it may have failed meanwhile.
        let _ = reply.send(outcome);
    };
    let thread = thread::Builder::new().name(name.to_owned()).spawn(body).expect("a process may start threads");
    Crew { answer, thread }
}

impl<T> Crew<T> {
    /// Whether the work has ended, which it should not do before it is told to.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the work to end, and for its threads.
    pub(crate) async fn join(self) -> Result<T> {
        let answer = self.answer.await;
        // It has nothing left to do.
        let ended = self.thread.join();
        answer.ok().filter(|_| ended.is_ok()).ok_or("a part of the bench has panicked")?
    }
}

/// CPU time of this process so far, by thread names, those that have ended included.
pub(crate) fn seconds() -> BTreeMap<String, f64> {
    let mut seconds = processor::own_seconds();
    for (name, ended) in ENDED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        *seconds.entry(name.clone()).or_insert(0.0) += ended;
    }
    seconds
}
