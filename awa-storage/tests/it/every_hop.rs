//! LOST-06: a row with every column set goes through every hop there is; only what the table here says may differ.

use awa_model::JobState;
use awa_storage::{
    settle::{Settlement, Verdict, settle_many},
    testing::TestDatabase,
};
use sqlx::PgPool;
use std::time::Duration;

use crate::hops::claimed;
use crate::scene::{changed, count, insert_full, rescue_all, row, run};
use crate::transitions::relation;

/// What carries a row from one place to another.
#[derive(Clone, Debug)]
enum Hop {
    /// A statement; `$` is the id.
    Sql(&'static str),
    /// A claim, and this end of the attempt.
    End(Verdict),
    /// A claim, and the death of its worker.
    Rescue,
}

use Hop::{End, Rescue, Sql};
use JobState::{Available, Cancelled, Completed, Failed, Retryable, Running, Scheduled, WaitingExternal};

const CANCEL: Hop = Sql("select awa.cancel($)");
const RETRY: Hop = Sql("select awa.retry($)");
const RUN_NOW: Hop = Sql("select awa.run_now($)");
const PROMOTE: Hop = Sql("select awa.promote(null, null, 10)");
const MOVE: Hop = Sql("select awa.move_rows(0::smallint, array(select ctid from awa.jobs_hot_0))");
const TO_CANCELLED: Hop = Sql("update awa.jobs set state = 'cancelled' where id = $");
const TO_AVAILABLE: Hop = Sql("update awa.jobs set state = 'available' where id = $");
const DEFER: Hop = Sql("update awa.jobs set run_at = '2099-01-01 UTC' where id = $");
const HASTEN: Hop = Sql("update awa.jobs set run_at = '2021-01-01 UTC' where id = $");
const EDIT_LATER: Hop = Sql(r#"select awa.edit($, '{"run_in": 3600}')"#);
const EDIT_SOONER: Hop = Sql(r#"select awa.edit($, '{"run_at": "2021-01-01T00:00:00Z"}')"#);
const EDIT_LANE: Hop = Sql(r#"select awa.edit($, '{"queue": "other", "priority": 1}')"#);
const EDIT_TAGS: Hop = Sql(r#"select awa.edit($, '{"tags": ["other"]}')"#);

/// From which state, what, to which state, and the columns that it may change.
type Row = (JobState, Hop, JobState, &'static [&'static str]);

fn hops() -> Vec<Row> {
    let ends: &[&str] = &["attempt", "attempted_at", "errors", "finalized_at", "run_lease", "state"];
    let retries: &[&str] = &["attempt", "attempted_at", "errors", "run_at", "run_lease", "state"];
    let error = || "new".to_owned();
    vec![
        (Scheduled, PROMOTE, Available, &["state"]),
        (Retryable, PROMOTE, Available, &["state"]),
        (Available, MOVE, Available, &[]),
        (Running, MOVE, Running, &[]),
        (Completed, MOVE, Completed, &[]),
        (Scheduled, CANCEL, Cancelled, &["finalized_at", "state"]),
        (Available, CANCEL, Cancelled, &["finalized_at", "state"]),
        (Running, CANCEL, Cancelled, &["finalized_at", "state"]),
        (WaitingExternal, CANCEL, Cancelled, &["finalized_at", "state"]),
        (Retryable, CANCEL, Cancelled, &["finalized_at", "state"]),
        (Failed, RETRY, Available, &["attempt", "run_at", "state"]),
        (Cancelled, RETRY, Available, &["attempt", "run_at", "state"]),
        (Scheduled, RUN_NOW, Available, &["state"]),
        (Retryable, RUN_NOW, Available, &["state"]),
        (Scheduled, EDIT_SOONER, Available, &["run_at", "state"]),
        (Available, EDIT_LATER, Scheduled, &["run_at", "state"]),
        (Retryable, EDIT_LATER, Retryable, &["run_at"]),
        (Scheduled, EDIT_LANE, Scheduled, &["priority", "queue"]),
        (Available, EDIT_LANE, Available, &["priority", "queue"]),
        (Retryable, EDIT_LANE, Retryable, &["priority", "queue"]),
        (Available, EDIT_TAGS, Available, &["tags"]),
        (Running, EDIT_TAGS, Running, &["tags"]),
        (Completed, EDIT_TAGS, Completed, &["tags"]),
        (Scheduled, HASTEN, Available, &["run_at", "state"]),
        (Available, DEFER, Scheduled, &["run_at", "state"]),
        (Available, HASTEN, Available, &["run_at"]),
        (Retryable, DEFER, Retryable, &["run_at"]),
        (Scheduled, TO_CANCELLED, Cancelled, &["finalized_at", "state"]),
        (Running, TO_CANCELLED, Cancelled, &["finalized_at", "state"]),
        (Scheduled, TO_AVAILABLE, Available, &["state"]),
        (Failed, TO_AVAILABLE, Available, &["attempt", "run_at", "state"]),
        (Available, End(Verdict::Retry { after: None, error: error() }), Retryable, retries),
        (
            Available,
            End(Verdict::Snooze { after: Duration::from_secs(9) }),
            Scheduled,
            &["attempted_at", "run_at", "run_lease", "snoozes", "state"],
        ),
        (Available, End(Verdict::Fail { error: error() }), Failed, ends),
        (Available, End(Verdict::Cancel { reason: error() }), Cancelled, ends),
        (Available, End(Verdict::Release), Available, &["attempted_at", "run_lease"]),
        (Available, Rescue, Retryable, retries),
    ]
}

async fn take(pool: &PgPool, id: i64, hop: Hop) {
    match hop {
        Sql(statement) => {
            run(pool, &statement.replace('$', &id.to_string())).await;
        }
        End(verdict) => {
            let settlement = Settlement { lease: claimed(pool).await.lease, verdict, progress: None };
            let settled = settle_many(pool, &[settlement]).await.expect("settled");
            assert!(settled[0].is_applied());
        }
        Rescue => {
            let _ = claimed(pool).await;
            run(pool, "delete from awa.workers").await;
            assert_eq!(rescue_all(pool).await.jobs.len(), 1);
        }
    }
}

#[tokio::test]
async fn no_hop_changes_a_column_that_it_is_not_about() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for (from, hop, to, expected) in hops() {
        let id = insert_full(&pool, relation(from), from.as_str()).await;
        let before = row(&pool, id).await;
        let case = format!("{hop:?} from {from}");
        take(&pool, id, hop).await;
        let after = row(&pool, id).await;
        assert_eq!(after["state"], to.as_str(), "{case}");
        assert_eq!(changed(&before, &after), expected, "{case}");
        let claimed = count(&pool, &format!("select count(*) from awa.job_unique_claims where job_id = {id}")).await;
        assert_eq!(claimed, 1, "{case}: every state is in its mask (I4)");
        run(&pool, &format!("select awa.delete_job({id})")).await;
    }
}
