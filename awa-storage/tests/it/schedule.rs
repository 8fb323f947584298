//! Periodic jobs: declared and set, and each of their times handled once, whoever does it and whatever happens on the way.

use awa_model::{CronExpression, JobArgs, Missed, NewJob, Overlap, Schedule, Slots, Unique};
use awa_storage::Error;
use awa_storage::schedule::{self, Declaration, DueSchedule, Fired, Outcome, Switched, Written};
use awa_storage::testing::TestDatabase;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgPool;

use crate::scene::{begin, count, run, text};

#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Report {
    /// More than a double holds.
    number: u64,
}

impl JobArgs for Report {
    const KIND: &'static str = "report";
    type Output = ();
}

pub(crate) fn job() -> NewJob<Report> {
    NewJob::new(&Report { number: u64::MAX })
}

pub(crate) fn minutely(name: &str) -> Schedule {
    Schedule::new(name, "* * * * *", job())
}

pub(crate) fn declaration(owner: &str, revision: i64, schedules: impl IntoIterator<Item = Schedule>) -> Declaration {
    let schedules = schedules.into_iter().map(|schedule| schedule.prepare().expect("a schedule")).collect();
    Declaration { owner: owner.to_owned(), revision, schedules, deletes_others: false }
}

/// What became of each schedule.
pub(crate) async fn declare(pool: &PgPool, declaration: Declaration) -> Vec<Written> {
    let written = schedule::declare(pool, &declaration).await.expect("a declaration");
    written.into_iter().map(|(_, written)| written).collect()
}

pub(crate) async fn set(pool: &PgPool, schedule: Schedule) -> Written {
    schedule::set(pool, &schedule.prepare().expect("a schedule")).await.expect("set")
}

/// What the leader does about one schedule that has to be planned.
pub(crate) async fn plan(pool: &PgPool, name: &str) -> DateTime<Utc> {
    let due = the_due(pool, name).await;
    let next = due.cron().expect("an expression").next_after(due.now);
    assert!(schedule::plan(pool, &due, Ok(next)).await.expect("planned"));
    next.expect("a next time")
}

pub(crate) async fn the_due(pool: &PgPool, name: &str) -> DueSchedule {
    let due = schedule::due(pool, 100).await.expect("an answer").schedules;
    due.into_iter().find(|due| due.name == name).unwrap_or_else(|| panic!("{name} asks for nothing"))
}

pub(crate) fn slots(due: &DueSchedule) -> Slots {
    Slots::of(&due.cron().expect("an expression"), due.missed, due.next_at.expect("a next time"), due.now)
}

/// A planned schedule whose next time came `minutes` ago, and what is due about it.
pub(crate) async fn due_since(pool: &PgPool, schedule: Schedule, minutes: i64) -> DueSchedule {
    let name = schedule.name().to_owned();
    assert_eq!(set(pool, schedule).await, Written::Created);
    plan(pool, &name).await;
    run(pool, &format!("update awa.cron_schedules set next_at = next_at - interval '{minutes} minutes'")).await;
    the_due(pool, &name).await
}

pub(crate) async fn fire(pool: &PgPool, due: &DueSchedule) -> Vec<Fired> {
    schedule::fire(pool, due, &slots(due)).await.expect("fired")
}

pub(crate) fn outcomes(fired: &[Fired]) -> Vec<Outcome> {
    fired.iter().map(|fired| fired.outcome).collect()
}

pub(crate) const JOBS: &str = "select count(*) from awa.jobs";
pub(crate) const TICKS: &str = "select string_agg(outcome, ' ' order by slot) from awa.cron_ticks";

