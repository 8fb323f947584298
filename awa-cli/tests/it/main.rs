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

async fn execute(database: &TestDatabase, statement: &'static str) {
    sqlx::raw_sql(statement).execute(&database.pool()).await.expect(statement);
}

async fn count(database: &TestDatabase, statement: &'static str) -> i64 {
    sqlx::query_scalar(statement).fetch_one(&database.pool()).await.expect(statement)
}

const DUE: &str = "insert into awa.scheduled_jobs (kind, run_at) select 'noop', now() from generate_series(1, 5)";
const AVAILABLE: &str = "select count(*) from awa.jobs where state = 'available'";

#[tokio::test]
async fn maintenance_is_done_once_and_says_what_it_did() {
    let database = TestDatabase::new().await;
    execute(&database, DUE).await;
    let url = database.url();
    let (code, said, _) = finish(awa(&["maintain", "--once", "--json", "--without", "audit", "--database-url", &url]));
    let duties = json(&said)["duties"].clone();
    assert_eq!((code, duties.as_array().map(Vec::len)), (0, Some(7)));
    assert_eq!(duties[0], serde_json::json!({ "duty": "promotion", "changed": 5, "done": true, "error": null }));
    assert_eq!(count(&database, AVAILABLE).await, 5);
    let (code, said, _) = finish(awa(&["maintain", "--once", "--database-url", &url]));
    assert!(code == 0 && said.contains("promotion         0 changed, done"), "{said}");
}

#[tokio::test]
async fn maintenance_that_fails_has_an_exit_code() {
    let database = TestDatabase::new().await;
    execute(&database, "drop function awa.promote").await;
    let (code, said, _) = finish(awa(&["maintain", "--once", "--database-url", &database.url()]));
    assert!(code == 1 && said.contains("promotion         0 changed, failed: "), "{said}");
    let nowhere = "postgres://127.0.0.1:1/nowhere";
    let (code, _, error) = finish(awa(&["maintain", "--once", "--database-url", nowhere]));
    assert!(code == 1 && error.starts_with("error: "), "{error}");
}

#[test]
fn what_maintenance_does_not_understand_is_refused() {
    let url = ["--database-url", "postgres://127.0.0.1:1/nowhere"];
    for (arguments, expected) in [
        (["maintain", "--without", "cleaning"].as_slice(), "\"cleaning\" is not known"),
        (&["maintain", "--stale-after", "1s"], "stale_after is 1s"),
        (&["maintain", "--budget", "1s"], "--once"),
    ] {
        let (code, _, error) = finish(awa(&[arguments, &url].concat()));
        assert!(code == 2 && error.contains(expected), "{arguments:?}: {error}");
    }
}

#[tokio::test]
async fn maintenance_goes_on_until_it_is_told_to_end_and_gives_up_the_lead() {
    let database = TestDatabase::new().await;
    execute(&database, DUE).await;
    let mut maintain = awa(&["maintain", "--database-url", &database.url()]).spawn().expect("awa starts");
    while count(&database, AVAILABLE).await < 5 {
        assert!(maintain.try_wait().expect("a child").is_none(), "it goes on");
    }
    assert_eq!(count(&database, "select count(*) from awa.leader where expires_at > now()").await, 1);
    let told = Command::new("kill").args(["-TERM", &maintain.id().to_string()]).status().expect("kill");
    let ended = maintain.wait_with_output().expect("it ends");
    assert!(told.success() && ended.status.success());
    assert_eq!(count(&database, "select count(*) from awa.leader where expires_at > now()").await, 0);
    // It is in no list of workers: its log alone says which process the leader is.
    let log = String::from_utf8(ended.stderr).expect("text");
    assert!(!log.contains('\u{1b}'), "colours are for terminals: {log}");
    let holders: Vec<_> = ["maintenance started", "leads maintenance", "gave up the lead"]
        .iter()
        .map(|said| log.lines().find(|line| line.contains(said)).and_then(|line| line.split_once("worker.id=")))
        .map(|found| found.and_then(|(_, rest)| rest.split_whitespace().next()))
        .collect();
    assert!(holders[0].is_some() && holders.iter().all(|holder| *holder == holders[0]), "{log}");
}

/// A process that maintains a fleet whose dead are known after six seconds, so that a term lasts three.
fn maintainer(database: &TestDatabase) -> Child {
    let fleet = ["maintain", "--heartbeat-interval", "1s", "--stale-after", "6s", "--database-url"];
    let mut command = awa(&[fleet.as_slice(), &[database.url().as_str()]].concat());
    // Nobody reads its log.
    command.stderr(Stdio::null()).spawn().expect("awa starts")
}

fn signal(process: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &process.id().to_string()]).status().expect("kill").success());
}

async fn until(database: &TestDatabase, statement: &'static str) {
    let began = std::time::Instant::now();
    while count(database, statement).await == 0 {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{statement}");
    }
}

// LEADER-01: it is stopped for longer than its term, another leads, and it goes on.
#[tokio::test]
async fn a_leader_that_was_stopped_and_goes_on_does_no_harm() {
    let database = TestDatabase::new().await;
    execute(&database, "select awa.set_schedule('every second', '* * * * * *', '{\"kind\": \"noop\"}')").await;
    let mut stopped = maintainer(&database);
    until(&database, "select count(*) from awa.leader where term = 1 and expires_at > now()").await;
    until(&database, "select count(*) from awa.cron_ticks").await;
    signal(&stopped, "-STOP");
    let mut other = maintainer(&database);
    until(&database, "select count(*) from awa.leader where term = 2 and expires_at > now()").await;
    execute(&database, "delete from awa.jobs; delete from awa.cron_ticks").await;
    signal(&stopped, "-CONT");
    until(
        &database,
        "select count(*) from (select from awa.cron_ticks where outcome = 'fired' having count(*) >= 4) as enough",
    )
    .await;
    assert_eq!(count(&database, "select term from awa.leader").await, 2, "the same leads all the time");
    for process in [&mut stopped, &mut other] {
        signal(process, "-TERM");
        assert!(process.wait().expect("it ends").success());
    }
    let twice = "select count(*) from (select metadata #> '{$schedule,slot}' from awa.jobs group by 1 having count(*) > 1) as twice";
    assert_eq!(count(&database, twice).await, 0);
    let differ =
        "select count(*) filter (where outcome = 'fired') - (select count(*) from awa.jobs) from awa.cron_ticks";
    assert_eq!(count(&database, differ).await, 0);
}
