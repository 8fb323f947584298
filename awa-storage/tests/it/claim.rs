//! Claims: order, capacity, and the invariant that no available job is ever passed over (I5).

use awa_storage::testing::TestDatabase;

use crate::support::{
    claim, claim_all, claim_of, cursors, execute, insert, insert_as, kind, number, open_writer, queue, sorted,
    tick_until, worker,
};

#[tokio::test]
async fn priority_is_strict_and_order_inside_a_lane_is_first_in_first_out() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    let low = insert_as(&pool, 0, 2, "noop", 3).await;
    let high = insert_as(&pool, 0, 3, "noop", 1).await;
    let first = claim(&cursors, &pool, 2).await;
    assert_eq!(sorted(first.iter().map(|job| job.lease.job_id().get()).collect()), high[..2]);
    let rest = claim(&cursors, &pool, 2).await;
    assert_eq!(sorted(rest.iter().map(|job| job.lease.job_id().get()).collect()), sorted(vec![high[2], low[0]]));
}

#[tokio::test]
async fn a_claim_is_bounded_by_the_free_capacity_of_each_queue() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    sqlx::query("insert into awa.jobs_hot_0 (kind, queue) select 'noop', 'a' from generate_series(1, 9)")
        .execute(&pool)
        .await
        .expect("rows");
    sqlx::query("insert into awa.jobs_hot_0 (kind, queue) select 'noop', 'b' from generate_series(1, 9)")
        .execute(&pool)
        .await
        .expect("rows");
    let cursors = awa_storage::Cursors::new(worker(), &[kind()], &[queue("a"), queue("b"), queue("c")]);
    cursors.load(&pool).await.expect("marks");
    let wants = [(queue("a"), 2), (queue("b"), 3), (queue("c"), 4)];
    let claimed = claim_of(&cursors, &pool, &wants).await;
    let of = |name: &str| claimed.iter().filter(|job| job.queue.as_str() == name).count();
    assert_eq!((of("a"), of("b"), of("c")), (2, 3, 0));
}

#[tokio::test]
async fn a_paused_queue_and_unknown_kinds_are_passed_by() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    insert_as(&pool, 0, 3, "foreign", 2).await;
    let ours = insert(&pool, 0, 1).await;
    sqlx::query("insert into awa.queues (name, paused) values ('default', true)").execute(&pool).await.expect("paused");
    assert!(claim(&cursors, &pool, 9).await.is_empty());
    sqlx::query("update awa.queues set paused = false").execute(&pool).await.expect("resumed");
    assert_eq!(claim_all(&cursors, &pool).await, ours);
}

#[tokio::test]
async fn a_claim_fills_in_the_attempt_and_lists_it() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    sqlx::query(
        "insert into awa.jobs_hot_0 (kind, args, timeout, tags, metadata, trace_context, progress)
         values ('noop', '{\"big\": 123456789012345678901234567890}', '2 minutes', '{a,b}', '{\"m\": 1}', '00-t', '{\"percent\": 3}')",
    )
    .execute(&pool)
    .await
    .expect("a row");
    let job = claim(&cursors, &pool, 1).await.pop().expect("a job");
    assert_eq!((job.attempt, job.lease.run_lease().get()), (1, 1));
    assert_eq!(job.args, r#"{"big": 123456789012345678901234567890}"#);
    assert_eq!(job.timeout, Some(std::time::Duration::from_secs(120)));
    assert_eq!(job.deadline_at, Some(job.attempted_at + std::time::Duration::from_secs(120)));
    assert_eq!(
        (job.tags.as_slice(), job.trace_context.as_deref()),
        (&["a".to_owned(), "b".to_owned()][..], Some("00-t"))
    );
    assert_eq!(job.progress, Some(serde_json::json!({ "percent": 3 })));
    let listed = number(
        &pool,
        "select count(*) from awa.active_claims as batch
          where batch.job_ids = '{1}' and batch.run_leases = '{1}' and batch.deadline_at is not null",
    );
    assert_eq!(listed.await, 1);
}

