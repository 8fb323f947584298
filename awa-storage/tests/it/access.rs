//! Who may do what: each bundle can do what it is for and nothing else, and grants survive whatever happens to functions.

use awa_storage::schema::migrate;
use awa_storage::testing::{TestDatabase, TestRole};
use sqlx::{AssertSqlSafe, PgConnection, PgPool};

use crate::scene::{count, run, states, text};

const BUNDLES: [&str; 4] = ["producer", "worker", "operator", "viewer"];

/// Functions that have no setting of search_path because it would cost too much: they qualify every name.
const QUALIFIED: &str = "('announce', 'enqueue_one', 'wake', 'assign_xid', 'state_bit')";

/// A function of PUBLIC's or a role's on each kind of object, as `object privilege`, sorted.
const HELD: &str = "select coalesce(string_agg(held.right, ', ' order by held.right), '') from (
    select routine.proname || ' execute' as right
      from pg_proc as routine
     where routine.pronamespace = 'awa'::regnamespace and has_function_privilege($1, routine.oid, 'execute')
     union
    select relation.relname || ' ' || privilege
      from pg_class as relation,
           unnest('{select,insert,update,delete,truncate,references,trigger}'::text[]) as privilege
     where relation.relnamespace = 'awa'::regnamespace and relation.relkind in ('r', 'p', 'v')
       and has_table_privilege($1, relation.oid, privilege)
     union
    select format('%s %s (%s)', relation.relname, privilege, attribute.attname)
      from pg_class as relation
      join pg_attribute as attribute on attribute.attrelid = relation.oid and attribute.attnum > 0,
           unnest('{select,insert,update}'::text[]) as privilege
     where relation.relnamespace = 'awa'::regnamespace and relation.relkind in ('r', 'p', 'v')
       and relation.relname <> 'bundles'
       and has_column_privilege($1, relation.oid, attribute.attnum, privilege)
       and not has_table_privilege($1, relation.oid, privilege)
     union
    select sequence.relname || ' ' || privilege
      from pg_class as sequence, unnest('{usage,select,update}'::text[]) as privilege
     where sequence.relnamespace = 'awa'::regnamespace and sequence.relkind = 'S'
       and has_sequence_privilege($1, sequence.oid, privilege)
     union
    select 'schema ' || privilege
      from unnest('{usage,create}'::text[]) as privilege
     where has_schema_privilege($1, 'awa', privilege)
     union
    select 'type ' || enum.typname
      from pg_type as enum
     where enum.typnamespace = 'awa'::regnamespace and enum.typtype = 'e'
       and has_type_privilege($1, enum.oid, 'usage')) as held";

async fn held(pool: &PgPool, role: &str) -> String {
    sqlx::query_scalar(HELD).bind(role).fetch_one(pool).await.expect("rights")
}

/// Calls grant_access or revoke_access; the error as `SQLSTATE message`.
async fn change(pool: &PgPool, call: &str, role: Option<&str>, bundle: Option<&str>) -> Result<bool, String> {
    let statement = format!("select awa.{call}_access($1, $2)");
    let answer = sqlx::query_scalar(AssertSqlSafe(statement)).bind(role).bind(bundle).fetch_one(pool).await;
    answer.map_err(|error| {
        let error = error.into_database_error().expect("the server's own");
        format!("{} {}", error.code().expect("a code"), error.message())
    })
}

/// Which role has which bundle, of those made by this test.
async fn granted(pool: &PgPool, role: &TestRole) -> String {
    sqlx::query_scalar(
        "select coalesce(string_agg(bundle, ' ' order by bundle), '') from awa.granted_access where role = $1",
    )
    .bind(role.name())
    .fetch_one(pool)
    .await
    .expect("bundles")
}

async fn denied(connection: &mut PgConnection, statement: &str) -> bool {
    let outcome = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(connection).await;
    let code = outcome.err().and_then(|error| error.into_database_error()?.code().map(String::from));
    code.as_deref() == Some("42501")
}

