//! `awa` as scripts see it: what it prints and how it exits.

use std::process::{Child, Command, Output, Stdio};

use awa_storage::testing::TestDatabase;
use serde_json::Value;

fn awa(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_awa"));
    command.args(arguments).env_remove("DATABASE_URL").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn finish(mut command: Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("awa starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code().expect("it exits"), text(stdout), text(stderr))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("one line of JSON")
}

#[tokio::test]
async fn status_then_migrate_then_status() {
    let database = TestDatabase::empty().await;
    let url = database.url();
    let status = || finish(awa(&["migrate", "--status", "--json", "--database-url", &url]));

    let (code, before, _) = status();
    let needed = json(&before)["needed"].clone();
    assert_eq!((code, &json(&before)["found"]), (3, &Value::from(0)));

    let (code, report, _) = finish(awa(&["migrate", "--json", "--database-url", &url]));
    assert_eq!((code, &json(&report)["to"]), (0, &needed));

    let (code, after, _) = status();
    assert_eq!((code, &json(&after)["found"]), (0, &needed));
}

#[tokio::test]
async fn sixteen_processes_migrate_an_empty_database_at_once() {
    let database = TestDatabase::empty().await;
    let start = |_| awa(&["migrate", "--database-url", &database.url()]).spawn().expect("awa starts");
    let racers: Vec<Child> = (0..16).map(start).collect();
    for racer in racers {
        let output = racer.wait_with_output().expect("awa ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[tokio::test]
async fn newer_schema_has_an_exit_code_of_its_own() {
    let database = TestDatabase::new().await;
    sqlx::query("insert into awa.schema_migrations (version, name, checksum, release) values (999, 'x', 'x', '9.0.0')")
        .execute(&database.pool())
        .await
        .expect("the table is there");
    for arguments in [["migrate", "--database-url"].as_slice(), &["migrate", "--status", "--database-url"]] {
        let mut command = awa(arguments);
        command.arg(database.url());
        let (code, _, said) = finish(command);
        assert!(code == 4 && said.contains("version 999"), "{code}: {said}");
    }
}

#[test]
fn printed_schema_needs_no_database() {
    let (code, sql, _) = finish(awa(&["migrate", "--print"]));
    assert!(code == 0 && sql.contains("\nbegin;") && sql.ends_with("commit;\n"));
}

#[test]
fn password_is_never_printed() {
    let secret = "hunter2";
    let check = |url: &str, expected: i32| {
        let (code, said, complained) = finish(awa(&["migrate", "--database-url", url]));
        assert_eq!(code, expected, "{complained}");
        assert!(!said.contains(secret) && !complained.contains(secret), "{said}{complained}");
    };
    check(&format!("postgres://postgres:{secret}@127.0.0.1:1/postgres"), 1);
    check(&format!("postgres://postgres:{secret}@127.0.0.1:none/postgres"), 2);
    let mut help = awa(&["migrate", "--help"]);
    help.env("DATABASE_URL", format!("postgres://postgres:{secret}@127.0.0.1:1/postgres"));
    assert!(!finish(help).1.contains(secret));
}

#[test]
fn missing_database_is_a_usage_error() {
    assert_eq!(finish(awa(&["migrate"])).0, 2);
}