#[tokio::test]
async fn a_row_that_commits_late_is_found_by_the_next_looks() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    let mut writer = open_writer(&database).await;
    let late = insert(&mut writer, 0, 1).await;
    let early = insert(&pool, 0, 1).await;
    assert_eq!(claim_all(&cursors, &pool).await, early);
    cursors.tick(&pool).await.expect("a tick");
    execute(&mut writer, "commit").await;
    // Transactions of other databases on the server may hold the horizon for a moment, never the row once it is passed.
    tick_until(&cursors, &pool, |tick| tick.found > 0 || tick.settled).await;
    assert_eq!(claim_all(&cursors, &pool).await, late);
}

#[tokio::test]
async fn rows_of_a_transaction_that_was_set_aside_are_found_by_the_first_look_after_it() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    let mut writer = open_writer(&database).await;
    let late = insert(&mut writer, 0, 3).await;
    insert(&pool, 0, 2).await;
    claim_all(&cursors, &pool).await;
    tick_until(&cursors, &pool, |tick| tick.set_aside).await;
    let flowing = insert(&pool, 0, 2).await;
    assert_eq!(claim_all(&cursors, &pool).await, flowing, "others do not wait for it");
    execute(&mut writer, "commit").await;
    tick_until(&cursors, &pool, |tick| tick.found == 3 || tick.settled).await;
    assert_eq!(sorted(claim_all(&cursors, &pool).await), late);
    tick_until(&cursors, &pool, |tick| tick.settled).await;
}

#[tokio::test]
async fn a_writer_that_first_enqueues_after_it_was_set_aside_is_found_too() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    let mut writer = open_writer(&database).await;
    insert(&pool, 0, 2).await;
    claim_all(&cursors, &pool).await;
    tick_until(&cursors, &pool, |tick| tick.set_aside).await;
    execute(&mut writer, "savepoint a").await;
    let late = insert(&mut writer, 0, 1).await;
    execute(&mut writer, "release savepoint a").await;
    let flowing = insert(&pool, 0, 2).await;
    assert_eq!(claim_all(&cursors, &pool).await, flowing);
    cursors.tick(&pool).await.expect("a tick");
    execute(&mut writer, "commit").await;
    tick_until(&cursors, &pool, |tick| tick.found > 0 || tick.settled).await;
    assert_eq!(claim_all(&cursors, &pool).await, late);
}

#[tokio::test]
async fn an_idle_writer_does_not_hold_the_mark_of_a_lane() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    let writer = open_writer(&database).await;
    insert(&pool, 0, 2).await;
    claim_all(&cursors, &pool).await;
    tick_until(&cursors, &pool, |tick| tick.set_aside && !tick.backlog).await;
    for _ in 0..2 {
        // Who writes is asked at most once a second.
        let before = cursors.safe_horizon();
        insert(&pool, 0, 1).await;
        claim_all(&cursors, &pool).await;
        tick_until(&cursors, &pool, |_| cursors.safe_horizon() > before).await;
    }
    drop(writer);
}

/// What the horizon asks about set-aside transactions: open without a row, open with one, prepared with one, ended.
#[tokio::test]
async fn only_an_open_writer_without_a_job_is_idle() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (mut idle, mut ended) = (open_writer(&database).await, open_writer(&database).await);
    let (mut writing, mut prepared) = (open_writer(&database).await, open_writer(&database).await);
    let mut xids = Vec::new();
    for connection in [&mut idle, &mut ended, &mut writing, &mut prepared] {
        let xid: String =
            sqlx::query_scalar("select pg_current_xact_id()::text").fetch_one(connection).await.expect("an id");
        xids.push(xid.parse::<i64>().expect("a number"));
    }
    for connection in [&mut ended, &mut writing, &mut prepared] {
        insert(connection, 0, 1).await;
    }
    execute(&mut ended, "commit").await;
    execute(&mut prepared, "prepare transaction 'idle or not'").await;
    let answer: Vec<i64> =
        sqlx::query_scalar("select * from awa.idle_writers($1)").bind(&xids).fetch_all(&pool).await.expect("an answer");
    assert_eq!(answer, xids[..1]);
    execute(&mut prepared, "rollback prepared 'idle or not'").await;
}