#[tokio::test]
async fn every_function_is_in_a_bundle_or_a_building_block_and_runs_as_it_should() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let check = async |what: &str, found: &str| {
        let found = format!("select string_agg(name, ', ' order by name) from ({found}) as found (name)");
        assert_eq!(text(&pool, &found).await, "", "{what}");
    };
    check(
        "functions that awa.access_rules does not know: put each into a bundle, or among the building blocks",
        "select proname::text from pg_proc where pronamespace = 'awa'::regnamespace and prorettype <> 'trigger'::regtype
         except select object from awa.access_rules() where privilege = 'execute'",
    )
    .await;
    check(
        "functions that a bundle has but that do not run as the owner",
        "select routine.proname from pg_proc as routine join awa.access_rules() as rule on rule.object = routine.proname
          where routine.pronamespace = 'awa'::regnamespace and rule.privilege = 'execute' and rule.bundles <> '{}'
            and routine.proname <> 'enqueue_one' and not routine.prosecdef",
    )
    .await;
    check(
        "triggers on views that do not run as the owner",
        "select routine.proname from pg_trigger as rule join pg_class as relation on relation.oid = rule.tgrelid
           join pg_proc as routine on routine.oid = rule.tgfoid
          where relation.relnamespace = 'awa'::regnamespace and relation.relkind = 'v' and not routine.prosecdef",
    )
    .await;
    check(
        "building blocks that run as the owner whoever calls them",
        "select routine.proname from pg_proc as routine join awa.access_rules() as rule on rule.object = routine.proname
          where routine.pronamespace = 'awa'::regnamespace and rule.bundles = '{}' and routine.prosecdef
            and routine.prorettype <> 'trigger'::regtype",
    )
    .await;
    check(
        "functions that find names by the path of whoever calls them",
        &format!(
            "select proname from pg_proc where pronamespace = 'awa'::regnamespace and proname not in {QUALIFIED}
                and 'search_path=pg_catalog, pg_temp' <> all (coalesce(proconfig, '{{}}'))"
        ),
    )
    .await;
}

// NAMES-04
#[tokio::test]
async fn public_and_a_role_with_usage_alone_may_do_nothing() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    assert_eq!(held(&pool, "public").await, "");
    let role = TestRole::new(&database).await;
    run(&pool, &format!("grant usage on schema awa to {}", role.quoted())).await;
    assert_eq!(held(&pool, role.name()).await, "schema usage");
    let calls = "select format('select * from awa.%I(%s)', proname,
                        (select string_agg(case when provariadic <> 0 then 'variadic ' else '' end || 'null::' || format_type(argument, null), ', ')
                           from unnest(proargtypes) as argument))
                   from pg_proc where pronamespace = 'awa'::regnamespace and prorettype <> 'trigger'::regtype";
    let calls: Vec<String> = sqlx::query_scalar(calls).fetch_all(&pool).await.expect("calls");
    assert!(calls.len() > 50);
    let mut connection = role.connect().await;
    for call in calls {
        assert!(denied(&mut connection, &call).await, "{call}");
    }
}

/// Compares what a role has with what the rules say, for each function and relation.
#[tokio::test]
async fn a_bundle_gives_exactly_what_its_rules_say() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for bundle in BUNDLES {
        let role = TestRole::new(&database).await;
        role.grant(&[bundle]).await;
        let expected: String = sqlx::query_scalar(
            "select string_agg(expected.right, ', ' order by expected.right) from (
                select object || ' execute' as right from awa.access_rules()
                 where privilege = 'execute' and $1 = any (bundles)
                   and object in (select proname from pg_proc where pronamespace = 'awa'::regnamespace)
                union select object || ' ' || privilege from awa.access_rules()
                 where privilege <> 'execute' and $1 = any (bundles)
                union select 'schema usage') as expected",
        )
        .bind(bundle)
        .fetch_one(&pool)
        .await
        .expect("rules");
        assert_eq!(held(&pool, role.name()).await, expected, "{bundle}");
    }
}