#[tokio::test]
async fn a_time_is_handled_once_with_its_job() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let due = due_since(&pool, minutely("report"), 1).await;
    let fired = fire(&pool, &due).await;
    let [Fired { slot, outcome: Outcome::Fired, job: Some(job), error: None }] = fired[..] else { panic!("{fired:?}") };
    assert_eq!(Some(slot), due.next_at);
    let row = "select json_build_array(state, kind, run_at = (metadata #>> '{$schedule,slot}')::timestamptz,
                                       metadata #>> '{$schedule,name}', args ->> 'number') from awa.jobs";
    assert_eq!(text(&pool, row).await, r#"["available", "report", true, "report", "18446744073709551615"]"#);
    // Another leader, who had decided the same before.
    assert_eq!(fire(&pool, &due).await, []);
    assert_eq!((count(&pool, JOBS).await, text(&pool, TICKS).await.as_str()), (1, "fired"));
    let status = schedule::status(&pool, "report").await.expect("an answer").expect("a schedule");
    assert_eq!(
        (status.last_slot, status.last_job, status.last_outcome.as_deref()),
        (Some(slot), Some(job), Some("fired"))
    );
    assert_eq!(status.next_at, Some(slot + TimeDelta::minutes(1)));
    let upcoming: Vec<_> = status.upcoming().take(3).collect();
    assert_eq!(upcoming, [1, 2, 3].map(|minutes| slot + TimeDelta::minutes(minutes)));
}

// CRON-02: the memory of a time outlives the job, the schedule, and a clock that is set back.
#[tokio::test]
async fn a_time_is_not_handled_again_when_everything_else_has_been_forgotten() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let due = due_since(&pool, minutely("report"), 1).await;
    assert_eq!(outcomes(&fire(&pool, &due).await), [Outcome::Fired]);
    run(&pool, "delete from awa.jobs").await;
    assert!(schedule::delete(&pool, "report").await.expect("deleted"));
    assert_eq!(set(&pool, minutely("report")).await, Written::Created);
    plan(&pool, "report").await;
    let back = format!("update awa.cron_schedules set next_at = '{}'", due.next_at.expect("a time"));
    run(&pool, &back).await;
    assert_eq!(fire(&pool, &the_due(&pool, "report").await).await, []);
    assert_eq!(count(&pool, JOBS).await, 0);
}

/// The leader's connection is lost while a time is being handled, at whichever moment before its commit.
async fn killed(rounds: usize) {
    let database = TestDatabase::with_sessions().await;
    let pool = database.pool();
    let due = due_since(&pool, minutely("report"), 1).await;
    for _ in 0..rounds {
        let mut leader = begin(&database).await;
        let backend: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut leader).await.expect("a pid");
        let fired = schedule::fire(&mut leader, &due, &slots(&due)).await.expect("fired");
        assert_eq!(outcomes(&fired), [Outcome::Fired]);
        run(&pool, &format!("select pg_terminate_backend({backend}, 60000)")).await;
        assert_eq!((count(&pool, JOBS).await, count(&pool, "select count(*) from awa.cron_ticks").await), (0, 0));
    }
    assert_eq!(outcomes(&fire(&pool, &due).await), [Outcome::Fired]);
}

// CRON-04
#[tokio::test]
async fn a_leader_that_dies_on_the_way_has_handled_a_time_with_its_job_or_not_at_all() {
    killed(10).await;
}

#[tokio::test]
async fn a_declaration_says_what_became_of_each_schedule_and_leaves_the_next_time_alone() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let shop = |revision, names: &[&str]| declaration("shop", revision, names.iter().map(|name| minutely(name)));
    assert_eq!(declare(&pool, shop(1, &["a", "b"])).await, [Written::Created, Written::Created]);
    plan(&pool, "a").await;
    // A gap between two deployments: the time that passed meanwhile is still to be handled.
    run(&pool, "update awa.cron_schedules set next_at = next_at - interval '2 days'").await;
    assert_eq!(declare(&pool, shop(1, &["a", "b"])).await, [Written::Unchanged, Written::Unchanged]);
    assert_eq!(outcomes(&fire(&pool, &the_due(&pool, "a").await).await), [Outcome::Fired]);
    let other_job = minutely("a").overlap(Overlap::Skip);
    assert_eq!(declare(&pool, declaration("shop", 1, [other_job])).await, [Written::Changed]);
    assert_eq!(text(&pool, "select planned::text from awa.cron_schedules where name = 'a'").await, "true");
    let other_time = Schedule::new("a", "5 * * * *", job()).overlap(Overlap::Skip);
    assert_eq!(declare(&pool, declaration("shop", 1, [other_time])).await, [Written::Changed]);
    assert_eq!(text(&pool, "select planned::text from awa.cron_schedules where name = 'a'").await, "false");
}

