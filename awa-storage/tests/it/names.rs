//! Names are data: whatever stands in them, and whatever somebody has put on the search path, the same happens.

use std::time::Duration;

use awa_model::{Due, Inserted, JobId, Kind, PreparedJob, QueueName, WorkerId};
use awa_storage::{
    Cursors, Guarded, Held,
    admin::{self, Operated},
    attempt::{heartbeat, heartbeat_with_progress},
    audit::{AuditCursor, audit},
    enqueue::{enqueue, enqueue_many},
    leader,
    notify::Listener,
    promote::{PromoteCursor, promote},
    prune::{PruneCursor, prune_parked},
    queue,
    rescue::{RescueCursor, rescue},
    ring::{self, QueueRetention},
    schema::{migrate, require_current_schema},
    settle::{Completion, Settlement, Verdict, complete_many, settle_many},
    testing::{TestDatabase, TestRole},
    workers::{WorkerInfo, beat, forget_dead, list, register, unregister},
};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::producing::{new, unique};
use crate::scene::{LIMITS, count, run, states, text};
use crate::support::{claim_of, worker};

/// What has broken queues of this kind before, and what a wildcard or an internal key may look like.
pub(crate) const NAMES: [&str; 28] = [
    "a-b",
    "A.b",
    "a b",
    "it's",
    "\"x\"",
    "a;DROP TABLE awa.queues;--",
    "$$",
    "$install$",
    "$1",
    "%s",
    "%I",
    "\\",
    "\\'",
    "{}",
    "{a,b}",
    "null",
    "🦀",
    "שלום",
    "trailing ",
    "*",
    "all",
    "default",
    "awa",
    "public",
    "jobs_hot_0",
    "lane:1/2|3,4",
    "--",
    "$steps",
];

/// Everything that the schema consists of: unchanged means equal.
const SCHEMA: &str = "select md5(string_agg(object, ' ' order by object)) from (
    select concat('r', oid, relname, relnatts, relacl) as object from pg_class
     where relnamespace in ('awa'::regnamespace, 'public'::regnamespace)
     union all select concat('p', oid, proname, proacl, md5(prosrc)) from pg_proc where pronamespace = 'awa'::regnamespace
     union all select concat('t', oid, tgname, tgenabled) from pg_trigger
     union all select concat('n', oid, nspname, nspacl) from pg_namespace) as objects";

