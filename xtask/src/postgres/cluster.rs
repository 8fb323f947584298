//! One data directory: made by initdb, started and stopped by pg_ctl.

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::account::Account;
use super::binaries::Binaries;
use crate::command::{Result, output};

/// How often a start is tried when another program takes the port in between.
const PORTS_MAX: u32 = 5;

/// Settings for every private server. Tests run in parallel, each with a pool, and some prepare transactions.
const COMMON: &str = "
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 400
max_prepared_transactions = 40
timezone = 'UTC'
lc_messages = 'C'
";

/// What a server is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Tests and checks: nothing needs to survive the machine.
    Test,
    /// Development and demos: as servers come, with the data safe.
    Durable,
    /// Measurements: as a small production server would be set.
    Bench,
}

impl Profile {
    fn settings(self) -> &'static str {
        match self {
            Self::Test => {
                "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n\
                 shared_buffers = 256MB\nmax_wal_size = 2GB\n"
            }
            Self::Durable => "shared_buffers = 256MB\nmax_wal_size = 2GB\n",
            Self::Bench => "shared_buffers = 1GB\nmax_wal_size = 4GB\ntrack_wal_io_timing = off\n",
        }
    }
}

/// A data directory with what is needed to run it.
pub(crate) struct Cluster {
    directory: PathBuf,
    binaries: Binaries,
    account: Account,
    port: u16,
    password: String,
}

