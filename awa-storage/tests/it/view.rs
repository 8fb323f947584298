//! The view `awa.jobs` as a table: what is written through it goes where it belongs, whole, and one writer at a time gets it.

use awa_model::{JobState, Plane};
use awa_storage::{
    promote::{PromoteCursor, promote},
    prune::{PruneCursor, prune_parked},
    testing::TestDatabase,
};
use futures_util::future::join;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, PgPool};

use crate::scene::{begin, changed, count, insert_full, row, run, states, text};
use crate::transitions::relation;

/// SQLSTATE and message of a statement that must fail.
pub(crate) async fn refusal(db: impl sqlx::PgExecutor<'_>, statement: &str) -> (String, String) {
    let error = sqlx::query(AssertSqlSafe(statement.to_owned())).execute(db).await.expect_err(statement);
    let error = error.as_database_error().expect(statement);
    (error.code().expect("a code").into_owned(), error.message().to_owned())
}

#[tokio::test]
async fn insert_fills_in_the_same_defaults_as_enqueue() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for (view, function) in [
        ("(kind) values ('a')", "(kind => 'a')"),
        (
            "(kind, queue, priority, max_attempts, args, tags, timeout, metadata, run_at, state, trace_context)
             values ('a', null, null, null, null, null, null, null, null, null, null)",
            "(kind => 'a')",
        ),
        (
            "(kind, queue, priority, max_attempts, args, tags, timeout, metadata, run_at, state, trace_context)
             values ('a', 'q', 1, 3, '[1]', '{x,y}', '90 s', '{\"m\": 1}', '2099-01-01 UTC', 'available', 't')",
            "(kind => 'a', queue => 'q', priority => 1, max_attempts => 3, args => '[1]', tags => '{x,y}',
              timeout => '90 s', metadata => '{\"m\": 1}', run_at => '2099-01-01 UTC', trace_context => 't')",
        ),
    ] {
        let mut tx = pool.begin().await.expect("begun");
        let by_view = count(&mut *tx, &format!("insert into awa.jobs {view} returning id")).await;
        let by_function = count(&mut *tx, &format!("select job_id from awa.enqueue{function}")).await;
        tx.commit().await.expect("committed");
        assert_eq!(changed(&row(&pool, by_view).await, &row(&pool, by_function).await), ["id"], "{view}");
    }
}

#[tokio::test]
async fn insert_refuses_what_enqueue_refuses_in_its_words_and_what_nobody_sets() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for (columns, values, message) in [
        ("kind, priority", "'a', 9", "priority is 9; it must be 1 to 4"),
        ("kind, max_attempts", "'a', 0", "max_attempts is 0; it must be 1 to 1000"),
        ("kind, queue", "'a', ''", "queue is empty; it must have 1 to 128 bytes"),
        ("kind, metadata", "'a', '[]'", "metadata is an array; it must be an object"),
        ("kind, run_at", "'a', 'infinity'", "run_at is infinity; it must be in the years 1 to 9999"),
        ("kind, state", "'a', 'running'", "state of a new job cannot be running"),
        ("kind, state", "'a', 'completed'", "state of a new job cannot be completed"),
        ("kind, id", "'a', 7", "id of a new job cannot be set"),
        ("kind, run_lease", "'a', 0", "run_lease of a new job cannot be set"),
        ("kind, attempt", "'a', 0", "attempt of a new job cannot be set"),
        ("kind, progress", "'a', '{}'", "progress of a new job cannot be set"),
        ("kind, created_at", "'a', now()", "created_at of a new job cannot be set"),
        (
            "kind, unique_key",
            "'a', '\\x00'",
            "unique_key is given without unique_states or the other way round; it must be given with them or not at all",
        ),
        (
            "kind, unique_key, unique_states",
            "'a', '\\x00', 31",
            "unique_key is 1 bytes; it must be 16 bytes, as awa.unique_key makes them",
        ),
    ] {
        let answer = refusal(&pool, &format!("insert into awa.jobs ({columns}) values ({values})")).await;
        assert_eq!(answer, ("22023".to_owned(), message.to_owned()));
    }
    // RETRY-06: the column is no wider than that.
    let beyond = refusal(&pool, "insert into awa.jobs (kind, max_attempts) values ('a', 32768)").await;
    assert_eq!(beyond, ("22003".to_owned(), "smallint out of range".to_owned()));
    assert_eq!(states(&pool).await, "");
}