/// Takes jobs through every ordinary statement, with `name` wherever a name may stand.
async fn everything(pool: &PgPool, name: &'static str) {
    let (kind, queue) = (Kind::new(name).expect("a kind"), QueueName::new(name).expect("a queue"));
    let job = || PreparedJob {
        kind: kind.clone(),
        queue: queue.clone(),
        tags: vec![name.to_owned()],
        metadata: Some(serde_json::json!({ name: name, "priority": 1, "state": "failed", "run_lease": 99 })),
        trace_context: Some(name.to_owned()),
        ..unique(&serde_json::json!({ name: name }).to_string())
    };
    let later = || PreparedJob { due: Due::In(Duration::from_millis(1)), unique: None, ..job() };
    require_current_schema(pool).await.expect("checked");
    let me = worker();
    let info = information(me, name);
    register(pool, &info).await.expect("registered");
    let first = new(enqueue(pool, &job()).await.expect("enqueued"));
    assert!(
        matches!(enqueue(pool, &job()).await.expect("answered"), Inserted::Duplicate(id) if id == first),
        "{name:?}"
    );
    let batch = [job(), PreparedJob { unique: None, ..job() }, later()];
    assert!(enqueue_many(pool, &batch).await.expect("enqueued")[0].id() == first, "{name:?}");

    enqueue_from_sql(pool, name).await;

    let cursors = Cursors::new(me, std::slice::from_ref(&kind), std::slice::from_ref(&queue));
    cursors.load(pool).await.expect("marks");
    let mut claimed = claim_of(&cursors, pool, &[(queue.clone(), 10)]).await;
    assert_eq!(
        claimed.iter().map(|job| (job.kind.as_str(), job.queue.as_str())).collect::<Vec<_>>(),
        [(name, name); 2]
    );
    assert_eq!(claimed[0].tags, [name]);
    let held: Vec<Held> = claimed.iter().map(|job| job.lease.held()).collect();
    assert!(heartbeat(pool, &held).await.expect("a beat").is_empty());
    let progress = serde_json::json!({ "message": name }).to_string();
    assert!(heartbeat_with_progress(pool, &[(held[0], progress)]).await.expect("a beat").is_empty());
    let (second, done) = (claimed.remove(1), claimed.remove(0));
    let result = Some(serde_json::json!(name).to_string());
    complete_many(pool, &[Completion { lease: done.lease, result }]).await.expect("completed");
    let verdict = Verdict::Retry { after: Some(Duration::ZERO), error: name.to_owned() };
    settle_many(pool, &[Settlement { lease: second.lease, verdict, progress: None }]).await.expect("settled");

    let mut cursor = PromoteCursor::default();
    let mut promoted = 0;
    while promoted < 2 {
        promoted += promote(pool, &mut cursor, 10).await.expect("promoted").promoted;
        cursor = PromoteCursor::default();
    }
    cursors.tick(pool).await.expect("a tick");
    cursors.persist_marks(pool).await.expect("kept");
    cursors.pulse(pool, true).await.expect("a pulse");
    let claimed = claim_of(&cursors, pool, &[(queue.clone(), 10)]).await;
    assert_eq!(claimed.len(), 2, "{name:?}");
    let fail = |lease| Settlement { lease, verdict: Verdict::Fail { error: name.to_owned() }, progress: None };
    let held: Vec<Held> = claimed.iter().map(|job| job.lease.held()).collect();
    settle_many(pool, &claimed.into_iter().map(|job| fail(job.lease)).collect::<Vec<_>>()).await.expect("settled");
    let failed: Vec<_> = held.iter().map(Held::job_id).collect();
    operate(pool, &queue, failed[0], failed[1], name).await;
    maintain(pool).await;
    assert!(matches!(beat(pool, me).await, Ok(Guarded::Applied(()))));
    assert!(list(pool).await.expect("listed").iter().any(|known| known.info == info));
    let _ = unregister(pool, me).await.expect("unregistered");
}

fn information(me: WorkerId, name: &str) -> WorkerInfo {
    WorkerInfo {
        id: me,
        name: name.to_owned(),
        host: name.to_owned(),
        pid: 1,
        version: name.to_owned(),
        queues: vec![name.to_owned()],
        kinds: vec![name.to_owned()],
    }
}

/// Once more, as other languages do it.
async fn enqueue_from_sql(pool: &PgPool, name: &str) {
    let statement = "select outcome from awa.enqueue($1, $2, $1, tags => array[$1], unique_by => '{}')";
    let args = serde_json::json!({ name: name });
    let outcome: String = sqlx::query_scalar(statement).bind(name).bind(args).fetch_one(pool).await.expect("answered");
    assert_eq!(outcome, "duplicate", "{name:?}: the key is the same in every language");
}

/// What operators do, with two failed jobs.
async fn operate(pool: &PgPool, queue: &QueueName, one: JobId, other: JobId, name: &str) {
    assert!(queue::pause(pool, queue).await.expect("asked"), "{name:?}");
    assert!(queue::resume(pool, queue).await.expect("asked"), "{name:?}");
    assert_eq!(admin::retry(pool, one).await.expect("asked"), Operated::Applied);
    assert_eq!(admin::run_now(pool, one).await.expect("asked"), Operated::Unchanged);
    assert_eq!(admin::cancel(pool, one, Some(name)).await.expect("asked"), Operated::Applied);
    let status = admin::status(pool, one).await.expect("asked").expect("a job");
    assert_eq!((status.kind.as_str(), status.queue.as_str()), (name, name));
    assert_eq!(admin::delete(pool, other).await.expect("asked"), Operated::Applied);
    ring::set_retention(pool, name, QueueRetention::default()).await.expect("set");
    ring::status(pool).await.expect("asked");
}