// CRON-15
#[tokio::test]
async fn a_declaration_leaves_the_schedules_of_others_alone() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    assert_eq!(declare(&pool, declaration("shop", 0, [minutely("a")])).await, [Written::Created]);
    assert_eq!(set(&pool, minutely("by hand")).await, Written::Created);
    let others = Declaration {
        deletes_others: true,
        ..declaration("mail", 0, [minutely("a"), minutely("by hand"), minutely("c")])
    };
    assert_eq!(declare(&pool, others).await, [Written::Owned, Written::Owned, Written::Created]);
    assert_eq!(set(&pool, minutely("a")).await, Written::Owned);
    let owners = "select string_agg(concat(name, '=', owner), ' ' order by name) from awa.cron_schedules";
    assert_eq!(text(&pool, owners).await, "a=shop by hand= c=mail");
}

#[tokio::test]
async fn two_versions_side_by_side_do_not_undo_each_others_schedules() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let old = || Declaration { deletes_others: true, ..declaration("shop", 1, [minutely("old"), minutely("both")]) };
    let new = || {
        let both = Schedule::new("both", "5 * * * *", job());
        Declaration { deletes_others: true, ..declaration("shop", 2, [both, minutely("new")]) }
    };
    assert_eq!(declare(&pool, old()).await, [Written::Created, Written::Created]);
    assert_eq!(declare(&pool, new()).await, [Written::Changed, Written::Created, Written::Deleted]);
    for _ in 0..2 {
        assert_eq!(declare(&pool, old()).await, [Written::Outdated, Written::Outdated]);
        assert_eq!(declare(&pool, new()).await, [Written::Unchanged, Written::Unchanged]);
    }
    let names = "select string_agg(name || ' ' || expression, ', ' order by name) from awa.cron_schedules";
    assert_eq!(text(&pool, names).await, "both 5 * * * *, new * * * * *");
}

#[tokio::test]
async fn schedules_that_are_not_declared_any_more_stay_unless_that_is_asked_for() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let _ = declare(&pool, declaration("shop", 0, [minutely("a"), minutely("b")])).await;
    assert_eq!(declare(&pool, declaration("shop", 0, [minutely("a")])).await, [Written::Unchanged]);
    assert_eq!(count(&pool, "select count(*) from awa.cron_schedules").await, 2);
    let deleting = Declaration { deletes_others: true, ..declaration("shop", 0, []) };
    assert_eq!(declare(&pool, deleting).await, [Written::Deleted, Written::Deleted]);
}

#[tokio::test]
async fn an_overlap_is_allowed_left_out_or_waited_for() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for (overlap, expected) in
        [(Overlap::Allow, Outcome::Fired), (Overlap::Skip, Outcome::Overlap), (Overlap::Queue, Outcome::Waiting)]
    {
        let due = due_since(&pool, minutely(overlap.as_str()).overlap(overlap), 3).await;
        let from = due.next_at.expect("a time");
        let one = Slots { due: vec![from], left_out: None, next: Some(from + TimeDelta::minutes(1)) };
        let first = schedule::fire(&pool, &due, &one).await.expect("fired");
        assert_eq!(outcomes(&first), [Outcome::Fired], "{overlap:?}");
        let next = the_due(&pool, overlap.as_str()).await;
        let second = fire(&pool, &next).await;
        assert_eq!(outcomes(&second), [expected], "{overlap:?}");
        if expected != Outcome::Fired {
            assert_eq!(second[0].job, first[0].job, "{overlap:?}");
        }
        run(&pool, "delete from awa.cron_schedules").await;
    }
}

#[tokio::test]
async fn what_waits_for_an_earlier_job_is_the_last_time_alone_and_fires_when_that_has_ended() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let due = due_since(&pool, minutely("report").overlap(Overlap::Queue).missed(Missed::CatchUp { max: 3 }), 4).await;
    assert_eq!(outcomes(&fire(&pool, &due).await), [Outcome::Fired, Outcome::Waiting, Outcome::Waiting]);
    assert_eq!(text(&pool, TICKS).await, "missed fired overlap waiting");
    assert_eq!(schedule::fire_waiting(&pool, &due).await.expect("an answer"), None, "it has not ended");
    assert!(schedule::due(&pool, 10).await.expect("an answer").schedules.iter().all(|due| !due.is_waiting));
    // Waiting for another attempt is not the end, and failing for good is.
    run(&pool, "select awa.cancel(id) from awa.jobs").await;
    let due = the_due(&pool, "report").await;
    assert!(due.is_waiting);
    let fired = schedule::fire_waiting(&pool, &due).await.expect("an answer").expect("fired");
    assert_eq!((fired.outcome, count(&pool, JOBS).await), (Outcome::Fired, 2));
    assert_eq!(schedule::fire_waiting(&pool, &due).await.expect("an answer"), None);
    assert_eq!(text(&pool, TICKS).await, "missed fired overlap fired");
}

