//! Periodic jobs as the leader does them: pass by pass, after gaps, beside another leader, and beside schedules that are broken.

use std::time::Duration;

use awa_maintenance::{Duty, MaintenanceConfig, Next, Scheduler};
use awa_storage::testing::TestDatabase;
use sqlx::PgPool;

use crate::support::{count, run};

const JOB: &str = "'{\"kind\": \"noop\"}'";

/// Passes until the duty wants to rest; returns for how long.
async fn catch_up(scheduler: &Scheduler) -> Duration {
    loop {
        if let Next::In(pause) = scheduler.pass().await.expect("a pass").next {
            return pause;
        }
    }
}

fn scheduler(pool: &PgPool) -> Scheduler {
    Scheduler::new(pool.clone(), MaintenanceConfig::default())
}

/// Sets a schedule, lets it alone be planned, and lets so much time pass.
async fn after_a_gap(pool: &PgPool, name: &str, expression: &str, more: &str, gap: &str) {
    run(pool, "update awa.cron_schedules set paused_at = now()").await;
    run(pool, &format!("select awa.set_schedule('{name}', '{expression}', {JOB}{more})")).await;
    catch_up(&scheduler(pool)).await;
    run(pool, &format!("update awa.cron_schedules set next_at = next_at - interval '{gap}' where name = '{name}'"))
        .await;
    run(pool, "update awa.cron_schedules set paused_at = null").await;
}

const JOBS: &str = "select count(*) from awa.jobs";

// CRON-01
#[tokio::test]
async fn a_daily_run_that_fell_into_a_gap_is_made_up_once() {
    for (gap, missed) in [("1 day", 0), ("3 days", 1)] {
        let database = TestDatabase::new().await;
        let pool = database.pool();
        after_a_gap(&pool, "daily", "0 3 * * *", "", gap).await;
        catch_up(&scheduler(&pool)).await;
        catch_up(&scheduler(&pool)).await;
        assert_eq!(count(&pool, JOBS).await, 1, "{gap}");
        assert_eq!(count(&pool, "select count(*) from awa.cron_ticks where outcome = 'missed'").await, missed, "{gap}");
        assert_eq!(count(&pool, "select count(*) from awa.cron_schedules where next_at > now()").await, 1, "{gap}");
    }
}

// CRON-13
#[tokio::test]
async fn thirty_days_of_minutes_make_one_job_or_as_many_as_may_be_made_up_and_hold_up_nobody() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    after_a_gap(&pool, "coalesced", "* * * * *", "", "30 days").await;
    after_a_gap(&pool, "caught up", "* * * * *", ", missed => 'catch_up', catch_up_max => 250", "29 days").await;
    after_a_gap(&pool, "on time", "* * * * *", "", "1 minute").await;
    let scheduler = scheduler(&pool);
    // The first pass makes up a part, and does the others.
    assert_eq!(scheduler.pass().await.expect("a pass").next, Next::Now);
    assert_eq!(count(&pool, JOBS).await, 102);
    catch_up(&scheduler).await;
    let of = |name| format!("select count(*) from awa.jobs where metadata #>> '{{$schedule,name}}' = '{name}'");
    assert_eq!(count(&pool, &of("coalesced")).await, 1);
    assert_eq!(count(&pool, &of("on time")).await, 1);
    // A minute may have begun since.
    assert!((250..=252).contains(&count(&pool, &of("caught up")).await));
    let disorder = "select count(*) from (select run_at < lag(run_at) over (order by id) as back from awa.jobs
                                           where metadata #>> '{$schedule,name}' = 'caught up') as jobs where back";
    assert_eq!(count(&pool, disorder).await, 0);
}

// CRON-09
#[tokio::test]
async fn a_schedule_that_cannot_be_read_is_shown_as_such_and_the_others_go_on() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for (name, call) in [
        ("february", "'0 0 30 2 *'"),
        ("short months", "'0 0 31 4,6,9,11 *'"),
        ("nonsense", "'whenever'"),
        ("atlantis", "'* * * * *'"),
        ("fine", "'* * * * *'"),
    ] {
        let zone = if name == "atlantis" { "Europe/Atlantis" } else { "UTC" };
        run(&pool, &format!("select awa.set_schedule('{name}', {call}, {JOB}, timezone => '{zone}')")).await;
    }
    let scheduler = scheduler(&pool);
    catch_up(&scheduler).await;
    run(&pool, "update awa.cron_schedules set next_at = now() where name = 'fine'").await;
    catch_up(&scheduler).await;
    assert_eq!(count(&pool, JOBS).await, 1);
    let faults = "select count(*) from awa.cron_schedules where fault is not null and next_at is null and planned";
    assert_eq!(count(&pool, faults).await, 4);
    // Mended, it is planned.
    run(&pool, &format!("select awa.set_schedule('nonsense', '@daily', {JOB})")).await;
    catch_up(&scheduler).await;
    assert_eq!(count(&pool, faults).await, 3);
}

