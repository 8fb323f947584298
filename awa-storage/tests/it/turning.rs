//! Every write against every step of the ring: two connections, one transaction held open, in both orders. No write is lost or
//! done twice, nobody deadlocks, no lease is lost (I13), and nothing waits longer than its lock_timeout.

use awa_storage::testing::TestDatabase;
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, PgPool};

use crate::{
    model::look,
    restart::Restarting,
    scene::{begin, count, registered, run, text, until_blocked},
};

/// What is written: a statement, and what is true once it has had its effect. Job 1 runs under lease 1, job 2 is available,
/// job 3 is deferred and due, all of queue `default`.
const WRITES: [(&str, &str, &str); 14] = [
    (
        "enqueue",
        "select awa.enqueue('new')",
        "exists (select from awa.jobs where kind = 'new' and state = 'available')",
    ),
    (
        "insert",
        "insert into awa.jobs_hot (kind) values ('new')",
        "exists (select from awa.jobs where kind = 'new' and state = 'available')",
    ),
    (
        "claim",
        "select count(*) from awa.claim('00000000-0000-0000-0000-000000000001', '{noop}', '{default}', '{50}',
                                        '{0,0,0,0}', '{0,0,0,0}', '{}', '{}', '{}', '{}', true, '{false}')",
        "exists (select from awa.jobs where id = 2 and state = 'running')",
    ),
    (
        "beat",
        "select awa.beat('{0}', '{1}', '{1}', null)",
        "exists (select from awa.jobs where id = 1 and heartbeat_at is not null)",
    ),
    (
        "flush",
        r#"select awa.beat('{0}', '{1}', '{1}', array['{"percent": 7}']::jsonb[])"#,
        "exists (select from awa.jobs where id = 1 and progress = '{\"percent\": 7}')",
    ),
    (
        "complete",
        r#"select awa.complete(0::smallint, '{"(0,1)"}', '{1}', '{1}', null)"#,
        "exists (select from awa.jobs where id = 1 and state = 'completed')",
    ),
    (
        "settle",
        "select awa.settle_batch('{0}', '{1}', '{1}', '{retry}', array[60]::double precision[], '{wrong}', array[null]::jsonb[], null)",
        "exists (select from awa.jobs where id = 1 and state = 'retryable')",
    ),
    (
        "park",
        "select awa.settle_batch('{0}', '{1}', '{1}', '{park}', '{null}', '{null}', '{null}', array[awa.open_callback(1, 1, 60)])",
        "exists (select from awa.jobs where id = 1 and state = 'waiting_external')",
    ),
    (
        "callback",
        "select awa.callback_complete(awa.open_callback(1, 1, 60))",
        "exists (select from awa.jobs where id = 1 and state = 'completed')",
    ),
    (
        "settle alone",
        "select awa.settle_alone(0::smallint, 1, 1, 'snooze', 60, null, null, null)",
        "exists (select from awa.jobs where id = 1 and state = 'scheduled')",
    ),
    (
        "promote",
        "select awa.promote(null, null, 10)",
        "exists (select from awa.jobs where id = 3 and state = 'available')",
    ),
    ("cancel", "select awa.cancel_many('{1,2,3}')", "3 = (select count(*) from awa.jobs where state = 'cancelled')"),
    (
        "edit",
        r#"select awa.edit(id, '{"tags": ["x"]}') from generate_series(1, 3) as id"#,
        "3 = (select count(*) from awa.jobs where tags = '{x}')",
    ),
    ("delete", "select awa.delete_jobs('{2,3}')", "not exists (select from awa.jobs where id in (2, 3))"),
];

/// Steps of the ring: what has to come before it, and the step itself.
const STEPS: [(&str, &str, &str); 5] = [
    ("rotate", "", "select awa.rotate(1)"),
    ("move", "", "select awa.move_rows(0::smallint, array(select ctid from awa.jobs_hot_0))"),
    (
        "truncate",
        "select awa.move_rows(0::smallint, array(select ctid from awa.jobs_hot_0))",
        "select awa.truncate_oldest(0, 1000000, now(), '{}')",
    ),
    ("recycle", "", "select awa.recycle(0, 1000000, 100)"),
    ("empty claims", "select awa.switch_claims(0, 0)", "select awa.empty_claims(64)"),
];

async fn scene(pool: &PgPool) {
    run(
        pool,
        "insert into awa.jobs_hot (kind, unique_key, unique_states) values ('noop', decode(md5('1'), 'hex'), 31)",
    )
    .await;
    let worker = registered(pool).await;
    crate::scene::claim(pool, worker, "noop", 1).await;
    run(
        pool,
        "insert into awa.jobs_hot (kind, unique_key, unique_states) values ('noop', decode(md5('2'), 'hex'), 31)",
    )
    .await;
    run(pool, "insert into awa.scheduled_jobs (kind, run_at, unique_key, unique_states) values ('noop', '2020-01-01', decode(md5('3'), 'hex'), 31)").await;
    assert_eq!(count(pool, "select max(id) from awa.jobs").await, 3);
    run(pool, "select awa.configure_ring(snapshot_patience => '0')").await;
    run(pool, "select awa.rotate(0)").await;
}

