//! Random operations by several processes and open transactions, one after the other, against the state machine in `EDGES`.
//! After each step the whole database is looked at: I1, I2, I4, I6, I7, I13 and I14 hold, and every change is an edge that the
//! step was allowed to take. At the end every job is run to an end: none is lost.
//!
//! A failure prints its seed and its last steps; a seed that found something goes into `REGRESSIONS`.

mod actions;
mod answers;
mod callbacks;
mod maintenance;
mod operators;
mod table;

use awa_storage::testing::TestDatabase;
use futures_util::future::join_all;
use rand::{SeedableRng as _, rngs::StdRng};

use actions::World;
pub(crate) use table::look;

/// Seeds that have found something.
const REGRESSIONS: &[u64] = &[1, 2];

/// How many of the last steps are told.
const TOLD: usize = 12;

async fn check(seed: u64, steps: usize) {
    let database = TestDatabase::new().await;
    let mut world = World::new(&database, StdRng::seed_from_u64(seed)).await;
    let mut told = Vec::new();
    let fail = |told: &[String], why: &str| {
        let last = &told[told.len().saturating_sub(TOLD)..];
        panic!("seed {seed}, step {}: {why}\n  {}", told.len(), last.join("\n  "))
    };
    let mut before = table::look(&world.pool).await.expect("an empty database");
    for _ in 0..steps {
        let step = world.step(&before).await;
        told.push(step.what.clone());
        let after = match table::look(&world.pool).await {
            Ok(after) => after,
            Err(why) => return fail(&told, &why),
        };
        if let Err(why) = after.judge_after(&before, &step.allowed).and_then(|()| step.judge(&before, &after)) {
            return fail(&told, &why);
        }
        before = after;
    }
    if let Err(why) = world.run_to_the_end().await {
        fail(&told, &why);
    }
}

async fn check_all(seeds: impl IntoIterator<Item = u64>, steps: usize) {
    join_all(seeds.into_iter().map(|seed| tokio::spawn(check(seed, steps))))
        .await
        .into_iter()
        .for_each(|run| run.expect("the steps above"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_keep_every_invariant() {
    check_all(REGRESSIONS.iter().copied().chain([rand::random(), rand::random()]), 500).await;
}

mod long {
    //! The same at full size.

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn random_operations_keep_every_invariant() {
        for _ in 0..10 {
            super::check_all([rand::random(), rand::random(), rand::random(), rand::random()], 2_000).await;
        }
    }
}
