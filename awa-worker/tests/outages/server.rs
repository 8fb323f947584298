//! A server of the test's own, to be stopped, killed and restarted. Starting it is the business of `cargo xtask`, which a
//! child process does as long as it is told to.

use std::env;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

/// Names the program, set by `cargo xtask test`.
const VARIABLE: &str = "AWA_TEST_XTASK";

pub(crate) struct PrivateServer {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    pub(crate) url: String,
    /// For the test to look with. Its connections do not outlive the server, so each look is a new one.
    pub(crate) pool: PgPool,
}

impl PrivateServer {
    /// Starts it and installs the schema in its database.
    pub(crate) async fn new() -> Self {
        let server = Self::empty();
        awa_worker::migrate(&server.pool).await.expect("an empty database");
        server
    }

    /// Starts it.
    pub(crate) fn empty() -> Self {
        let Ok(program) = env::var(VARIABLE) else {
            panic!("{VARIABLE} is not set: run the tests by `cargo xtask test`, which starts servers for them")
        };
        let mut command = Command::new(program);
        let command = command.arg("test-server").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("xtask can be started");
        let input = child.stdin.take();
        let mut output = BufReader::new(child.stdout.take().expect("piped")).lines();
        let url = output.next().expect("the server starts").expect("text");
        let options = PgPoolOptions::new().max_connections(5).acquire_timeout(crate::support::PATIENCE);
        let pool = options.connect_lazy(&url).expect("a URL");
        Self { child, input, output, url, pool }
    }

    /// Tells it something, and returns what it answers once that is done.
    pub(crate) fn tell(&mut self, command: &str) -> String {
        let input = self.input.as_mut().expect("open while this value lives");
        writeln!(input, "{command}").expect("xtask listens");
        let answer = self.output.next().expect("xtask answers").expect("text");
        assert!(!answer.starts_with("error"), "{command}: {answer}");
        answer
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        drop(self.input.take());
        // It says itself what went wrong.
        let _ = self.child.wait();
    }
}

/// A process of a server that stands still as long as this value lives.
pub(crate) struct Frozen(i32);

impl Frozen {
    pub(crate) fn new(pid: i32) -> Self {
        signal("-STOP", pid);
        Self(pid)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        signal("-CONT", self.0);
    }
}

fn signal(name: &str, pid: i32) {
    // Gone already, where the server was killed meanwhile.
    let _ = Command::new("kill").args([name, &pid.to_string()]).stderr(Stdio::null()).status();
}
