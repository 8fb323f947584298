//! That hearing saves looks and delays nothing, and that neither duty hangs on the other.

use std::{future::Future as _, pin::pin, sync::Arc, task::Poll};

use awa_model::WorkerId;
use awa_storage::testing::TestDatabase;
use sqlx::{AssertSqlSafe, Connection as _, PgPool};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{Duties, Duty, DutyName, Maintainer, MaintenanceConfig, Next, Promoter, Scheduler};

/// Counts the looks at schedules by a function in front of the real one; a sequence forgets nothing that is rolled back.
const COUNT_LOOKS: &str = "
    create sequence public.looks;
    alter function awa.due_schedules(integer) rename to real_due_schedules;
    create function awa.due_schedules(p_limit integer)
        returns table (name text, expression text, timezone text, missed text, catch_up_max integer, revision bigint,
                       planned boolean, next_at timestamptz, is_waiting boolean, now timestamptz)
        language plpgsql as $$
    begin
        perform nextval('public.looks');
        return query select * from awa.real_due_schedules(p_limit);
    end $$";

const SET: &str = "select awa.set_schedule('minutely', '* * * * *', '{\"kind\": \"noop\"}')";

async fn run(pool: &PgPool, statement: &str) {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(pool).await.expect(statement);
}

async fn number(pool: &PgPool, statement: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(statement.to_owned())).fetch_one(pool).await.expect(statement)
}

/// Waits until that is 1. Half a minute: schedules that look for themselves come after one.
async fn until(pool: &PgPool, statement: &str) {
    let holds = async { while number(pool, statement).await != 1 {} };
    tokio::time::timeout(Duration::from_secs(30), holds).await.expect(statement);
}

async fn looks(pool: &PgPool) -> i64 {
    number(pool, "select case when is_called then last_value else 0 end from public.looks").await
}

/// A promoter and a scheduler of one process; passes on its own account, as their tasks would do.
struct Both {
    pool: PgPool,
    promoter: Promoter,
    scheduler: Scheduler,
}

impl Both {
    async fn on(database: &TestDatabase) -> Self {
        // Long, so that nothing that was heard is too old in a slow test.
        let config = MaintenanceConfig {
            schedule_interval_max: Duration::from_secs(60),
            promote_interval_max: Duration::from_nanos(1),
            ..MaintenanceConfig::default()
        };
        let (pool, outlook) = (database.pool(), Arc::<Outlook>::default());
        run(&pool, COUNT_LOOKS).await;
        Self {
            promoter: Promoter::new(pool.clone(), config).looking_ahead(Arc::clone(&outlook)),
            scheduler: Scheduler::new(pool.clone(), config).hearing(outlook),
            pool,
        }
    }

    async fn promote(&self) -> usize {
        self.promoter.pass().await.expect("a pass").changed
    }

    /// Passes until there is nothing more to do; answers for how long, and how often it has looked.
    async fn schedule(&self) -> (Duration, i64) {
        let before = looks(&self.pool).await;
        loop {
            if let Next::In(pause) = self.scheduler.pass().await.expect("a pass").next {
                return (pause, looks(&self.pool).await - before);
            }
        }
    }

    /// Whether the scheduler is called now.
    async fn is_called(&self) -> bool {
        let mut called = pin!(self.scheduler.called());
        std::future::poll_fn(|context| Poll::Ready(called.as_mut().poll(context).is_ready())).await
    }