/// Every duty once.
async fn maintain(pool: &PgPool) {
    let term = leader::acquire(pool, "test", worker(), Duration::from_secs(9)).await.expect("asked").expect("free");
    let _ = leader::renew(pool, &term, Duration::from_secs(9)).await.expect("renewed");
    let _ = leader::resign(pool, term).await.expect("resigned");
    rescue(pool, &LIMITS, RescueCursor::default()).await.expect("rescue");
    for state in [awa_model::JobState::Failed, awa_model::JobState::Cancelled] {
        prune_parked(pool, state, PruneCursor::default(), 10).await.expect("prune");
    }
    audit(pool, AuditCursor::default(), 100, Duration::from_secs(90)).await.expect("audit");
    forget_dead(pool, Duration::from_secs(90), 10).await.expect("forget");
    let needs = ring::look(pool).await.expect("look");
    ring::rotate(pool, needs.current).await.expect("rotate");
    let mut mark = ring::SettledMark::default();
    mark.observe(pool).await.expect("observe");
    ring::recycle(pool, needs.oldest, mark.seq(), 10).await.expect("recycle");
    ring::switch_claims(pool, 1, Duration::ZERO).await.expect("switch");
    ring::empty_claims(pool, 10).await.expect("empty");
}

// NAMES-01, NAMES-08
#[tokio::test]
async fn names_are_plain_data_whatever_stands_in_them() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let before = text(&pool, SCHEMA).await;
    for name in NAMES {
        everything(&pool, name).await;
    }
    assert_eq!(text(&pool, SCHEMA).await, before);
    let each = i64::try_from(NAMES.len()).expect("few");
    assert_eq!(count(&pool, "select count(distinct queue) from awa.jobs").await, each, "no two names are one");
    assert_eq!(states(&pool).await, format!("completed {each}, cancelled {each}"));
    // User metadata that is named like a column steers nothing.
    assert_eq!(count(&pool, "select count(*) from awa.jobs where priority <> 2 or run_lease > 2").await, 0);
}

// NAMES-08
#[tokio::test]
async fn names_that_look_like_wildcards_mean_the_queue_of_that_name() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for (paused, others) in [("*", ["all", "default"]), ("all", ["*", "default"])] {
        run(&pool, "truncate awa.jobs_hot, awa.queues").await;
        run(&pool, &format!("insert into awa.queues (name, paused) values ('{paused}', true)")).await;
        let queues: Vec<QueueName> =
            [paused, others[0], others[1]].into_iter().map(|name| QueueName::new(name).expect("a name")).collect();
        for queue in &queues {
            let job = PreparedJob { queue: queue.clone(), ..crate::producing::job("{}") };
            new(enqueue(&pool, &job).await.expect("enqueued"));
        }
        let cursors = Cursors::new(worker(), &[Kind::new("work").expect("a kind")], &queues);
        cursors.load(&pool).await.expect("marks");
        let wants: Vec<_> = queues.iter().map(|queue| (queue.clone(), 9)).collect();
        let claimed = claim_of(&cursors, &pool, &wants).await;
        let mut from: Vec<&str> = claimed.iter().map(|job| job.queue.as_str()).collect();
        from.sort_unstable();
        assert_eq!(from, others);
    }
}