// BATCH-06
#[tokio::test]
async fn a_due_time_decides_the_plane_and_moving_it_moves_the_row() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let times = [
        ("null", true),
        ("now()", true),
        ("now() - interval '1 year'", true),
        ("now() + interval '1 second'", false),
        ("now() + interval '1 year'", false),
    ];
    for (time, due) in times {
        for state in ["null", "'available'", "'scheduled'"] {
            let id = count(
                &pool,
                &format!("insert into awa.jobs (kind, run_at, state) values ('a', {time}, {state}) returning id"),
            )
            .await;
            assert_eq!(row(&pool, id).await["state"], if due { "available" } else { "scheduled" }, "{time}, {state}");
            for (there, due) in [times[4], times[2], times[1], times[4]] {
                let update = format!("update awa.jobs set run_at = {there} where id = {id} returning state::text");
                let moved: String = sqlx::query_scalar(AssertSqlSafe(update)).fetch_one(&pool).await.expect("moved");
                let expected = if due { JobState::Available } else { JobState::Scheduled };
                assert_eq!(moved, expected.as_str(), "{time} to {there}");
                let plane = if expected.plane() == Plane::Hot { "jobs_hot" } else { "scheduled_jobs" };
                assert_eq!(count(&pool, &format!("select count(*) from awa.{plane} where id = {id}")).await, 1);
                assert_eq!(row(&pool, id).await["state"], expected.as_str(), "in one plane (I1)");
            }
        }
    }
}

#[tokio::test]
async fn the_setting_says_what_becomes_of_a_unique_key_that_is_held() {
    let database = TestDatabase::new().await;
    let mut connection = database.connect().await;
    let insert = "insert into awa.jobs (kind, args, run_at, unique_key, unique_states)
                  values ('a', '{\"n\": 2}', now() + interval '1 hour', decode(md5('k'), 'hex'), 31)";
    let holder = count(&mut connection, &format!("{} returning id", insert.replace("2}", "1}"))).await;
    assert_eq!(run(&mut connection, insert).await, 0, "skip is the default");
    run(&mut connection, "set awa.on_conflict = 'error'").await;
    let answer = refusal(&mut connection, insert).await;
    assert_eq!(answer, ("AWA02".to_owned(), format!("job {holder} holds the unique key")));
    run(&mut connection, "set awa.on_conflict = 'replace'").await;
    assert_eq!(count(&mut connection, &format!("{insert} returning id")).await, holder);
    assert_eq!(text(&mut connection, "select args from awa.jobs").await, "{\"n\": 2}");
    run(&mut connection, "set awa.on_conflict = 'never'").await;
    assert_eq!(
        refusal(&mut connection, insert).await.1,
        "awa.on_conflict is \"never\"; it must be skip, replace or error"
    );
    run(&mut connection, "set awa.on_conflict = ''").await;
    assert_eq!(run(&mut connection, insert).await, 0, "as after reset");
    assert_eq!(count(&mut connection, "select count(*) from awa.job_unique_claims").await, 1);
}

#[tokio::test]
async fn copy_into_the_view_enqueues_each_row() {
    let database = TestDatabase::new().await;
    let mut connection = database.connect().await;
    let mut copy = connection.copy_in_raw("copy awa.jobs (kind, run_at) from stdin").await.expect("a copy");
    copy.send("a\t\\N\nb\t2099-01-01 00:00:00+00\n".as_bytes()).await.expect("rows");
    copy.finish().await.expect("the end");
    assert_eq!(states(&database.pool()).await, "scheduled 1, available 1");
    let mut copy = connection.copy_in_raw("copy awa.jobs (kind, priority) from stdin").await.expect("a copy");
    copy.send("a\t1\nb\t5\n".as_bytes()).await.expect("rows");
    assert!(copy.finish().await.expect_err("one bad row refuses all").to_string().contains("priority is 5"));
    assert_eq!(states(&database.pool()).await, "scheduled 1, available 1");
}

