//! A private server ends with the command that started it, however that command ends.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A directory for temporary files of one command, so that what stays behind can be seen.
fn temporary(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("awa-xtask-test-{}-{name}", std::process::id()));
    fs::create_dir(&directory).expect("nobody else has it");
    directory
}

/// Starts a command that needs a server, and waits for the line that names the port.
fn start(directory: &PathBuf) -> (Child, u16) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["schema", "--check"]).env("TMPDIR", directory).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("xtask starts");
    let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let port = lines.map_while(Result::ok).find_map(|line| line.rsplit_once("on port ")?.1.parse().ok());
    (child, port.expect("it starts a server"))
}

/// Waits until nothing listens on the port and the directory is empty.
fn expect_gone(directory: &PathBuf, port: u16) {
    let begun = Instant::now();
    let stays =
        || TcpStream::connect(("127.0.0.1", port)).is_ok() || fs::read_dir(directory).is_ok_and(|d| d.count() > 0);
    while stays() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the server or its directory stays behind");
        std::thread::yield_now();
    }
    fs::remove_dir(directory).expect("it is empty");
}

#[test]
fn killed_command_leaves_no_server_behind() {
    let directory = temporary("killed");
    let (mut child, port) = start(&directory);
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    expect_gone(&directory, port);
}

#[test]
fn finished_command_leaves_no_server_behind() {
    let directory = temporary("finished");
    let (mut child, port) = start(&directory);
    // Whether the file is current is not the question here.
    child.wait().expect("it ends");
    assert!(fs::read_dir(&directory).is_ok_and(|entries| entries.count() == 0), "gone before the command ends");
    expect_gone(&directory, port);
}