// NAMES-01: the channel carries a hash of the name, so that any name fits and none can forge another's.
#[tokio::test]
async fn any_name_wakes_the_sleeper_of_its_queue() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let listener =
        Listener::connect(&database.options(), awa_model::WorkerId::random()).await.expect("the server answers");
    for name in NAMES {
        let queue = [QueueName::new(name).expect("a name")];
        assert!(listener.try_gates(&queue).await.expect("answered"), "{name:?}");
        let job = PreparedJob { queue: queue[0].clone(), ..crate::producing::job("{}") };
        new(enqueue(&pool, &job).await.expect("enqueued"));
        tokio::time::timeout(Duration::from_secs(60), listener.wait()).await.expect("it is woken");
        listener.release_gates(&queue).await.expect("answered");
    }
}

/// A schema full of traps: everything of pg_catalog that can be made again, and every relation of ours by name. To touch
/// one is an error.
const TRAPS: &str = r#"
create schema evil;
grant usage on schema evil to public;
do $traps$
declare
    trap record;
begin
    for trap in select proname, pg_get_function_identity_arguments(oid) as arguments, proretset,
                       pg_get_function_result(oid) as result
                  from pg_proc
                 where pronamespace = 'pg_catalog'::regnamespace and prokind = 'f' and provariadic = 0
                   and 'internal'::regtype <> all (proargtypes) and 'cstring'::regtype <> all (proargtypes)
                   and prorettype not in ('trigger'::regtype, 'internal'::regtype, 'cstring'::regtype)
    loop
        begin
            execute format('create function evil.%I(%s) returns %s language plpgsql as $$begin
                                raise exception ''touched evil.%s''; end$$',
                           trap.proname, trap.arguments, trap.result, trap.proname);
        exception when others then
            null;
        end;
    end loop;
    for trap in select oprname, oprleft::regtype as lefthand, oprright::regtype as righthand, proname
                  from pg_operator join pg_proc on pg_proc.oid = oprcode
                 where oprnamespace = 'pg_catalog'::regnamespace and oprkind = 'b'
    loop
        begin
            execute format('create operator evil.%s (leftarg = %s, rightarg = %s, function = evil.%I)',
                           trap.oprname, trap.lefthand, trap.righthand, trap.proname);
        exception when others then
            null;
        end;
    end loop;
end
$traps$;
"#;

/// Traps that are named like our relations, once there are some.
const TRAPS_LIKE_OURS: &str = r#"
do $traps$
declare
    trap record;
begin
    for trap in select relname from pg_class where relnamespace = to_regnamespace('awa') and relkind in ('r', 'p', 'v', 'S')
    loop
        execute format('create table evil.%I (id bigint check (id is null))', trap.relname);
    end loop;
end
$traps$;
"#;

fn hostile(options: PgConnectOptions, path: &str) -> PgPool {
    PgPoolOptions::new().max_connections(4).connect_lazy_with(options.options([("search_path", path)]))
}

// NAMES-03
#[tokio::test]
async fn a_search_path_with_traps_changes_nothing_and_none_is_touched() {
    let database = TestDatabase::empty().await;
    let owner = TestRole::owner(&database).await;
    let admin = database.pool();
    script(&admin, &format!("drop schema awa cascade; {TRAPS}")).await;
    let traps = count(&admin, "select count(*) from pg_operator where oprnamespace = 'evil'::regnamespace").await;
    assert!(traps > 500, "{traps} operators");
    // With pg_catalog named last, what is not qualified is looked for among the traps first.
    let migrating = hostile(owner.options(), "evil, pg_catalog");
    migrate(&migrating).await.expect("migrated");
    script(&admin, TRAPS_LIKE_OURS).await;
    let role = TestRole::new(&database).await;
    role.grant(&["producer", "worker", "operator"]).await;
    for (path, name) in [("\"\"", "empty path"), ("evil, public", "evil path"), ("evil", "evil")] {
        everything(&hostile(role.options(), path), name).await;
    }
    assert_eq!(states(&admin).await, "completed 3, cancelled 3");
    migrate(&migrating).await.expect("nothing to do");
}