/// What each bundle must not do, said once more by hand: a rule that is too generous is found here.
#[tokio::test]
async fn each_bundle_is_denied_what_it_must_not_do() {
    let database = TestDatabase::new().await;
    const CLAIM: &str = "select awa.claim(gen_random_uuid(), '{k}', '{default}', '{1}', '{0,0,0,0}', '{0,0,0,0}', '{}',
                                          '{}', '{}', '{}', true, '{false}')";
    const ENQUEUE: &str =
        "select awa.enqueue_batch('{k}', '{default}', '{2}', '{\"{}\"}', '{}', '{}', '{25}', '{}', '{}',
                                                    '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')";
    const READ: &str = "select args from awa.jobs";
    // Statement, and who may run it.
    let table = [
        (CLAIM, "worker"),
        (ENQUEUE, "producer"),
        (READ, "operator viewer"),
        ("select id from awa.jobs", "producer operator viewer"),
        ("select version from awa.schema_migrations", "producer worker operator viewer"),
        ("select * from awa.list_workers()", "operator viewer"),
        ("select from awa.workers, awa.leader, awa.queues", "operator viewer"),
        ("delete from awa.workers", ""),
        ("insert into awa.jobs (kind) values ('k')", "producer"),
        ("insert into awa.jobs (kind) values ('k') returning args", ""),
        ("update awa.jobs set priority = 1 where id = 0", "operator"),
        ("delete from awa.jobs where id = 0", "operator"),
        ("select awa.cancel(0), awa.edit(0, '{}'), awa.pause_queue('q')", "operator"),
        ("select awa.configure_ring()", "operator"),
        (
            "select awa.job_status(0), awa.job_statuses('{0}'), awa.ring_status(), awa.why(0), awa.status()",
            "operator viewer",
        ),
        ("select awa.enqueue('k')", "producer"),
        ("select awa.settle_batch('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')", "worker"),
        ("select awa.open_callback(0, 0, 1), awa.callback_payload(0)", "worker"),
        ("select awa.callback_complete(gen_random_uuid())", "producer operator"),
        ("select id from awa.callbacks", ""),
        ("select awa.judge(null, null)", ""),
        ("select awa.reset_marks()", "operator"),
        ("select awa.rotate(0)", "worker"),
        ("select awa.unique_key('k', null, null, null, null, null)", "producer"),
        ("select awa.take_unique_keys('{}', '{}')", ""),
        ("select awa.wake('default')", ""),
        ("select awa.grant_access('postgres', 'worker')", ""),
        ("select awa.apply_access()", ""),
        ("select * from awa.granted_access", ""),
        ("select count(*) from awa.jobs_hot", ""),
        ("insert into awa.jobs_hot (kind) values ('k')", ""),
        ("update awa.scheduled_jobs set run_at = now()", ""),
        ("truncate awa.jobs_hot_0", ""),
        ("select nextval('awa.job_id')", ""),
        ("update awa.ring set current = 3", ""),
        ("update awa.queues set paused = true", ""),
        ("delete from awa.schema_migrations", ""),
        ("create table awa.mine ()", ""),
        ("drop function awa.wake(text)", ""),
    ];
    for bundle in BUNDLES {
        let role = TestRole::new(&database).await;
        role.grant(&[bundle]).await;
        let mut connection = role.connect().await;
        for (statement, allowed) in table {
            let may = allowed.split(' ').any(|name| name == bundle);
            assert_eq!(denied(&mut connection, statement).await, !may, "{bundle}: {statement}");
        }
    }
}