/// What an update may be asked to set, on a row with every column set.
const CHANGES: [(&str, &str); 8] = [
    ("queue", "'other'"),
    ("priority", "1"),
    ("run_at", "'2020-03-03 UTC'"),
    ("args", "'{\"b\": 2}'"),
    ("max_attempts", "17"),
    ("timeout", "'1 hour'"),
    ("tags", "'{z}'"),
    ("metadata", "null"),
];

#[tokio::test]
async fn update_writes_the_changed_column_and_no_other_wherever_the_row_is() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for state in JobState::ALL {
        let waits = matches!(state, JobState::Scheduled | JobState::Available | JobState::Retryable);
        for (column, value) in CHANGES {
            let id = insert_full(&pool, relation(state), state.as_str()).await;
            run(&pool, "update awa.jobs_hot set finalized_at = now() where state > 'retryable'").await;
            let before = row(&pool, id).await;
            let statement = format!("update awa.jobs set {column} = {value} where id = {id}");
            if waits || ["max_attempts", "tags", "metadata"].contains(&column) {
                assert_eq!(run(&pool, &statement).await, 1, "{state}");
                // A scheduled row whose time has come is available.
                let moves = column == "run_at" && state == JobState::Scheduled;
                let expected: &[&str] = if moves { &["run_at", "state"] } else { &[column] };
                assert_eq!(changed(&before, &row(&pool, id).await), expected, "{column} of {state}");
            } else {
                assert_eq!(refusal(&pool, &statement).await.0, "55000", "{column} of {state}");
                assert_eq!(changed(&before, &row(&pool, id).await), [""; 0]);
            }
            assert_eq!(run(&pool, &format!("delete from awa.jobs where id = {id}")).await, 1);
        }
    }
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 0);
}

#[tokio::test]
async fn update_refuses_columns_and_states_that_nobody_sets() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.jobs (kind) values ('a')").await;
    for (set, code, message) in [
        ("id = 9", "22023", "id of job 1 cannot be set"),
        ("run_lease = 9", "22023", "run_lease of job 1 cannot be set"),
        ("progress = '{}'", "22023", "progress of job 1 cannot be set"),
        ("kind = 'b'", "22023", "kind of job 1 cannot be set"),
        ("unique_states = 1", "22023", "unique_states of job 1 cannot be set"),
        ("state = 'running'", "22023", "state of job 1 cannot be set to running"),
        ("state = 'completed'", "22023", "state of job 1 cannot be set to completed"),
        ("state = 'scheduled'", "22023", "state of job 1 cannot be set to scheduled"),
        ("state = null", "22023", "state of job 1 cannot be set to null"),
        ("state = 'cancelled', priority = 1", "22023", "state of job 1 cannot be set along with other columns"),
        ("priority = 5", "22023", "priority is 5; it must be 1 to 4"),
        ("run_at = '294276-01-01 UTC'", "22023", "run_at is in the year 294276; it must be in the years 1 to 9999"),
        ("timeout = '0'", "22023", "timeout is 0 seconds; it must be 1 microsecond to 10 years"),
    ] {
        let answer = refusal(&pool, &format!("update awa.jobs set {set}")).await;
        assert_eq!(answer, (code.to_owned(), message.to_owned()));
    }
    run(&pool, "update awa.jobs set state = 'cancelled'").await;
    assert_eq!(states(&pool).await, "cancelled 1");
    run(&pool, "update awa.jobs set state = 'available'").await;
    run(&pool, "update awa.jobs_hot set state = 'running'").await;
    let answer = refusal(&pool, "update awa.jobs set state = 'available'").await;
    assert_eq!(answer, ("55000".to_owned(), "job 1 is running; it cannot become available".to_owned()));
}