// CRON-17
#[tokio::test]
async fn a_unique_key_that_is_held_leaves_a_time_out_and_the_schedule_goes_on() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for (name, on_conflict) in [("skip", awa_model::OnConflict::Skip), ("error", awa_model::OnConflict::Error)] {
        let unique = job().unique(Unique::until_finished().on_conflict(on_conflict));
        let schedule = Schedule::new(name, "* * * * *", unique).missed(Missed::CatchUp { max: 3 });
        let due = due_since(&pool, schedule, 3).await;
        let fired = fire(&pool, &due).await;
        assert_eq!(outcomes(&fired), [Outcome::Fired, Outcome::Duplicate, Outcome::Duplicate], "{name}");
        assert_eq!(count(&pool, JOBS).await, 1);
        let next = schedule::status(&pool, name).await.expect("an answer").expect("a schedule").next_at;
        assert_eq!(next, slots(&due).next);
        run(&pool, "delete from awa.jobs").await;
        run(&pool, "delete from awa.cron_schedules").await;
    }
}

#[tokio::test]
async fn a_job_that_cannot_be_enqueued_is_noted_and_the_times_go_on() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let due = due_since(&pool, minutely("report"), 1).await;
    run(&pool, "update awa.cron_schedules set job = jsonb_set(job, '{priority}', '9')").await;
    let fired = fire(&pool, &due).await;
    assert_eq!(outcomes(&fired), [Outcome::Refused]);
    assert_eq!(fired[0].error.as_deref(), Some("jobs[0].priority is 9; it must be 1 to 4"));
    assert_eq!(text(&pool, "select error from awa.cron_ticks").await, "jobs[0].priority is 9; it must be 1 to 4");
    assert!(schedule::due(&pool, 10).await.expect("an answer").schedules.is_empty());
}

#[tokio::test]
async fn a_pause_outlasts_a_declaration_and_its_times_are_not_made_up() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let shop = || declaration("shop", 0, [minutely("a")]);
    let _ = declare(&pool, shop()).await;
    plan(&pool, "a").await;
    run(&pool, "update awa.cron_schedules set next_at = next_at - interval '1 day'").await;
    let due = the_due(&pool, "a").await;
    assert_eq!(schedule::pause(&pool, "a").await.expect("paused"), Switched::Applied);
    assert_eq!(schedule::pause(&pool, "a").await.expect("paused"), Switched::Unchanged);
    assert_eq!(fire(&pool, &due).await, [], "decided before the pause");
    assert_eq!(declare(&pool, shop()).await, [Written::Unchanged]);
    assert!(schedule::due(&pool, 10).await.expect("an answer").schedules.is_empty());
    assert_eq!(schedule::resume(&pool, "a").await.expect("resumed"), Switched::Applied);
    assert_eq!(schedule::resume(&pool, "a").await.expect("resumed"), Switched::Unchanged);
    let next = plan(&pool, "a").await;
    assert!(next > due.now);
    assert_eq!(count(&pool, JOBS).await, 0);
    for answer in [schedule::pause(&pool, "b").await, schedule::resume(&pool, "b").await] {
        assert_eq!(answer.expect("an answer"), Switched::NotFound);
    }
}