#[tokio::test]
async fn a_prepared_transaction_is_found_when_it_is_committed() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    let mut writer = open_writer(&database).await;
    let late = insert(&mut writer, 0, 1).await;
    execute(&mut writer, "prepare transaction 'late'").await;
    insert(&pool, 0, 1).await;
    claim_all(&cursors, &pool).await;
    tick_until(&cursors, &pool, |tick| tick.set_aside).await;
    execute(&mut writer, "commit prepared 'late'").await;
    tick_until(&cursors, &pool, |tick| tick.found > 0 || tick.settled).await;
    assert_eq!(claim_all(&cursors, &pool).await, late);
}

#[tokio::test]
async fn a_claim_that_rolls_back_is_claimed_again() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (ours, theirs) = (cursors(&pool).await, worker());
    let rows = insert(&pool, 0, 4).await;
    let mut writer = open_writer(&database).await;
    let taken: Vec<i64> = sqlx::query_scalar(
        "select id from awa.claim($1, '{noop}', '{default}', '{2}', '{0,0,0,0}', '{0,0,0,0}', '{}', '{}', '{}', '{}', true, '{false}')",
    )
    .bind(theirs.get())
    .fetch_all(&mut writer)
    .await
    .expect("a claim");
    assert_eq!(claim_all(&ours, &pool).await, rows[2..], "locked rows are passed by");
    tick_until(&ours, &pool, |tick| tick.found == 2).await;
    execute(&mut writer, "rollback").await;
    assert_eq!(sorted(claim_all(&ours, &pool).await), sorted(taken));
}

#[tokio::test]
async fn foreign_rows_at_the_head_are_passed_once_and_hold_only_the_mark() {
    foreign_rows_at_the_head(3_000).await;
}

async fn foreign_rows_at_the_head(rows: i64) {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    insert_as(&pool, 0, rows, "foreign", 2).await;
    let ours = insert(&pool, 0, 5).await;
    assert_eq!(sorted(claim_all(&cursors, &pool).await), ours);
    tick_until(&cursors, &pool, |tick| tick.settled).await;
    cursors.persist_marks(&pool).await.expect("marks");
    let mark = number(&pool, "select coalesce(max(seq), 0) from awa.lane_marks where priority = 2").await;
    assert_eq!(mark, 0, "the first foreign row is number 1");
    sqlx::query("delete from awa.jobs_hot_0 where kind = 'foreign'").execute(&pool).await.expect("deleted");
    let end = number(&pool, "select last_value from awa.job_seq").await;
    // A probe reads so many rows a time: a long stretch takes a few.
    for _ in 0..rows / 20_000 + 1 {
        cursors.persist_marks(&pool).await.expect("marks");
    }
    assert_eq!(number(&pool, "select max(seq) from awa.lane_marks where priority = 2").await, end);
}

#[tokio::test]
async fn a_new_process_starts_at_the_marks_of_others() {
    a_new_process_starts_warm(2_000).await;
}

async fn a_new_process_starts_warm(finished: i64) {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    sqlx::query(
        "insert into awa.jobs_hot_0 (kind, state, run_lease, finalized_at)
         select 'noop', 'completed', 1, now() from generate_series(1, $1)",
    )
    .bind(finished)
    .execute(&pool)
    .await
    .expect("a history");
    let first = cursors(&pool).await;
    tick_until(&first, &pool, |tick| tick.settled).await;
    first.persist_marks(&pool).await.expect("marks");
    let second = cursors(&pool).await;
    assert_eq!(second.safe_horizon(), finished, "the lowest mark of its lanes");
    let row = insert(&pool, 0, 1).await;
    // What it reads does not depend on the history: counted by the server, over everything this session did.
    let mut connection = database.connect().await;
    let read = "select coalesce(sum(idx_tup_fetch + seq_tup_read), 0)::bigint from pg_stat_xact_user_tables
                 where relname like 'jobs\\_hot%'";
    let claimed: Vec<i64> = sqlx::query_scalar(
        "select id from awa.claim($1, '{noop}', '{default}', '{9}', array_fill($2::bigint, array[4]), '{0,0,0,0}',
                                  '{}', '{}', '{}', '{}', false, '{false}')",
    )
    .bind(worker().get())
    .bind(second.safe_horizon())
    .fetch_all(&mut connection)
    .await
    .expect("a claim");
    assert_eq!(claimed, row);
    let rows: i64 = sqlx::query_scalar(read).fetch_one(&mut connection).await.expect("counters");
    assert!(rows <= 10, "{rows} rows read to claim one");
}

