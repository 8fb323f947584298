//! A peer as a program: started with a database, told when to begin, read, and ended.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use serde::Deserialize;

use crate::Result;

/// What Awa is called in the list.
const REFERENCE: &str = "awa";
/// How long a peer that was asked to end may take.
const FAREWELL: Duration = Duration::from_secs(5);

/// One line of the list: how to run it, or why that cannot be.
#[derive(Debug, Deserialize)]
pub(super) struct Program {
    /// Its name, as `--only` knows it.
    pub(super) name: String,
    /// The program and its first arguments.
    #[serde(default)]
    command: Vec<PathBuf>,
    /// Why it cannot run.
    pub(super) missing: Option<String>,
}

impl Program {
    /// Whether this is Awa.
    pub(super) fn is_reference(&self) -> bool {
        self.name == REFERENCE
    }
}

/// Reads the list.
pub(super) fn read(path: &Path) -> Result<Vec<Program>> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}

/// The URL of another database on the same server.
pub(super) fn url_of(server: &str, database: &str) -> Result<String> {
    let (base, query) = server.split_once('?').map_or((server, None), |(base, query)| (base, Some(query)));
    let (scheme, rest) = base.split_once("://").ok_or("the database URL cannot be read")?;
    let host = rest.split('/').next().unwrap_or(rest);
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    Ok(format!("{scheme}://{host}/{database}{query}"))
}

/// A peer that runs. It ends with this value.
pub(super) struct Started {
    process: Child,
    heard: mpsc::Receiver<Heard>,
    /// The last line of its standard error.
    complaint: String,
}

/// What a peer says, from both of its outputs, so that a complaint is there before the end is.
enum Heard {
    Line(String),
    Complaint(String),
}

impl Started {
    /// Starts it. The URL goes by the environment: command lines can be read by everyone.
    pub(super) fn start(program: &Program, url: &str, words: &[String]) -> Result<Self> {
        let (first, rest) = program.command.split_first().ok_or("a peer without a command")?;
        let mut process = Command::new(first)
            .args(rest)
            .args(words)
            .env("DATABASE_URL", url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", first.display()))?;
        let (sender, heard) = mpsc::channel();
        if let Some(stdout) = process.stdout.take() {
            each_line(stdout, sender.clone(), Heard::Line);
        }
        if let Some(stderr) = process.stderr.take() {
            each_line(stderr, sender, Heard::Complaint);
        }
        Ok(Self { process, heard, complaint: String::new() })
    }

    /// Its process id.
    pub(super) fn id(&self) -> i32 {
        i32::try_from(self.process.id()).unwrap_or(-1)
    }

    /// Waits until it is set up. Libraries that print something meanwhile are passed over.
    pub(super) fn wait_until_ready(&mut self, limit: Duration) -> Result {
        while self.line(limit)? != "ready" {}
        Ok(())
    }

    /// Tells it to begin.
    pub(super) fn go(&mut self) -> Result {
        let stdin = self.process.stdin.as_mut().ok_or("a peer without standard input")?;
        Ok(stdin.write_all(b"go\n")?)
    }

    /// The next line of its standard output. Complaints are shown and the last one kept.
    pub(super) fn line(&mut self, limit: Duration) -> Result<String> {
        loop {
            match self.heard.recv_timeout(limit) {
                Ok(Heard::Line(line)) => return Ok(line),
                Ok(Heard::Complaint(line)) => {
                    eprintln!("  | {line}");
                    if !line.trim().is_empty() {
                        self.complaint = line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("nothing heard for {} s", limit.as_secs()).into());
                }
                Err(RecvTimeoutError::Disconnected) => return Err(format!("ended: {}", self.complaint).into()),
            }
        }
    }
}

impl Drop for Started {
    /// The end of its input asks it to end, with children that it may have; then it is killed.
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        while self.heard.recv_timeout(FAREWELL).is_ok() {}
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends every line, from a thread of its own, until there are no more.
fn each_line(from: impl Read + Send + 'static, to: mpsc::Sender<Heard>, what: fn(String) -> Heard) {
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(std::result::Result::ok) {
            // Nobody listens any more when the peer is given up.
            let _ = to.send(what(line));
        }
    });
}

#[cfg(test)]
mod tests {
    //! URLs, as the server's and as people's; and small programs that behave like peers, well and badly.

    use std::time::Duration;

    use super::{Program, Started, url_of};

    const LIMIT: Duration = Duration::from_secs(30);

    fn start(script: &str) -> Started {
        let command = ["sh", "-c", script].map(Into::into).into();
        let program = Program { name: "script".to_owned(), command, missing: None };
        Started::start(&program, "postgres://nowhere", &[]).expect("there is a shell")
    }

    #[test]
    fn peer_begins_when_it_is_told_and_not_before() {
        let mut peer = start("echo chatter; echo ready; read word; echo \"$word $DATABASE_URL\"; read end");
        peer.wait_until_ready(LIMIT).expect("it says so");
        peer.go().expect("it listens");
        assert_eq!(peer.line(LIMIT).expect("it answers"), "go postgres://nowhere");
    }

    #[test]
    fn peer_that_ends_early_is_reported_with_its_last_complaint() {
        let mut peer = start("echo noise; echo first >&2; echo 'error: no such table' >&2; exit 1");
        let error = peer.wait_until_ready(LIMIT).expect_err("it has ended").to_string();
        assert_eq!(error, "ended: error: no such table");
    }

    #[test]
    fn url_of_another_database_keeps_everything_else() {
        let check = |server, expected| assert_eq!(url_of(server, "one").expect("a URL"), expected);
        check("postgres://postgres:secret@127.0.0.1:6003/postgres", "postgres://postgres:secret@127.0.0.1:6003/one");
        check("postgres://postgres@localhost", "postgres://postgres@localhost/one");
        check("postgresql://u@h/db?sslmode=disable", "postgresql://u@h/one?sslmode=disable");
        assert!(url_of("nonsense", "one").is_err());
    }
}