#[tokio::test]
async fn a_run_by_hand_is_noted_and_minds_neither_pause_nor_overlap() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let _ = set(&pool, minutely("a").overlap(Overlap::Skip)).await;
    let _ = schedule::pause(&pool, "a").await.expect("paused");
    for runs in 1..=2 {
        assert!(schedule::run(&pool, "a").await.expect("run").expect("a schedule").is_new());
        assert_eq!(count(&pool, JOBS).await, runs);
    }
    assert_eq!(text(&pool, TICKS).await, "manual manual");
    assert_eq!(schedule::run(&pool, "b").await.expect("an answer"), None);
    run(&pool, "update awa.cron_schedules set job = jsonb_set(job, '{queue}', '\"\"')").await;
    let refused = schedule::run(&pool, "a").await.expect_err("no such queue");
    assert!(matches!(&refused, Error::InvalidSetting(text) if text.contains("queue is empty")), "{refused}");
    // What enqueueing answers is passed on as it is.
    run(
        &pool,
        "update awa.cron_schedules set job = '{\"kind\": \"a\", \"unique_by\": {}, \"on_conflict\": \"error\"}'",
    )
    .await;
    let first = schedule::run(&pool, "a").await.expect("run").expect("a schedule").id();
    let refused = schedule::run(&pool, "a").await.expect_err("its key is held");
    assert!(matches!(refused, Error::Duplicate { holder } if holder == first), "{refused:?}");
    let ticks = schedule::ticks(&pool, "a", 1).await.expect("ticks");
    assert_eq!((ticks.len(), ticks[0].outcome.as_str()), (1, "manual"));
}

#[tokio::test]
async fn sql_refuses_what_rust_refuses_and_leaves_the_calendar_to_the_leader() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let refused = async |call: &str| {
        let error = sqlx::raw_sql(sqlx::AssertSqlSafe(format!("select awa.set_schedule({call})"))).execute(&pool).await;
        error.expect_err(call).to_string()
    };
    for (call, expected) in [
        ("'', '* * * * *', '{\"kind\": \"a\"}'", "schedule is empty; it must have 1 to 128 bytes"),
        ("'a', '', '{\"kind\": \"a\"}'", "expression is 0 bytes; it must be 1 to 256 bytes"),
        ("'a', '* * * * *', '{\"kind\": \"\"}'", "job.kind is empty; it must have 1 to 128 bytes"),
        (
            "'a', '* * * * *', '{\"kind\": \"a\", \"run_in\": 5}'",
            "job.run_in is given; a schedule says when its job is due",
        ),
        (
            "'a', '* * * * *', '{\"kind\": \"a\"}', missed => 'later'",
            "missed is \"later\"; it must be skip, coalesce or catch_up",
        ),
        (
            "'a', '* * * * *', '{\"kind\": \"a\"}', missed => 'catch_up'",
            "catch_up_max is absent; it must be given with catch_up alone",
        ),
        (
            "'a', '* * * * *', '{\"kind\": \"a\"}', missed => 'catch_up', catch_up_max => 0",
            "catch_up_max is 0; it must be 1 to 10000",
        ),
        (
            "'a', '* * * * *', '{\"kind\": \"a\"}', overlap => 'wait'",
            "overlap is \"wait\"; it must be allow, skip or queue",
        ),
    ] {
        let error = refused(call).await;
        assert!(error.contains(expected), "{call}: {error}");
    }
    assert_eq!(count(&pool, "select count(*) from awa.cron_schedules").await, 0);
    assert_eq!(text(&pool, "select awa.set_schedule('a', '* * * * *', '{\"kind\": \"a\"}')").await, "created");
    assert_eq!(text(&pool, "select job::text from awa.cron_schedules").await, r#"{"kind": "a"}"#);
}

#[tokio::test]
async fn a_schedule_written_by_rust_enqueues_the_job_that_rust_enqueues() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let full = || {
        let unique = Unique::within(std::time::Duration::from_secs(3600)).fields(["number"]).per_queue();
        let job = job().queue("reports").priority(1).max_attempts(3).timeout(std::time::Duration::from_millis(1500));
        job.tag("nightly").metadata(serde_json::json!({ "by": "test" })).trace_context("00-ab-cd-01").unique(unique)
    };
    let due = due_since(&pool, Schedule::new("full", "* * * * *", full()), 1).await;
    assert_eq!(outcomes(&fire(&pool, &due).await), [Outcome::Fired]);
    let slot = due.next_at.expect("a time");
    // The key names the period of the due time, so that has to be the same.
    let prepared = full().run_at(slot).prepare().expect("a job");
    let answer = awa_storage::enqueue::enqueue(&pool, &prepared).await.expect("an answer");
    assert!(!answer.is_new(), "the same unique key");
    run(&pool, "select awa.cancel(id) from awa.jobs").await;
    assert!(awa_storage::enqueue::enqueue(&pool, &prepared).await.expect("an answer").is_new());
    let rows = "select string_agg(distinct (kind, queue, priority, args, run_at, max_attempts, timeout, tags,
                                            metadata - '$schedule', trace_context, unique_key, unique_states)::text, ' / ')
                  from awa.jobs";
    let row = text(&pool, rows).await;
    assert!(!row.contains(" / "), "{row}");
}