/// A row that no function has written.
#[tokio::test]
async fn a_schedule_whose_job_cannot_be_enqueued_stops_no_other() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    after_a_gap(&pool, "bad", "* * * * *", "", "1 minute").await;
    after_a_gap(&pool, "fine", "* * * * *", "", "1 minute").await;
    run(&pool, "update awa.cron_schedules set job = '{\"kind\": 5}' where name = 'bad'").await;
    catch_up(&scheduler(&pool)).await;
    assert_eq!(count(&pool, JOBS).await, 1);
    assert_eq!(count(&pool, "select count(*) from awa.cron_ticks where outcome = 'refused'").await, 1);
}

/// Somebody's trigger, an unique key that a transaction holds for hours, a quota: what may pass, and does not.
#[tokio::test]
async fn any_number_of_schedules_that_cannot_be_handled_for_now_keep_no_other_from_its_turn() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(
        &pool,
        &format!(
            "select awa.set_schedule('bad ' || number, '* * * * *', {JOB}) from generate_series(1, 250) as number"
        ),
    )
    .await;
    run(&pool, &format!("select awa.set_schedule('fine', '* * * * *', {JOB})")).await;
    let scheduler = scheduler(&pool);
    catch_up(&scheduler).await;
    run(
        &pool,
        "create function public.refuse() returns trigger language plpgsql
         as $$begin raise exception 'not now' using errcode = '55P03'; end$$",
    )
    .await;
    run(
        &pool,
        "create trigger refuse before insert on awa.cron_ticks
         for each row when (new.schedule like 'bad%') execute function public.refuse()",
    )
    .await;
    run(&pool, "update awa.cron_schedules set next_at = now() - interval '1 hour' where name <> 'fine'").await;
    run(&pool, "update awa.cron_schedules set next_at = now() where name = 'fine'").await;
    assert_eq!(scheduler.pass().await.expect("a pass").changed, 1);
    assert_eq!(count(&pool, JOBS).await, 1);
}

// A zone that a newer release knew, for one.
#[tokio::test]
async fn a_schedule_that_could_be_read_once_and_cannot_now_is_noted_and_not_asked_for_again_and_again() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    after_a_gap(&pool, "planned", "* * * * *", "", "1 minute").await;
    run(&pool, "update awa.cron_schedules set timezone = 'Europe/Atlantis'").await;
    let pause = catch_up(&scheduler(&pool)).await;
    assert_eq!(pause, MaintenanceConfig::default().schedule_interval_max);
    assert_eq!(count(&pool, "select count(*) from awa.cron_schedules where fault like '%Atlantis%'").await, 1);
}

/// Somebody has paused a hundred of them, in a transaction that he leaves open: nobody waits for it.
#[tokio::test]
async fn schedules_that_an_operator_has_locked_are_passed_by_and_the_others_are_on_time() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let all = "select awa.set_schedule('locked ' || number, '* * * * *', '{\"kind\": \"noop\"}') from generate_series(1, 100) as number";
    run(&pool, all).await;
    run(
        &pool,
        &format!(
            "select awa.set_schedule('fine ' || number, '* * * * *', {JOB}) from generate_series(1, 20) as number"
        ),
    )
    .await;
    let scheduler = scheduler(&pool);
    catch_up(&scheduler).await;
    run(&pool, "update awa.cron_schedules set next_at = next_at - interval '1 minute'").await;
    let mut operator = database.connect().await;
    let paused = "begin; select awa.pause_schedule(name) from awa.cron_schedules where name like 'locked%'";
    sqlx::raw_sql(paused).execute(&mut operator).await.expect("paused");
    let pass = scheduler.pass().await.expect("a pass");
    assert_eq!(pass.changed, 20);
    assert_eq!(count(&pool, "select count(*) from awa.cron_ticks where schedule like 'locked%'").await, 0);
    // Nothing else is due: the leader does not ask again and again.
    assert!(catch_up(&scheduler).await >= Duration::from_millis(100));
    sqlx::raw_sql("rollback").execute(&mut operator).await.expect("rolled back");
    catch_up(&scheduler).await;
    assert_eq!(
        count(&pool, "select count(distinct schedule) from awa.cron_ticks where schedule like 'locked%'").await,
        100
    );
}

