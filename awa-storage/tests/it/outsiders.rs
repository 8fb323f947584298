//! Producers and operators that know nothing of this crate: a psql script and a plain client of another library, with a role
//! that has two bundles and no right on any table.

use std::{env, path::PathBuf, process::Stdio};

use awa_storage::testing::{TestDatabase, TestRole};
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::scene::{run, states, text};

/// A role that may enqueue and operate.
async fn outsider(database: &TestDatabase) -> TestRole {
    let role = TestRole::new(database).await;
    for bundle in ["producer", "operator"] {
        sqlx::query("select awa.grant_access($1, $2)")
            .bind(role.name())
            .bind(bundle)
            .execute(&database.pool())
            .await
            .expect("granted");
    }
    role
}

/// A script as an operator would keep it: everything in one transaction.
const SCRIPT: &str = r#"
\set ON_ERROR_STOP on
begin;
select job_id as due from awa.enqueue('resize', '{"width": 1}') \gset
select job_id as later from awa.enqueue('resize', run_in => '1 hour', tags => '{nightly}') \gset
insert into awa.jobs (kind, args) values ('resize', '{"width": 2}') returning id as third \gset
select outcome from awa.cancel(:due, 'no longer needed');
select outcome from awa.retry(:due);
select outcome from awa.edit(:later, '{"priority": 1}');
select outcome from awa.run_now(:later);
select outcome from awa.run_now(:later);
update awa.jobs set priority = 4, run_at = now() + interval '1 day' where id = :third returning state;
delete from awa.jobs where id = :due and state = 'available';
select outcome, state from awa.cancel_many(array[:later, :due, :third]);
select state, error from awa.job_status(:third);
select awa.pause_queue('images'), awa.pause_queue('images') as again;
commit;
"#;

const ANSWERS: &str = "\
applied
applied
applied
applied
unchanged
scheduled
applied|cancelled
not_found|
applied|cancelled
cancelled|
t|f
";

/// psql, where there is one: the smallest of the packages of PostgreSQL come without it.
fn psql() -> Option<PathBuf> {
    let beside_the_server = env::var_os("AWA_PG_BIN").map(PathBuf::from);
    let on_path = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    beside_the_server.into_iter().chain(on_path).map(|place| place.join("psql")).find(|program| program.is_file())
}

#[tokio::test]
async fn a_psql_script_enqueues_and_operates_without_any_right_on_a_table() {
    let Some(psql) = psql() else {
        eprintln!("there is no psql here: nothing was tried");
        return;
    };
    let database = TestDatabase::new().await;
    let role = outsider(&database).await;
    let options = role.options();
    let mut client = Command::new(psql)
        .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
        .env("PGHOST", options.get_host())
        .env("PGPORT", options.get_port().to_string())
        .env("PGUSER", role.name())
        .env("PGPASSWORD", "plain")
        .env("PGDATABASE", database.name())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("psql starts");
    client.stdin.take().expect("piped").write_all(SCRIPT.as_bytes()).await.expect("the script is read");
    let output = client.wait_with_output().await.expect("psql ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), ANSWERS);
    assert_eq!(states(&database.pool()).await, "cancelled 2");
}

#[tokio::test]
async fn a_plain_client_enqueues_and_operates_in_its_own_transaction() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let role = outsider(&database).await;
    let options = role.options();
    let (mut client, connection) = tokio_postgres::Config::new()
        .host(options.get_host())
        .port(options.get_port())
        .user(role.name())
        .password("plain")
        .dbname(database.name())
        .connect(tokio_postgres::NoTls)
        .await
        .expect("connected");
    let connection = tokio::spawn(connection);

    let transaction = client.transaction().await.expect("begun");
    transaction.query_one("select job_id from awa.enqueue('never')", &[]).await.expect("enqueued");
    transaction.rollback().await.expect("rolled back");
    assert_eq!(states(&pool).await, "");

    let transaction = client.transaction().await.expect("begun");
    let enqueue = "select job_id, outcome from awa.enqueue($1, queue => $2, unique_by => '{}')";
    let row = transaction.query_one(enqueue, &[&"resize", &"images"]).await.expect("enqueued");
    let (id, outcome): (i64, String) = (row.get(0), row.get(1));
    let again = transaction.query_one(enqueue, &[&"resize", &"images"]).await.expect("answered");
    assert_eq!((outcome.as_str(), again.get(0), again.get(1)), ("inserted", id, "duplicate"));
    transaction.commit().await.expect("committed");

    let row = client.query_one("select outcome, holder from awa.retry($1)", &[&id]).await.expect("answered");
    assert_eq!((row.get(0), row.get::<_, Option<i64>>(1)), ("unchanged", None));
    let rows = client
        .query("select * from awa.cancel_many($1, $2)", &[&vec![id, id + 1000], &"late"])
        .await
        .expect("answered");
    let outcomes: Vec<&str> = rows.iter().map(|row| row.get("outcome")).collect();
    assert_eq!(outcomes, ["applied", "not_found"]);

    let error = client
        .execute("insert into awa.jobs (kind, priority) values ('a', 9::smallint)", &[])
        .await
        .expect_err("bad input");
    let refusal = error.as_db_error().expect("an answer of the server");
    assert_eq!((refusal.code().code(), refusal.message()), ("22023", "priority is 9; it must be 1 to 4"));
    let error = client.execute("delete from awa.jobs_hot", &[]).await.expect_err("no right");
    assert_eq!(error.code().map(tokio_postgres::error::SqlState::code), Some("42501"));
    drop(client);
    connection.await.expect("no panic").expect("an orderly end");
    assert_eq!(text(&pool, "select errors -> 0 ->> 'error' from awa.jobs").await, "late");
    run(&pool, "select awa.delete_jobs(array(select id from awa.jobs))").await;
}