// UNIQ-09, by the view
#[tokio::test]
async fn a_retry_by_the_view_whose_key_is_held_touches_no_row_or_names_the_holder() {
    let database = TestDatabase::new().await;
    let mut connection = database.connect().await;
    run(&mut connection, "insert into awa.jobs_hot_parked (kind, state, unique_key, unique_states)
                          select 'a', 'failed', case when n = 1 then decode(md5('k'), 'hex') end, case when n = 1 then 31 end
                            from generate_series(1, 21) as n").await;
    run(
        &mut connection,
        "insert into awa.jobs (kind, unique_key, unique_states) values ('a', decode(md5('k'), 'hex'), 31)",
    )
    .await;
    let retry = "update awa.jobs set state = 'available' where state = 'failed'";
    assert_eq!(run(&mut connection, retry).await, 20);
    run(&mut connection, "set awa.on_conflict = 'error'").await;
    assert_eq!(refusal(&mut connection, retry).await, ("AWA02".to_owned(), "job 22 holds the unique key".to_owned()));
    assert_eq!(states(&database.pool()).await, "available 21, failed 1");
}

/// Runs two statements at once, on a job each round; answers how many rows each touched, over all rounds.
async fn race(database: &TestDatabase, rounds: usize, scene: &str, one: &str, other: &str) -> (u64, u64) {
    let (mut first, mut second) = (database.connect().await, database.connect().await);
    let pool = database.pool();
    let mut touched = (0, 0);
    for round in 0..rounds {
        let id = count(&pool, scene).await;
        let (one, other) = (one.replace("$id", &id.to_string()), other.replace("$id", &id.to_string()));
        let (a, b) = join(run(&mut first, &one), run(&mut second, &other)).await;
        assert_eq!(a + b, 1, "round {round}: exactly one of {one} and {other}");
        touched = (touched.0 + a, touched.1 + b);
        let rows = count(
            &pool,
            &format!(
                "select (select count(*) from awa.jobs_hot where id = {id})
                                              + (select count(*) from awa.scheduled_jobs where id = {id})"
            ),
        )
        .await;
        let deleted = other.starts_with("delete") && b == 1;
        assert_eq!(rows, i64::from(!deleted), "round {round}: one row, or none after a delete (I1)");
    }
    touched
}

const AVAILABLE: &str = "insert into awa.jobs (kind) values ('a') returning id";
const FAILED: &str =
    "insert into awa.jobs_hot_parked (kind, state, finalized_at) values ('a', 'failed', now()) returning id";
const DUE: &str = "insert into awa.scheduled_jobs (kind, run_at) values ('a', now()) returning id";

// STATE-01
async fn of_two_racing_writers_one_gets_the_row(rounds: usize) {
    let database = TestDatabase::new().await;
    let cancel = "update awa.jobs set state = 'cancelled' where id = $id and state = 'available'";
    let call_off_deferred = "update awa.jobs set state = 'cancelled' where id = $id and state = 'scheduled'";
    let defer = "update awa.jobs set run_at = now() + interval '1 hour' where id = $id and state = 'available'";
    let retry = "update awa.jobs set state = 'available' where id = $id and state = 'failed'";
    for (scene, one, other) in [
        (AVAILABLE, cancel, cancel),
        (AVAILABLE, cancel, defer),
        (AVAILABLE, cancel, "delete from awa.jobs where id = $id and state = 'available'"),
        (
            AVAILABLE,
            "update awa.jobs set priority = 1 where id = $id and priority = 2",
            "update awa.jobs set priority = 3 where id = $id and priority = 2",
        ),
        (FAILED, retry, "delete from awa.jobs_hot_parked where id = $id and state = 'failed'"),
        (FAILED, retry, retry),
        (DUE, call_off_deferred, "update awa.jobs set state = 'available' where id = $id and state = 'scheduled'"),
    ] {
        let _ = race(&database, rounds, scene, one, other).await;
    }
}

#[tokio::test]
async fn of_two_racing_writers_exactly_one_gets_the_row() {
    of_two_racing_writers_one_gets_the_row(50).await;
}

mod long {
    #[tokio::test]
    async fn of_two_racing_writers_exactly_one_gets_the_row() {
        super::of_two_racing_writers_one_gets_the_row(1000).await;
    }
}

// STATE-01: promote against cancel, retry against retention.
#[tokio::test]
async fn a_writer_and_maintenance_that_race_do_not_both_get_the_row() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for _ in 0..50 {
        let id = count(&pool, DUE).await;
        let mut cursor = PromoteCursor::default();
        let cancel = format!("update awa.jobs set state = 'cancelled' where id = {id} and state = 'scheduled'");
        let (promoted, cancelled) = join(promote(&pool, &mut cursor, 10), run(&pool, &cancel)).await;
        // A pass that finds the row locked leaves it for the next one.
        assert_eq!(promoted.expect("a pass").promoted as u64 + cancelled, 1);
        let state = row(&pool, id).await["state"].clone();
        assert_eq!(state, if cancelled == 1 { "cancelled" } else { "available" });
    }
    run(&pool, "update awa.ring set failed_retention = '0'").await;
    for _ in 0..50 {
        let id = count(&pool, FAILED).await;
        let retry = format!("update awa.jobs set state = 'available' where id = {id} and state = 'failed'");
        let (_, retried) =
            join(prune_parked(&pool, JobState::Failed, PruneCursor::default(), 10), run(&pool, &retry)).await;
        let left =
            count(&pool, &format!("select count(*) from awa.jobs where id = {id} and state = 'available'")).await;
        assert_eq!(left as u64, retried);
    }
}