mod long {
    //! The same at full size.

    #[tokio::test]
    async fn foreign_rows_at_the_head_are_passed_once_and_hold_only_the_mark() {
        super::foreign_rows_at_the_head(300_000).await;
    }

    #[tokio::test]
    async fn a_new_process_starts_at_the_marks_of_others() {
        super::a_new_process_starts_warm(1_000_000).await;
    }
}

#[tokio::test]
async fn a_changed_incarnation_makes_a_process_start_over_and_nothing_is_missed() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    insert(&pool, 0, 5).await;
    claim_all(&cursors, &pool).await;
    tick_until(&cursors, &pool, |tick| tick.settled).await;
    // What a crash does to claims that were not written through: the rows are available again, behind every cursor.
    sqlx::raw_sql(
        "set session_replication_role = replica; alter table awa.jobs_hot_0 disable trigger all;
         update awa.jobs_hot_0 set state = 'available' where id < 3;
         alter table awa.jobs_hot_0 enable always trigger refuse_state_change; delete from awa.incarnation",
    )
    .execute(&mut database.connect().await)
    .await
    .expect("a crash");
    assert!(cursors.pulse(&pool, false).await.expect("a pulse").moved);
    assert_eq!(sorted(claim_all(&cursors, &pool).await), [1, 2]);
}

#[tokio::test]
async fn older_segments_come_first_and_a_late_insert_into_a_closed_one_is_found() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    let old = insert(&pool, 0, 2).await;
    sqlx::query("update awa.ring set current = 2").execute(&pool).await.expect("the ring turned");
    let new = insert(&pool, 2, 2).await;
    cursors.tick(&pool).await.expect("a tick");
    let first = claim(&cursors, &pool, 2).await;
    assert_eq!(sorted(first.iter().map(|job| job.lease.job_id().get()).collect()), old);
    assert_eq!(sorted(claim_all(&cursors, &pool).await), new);
    tick_until(&cursors, &pool, |tick| tick.settled).await;
    let stray = insert(&pool, 5, 1).await;
    let late = insert(&pool, 1, 1).await;
    tick_until(&cursors, &pool, |tick| tick.found > 0 || tick.backlog).await;
    let mut claimed = claim_all(&cursors, &pool).await;
    tick_until(&cursors, &pool, |tick| tick.settled || tick.found > 0).await;
    claimed.extend(claim_all(&cursors, &pool).await);
    assert_eq!(sorted(claimed), sorted([stray, late].concat()));
}

#[tokio::test]
async fn two_processes_never_claim_the_same_attempt() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (one, two) = (cursors(&pool).await, cursors(&pool).await);
    let rows = insert(&pool, 0, 500).await;
    let (first, second) = tokio::join!(claim_all(&one, &pool), claim_all(&two, &pool));
    let mut all = [first, second].concat();
    for cursors in [&one, &two] {
        tick_until(cursors, &pool, |tick| tick.settled).await;
        all.extend(claim_all(cursors, &pool).await);
    }
    assert_eq!(sorted(all), rows);
}

#[tokio::test]
async fn an_idle_pulse_costs_no_transaction_id_and_sees_an_insert() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    insert(&pool, 0, 1).await;
    claim_all(&cursors, &pool).await;
    tick_until(&cursors, &pool, |tick| tick.settled).await;
    let mut connection = database.connect().await;
    for _ in 0..3 {
        sqlx::query("select * from awa.pulse($1, false)")
            .bind(worker().get())
            .execute(&mut connection)
            .await
            .expect("a pulse");
        execute(&mut connection, "begin").await;
        sqlx::query("select * from awa.pulse($1, false)")
            .bind(worker().get())
            .execute(&mut connection)
            .await
            .expect("a pulse");
        let assigned: Option<String> = sqlx::query_scalar("select pg_current_xact_id_if_assigned()::text")
            .fetch_one(&mut connection)
            .await
            .expect("an answer");
        assert_eq!(assigned, None);
        execute(&mut connection, "commit").await;
    }
    assert!(!cursors.pulse(&pool, false).await.expect("a pulse").moved);
    insert(&pool, 0, 1).await;
    assert!(cursors.pulse(&pool, false).await.expect("a pulse").moved);
}
