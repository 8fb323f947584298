//! Schedules against the odds: at fault, waiting for jobs that vanish, run by hand in between, in databases with a clock of their own.

use awa_model::{Missed, Overlap, Schedule};
use awa_storage::Error;
use awa_storage::schedule::{self, Outcome, Switched, Written};
use awa_storage::testing::TestDatabase;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgPool;

use crate::scene::{count, run, text};
use crate::schedule::{JOBS, TICKS, due_since, fire, job, minutely, outcomes, plan, set, slots, the_due};

/// Another of its times has come, right after the last.
const NEXT: &str = "select outcome
                      from awa.cron_schedules as held,
                           lateral awa.fire_schedule('a', held.revision, held.next_at,
                                                     array[held.last_slot + interval '1 microsecond'], null, null,
                                                     held.next_at)";

/// A schedule whose first time has fired and whose second waits for that job.
async fn waiting(pool: &PgPool) {
    let due = due_since(pool, minutely("a").overlap(Overlap::Queue).missed(Missed::CatchUp { max: 2 }), 2).await;
    assert_eq!(outcomes(&fire(pool, &due).await)[..2], [Outcome::Fired, Outcome::Waiting]);
}

async fn is_asking(pool: &PgPool) -> bool {
    !schedule::due(pool, 10).await.expect("an answer").schedules.is_empty()
}

#[tokio::test]
async fn a_time_that_waits_for_a_job_that_is_deleted_fires() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    waiting(&pool).await;
    run(&pool, "select awa.delete_job(id) from awa.jobs").await;
    let due = the_due(&pool, "a").await;
    let fired = schedule::fire_waiting(&pool, &due).await.expect("an answer").expect("fired");
    assert_eq!((fired.outcome, count(&pool, JOBS).await), (Outcome::Fired, 1));
}

#[tokio::test]
async fn a_time_that_waits_is_left_out_where_a_newer_one_comes_first() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    waiting(&pool).await;
    run(&pool, "select awa.cancel(id) from awa.jobs").await;
    let due = the_due(&pool, "a").await;
    assert_eq!(text(&pool, NEXT).await, "fired");
    assert_eq!(schedule::fire_waiting(&pool, &due).await.expect("an answer"), None);
    run(&pool, "select awa.cancel(id) from awa.jobs").await;
    assert_eq!(schedule::fire_waiting(&pool, &due).await.expect("an answer"), None, "an older time after a newer one");
    assert!(text(&pool, TICKS).await.ends_with("fired overlap fired"), "{}", text(&pool, TICKS).await);
}

#[tokio::test]
async fn a_time_waits_no_more_once_the_schedule_is_paused_or_another_or_gone() {
    for change in [
        "select awa.pause_schedule('a')",
        "select awa.delete_schedule('a')",
        "select awa.set_schedule('a', '* * * * *', '{\"kind\": \"a\"}')",
    ] {
        let database = TestDatabase::new().await;
        let pool = database.pool();
        waiting(&pool).await;
        run(&pool, change).await;
        assert_eq!(count(&pool, "select count(*) from awa.cron_schedules where waiting_slot is not null").await, 0);
        assert_eq!(count(&pool, "select count(*) from awa.cron_ticks where outcome = 'waiting'").await, 0, "{change}");
    }
}

#[tokio::test]
async fn a_run_by_hand_does_not_hide_the_earlier_job_from_later_times() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let due = due_since(&pool, minutely("a").overlap(Overlap::Skip), 1).await;
    let first = fire(&pool, &due).await[0].job.expect("a job");
    let by_hand = schedule::run(&pool, "a").await.expect("run").expect("a schedule").id();
    run(&pool, &format!("select awa.cancel({})", by_hand.get())).await;
    assert_eq!(text(&pool, NEXT).await, "overlap");
    run(&pool, &format!("select awa.cancel({})", first.get())).await;
    let by_hand = schedule::run(&pool, "a").await.expect("run").expect("a schedule").id();
    assert_eq!(text(&pool, NEXT).await, "overlap", "the job by hand runs alone");
    run(&pool, &format!("select awa.cancel({})", by_hand.get())).await;
    assert_eq!(text(&pool, NEXT).await, "fired");
}

#[tokio::test]
async fn one_at_fault_asks_for_nothing_and_is_tried_anew_when_it_is_set_again_or_resumed() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    waiting(&pool).await;
    run(&pool, "select awa.cancel(id) from awa.jobs").await;
    // Planned by a newer release, which knows a zone that this one does not.
    let due = the_due(&pool, "a").await;
    assert!(schedule::plan(&pool, &due, Err("unknown")).await.expect("noted"));
    assert!(!schedule::plan(&pool, &due, Err("unknown")).await.expect("noted"));
    assert!(!is_asking(&pool).await);
    assert_eq!(schedule::due(&pool, 10).await.expect("an answer").next_in, None);
    let status = schedule::status(&pool, "a").await.expect("an answer").expect("a schedule");
    assert_eq!((status.fault.as_deref(), status.next_at), (Some("unknown"), None));
    let again = minutely("a").overlap(Overlap::Queue).missed(Missed::CatchUp { max: 2 });
    assert_eq!(set(&pool, again).await, Written::Changed);
    let due = the_due(&pool, "a").await;
    assert!(due.next_at.is_some() && due.is_waiting, "what was due still is: {due:?}");
    assert!(schedule::plan(&pool, &due, Err("unknown")).await.expect("noted"));
    for (done, expected) in [
        (schedule::pause(&pool, "a").await, Switched::Applied),
        (schedule::resume(&pool, "a").await, Switched::Applied),
    ] {
        assert_eq!(done.expect("an answer"), expected);
    }
    plan(&pool, "a").await;
}

