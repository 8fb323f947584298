//! `cargo xtask test`: every test of the workspace, on a private PostgreSQL.

mod suites;

use crate::command::{Result, cargo, run};
use crate::pooler::{POOL_SIZE, Pooler};
use crate::postgres::{Profile, Target};

/// Tests in modules of this name take minutes: the same cases as their neighbours, at full size.
const LONG: &str = "::long::";

/// Prepared statements that the pooler keeps for each connection: the default of its newer versions.
const STATEMENTS_KEPT: u32 = 200;

/// Arguments of `test`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Run the modules named `long` too.
    #[arg(long)]
    long: bool,
    /// Version of PostgreSQL.
    #[arg(long, value_parser = clap::value_parser!(u32).range(14..), conflicts_with = "database_url")]
    pg: Option<u32>,
    /// Only the suites that depend on the server (storage, migrations, maintenance), without building anything again.
    #[arg(long)]
    storage: bool,
    /// Through PgBouncer in transaction mode: the suites of storage and worker, where no session is needed, without
    /// building anything again.
    #[arg(long, conflicts_with_all = ["database_url", "storage"])]
    pooler: bool,
    /// Use this server instead: databases named awa_test_… are made and dropped there.
    #[arg(long)]
    database_url: Option<String>,
    /// Arguments of `cargo test`, such as `-p awa-model` or a part of a test's name; after another `--` those of the
    /// test programs.
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Runs them. The error is that a test failed.
pub(crate) fn test(options: &Options) -> Result {
    let server = Target::choose(options.database_url.as_deref(), Profile::Test, options.pg)?;
    if options.storage || options.pooler {
        let given = options.arguments.iter().map(String::as_str).filter(|argument| *argument != "--");
        let skip = ["--skip", LONG].into_iter().filter(|_| !options.long);
        let arguments: Vec<&str> = given.chain(["--quiet"]).chain(skip).collect();
        return if options.pooler {
            suites::through_pooler(&server, &pooler_before(&server)?, &arguments)
        } else {
            suites::on_server(&server, &arguments)
        };
    }
    let mut command = cargo(["test"]);
    command.args(arguments(options)).env("AWA_TEST_DATABASE_URL", server.url()).env("PATH", server.path()?);
    // Tests that stop and restart a server have this program start one.
    command.env("AWA_TEST_XTASK", std::env::current_exe()?);
    run(&mut command)
}

fn pooler_before(server: &Target) -> Result<Pooler> {
    match server {
        Target::Private(server) => Pooler::start(server, STATEMENTS_KEPT, POOL_SIZE),
        Target::Given(_) => Err("a pooler is started before a private server only".into()),
    }
}

/// What `cargo test` is called with.
fn arguments(options: &Options) -> Vec<&str> {
    let given: Vec<&str> = options.arguments.iter().map(String::as_str).collect();
    let split = given.iter().position(|argument| *argument == "--").unwrap_or(given.len());
    let (to_cargo, to_tests) = given.split_at(split);
    let mut all = Vec::new();
    if !to_cargo.iter().any(|argument| argument.starts_with("-p") || argument.starts_with("--package")) {
        all.push("--workspace");
    }
    // One failing program does not keep the others from being run.
    all.push("--no-fail-fast");
    all.extend(to_cargo);
    all.push("--");
    all.extend(to_tests.iter().skip(1));
    if !options.long {
        all.extend(["--skip", LONG]);
    }
    all
}

#[cfg(test)]
mod tests {
    //! Each way to call `test`, and what `cargo test` is called with.

    use super::{Options, arguments};

    fn check(long: bool, given: &str, expected: &str) {
        let given = given.split_whitespace().map(str::to_owned).collect();
        let options = Options { long, pg: None, storage: false, pooler: false, database_url: None, arguments: given };
        assert_eq!(arguments(&options).join(" "), expected);
    }

    #[test]
    fn long_modules_are_left_out_unless_asked_for() {
        check(false, "", "--workspace --no-fail-fast -- --skip ::long::");
        check(true, "", "--workspace --no-fail-fast --");
    }

    #[test]
    fn package_and_arguments_of_the_test_programs_find_their_places() {
        check(true, "-p awa-model", "--no-fail-fast -p awa-model --");
        check(false, "lease -- --nocapture", "--workspace --no-fail-fast lease -- --nocapture --skip ::long::");
    }
}