/// What a statement that waits for the open transaction of `holder` does once that commits.
async fn after(holder: &mut PgConnection, pool: &PgPool, statement: String) -> u64 {
    let waiting = tokio::spawn({
        let pool = pool.clone();
        async move { run(&pool, &statement).await }
    });
    while count(pool, "select count(*) from pg_locks where not granted").await == 0 {
        tokio::task::yield_now().await;
    }
    run(holder, "commit").await;
    waiting.await.expect("the task")
}

#[tokio::test]
async fn an_update_in_place_keeps_a_heartbeat_and_progress_that_were_written_meanwhile() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let id = insert_full(&pool, "jobs_hot", "running").await;
    for statement in
        ["update awa.jobs set tags = '{new}' where id = $", "select awa.edit($, '{\"tags\": [\"newer\"]}')"]
    {
        let mut worker = begin(&database).await;
        run(&mut worker, "update awa.jobs_hot set heartbeat_at = now(), progress = '{\"percent\": 99}'").await;
        let before: Value = sqlx::query_scalar("select to_jsonb(job) - 'seq' - 'segment' from awa.jobs_hot as job")
            .fetch_one(&mut worker)
            .await
            .expect("the row");
        assert_eq!(after(&mut worker, &pool, statement.replace('$', &id.to_string())).await, 1, "{statement}");
        assert_eq!(changed(&before, &row(&pool, id).await), ["tags"], "{statement}");
    }
}

#[tokio::test]
async fn a_row_that_moves_under_the_lock_is_found_where_it_went() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let id = insert_full(&pool, "scheduled_jobs", "scheduled").await;
    let claims = "select count(*) from awa.job_unique_claims";
    for (mover, state) in [("run_now", "available"), ("cancel", "cancelled"), ("retry", "available")] {
        let mut other = begin(&database).await;
        run(&mut other, &format!("select from awa.{mover}({id})")).await;
        let before = row(&pool, id).await;
        assert_eq!(
            after(&mut other, &pool, format!("select from awa.edit({id}, '{{\"max_attempts\": {}}}')", state.len()))
                .await,
            1
        );
        let now = row(&pool, id).await;
        assert_eq!(
            (now["state"].as_str(), &now["args"], &now["progress"]),
            (Some(state), &before["args"], &before["progress"])
        );
        assert_eq!(now["max_attempts"], state.len(), "after {mover}");
        assert_eq!(count(&pool, claims).await, 1, "the claim is kept");
    }
    let mut other = begin(&database).await;
    run(&mut other, &format!("select from awa.delete_job({id})")).await;
    let edit = format!("select from awa.edit({id}, '{{\"tags\": null}}') where outcome = 'not_found'");
    assert_eq!(after(&mut other, &pool, edit).await, 1);
    assert_eq!(count(&pool, claims).await, 0);
}

// The view cannot lock: what docs/operating.md says, and its way to lock a job.
#[tokio::test]
async fn select_for_update_through_the_view_locks_nothing_and_the_tables_do() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let id = count(&pool, AVAILABLE).await;
    let mut holder = begin(&database).await;
    run(&mut holder, &format!("select from awa.jobs where id = {id} for update")).await;
    let try_lock = "select count(*) from awa.lock_free_jobs(array(select id from awa.jobs))";
    assert_eq!(count(&pool, try_lock).await, 1, "nobody has it locked");
    run(&mut holder, &format!("select from awa.lock_jobs(array[{id}])")).await;
    assert_eq!(count(&pool, try_lock).await, 0, "now somebody has");
    run(&mut holder, "rollback").await;
    holder.close().await.expect("closed");
}