#[tokio::test]
async fn a_schedule_whose_job_has_no_room_for_its_time_is_refused() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let with = |bytes: usize| {
        let metadata = serde_json::json!({ "x": "y".repeat(bytes) });
        Schedule::new("a", "* * * * *", job().metadata(metadata)).prepare().expect("a schedule")
    };
    let refused = schedule::set(&pool, &with(65_500)).await.expect_err("no room");
    assert!(matches!(&refused, Error::InvalidSetting(text) if text.starts_with("job.metadata has ")), "{refused}");
    // The most that is taken can be enqueued.
    let most = (65_300..65_500).rev();
    let mut taken = None;
    for bytes in most {
        if schedule::set(&pool, &with(bytes)).await.is_ok() {
            taken = Some(bytes);
            break;
        }
    }
    assert!(taken.is_some());
    assert!(schedule::run(&pool, "a").await.expect("run").expect("a schedule").is_new());
}

#[tokio::test]
async fn times_are_the_same_in_sessions_with_another_zone_and_style_of_dates() {
    let database = TestDatabase::with_sessions().await;
    let pool = database.pool();
    for (zone, style) in
        [("Asia/Kolkata", "German"), ("America/St_Johns", "SQL, DMY"), ("Pacific/Kiritimati", "Postgres")]
    {
        let due = due_since(&pool, minutely(zone).timezone("Europe/Berlin"), 1).await;
        let mut session = database.connect().await;
        run(&mut session, &format!("set timezone = '{zone}'")).await;
        run(&mut session, &format!("set datestyle = '{style}'")).await;
        let fired = schedule::fire(&mut session, &due, &slots(&due)).await.expect("fired");
        assert_eq!((outcomes(&fired), Some(fired[0].slot)), (vec![Outcome::Fired], due.next_at), "{zone}");
        let job = "select metadata #>> '{$schedule,slot}' from awa.jobs order by id desc limit 1";
        let slot: DateTime<Utc> = text(&pool, job).await.parse().expect("a time");
        assert_eq!(Some(slot), due.next_at, "{zone}");
        let status = schedule::status(&pool, zone).await.expect("an answer").expect("a schedule");
        assert_eq!((status.last_slot, status.next_at), (due.next_at, Some(slot + TimeDelta::minutes(1))));
    }
}

#[tokio::test]
async fn a_next_time_in_three_thousand_years_is_slept_for_and_listed() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    due_since(&pool, minutely("a"), 1).await;
    run(&pool, "update awa.cron_schedules set next_at = '5000-01-01T00:00:00Z'").await;
    let due = schedule::due(&pool, 10).await.expect("an answer");
    assert!(due.schedules.is_empty() && due.next_in.is_some_and(|next| next.as_secs() > 90_000_000_000));
    let status = schedule::status(&pool, "a").await.expect("an answer").expect("a schedule");
    assert!(status.upcoming().take(3).count() >= 1);
}

#[tokio::test]
async fn a_declaration_names_what_is_wrong_with_it() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let one = "{\"name\": \"a\", \"expression\": \"* * * * *\", \"job\": {\"kind\": \"a\"}}";
    // The same, but for one field.
    let with = |field: &str, expected| {
        let other = one.replace("\"a\", \"expression\"", "\"b\", \"expression\"");
        (format!("'shop', 0, '[{one}, {}, {field}}}]'", other.trim_end_matches('}').to_owned() + "}"), expected)
    };
    for (call, expected) in [
        ("'shop', null, '[]'".to_owned(), "revision is absent; it must be an integer"),
        ("'shop', 0, '[5]'".to_owned(), "schedules[0] is a number; it must be an object"),
        (format!("'shop', 0, '[{one}, {one}]'"), "schedules[1].name is \"a\"; it must be given once"),
        with("\"name\": 5", "schedules[1].name is 5; it must be a text"),
        with("\"expression\": [\"x\"]", "schedules[1].expression is [\"x\"]; it must be a text"),
        with("\"timezone\": true", "schedules[1].timezone is true; it must be a text"),
        with("\"missed\": {}", "schedules[1].missed is {}; it must be a text"),
        with("\"overlap\": 1", "schedules[1].overlap is 1; it must be a text"),
        with("\"catch_up_max\": \"ten\"", "schedules[1].catch_up_max is \"ten\"; it must be an integer"),
        with("\"catch_up_max\": 1.5", "schedules[1].catch_up_max is 1.5; it must be an integer"),
        with("\"catch_up_max\": 1e12", "schedules[1].catch_up_max is 1000000000000; it must be an integer"),
    ] {
        let statement = format!("select awa.declare_schedules({call}, false)");
        let refused = sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&pool).await.expect_err("refused");
        assert!(refused.to_string().contains(expected), "{refused}");
        let code = refused.as_database_error().and_then(|answer| answer.code().map(std::borrow::Cow::into_owned));
        assert_eq!(code.as_deref(), Some("22023"), "{expected}");
    }
}