impl Cluster {
    /// Finds the programs and makes `directory`, owned by the account that will run the server.
    pub(crate) fn prepare(directory: PathBuf, major: Option<u32>) -> Result<Self> {
        let account = Account::choose()?;
        let binaries = Binaries::find(major, account)?;
        fs::create_dir_all(&directory)?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700))?;
        account.own(&directory)?;
        // A password, since other accounts of this machine can reach the port too.
        Ok(Self { directory, binaries, account, port: 0, password: random_text()? })
    }

    /// Makes the data directory.
    pub(crate) fn initialise(&self) -> Result {
        let password_file = self.directory.join("password");
        fs::write(&password_file, &self.password)?;
        fs::set_permissions(&password_file, fs::Permissions::from_mode(0o600))?;
        self.account.own(&password_file)?;
        let mut initdb = Command::new(self.binaries.program("initdb"));
        initdb.args(["--username=postgres", "--encoding=UTF8", "--no-locale", "--auth=password", "--no-sync"]);
        initdb.arg("--pwfile").arg(&password_file).arg("--pgdata").arg(self.data());
        // Whatever directory the command was started in, the account of the server may not enter it.
        output(self.account.apply(initdb.current_dir(&self.directory)))?;
        Ok(())
    }

    /// Starts the server on a free port.
    pub(crate) fn start(&mut self, profile: Profile) -> Result {
        let configuration = self.data().join("postgresql.auto.conf");
        for attempt in 1.. {
            self.port = free_port()?;
            let text = format!("{COMMON}{}{}port = {}\n", profile.settings(), self.counting(profile), self.port);
            fs::write(&configuration, text)?;
            match self.start_once() {
                Ok(()) => break,
                Err(_) if attempt < PORTS_MAX && self.log().contains("could not bind") => {}
                Err(error) => return Err(format!("{error}\n{}", last_lines(&self.log())).into()),
            }
        }
        fs::write(self.directory.join("port"), self.port.to_string())?;
        Ok(())
    }

    /// For measurements, the extension that counts statements, where it is installed; databases switch it on.
    fn counting(&self, profile: Profile) -> &'static str {
        let library = |place: &str| self.binaries.directory().join(place).is_file();
        let installed =
            ["../lib/pg_stat_statements.so", "../lib/postgresql/pg_stat_statements.so"].into_iter().any(library);
        if profile == Profile::Bench && installed {
            "shared_preload_libraries = 'pg_stat_statements'\npg_stat_statements.track = none\n"
        } else {
            ""
        }
    }

    fn start_once(&self) -> Result {
        let mut pg_ctl = Command::new(self.binaries.program("pg_ctl"));
        pg_ctl.args(["start", "--wait", "--silent", "--timeout=120", "--pgdata"]).arg(self.data());
        pg_ctl.arg("--log").arg(self.directory.join("log")).current_dir(&self.directory);
        // Not captured: the server would hold the pipe open after pg_ctl is done.
        let status = self.account.apply(&mut pg_ctl).stdout(std::process::Stdio::null()).status()?;
        if status.success() { Ok(()) } else { Err(format!("pg_ctl start failed ({status})").into()) }
    }

    /// Stops the server after its clients were disconnected and its data written.
    pub(crate) fn stop(&self) -> Result {
        stop(&self.binaries.program("pg_ctl"), &self.data(), self.account, "fast")
    }

    /// Stops the server as a crash would.
    pub(crate) fn crash(&self) -> Result {
        stop(&self.binaries.program("pg_ctl"), &self.data(), self.account, "immediate")
    }

    /// Starts the server that was stopped, on the port that it had.
    pub(crate) fn start_again(&self) -> Result {
        self.start_once().map_err(|error| format!("{error}\n{}", last_lines(&self.log())).into())
    }

    /// Restarts the server as one that only follows another, which does not exist: it answers and writes nothing.
    pub(crate) fn stand_by(&self) -> Result {
        self.stop()?;
        fs::write(self.data().join("standby.signal"), "")?;
        self.account.own(&self.data().join("standby.signal"))?;
        self.start_again()
    }

    /// Lets a server that stands by write again.
    pub(crate) fn promote(&self) -> Result {
        let mut pg_ctl = Command::new(self.binaries.program("pg_ctl"));
        pg_ctl.args(["promote", "--wait", "--silent", "--pgdata"]).arg(self.data()).current_dir(&self.directory);
        output(self.account.apply(&mut pg_ctl)).map(drop)
    }

    /// The cluster that was made and started in `directory` by an earlier command, if there is one.
    pub(crate) fn load(directory: PathBuf) -> Result<Option<Self>> {
        let Ok(port) = fs::read_to_string(directory.join("port")) else {
            return Ok(None);
        };
        let password = fs::read_to_string(directory.join("password"))?;
        let major = fs::read_to_string(Self::data_in(&directory).join("PG_VERSION"))?.trim().parse()?;
        let account = Account::choose()?;
        let binaries = Binaries::find(Some(major), account)?;
        Ok(Some(Self { directory, binaries, account, port: port.parse()?, password }))
    }

    /// Whether a server runs on it.
    pub(crate) fn is_running(&self) -> bool {
        let mut pg_ctl = Command::new(self.binaries.program("pg_ctl"));
        pg_ctl.args(["status", "--pgdata"]).arg(self.data()).current_dir(&self.directory);
        output(self.account.apply(&mut pg_ctl)).is_ok()
    }

    /// URL of the database `postgres`, as superuser.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres:{}@127.0.0.1:{}/postgres", self.password, self.port)
    }

    pub(crate) fn data_in(directory: &Path) -> PathBuf {
        directory.join("data")
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// The password of its superuser.
    pub(crate) fn password(&self) -> &str {
        &self.password
    }

    pub(crate) fn account(&self) -> Account {
        self.account
    }

    pub(crate) fn version(&self) -> &str {
        self.binaries.version()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    fn data(&self) -> PathBuf {
        Self::data_in(&self.directory)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }
}

/// Stops the server of `data` in one of pg_ctl's modes.
pub(super) fn stop(pg_ctl: &Path, data: &Path, account: Account, mode: &str) -> Result {
    let mut command = Command::new(pg_ctl);
    command.args(["stop", "--wait", "--silent", "--mode", mode, "--pgdata"]).arg(data).current_dir("/");
    output(account.apply(&mut command)).map(drop)
}

/// A directory for one server, whose name nobody else uses or can foresee.
pub(super) fn temporary_directory() -> Result<PathBuf> {
    let directory = std::env::temp_dir().join(format!("awa-pg-{}", random_text()?));
    fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    Ok(directory)
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn random_text() -> Result<String> {
    let mut bytes = [0; 12];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