/// What a role of three bundles may call, in words that no path can twist.
const CALLS: [&str; 39] = [
    "select awa.enqueue_one(p_kind => 'k', p_queue => 'q', p_priority => 2::smallint, p_args => '{\"a\": 1.0}', p_run_at => null,
        p_max_attempts => 5::smallint, p_timeout => null, p_tags => '{t}', p_metadata => '{}', p_trace_context => null,
        p_unique_key => awa.unique_key('k', 'q', '{\"a\": 1.0}', '{a}', 60, '2020-01-01'), p_unique_states => 31::smallint)",
    "select awa.enqueue_one(p_kind => 'k', p_queue => 'q', p_priority => 2::smallint, p_args => '{\"a\": 1.0}', p_run_at => null,
        p_max_attempts => 5::smallint, p_timeout => null, p_tags => '{t}', p_metadata => '{}', p_trace_context => null,
        p_unique_key => awa.unique_key('k', 'q', '{\"a\": 1.0}', '{a}', 60, '2020-01-01'), p_unique_states => 31::smallint)",
    "select awa.enqueue_one(p_kind => 'k', p_queue => 'q', p_priority => 2::smallint, p_args => '{}', p_run_at => '2999-01-01',
        p_max_attempts => 5::smallint, p_timeout => '1 minute', p_tags => null, p_metadata => null, p_trace_context => null,
        p_unique_key => null, p_unique_states => null)",
    "select awa.enqueue_batch('{k,k,k}', '{q,q,q}', '{2,2,2}', '{\"{}\",\"{}\",\"{}\"}', '{}', '{null,0,60}', '{25,25,25}', '{1}',
        '{\"[\\\"t\\\"]\"}', '{\"{}\"}', '{}', '{31,31,31}', '{true}', '{true}', '{}', '{60}', '{skip,replace,skip}')",
    "select awa.enqueue('k', '{\"a\": [1.50]}', queue => 'q', run_in => '1 hour', timeout => '1 minute', tags => '{t}', metadata => '{}',
        unique_by => '{\"args\": [\"a\"], \"preset\": \"within\", \"period\": 60, \"queue\": true}', on_conflict => 'replace')",
    "select awa.enqueue_many('[{\"kind\": \"k\", \"queue\": \"q\", \"unique_by\": {}, \"run_in\": \"1 hour\", \"tags\": [\"t\"]}, {\"kind\": \"k\",
        \"queue\": \"q\", \"timeout\": 5, \"on_conflict\": \"replace\", \"unique_by\": {}}]'), awa.find_unique('k', '{}', 'q'), awa.contract_version()",
    "select awa.register_worker('00000000-0000-0000-0000-000000000001', 'n', 'h', 1, 'v', '{q}', '{k}')",
    "select awa.load_marks('{q}')",
    "select awa.horizon(0)",
    "select awa.idle_writers('{1,2}')",
    "select awa.look('{q}', '{2}', '{0}', '{9}', '{9}', '{k}', 100)",
    "select awa.still_available('{1}', '{q}', '{2}', '{0}', '{1}')",
    "select awa.claim('00000000-0000-0000-0000-000000000001', '{k}', '{q}', '{9}', '{0,0,0,0}', '{0,0,0,0}', '{1}', '{2}', '{0}', '{1}', false, '{false}')",
    "select awa.beat('{0,0}', '{1,2}', '{1,1}', '{null,\"{}\"}')",
    "select awa.complete(0::smallint, '{\"(0,1)\"}', '{1}', '{1}', '{\"{}\"}')",
    "select awa.settle_batch('{0}', '{2}', '{1}', '{retry}', '{0}', '{e}', '{\"{}\"}', null)",
    "select awa.settle_alone(0::smallint, 3, 1, 'fail', null, 'e', null, null), awa.complete_alone(0::smallint, 9, 1, null)",
    "select awa.retry(3), awa.cancel(3, 'r'), awa.run_now(3), awa.job_status(3), awa.job_statuses('{3}'), awa.retry_many('{3,3}'), awa.delete_jobs('{3}')",
    "select awa.pause_queue('q'), awa.resume_queue('q'), awa.set_retention('q', '1 day'), awa.configure_ring('2 days'),
        awa.ring_status()",
    "select awa.why(1), awa.why(2), awa.why(3), awa.why(4), awa.why(8), awa.why(9), awa.why(10), awa.why(11), awa.status(), awa.status('1 hour')",
    "insert into awa.jobs (kind, queue, args, run_at, tags) values ('v', 'q', '{}', '2999-01-01', '{t}'), ('v', 'q', '{}', null, null)",
    "update awa.jobs set priority = 1, metadata = '{}' where kind operator(pg_catalog.=) 'v'",
    "select awa.edit(3, '{\"priority\": 1}'); delete from awa.jobs where kind operator(pg_catalog.=) 'v'",
    "select awa.settle_alone(0::smallint, 4, 1, 'park', null, null, null, awa.open_callback(4, 1, 60))",
    "select awa.callback_resume(awa.open_callback(5, 1, 60), '{}'), awa.callback_payload(5)",
    "select awa.callback_fail(awa.open_callback(6, 1, 60), 'e'), awa.callback_complete(awa.open_callback(7, 1, 60))",
    "select awa.settle_alone(0::smallint, 8, 1, 'park', null, null, null, awa.open_callback(8, 1, 0))",
    "select awa.expire_callbacks(null, null, 10), awa.forget_callbacks(null, 10)",
    "select awa.pulse('00000000-0000-0000-0000-000000000001', true)",
    "select awa.persist_marks('{q}', '{2}', '{1}')",
    "select awa.promote(null, null, 10)",
    "select awa.prune_parked('failed', null, null, 10)",
    "select awa.rescue(0, 10, 0, 0, 0, 9)",
    "select awa.audit(0::smallint, 0, 100, 0)",
    "select awa.look_at_ring()",
    "select awa.rotate(0)",
    "select awa.recycle(0, 0, 100)",
    "select awa.switch_claims(0, 0), awa.empty_claims(9), awa.forget_workers(0, 9)",
    "select awa.acquire_leadership('d', '00000000-0000-0000-0000-000000000001', 9), awa.list_workers(), awa.reset_marks()",
];