/// On the schema of a plain owner, so that nothing works only because a superuser made it.
#[tokio::test]
async fn each_bundle_can_do_what_it_is_for() {
    let database = TestDatabase::empty().await;
    let _owner = TestRole::owner(&database).await;
    let admin = database.pool();
    let as_role = async |bundle, statements: &[&str]| {
        let role = TestRole::new(&database).await;
        role.grant(&[bundle]).await;
        let mut connection = role.connect().await;
        for statement in statements {
            let outcome = sqlx::raw_sql(AssertSqlSafe((*statement).to_owned())).execute(&mut connection).await;
            outcome.unwrap_or_else(|error| panic!("{bundle}: {statement}: {error}"));
        }
        role
    };
    let producer = as_role(
        "producer",
        &[
            "select awa.enqueue('k')",
            "select awa.enqueue('k', run_in => '1 hour', unique_by => '{}')",
            "select awa.enqueue_many('[{\"kind\": \"k\"}, {\"kind\": \"k\", \"unique_by\": {}, \"on_conflict\": \"replace\"}]')",
            "select awa.find_unique('k'), awa.contract_version()",
            "insert into awa.jobs (kind, args) values ('k', '{}') returning id",
            "insert into awa.jobs (kind, run_at) select 'k', now() + interval '1 hour' from generate_series(1, 3)",
        ],
    )
    .await;
    let pool = producer.pool();
    for job in [crate::producing::job("{}"), crate::producing::unique("{}")] {
        crate::producing::new(awa_storage::enqueue::enqueue(&pool, &job).await.expect("enqueued"));
        let _ = awa_storage::enqueue::enqueue_many(&pool, &[job.clone(), job]).await.expect("enqueued");
    }
    // What has no right to the tables goes by the function instead.
    let mut connection = producer.connect().await;
    let jobs = [crate::producing::job("{}"), crate::producing::job("{}")];
    let copied = awa_storage::enqueue::enqueue_copy(&mut connection, &jobs).await.expect("enqueued");
    assert_eq!(copied.len(), 2);
    let mut copy = producer.connect().await;
    let mut copy = copy.copy_in_raw("copy awa.jobs (kind, args) from stdin").await.expect("a copy");
    copy.send("k\t{}\nk\t{}\n".as_bytes()).await.expect("sent");
    copy.finish().await.expect("copied");
    assert_eq!(states(&admin).await, "scheduled 3, available 12");
    as_role(
        "operator",
        &[
            "select awa.cancel(1, 'r'), awa.cancel_many('{1,2}'), awa.retry(1), awa.retry_many('{1}'), awa.run_now(2)",
            "select awa.run_now_many('{2}'), awa.edit(1, '{\"priority\": 3}'), awa.delete_job(1), awa.delete_jobs('{1,2}')",
            "select awa.pause_queue('default'), awa.resume_queue('default'), awa.set_retention('default', '1 day'),
                    awa.reset_retention('default')",
            "select awa.configure_ring('2 days'), awa.job_status(3), awa.ring_status(), awa.list_workers(), awa.why(3), awa.status()",
            "update awa.jobs set priority = 4, tags = '{t}' where id = 3",
            "update awa.jobs set state = 'cancelled' where id = 3",
            "delete from awa.jobs where id = 3",
            "select awa.reset_marks(), awa.find_unique('k'), awa.contract_version()",
            "select count(*), max(errors::text) from awa.jobs",
        ],
    )
    .await;
    as_role("viewer", &["select * from awa.jobs; select awa.job_status(4), awa.job_statuses('{4}'), awa.ring_status(), awa.why(4), awa.status(), awa.contract_version()"])
        .await;
}

#[tokio::test]
async fn granting_and_revoking_twice_changes_nothing_more_and_says_so() {
    let database = TestDatabase::new().await;
    let (pool, role) = (database.pool(), TestRole::new(&database).await);
    let change = async |call, bundle| change(&pool, call, Some(role.name()), Some(bundle)).await;
    assert_eq!(change("revoke", "viewer").await, Ok(false), "not granted");
    assert_eq!(change("grant", "viewer").await, Ok(true));
    let viewer = held(&pool, role.name()).await;
    assert_eq!(change("grant", "viewer").await, Ok(false), "granted already");
    assert_eq!(held(&pool, role.name()).await, viewer);
    assert_eq!(change("grant", "operator").await, Ok(true));
    assert_eq!(granted(&pool, &role).await, "operator viewer");
    assert_eq!(change("revoke", "operator").await, Ok(true));
    assert_eq!(held(&pool, role.name()).await, viewer, "what both bundles allow stays with the other");
    assert_eq!(change("revoke", "viewer").await, Ok(true));
    assert_eq!(change("revoke", "viewer").await, Ok(false));
    assert_eq!((held(&pool, role.name()).await, granted(&pool, &role).await), (String::new(), String::new()));
}

#[tokio::test]
async fn unknown_bundles_and_roles_are_refused_and_the_owner_needs_none() {
    let database = TestDatabase::new().await;
    let (pool, role) = (database.pool(), TestRole::new(&database).await);
    let owner = text(&pool, "select current_user").await;
    for call in ["grant", "revoke"] {
        let change = async |role, bundle| change(&pool, call, role, bundle).await;
        let bundle =
            |given: &str| Err(format!("22023 bundle is {given}; it must be producer, worker, operator or viewer"));
        assert_eq!(change(Some(role.name()), Some("admin")).await, bundle("\"admin\""));
        assert_eq!(change(Some(role.name()), Some("Viewer")).await, bundle("\"Viewer\""));
        assert_eq!(change(Some(role.name()), None).await, bundle("null"));
        assert_eq!(
            change(Some("nobody there"), Some("viewer")).await,
            Err("42704 role \"nobody there\" does not exist".into())
        );
        assert_eq!(change(Some("public"), Some("viewer")).await, Err("42704 role \"public\" does not exist".into()));
        assert_eq!(change(None, Some("viewer")).await, Err("42704 role null does not exist".into()));
        assert_eq!(change(Some(&owner), Some("worker")).await, Ok(false));
    }
    assert_eq!(held(&pool, "public").await, "");
    assert_eq!(count(&pool, "select count(*) from awa.granted_access").await, 0);
    assert!(held(&pool, &owner).await.contains("claim execute"), "the owner keeps its own rights");
}

