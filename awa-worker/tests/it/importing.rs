//! The example of a long import does what it says: killed half way and started again, it goes on where it was, and each
//! line and the sum are there once.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::leases::rescue_all;
use crate::readme::example;
use crate::support::{Rig, until};

const LINES: usize = 1050;

/// Another transaction has this line in hand, so that the import stops here.
const BLOCK: &str = "insert into imported (import, line) values (1, 555)";

fn start(rig: &Rig, file: &str) -> Child {
    Command::new(example("import"))
        .arg(file)
        .env("DATABASE_URL", rig.database.url())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example starts")
}

#[tokio::test]
async fn import_that_was_killed_goes_on_where_it_was() {
    let rig = Rig::new().await;
    let mut file = tempfile();
    for number in 0..LINES {
        writeln!(file.0, "line {number}").unwrap();
    }
    rig.execute(TABLES).await;
    let mut blocker = rig.pool.begin().await.unwrap();
    sqlx::query(BLOCK).execute(&mut *blocker).await.unwrap();
    let mut first = start(&rig, &file.1);
    let blocked =
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    until("it stops", async || rig.count(blocked).await == 1).await;
    first.kill().unwrap();
    first.wait().unwrap();
    let progress = rig.row(1).await.progress.unwrap();
    assert_eq!((&progress["metadata"]["next_line"], &progress["percent"]), (&json!(500), &json!(47)));
    blocker.rollback().await.unwrap();
    until("rescue", async || rescue_all(&rig.pool, Duration::ZERO).await == 1).await;
    rig.promote().await;

    let second = start(&rig, &file.1).wait_with_output().unwrap();
    assert!(second.status.success(), "it ends by itself");
    let said = String::from_utf8(second.stdout).unwrap();
    assert!(said.contains("attempt 2 goes on at line 500 of 1050"), "{said}");
    let row = rig.state(1, "completed").await;
    assert_eq!((row.result, row.progress), (Some(json!(LINES)), None));
    let lines = "select count(distinct content) * (count(*) = 1050)::integer from imported";
    assert_eq!(rig.count(lines).await, 1050);
    assert_eq!(rig.count("select sum(lines)::bigint from imports").await, 1050);
    std::fs::remove_file(&file.1).unwrap();
}

const TABLES: &str = "
    create table imports (id bigserial primary key, file text not null, lines bigint);
    create table imported (import bigint, line bigint, content text, primary key (import, line))";

fn tempfile() -> (std::fs::File, String) {
    let path = std::env::temp_dir().join(format!("awa-import-{}", std::process::id()));
    (std::fs::File::create(&path).unwrap(), path.into_os_string().into_string().unwrap())
}
