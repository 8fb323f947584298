//! A database that goes back to what it was, for tests that need a fresh one for each of very many cases: going back takes
//! milliseconds, and the connections stay warm.

use awa_storage::testing::TestDatabase;
use sqlx::PgPool;

use crate::scene::run;

const KEEP: &str = "
do $do$
declare
    relation text;
begin
    create schema kept;
    for relation in
        select relname from pg_class where relnamespace = 'awa'::regnamespace and relkind = 'r'
    loop
        execute format('create table kept.%I as table awa.%I', relation, relation);
    end loop;
end
$do$";

const GO_BACK: &str = "
do $do$
declare
    relation text;
begin
    -- Rows are put back as they were, and no trigger makes anything of them.
    set local session_replication_role = replica;
    for relation in
        select relname from pg_class where relnamespace = 'kept'::regnamespace and relkind = 'r'
    loop
        -- Also where all rows are gone: a new database would write at the first place again.
        if pg_relation_size(format('awa.%I', relation)::regclass) > 0 then
            execute format('truncate awa.%I', relation);
            execute format('insert into awa.%I select * from kept.%I', relation, relation);
        end if;
    end loop;
    for relation in
        select relname from pg_class where relnamespace = 'awa'::regnamespace and relkind = 'S'
    loop
        execute format('alter sequence awa.%I restart', relation);
    end loop;
end
$do$";

/// A database for many cases, none of which notices the others.
pub(crate) struct Restarting(TestDatabase);

impl Restarting {
    pub(crate) async fn new() -> Self {
        let database = TestDatabase::new().await;
        run(&database.pool(), KEEP).await;
        Self(database)
    }

    /// The database as it was in the beginning. Nobody may have a transaction open.
    pub(crate) async fn again(&self) -> (&TestDatabase, PgPool) {
        let pool = self.0.pool();
        run(&pool, GO_BACK).await;
        (&self.0, pool)
    }
}

/// What the above relies on: whatever an operation leaves behind, a case begins as in a new database.
#[tokio::test]
async fn a_database_goes_back_to_what_it_was() {
    let all = "select json_agg(json_build_array(name, query_to_xml('select * from awa.' || name, true, false, '')) order by name)
                 from (select relname as name from pg_class
                        where relnamespace = 'awa'::regnamespace and relkind in ('r', 'S')) as known";
    let look = async |pool: &PgPool| crate::scene::text(pool, all).await;
    let restarting = Restarting::new().await;
    let (_, pool) = restarting.again().await;
    let fresh = look(&pool).await;
    let _ = crate::waiting::parked(&pool).await;
    run(&pool, "select awa.enqueue('a', unique_by => '{}'), awa.enqueue('a', run_in => '1 hour')").await;
    run(&pool, "select awa.configure_ring(snapshot_patience => '0'), awa.rotate(0), awa.switch_claims(0, 0)").await;
    run(&pool, "select awa.pause_queue('default')").await;
    assert_ne!(look(&pool).await, fresh);
    let (_, pool) = restarting.again().await;
    assert_eq!(look(&pool).await, fresh);
}