    async fn jobs(&self) -> i64 {
        number(&self.pool, "select count(*) from awa.jobs").await
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_heard_counts_after_a_look_that_succeeded_and_for_a_while() {
    const LASTING: Duration = Duration::from_millis(1250);
    let (outlook, never, soon) = (Outlook::default(), Some(Duration::MAX), Some(Duration::from_secs(1)));
    let rest = |outlook: &Outlook| outlook.rest(LASTING);
    outlook.hear(Instant::now(), never);
    assert_eq!(rest(&outlook), None, "nobody has looked yet");
    outlook.look();
    let asked = Instant::now();
    tokio::time::advance(Duration::from_millis(1)).await;
    outlook.looked();
    outlook.hear(asked, never);
    assert_eq!(rest(&outlook), None, "it was asked for before the look had ended");
    outlook.hear(Instant::now(), never);
    assert_eq!(rest(&outlook), Some(LASTING));
    tokio::time::advance(LASTING / 2).await;
    outlook.hear(Instant::now(), None);
    assert_eq!(rest(&outlook), Some(LASTING / 2), "no answer is no news");
    tokio::time::advance(LASTING / 2).await;
    assert_eq!(rest(&outlook), None, "promotion has fallen silent");
    outlook.hear(Instant::now(), soon);
    assert_eq!(rest(&outlook), soon);
    outlook.look();
    assert_eq!(rest(&outlook), None);
    outlook.hear(Instant::now(), never);
    assert_eq!(rest(&outlook), None, "a look that does not succeed is followed by another");
    assert!(outlook.is_to_be_asked(Duration::ZERO) && !outlook.is_to_be_asked(Duration::from_millis(1)));
}

#[tokio::test]
async fn schedules_are_not_looked_for_while_promotion_says_that_none_is_due() {
    let database = TestDatabase::new().await;
    let both = Both::on(&database).await;
    both.promote().await;
    assert_eq!(both.schedule().await.1, 1, "the first look is its own: what was heard before does not count");
    for _ in 0..3 {
        both.promote().await;
        assert!(both.is_called().await && !both.is_called().await, "each answer is told once");
        let (pause, looks) = both.schedule().await;
        assert_eq!(looks, 0);
        assert!(pause > Duration::from_secs(60), "only promotion says sooner: {pause:?}");
    }
}

#[tokio::test]
async fn schedule_that_asks_for_something_is_seen_to_as_soon_as_promotion_has_heard_of_it() {
    let database = TestDatabase::new().await;
    let both = Both::on(&database).await;
    run(&both.pool, SET).await;
    both.schedule().await;
    let second = both.pool.clone();
    for ask in [
        "update awa.cron_schedules set planned = false",
        "update awa.cron_schedules set next_at = clock_timestamp()",
        "update awa.cron_schedules set planned_at = clock_timestamp() + interval '1 hour'",
        "update awa.cron_schedules set waiting_slot = '2020-01-01', last_job_id = null",
    ] {
        both.promote().await;
        assert_eq!(both.schedule().await.1, 0, "nothing is due before: {ask}");
        run(&second, ask).await;
        assert_eq!(both.schedule().await.1, 0, "nobody has heard of it: {ask}");
        both.promote().await;
        assert!(both.is_called().await, "{ask}");
        assert!(both.schedule().await.1 > 0, "{ask}");
    }
    // What is paused, at fault or never due asks for nothing.
    for rest in [
        "next_at = '2020-01-01', paused_at = now()",
        "paused_at = null, fault = 'unread'",
        "fault = null, next_at = 'infinity'",
    ] {
        run(&second, &format!("update awa.cron_schedules set {rest}")).await;
        both.promote().await;
        assert_eq!(both.schedule().await.1, 0, "{rest}");
    }
}

#[tokio::test]
async fn rest_ends_when_the_next_time_comes() {
    let database = TestDatabase::new().await;
    let both = Both::on(&database).await;
    run(&both.pool, SET).await;
    both.schedule().await;
    run(&both.pool, "update awa.cron_schedules set next_at = clock_timestamp() + interval '30 seconds'").await;
    both.promote().await;
    let (pause, looks) = both.schedule().await;
    assert!(looks == 0 && pause <= Duration::from_secs(30), "{pause:?}");
    assert!(pause > Duration::from_secs(15), "a slow test: {pause:?}");
}

/// Whatever is wrong with schedules is theirs to report; and they are told of nothing.
#[tokio::test]
async fn promotion_goes_on_whatever_is_wrong_with_schedules() {
    let database = TestDatabase::new().await;
    let both = Both::on(&database).await;
    both.schedule().await;
    let due = "insert into awa.scheduled_jobs (kind, run_at) values ('noop', now())";
    let mut locking = database.connect().await;
    let mut tx = locking.begin().await.expect("the server answers");
    sqlx::raw_sql("lock table awa.cron_schedules").execute(&mut *tx).await.expect("locked");
    run(&both.pool, due).await;
    assert_eq!(both.promote().await, 1);
    assert!(!both.is_called().await, "it could not be told");
    tx.rollback().await.expect("the server answers");
    run(&both.pool, "alter table awa.cron_schedules rename to elsewhere").await;
    run(&both.pool, due).await;
    assert_eq!(both.promote().await, 1);
    assert!(!both.is_called().await, "it could not be told");
    assert!(both.scheduler.pass().await.is_err());
    run(&both.pool, "alter table awa.elsewhere rename to cron_schedules").await;
    both.promote().await;
    assert!(!both.is_called().await, "a look has failed: the next one is its own");
    assert_eq!(both.schedule().await.1, 1);
    both.promote().await;
    assert_eq!(both.schedule().await.1, 0);
}

#[tokio::test]
async fn schedules_look_for_themselves_while_promotion_fails() {
    let database = TestDatabase::new().await;
    let both = Both::on(&database).await;
    both.schedule().await;
    run(&both.pool, "alter function awa.promote(timestamptz, bigint, integer) rename to elsewhere").await;
    both.promoter.pass().await.expect_err("there is no such function");
    run(&both.pool, SET).await;
    let (_, looks) = both.schedule().await;
    assert!(looks > 0);
    assert_eq!(number(&both.pool, "select count(*) from awa.cron_schedules where planned").await, 1);
    assert_eq!(both.jobs().await, 0);
}

/// As an idle leader runs them. Promotion comes often here, and schedules by themselves would come once a minute.
#[tokio::test]
async fn leader_sends_one_statement_for_both_and_fires_on_time() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, COUNT_LOOKS).await;
    let some = |duties: Duties, name| {
        if matches!(name, DutyName::Promotion | DutyName::Schedules) { duties } else { duties.without(name) }
    };
    let config = MaintenanceConfig {
        duties: DutyName::ALL.into_iter().fold(Duties::all(), some),
        promote_interval_min: Duration::from_millis(1),
        promote_interval_max: Duration::from_millis(10),
        schedule_interval_max: Duration::from_secs(60),
        ..MaintenanceConfig::default()
    };
    let stop = CancellationToken::new();
    let maintainer = Maintainer::new(pool.clone(), WorkerId::random(), config).expect("valid");
    let running = tokio::spawn(maintainer.run(stop.clone()));
    until(&pool, "select (is_called and last_value = 1)::int::bigint from public.looks").await;
    // Each is in the ring only after a pass of promotion.
    for jobs in 1..=20 {
        run(&pool, "insert into awa.scheduled_jobs (kind, run_at) values ('noop', now())").await;
        until(&pool, &format!("select (count(*) = {jobs})::int::bigint from awa.jobs_hot")).await;
    }
    assert_eq!(looks(&pool).await, 1);
    run(&pool, SET).await;
    until(&pool, "select count(*) from awa.cron_schedules where planned").await;
    run(&pool, "update awa.cron_schedules set next_at = clock_timestamp()").await;
    until(&pool, "select (count(*) = 21)::int::bigint from awa.jobs_hot").await;
    stop.cancel();
    running.await.expect("stopped in order");
}