// CRON-02: the clock was ahead, and was set back.
#[tokio::test]
async fn after_the_clock_was_set_back_schedules_come_round_as_before() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    after_a_gap(&pool, "busy", "* * * * *", "", "1 minute").await;
    after_a_gap(&pool, "once", "0 0 1 1 *", "", "0").await;
    let scheduler = scheduler(&pool);
    catch_up(&scheduler).await;
    let planned =
        "select count(*) from awa.cron_schedules where planned_at > now() - interval '1 minute' and next_at > now()";
    run(
        &pool,
        "update awa.cron_schedules set planned_at = planned_at + interval '3 hours',
                                       next_at = case name when 'busy' then next_at + interval '3 hours' end",
    )
    .await;
    catch_up(&scheduler).await;
    assert_eq!(count(&pool, planned).await, 2);
    assert_eq!(
        count(&pool, "select count(*) from awa.cron_schedules where next_at <= now() + interval '1 minute'").await,
        1
    );
    assert_eq!(count(&pool, JOBS).await, 1);
    assert_eq!(catch_up(&scheduler).await, MaintenanceConfig::default().schedule_interval_max);
}

/// Two processes that both believe they lead, over so many times of a schedule (I10).
async fn two_leaders(times: u32) {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let more = format!(", missed => 'catch_up', catch_up_max => {times}");
    after_a_gap(&pool, "busy", "* * * * * *", &more, "1 day").await;
    tokio::join!(async { catch_up(&scheduler(&pool)).await }, async { catch_up(&scheduler(&pool)).await });
    let fired = count(&pool, "select count(*) from awa.cron_ticks where outcome = 'fired'").await;
    assert!(fired >= i64::from(times), "{fired}");
    let distinct = "select count(distinct metadata #>> '{$schedule,slot}') from awa.jobs";
    assert_eq!((count(&pool, JOBS).await, count(&pool, distinct).await), (fired, fired));
    // No time between the first and the last is left out.
    let span =
        "select extract(epoch from max(slot) - min(slot))::bigint + 1 from awa.cron_ticks where outcome = 'fired'";
    assert_eq!(count(&pool, span).await, fired);
}

// CRON-02
#[tokio::test]
async fn two_leaders_at_once_handle_each_time_once() {
    two_leaders(200).await;
}

// CRON-15
#[tokio::test]
async fn schedules_of_all_applications_come_round_whoever_leads() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for owner in ["shop", "mail"] {
        let schedules =
            format!("[{{\"name\": \"of {owner}\", \"expression\": \"* * * * *\", \"job\": {{\"kind\": \"noop\"}}}}]");
        run(&pool, &format!("select awa.declare_schedules('{owner}', 0, '{schedules}', true)")).await;
    }
    let scheduler = scheduler(&pool);
    for round in 1..=2 {
        catch_up(&scheduler).await;
        run(&pool, "update awa.cron_schedules set next_at = next_at - interval '1 minute'").await;
        catch_up(&scheduler).await;
        assert_eq!(count(&pool, JOBS).await, 2 * round);
        run(&pool, "delete from awa.cron_ticks").await;
    }
}

#[tokio::test]
async fn an_idle_pass_rests_until_the_next_time_and_not_beyond_the_limit() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let scheduler = scheduler(&pool);
    let most = MaintenanceConfig::default().schedule_interval_max;
    assert_eq!(catch_up(&scheduler).await, most);
    after_a_gap(&pool, "yearly", "@yearly", "", "0").await;
    assert_eq!(catch_up(&scheduler).await, most);
    run(&pool, "update awa.cron_schedules set next_at = clock_timestamp() + interval '400 milliseconds'").await;
    let pause = catch_up(&scheduler).await;
    assert!(pause <= Duration::from_millis(400), "{pause:?}");
}

/// Written by hand.
#[tokio::test]
async fn a_time_that_never_comes_stops_no_other_schedule() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    after_a_gap(&pool, "never", "* * * * *", "", "1 minute").await;
    run(&pool, "update awa.cron_schedules set next_at = 'infinity'").await;
    after_a_gap(&pool, "fine", "* * * * *", "", "1 minute").await;
    catch_up(&scheduler(&pool)).await;
    assert_eq!(count(&pool, JOBS).await, 1);
}

mod long {
    use super::two_leaders;

    // CRON-02
    #[tokio::test]
    async fn two_leaders_at_once_handle_each_of_thousands_of_times_once() {
        two_leaders(5000).await;
    }
}
