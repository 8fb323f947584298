//! The rules that the tables keep by themselves, whoever writes and by whichever path.

use awa_storage::testing::TestDatabase;
use sqlx::{Connection, PgConnection};

use crate::support::{execute, insert};

async fn refused(connection: &mut PgConnection, statement: &'static str) -> bool {
    let mut savepoint = connection.begin().await.expect("a transaction");
    let answer = sqlx::raw_sql(statement).execute(&mut *savepoint).await;
    savepoint.rollback().await.expect("rolled back");
    match answer {
        Ok(_) => false,
        Err(error) => {
            error.as_database_error().and_then(sqlx::error::DatabaseError::code).is_some_and(|code| code == "23001")
        }
    }
}

#[tokio::test]
async fn what_the_dispatch_index_covers_does_not_change_in_place() {
    let database = TestDatabase::new().await;
    let mut connection = database.connect().await;
    insert(&mut connection, 0, 1).await;
    for statement in [
        "update awa.jobs_hot set priority = 1",
        "update awa.jobs_hot_0 set priority = 1",
        "update awa.jobs_hot_0 set queue = 'x'",
        "update awa.jobs_hot_0 set seq = 9",
        "update awa.jobs_hot_0 set id = 9",
        "update awa.jobs_hot_0 set kind = 'x'",
        "update awa.jobs_hot set segment = 1",
        "set local session_replication_role = replica; update awa.jobs_hot_0 set priority = 1",
    ] {
        assert!(refused(&mut connection, statement).await, "{statement}");
    }
}

#[tokio::test]
async fn in_place_a_row_goes_from_available_to_running_to_completed_and_no_other_way() {
    let database = TestDatabase::new().await;
    let mut connection = database.connect().await;
    insert(&mut connection, 0, 1).await;
    for through in ["awa.jobs_hot", "awa.jobs_hot_0"] {
        let forth = format!("update {through} set state = 'completed'");
        assert!(refused(&mut connection, Box::leak(forth.into_boxed_str())).await, "available to completed");
    }
    execute(&mut connection, "update awa.jobs_hot_0 set state = 'running'").await;
    assert!(refused(&mut connection, "update awa.jobs_hot_0 set state = 'available'").await);
    execute(&mut connection, "update awa.jobs_hot_0 set state = 'completed'").await;
    assert!(refused(&mut connection, "update awa.jobs_hot_0 set state = 'running'").await);
    assert!(refused(&mut connection, "update awa.jobs_hot_0 set state = 'available'").await);
}

#[tokio::test]
async fn every_inserting_statement_owns_its_transaction_id_before_it_draws_a_number() {
    let database = TestDatabase::new().await;
    let mut connection = database.connect().await;
    // A column default that notes whether an id was there when the number was drawn.
    execute(
        &mut connection,
        "create table public.seen (early boolean);
         create function public.draw() returns bigint language plpgsql as $$
         declare drawn bigint := nextval('awa.job_seq');
         begin
             if pg_current_xact_id_if_assigned() is null then raise exception 'no transaction id yet'; end if;
             return drawn;
         end $$;
         alter table awa.jobs_hot alter seq set default public.draw();
         alter table awa.jobs_hot_0 alter seq set default public.draw()",
    )
    .await;
    for table in ["awa.jobs_hot", "awa.jobs_hot_0"] {
        for statement in [
            format!("insert into {table} (kind) values ('a'), ('b')"),
            format!("insert into {table} (kind) select 'a' from generate_series(1, 3) order by random()"),
            format!("with given as (insert into {table} (kind) select 'a' returning id) select * from given"),
        ] {
            sqlx::query(sqlx::AssertSqlSafe(statement.clone())).execute(&mut connection).await.expect(&statement);
        }
        let mut copy = connection.copy_in_raw(&format!("copy {table} (kind) from stdin")).await.expect("a copy");
        copy.send("a\nb\n".as_bytes()).await.expect("rows");
        assert_eq!(copy.finish().await.expect("the end"), 2);
    }
}