// NAMES-03: a function that runs as the owner must not be led to what its caller has made.
#[tokio::test]
async fn functions_that_run_as_the_owner_never_use_what_their_caller_has_made() {
    let database = TestDatabase::empty().await;
    let _owner = TestRole::owner(&database).await;
    let admin = database.pool();
    script(&admin, TRAPS).await;
    script(&admin, TRAPS_LIKE_OURS).await;
    let role = TestRole::new(&database).await;
    role.grant(&["producer", "worker", "operator"]).await;
    let mut caller = role.connect().await;
    // Types and relations of the session's own come before everything else unless a path says otherwise.
    let traps = "do $traps$
        declare
            trap text;
        begin
            for trap in select typname from pg_catalog.pg_type where typnamespace = 'pg_catalog'::regnamespace and typtype = 'b'
                           and typelem = 0
                         union select relname from pg_catalog.pg_class
                         where relnamespace = 'awa'::regnamespace and relkind in ('r', 'p', 'v', 'S')
                         union select 'job_state'
            loop
                execute pg_catalog.format('create temporary table %I (trap integer check (trap is null))', trap);
            end loop;
        end
        $traps$;
        set search_path = pg_temp, evil, pg_catalog";
    for statement in [traps].iter().chain(&CALLS) {
        let outcome = sqlx::raw_sql(sqlx::AssertSqlSafe((*statement).to_owned())).execute(&mut caller).await;
        outcome.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    assert_eq!(count(&admin, "select count(*) from awa.jobs where state = 'completed'").await, 1);
}

async fn script(pool: &PgPool, sql: &str) {
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(pool).await.expect("the script runs");
}