#[tokio::test]
async fn old_times_are_forgotten_a_batch_at_a_time() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(
        &pool,
        "insert into awa.cron_ticks (schedule, slot, outcome, handled_at)
         select 'a', now() - day * interval '1 day', 'fired', now() - day * interval '1 day' from generate_series(1, 100) as day",
    )
    .await;
    for expected in [6, 5, 0] {
        assert_eq!(schedule::prune_ticks(&pool, 6).await.expect("pruned"), expected);
    }
    assert_eq!(count(&pool, "select count(*) from awa.cron_ticks").await, 89);
}

#[tokio::test]
async fn a_schedule_that_somebody_has_locked_is_left_for_later() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let due = due_since(&pool, minutely("a"), 1).await;
    let mut operator = begin(&database).await;
    run(&mut operator, "update awa.cron_schedules set changed_at = now()").await;
    assert_eq!(fire(&pool, &due).await, []);
    assert!(schedule::due(&pool, 10).await.expect("an answer").schedules.is_empty());
    run(&mut operator, "commit").await;
    assert_eq!(outcomes(&fire(&pool, &due).await), [Outcome::Fired]);
}

#[tokio::test]
async fn an_expression_is_kept_as_it_was_written() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let _ = set(&pool, Schedule::new("a", "@daily", job()).timezone("Europe/Berlin")).await;
    let status = schedule::list(&pool).await.expect("an answer").pop().expect("a schedule");
    assert_eq!((status.expression.as_str(), status.timezone.as_str()), ("@daily", "Europe/Berlin"));
    let daily = CronExpression::parse(&status.expression, &status.timezone).expect("an expression");
    let now = the_due(&pool, "a").await.now;
    assert_eq!(Some(plan(&pool, "a").await), daily.next_after(now));
}

// RANGE-06
#[tokio::test]
async fn a_time_that_has_not_come_by_the_clock_of_the_database_is_not_handled() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let due = due_since(&pool, minutely("a"), 1).await;
    let from = due.next_at.expect("a time");
    let early = Slots { due: vec![from, from + TimeDelta::days(1)], left_out: None, next: None };
    assert_eq!(schedule::fire(&pool, &due, &early).await.expect("an answer"), []);
    assert_eq!(count(&pool, JOBS).await, 0);
    assert_eq!(outcomes(&fire(&pool, &due).await), [Outcome::Fired]);
}

/// Names as somebody may give them.
#[tokio::test]
async fn a_name_is_data_wherever_it_goes() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for name in crate::names::NAMES {
        let due = due_since(&pool, minutely(name), 1).await;
        assert_eq!(outcomes(&fire(&pool, &due).await), [Outcome::Fired], "{name}");
        assert_eq!(schedule::pause(&pool, name).await.expect("paused"), Switched::Applied, "{name}");
        assert_eq!(schedule::resume(&pool, name).await.expect("resumed"), Switched::Applied, "{name}");
        assert!(schedule::run(&pool, name).await.expect("run").is_some(), "{name}");
        let ticks = schedule::ticks(&pool, name, 10).await.expect("ticks");
        assert_eq!(ticks.len(), 2, "{name}");
        let status = schedule::status(&pool, name).await.expect("an answer").expect("a schedule");
        assert_eq!(status.name, name);
        assert!(schedule::delete(&pool, name).await.expect("deleted"), "{name}");
    }
    let named = "select count(distinct metadata #>> '{$schedule,name}') from awa.jobs";
    assert_eq!(count(&pool, named).await, crate::names::NAMES.len() as i64);
}

mod long {
    use super::killed;

    // CRON-04
    #[tokio::test]
    async fn a_leader_that_dies_a_hundred_times_has_handled_a_time_or_not_at_all() {
        killed(100).await;
    }
}