async fn send(connection: &mut PgConnection, statement: &str) -> Result<(), sqlx::Error> {
    connection.execute(AssertSqlSafe(statement.to_owned())).await.map(drop)
}

/// The effect is there, and everything else is as it must be.
async fn judge(pool: &PgPool, effect: &str, name: &str) {
    assert_eq!(
        text(pool, &format!("select {effect}")).await,
        "true",
        "{name}: {}",
        text(pool, "select json_agg(job) from awa.jobs as job").await
    );
    if let Err(why) = look(pool).await {
        panic!("{name}: {why}");
    }
    let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
    assert_eq!(count(pool, deadlocks).await, 0, "{name}");
}

/// The step has been taken and is not committed: the write waits for it or goes round it.
async fn write_during(restarting: &Restarting, write: (&str, &str, &'static str), step: (&str, &str, &str)) {
    let name = format!("{} during {}", write.0, step.0);
    let (database, pool) = restarting.again().await;
    scene(&pool).await;
    if !step.1.is_empty() {
        run(&pool, step.1).await;
    }
    let mut keeper = begin(database).await;
    run(&mut keeper, step.2).await;
    let mut writer = database.connect().await;
    let statement = write.1.to_owned();
    let writing = tokio::spawn(async move { send(&mut writer, &statement).await });
    while !writing.is_finished() {
        if count(&pool, BLOCKED).await > 0 {
            break;
        }
    }
    run(&mut keeper, "commit").await;
    if let Err(error) = writing.await.expect("no panic") {
        assert!(gave_up(&error), "{name}: {error}");
    }
    // What gave up within its lock_timeout, or passed by rows that were in hand, does not wait for them: it comes again.
    if text(&pool, &format!("select {}", write.2)).await != "true" {
        run(&pool, write.1).await;
    }
    judge(&pool, write.2, &name).await;
}

fn gave_up(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(sqlx::error::DatabaseError::code).is_some_and(|code| code == "55P03")
}

const BLOCKED: &str = "select count(*) from pg_locks as waiting join pg_stat_activity as session using (pid)
                        where not waiting.granted and session.datname = current_database()";

/// The write has been made and is not committed: the step gives up within its lock_timeout, or takes nothing away.
async fn step_during(restarting: &Restarting, write: (&str, &str, &'static str), step: (&str, &str, &str)) {
    let name = format!("{} during {}", step.0, write.0);
    let (database, pool) = restarting.again().await;
    scene(&pool).await;
    if !step.1.is_empty() {
        run(&pool, step.1).await;
    }
    let mut writer = begin(database).await;
    run(&mut writer, write.1).await;
    let mut keeper = database.connect().await;
    // Nobody commits before it has answered: it must not wait for that.
    let stepped = send(&mut keeper, step.2).await;
    if let Err(error) = stepped {
        assert!(gave_up(&error), "{name}: {error}");
    }
    run(&mut writer, "commit").await;
    judge(&pool, write.2, &name).await;
    // And once more, with nobody in the way.
    send(&mut keeper, step.2).await.expect(&name);
    judge(&pool, write.2, &name).await;
}

#[tokio::test]
async fn a_write_during_any_step_of_the_ring_has_its_effect() {
    let restarting = Restarting::new().await;
    for step in STEPS {
        for write in WRITES {
            write_during(&restarting, write, step).await;
        }
    }
}

#[tokio::test]
async fn a_step_of_the_ring_during_any_write_gives_up_or_does_no_harm() {
    let restarting = Restarting::new().await;
    for step in STEPS {
        for write in WRITES {
            step_during(&restarting, write, step).await;
        }
    }
}

/// A writer that waits for the truncation finds its table empty, and its row where it was moved to.
#[tokio::test]
async fn a_writer_that_waits_for_the_truncation_goes_on_after_it() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    scene(&pool).await;
    run(&pool, STEPS[2].1).await;
    let mut keeper = begin(&database).await;
    run(&mut keeper, STEPS[2].2).await;
    let mut writer = database.connect().await;
    let insert = "insert into awa.jobs_hot_0 (kind) values ('late')";
    let writing = tokio::spawn(async move { send(&mut writer, insert).await });
    until_blocked(&pool, 1).await;
    run(&mut keeper, "commit").await;
    writing.await.expect("no panic").expect("a straggling insert does no harm");
    assert_eq!(count(&pool, "select count(*) from awa.jobs where kind = 'late'").await, 1);
}
