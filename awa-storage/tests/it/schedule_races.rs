//! Schedules that several declare, set and delete at once.

use awa_model::{Missed, Overlap, Schedule};
use awa_storage::schedule::{self, Declaration, Written};
use awa_storage::testing::TestDatabase;
use chrono::TimeDelta;
use tokio::task::JoinSet;

use crate::scene::{begin, count, run};
use crate::schedule::{declaration, declare, due_since, job, minutely, set};

/// Declared by so many processes of two applications at once, each time with others of the same names.
async fn declared_at_once(processes: u32, rounds: u32) {
    let database = TestDatabase::new().await;
    let mut tasks = JoinSet::new();
    for process in 0..processes {
        let pool = database.pool();
        tasks.spawn(async move {
            let owner = ["shop", "mail"][process as usize % 2];
            for round in 0..rounds {
                // Of eight names every other process leaves out others, and deletes what it left out.
                let names = (0..8).filter(|name| (name + process + round) % 3 != 0);
                let schedules = names.map(|name| {
                    Schedule::new(format!("n{name}"), format!("{} * * * *", (process + round) % 60), job())
                });
                let declaration = Declaration { deletes_others: true, ..declaration(owner, 0, schedules) };
                let written = schedule::declare(&pool, &declaration).await.expect("neither a deadlock nor a refusal");
                assert!(written.len() >= declaration.schedules.len());
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("declared");
    }
}

#[tokio::test]
async fn sixteen_processes_of_two_applications_declare_the_same_names_at_once() {
    declared_at_once(16, 12).await;
}

#[tokio::test]
async fn a_schedule_that_is_deleted_while_it_is_set_is_set() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let mut operator = begin(&database).await;
    run(&mut operator, "select awa.set_schedule('a', '1 * * * *', '{\"kind\": \"a\"}')").await;
    let setting = tokio::spawn({
        let pool = pool.clone();
        async move { set(&pool, minutely("a")).await }
    });
    crate::scene::until_blocked(&pool, 1).await;
    run(&mut operator, "commit").await;
    assert_eq!(setting.await.expect("set"), Written::Changed);
    run(&mut operator, "begin").await;
    run(&mut operator, "delete from awa.cron_schedules").await;
    let setting = tokio::spawn({
        let pool = pool.clone();
        async move { set(&pool, minutely("a").overlap(Overlap::Skip)).await }
    });
    crate::scene::until_blocked(&pool, 1).await;
    run(&mut operator, "commit").await;
    assert_eq!(setting.await.expect("set"), Written::Created);
    assert_eq!(count(&pool, "select count(*) from awa.cron_schedules where overlap = 'skip'").await, 1);
}

#[tokio::test]
async fn processes_start_while_somebody_has_their_schedules_locked() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let shop = || declaration("shop", 0, [minutely("a"), minutely("b")]);
    let _ = declare(&pool, shop()).await;
    let mut operator = begin(&database).await;
    run(&mut operator, "select 1 from awa.cron_schedules for update").await;
    let mut impatient = pool.acquire().await.expect("a connection");
    run(&mut *impatient, "set lock_timeout = '1s'").await;
    let written = schedule::declare(&mut *impatient, &shop()).await.expect("nobody is waited for");
    assert!(written.iter().all(|(_, what)| *what == Written::Unchanged), "{written:?}");
    let others = schedule::declare(&mut *impatient, &declaration("mail", 0, [minutely("a")])).await.expect("an answer");
    assert_eq!(others, [("a".to_owned(), Written::Owned)]);
}

#[tokio::test]
async fn a_change_that_waits_for_the_leader_keeps_the_time_that_it_has_moved_on_to() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let due = due_since(&pool, minutely("a"), 1).await;
    let mut leader = begin(&database).await;
    let fired = schedule::fire(&mut leader, &due, &crate::schedule::slots(&due)).await.expect("fired");
    assert_eq!(fired.len(), 1);
    let setting = tokio::spawn({
        let pool = pool.clone();
        async move { set(&pool, minutely("a").overlap(Overlap::Skip)).await }
    });
    crate::scene::until_blocked(&pool, 1).await;
    run(&mut leader, "commit").await;
    assert_eq!(setting.await.expect("set"), Written::Changed);
    let status = schedule::status(&pool, "a").await.expect("an answer").expect("a schedule");
    assert_eq!((status.next_at, status.last_slot), (crate::schedule::slots(&due).next, due.next_at));
}

/// Two leaders handle the same times of a schedule, so many of them, by clocks that differ from the database's by so much.
async fn by_clocks_that_differ(times: i64, clocks: [TimeDelta; 2]) {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let every_second = Schedule::new("a", "* * * * * *", job()).missed(Missed::CatchUp { max: 10_000 });
    let _ = set(&pool, every_second).await;
    crate::schedule::plan(&pool, "a").await;
    run(&pool, &format!("update awa.cron_schedules set next_at = next_at - interval '{} seconds'", times + 10)).await;
    let mut leaders = JoinSet::new();
    for clock in clocks {
        let pool = pool.clone();
        leaders.spawn(async move {
            loop {
                let due = schedule::due(&pool, 1).await.expect("an answer").schedules;
                // The other may hold it at this moment.
                let Some(mut due) = due.into_iter().next() else { continue };
                let next = due.next_at.expect("a time");
                if next > due.now - TimeDelta::seconds(5) {
                    return;
                }
                // As if it had come a moment after the time, by its own clock.
                due.now = next + TimeDelta::milliseconds(990) + clock;
                let slots = crate::schedule::slots(&due);
                if !slots.due.is_empty() {
                    schedule::fire(&pool, &due, &slots).await.expect("no error, whoever was first");
                }
            }
        });
    }
    while let Some(done) = leaders.join_next().await {
        done.expect("to the end");
    }
    let ticks =
        count(&pool, "select count(*) from awa.cron_ticks where outcome = 'fired' and slot <= handled_at").await;
    assert!(ticks >= times, "{ticks} of {times}");
    let slots = "select count(distinct metadata #> '{$schedule,slot}') from awa.jobs";
    assert_eq!((count(&pool, crate::schedule::JOBS).await, count(&pool, slots).await), (ticks, ticks));
    let span = "select extract(epoch from max(slot) - min(slot))::bigint + 1 from awa.cron_ticks";
    assert_eq!(count(&pool, span).await, ticks, "none is left out");
}

// CRON-02
#[tokio::test]
async fn leaders_whose_clocks_differ_handle_each_time_once_and_leave_none_out() {
    for milliseconds in [50, 2000] {
        let difference = TimeDelta::milliseconds(milliseconds);
        by_clocks_that_differ(100, [difference, -difference + TimeDelta::seconds(1)]).await;
    }
}

mod long {
    use chrono::TimeDelta;

    use super::{by_clocks_that_differ, declared_at_once};

    // CRON-02
    #[tokio::test]
    async fn leaders_whose_clocks_differ_handle_each_of_a_thousand_times_once() {
        for milliseconds in [0, 50, 2000, 600_000] {
            by_clocks_that_differ(1000, [TimeDelta::milliseconds(milliseconds), TimeDelta::zero()]).await;
        }
    }

    #[tokio::test]
    async fn sixteen_processes_of_two_applications_declare_the_same_names_hundreds_of_times() {
        declared_at_once(16, 300).await;
    }
}