/// Functions that an upgrade drops and makes again, and those it brings, are granted to whoever has their bundle.
#[tokio::test]
async fn grants_survive_an_upgrade_and_new_functions_are_granted() {
    let database = TestDatabase::new().await;
    let (pool, role) = (database.pool(), TestRole::new(&database).await);
    role.grant(&["worker"]).await;
    role.grant(&["producer"]).await;
    let before = held(&pool, role.name()).await;
    run(&pool, "drop function awa.rotate(bigint)").await;
    run(&pool, &format!("grant execute on function awa.wake(text) to {}, public", role.quoted())).await;
    run(&pool, "grant select on awa.workers to public").await;
    run(&pool, "update awa.schema_migrations set checksum = 'of another build' where version = 0").await;
    assert_ne!(held(&pool, role.name()).await, before);
    migrate(&pool).await.expect("the functions are installed again");
    assert_eq!(held(&pool, role.name()).await, before);
    assert_eq!(granted(&pool, &role).await, "producer worker");
    assert_eq!(held(&pool, "public").await, "");
}

#[tokio::test]
async fn a_role_that_is_dropped_takes_its_bundles_along_and_one_that_is_renamed_keeps_them() {
    let database = TestDatabase::new().await;
    let (pool, role) = (database.pool(), TestRole::new(&database).await);
    role.grant(&["viewer"]).await;
    let (old, new) = (role.quoted(), format!("{}_new", database.name()));
    run(&pool, &format!("alter role {old} rename to {new}")).await;
    assert_eq!(text(&pool, "select role || ' ' || bundle from awa.granted_access").await, format!("{new} viewer"));
    run(&pool, &format!("alter role {new} rename to {old}")).await;
    run(&pool, &format!("drop owned by {old}")).await;
    run(&pool, &format!("drop role {old}")).await;
    assert_eq!(count(&pool, "select count(*) from awa.granted_access").await, 0);
    run(&pool, &format!("create role {old}")).await;
    run(&pool, "select awa.apply_access()").await;
    assert_eq!(held(&pool, role.name()).await, "", "a new role of the old name");
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_can_be_changed_by_many_at_once_and_beside_a_migration() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let mut roles = Vec::new();
    for _ in 0..4 {
        roles.push(TestRole::new(&database).await);
    }
    run(&pool, "update awa.schema_migrations set checksum = 'of another build' where version = 0").await;
    let mut changes = tokio::task::JoinSet::new();
    for role in &roles {
        for bundle in ["viewer", "worker"] {
            let (pool, name) = (pool.clone(), role.name().to_owned());
            changes.spawn(async move { change(&pool, "grant", Some(&name), Some(bundle)).await });
        }
    }
    migrate(&pool).await.expect("migrated");
    assert_eq!(changes.join_all().await, vec![Ok(true); 8]);
    for role in &roles {
        assert_eq!(granted(&pool, role).await, "viewer worker");
        assert!(held(&pool, role.name()).await.contains("claim execute"));
    }
}

/// NAMES-04 once more, for an owner whose default privileges are generous.
#[tokio::test]
async fn default_privileges_of_the_owner_do_not_open_the_schema() {
    let database = TestDatabase::empty().await;
    let pool = database.pool();
    let mut generous = pool.acquire().await.expect("a connection");
    for kind in ["tables", "functions", "sequences", "types"] {
        let statement = format!("alter default privileges grant all on {kind} to public");
        run(&mut *generous, &statement).await;
    }
    migrate(&pool).await.expect("migrated");
    assert_eq!(held(&pool, "public").await, "");
}
