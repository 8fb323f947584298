//! PgBouncer in transaction mode before a private server, for tests: found or installed, started, and gone with the server.
//!
//! sqlx prepares statements by name, so it has to be a version that keeps them: 1.21 or newer. Where the distribution's
//! package is older, the newer one of the next distribution is built from source, which takes a C compiler and a minute.

use std::env;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::command::{Result, output, target_directory};
use crate::postgres::Server;

/// The first version that keeps prepared statements in transaction mode.
const VERSION_MIN: (u32, u32) = (1, 21);

/// Server connections for each database, where nothing else is asked for. More than the open transactions of any one test.
pub(crate) const POOL_SIZE: u32 = 20;

/// How long it may take to listen.
const START_MAX: Duration = Duration::from_secs(30);

/// The release of Debian that has a newer source, and the keys that it is signed with.
const NEWER: (&str, &str) = ("trixie", "/usr/share/keyrings/debian-archive-keyring.gpg");

/// A running PgBouncer. It ends with this value, and at the latest with its server.
pub(crate) struct Pooler {
    process: Child,
    url: String,
}

impl Pooler {
    /// Starts one before this server, which keeps so many prepared statements for each connection, and has so many of those.
    pub(crate) fn start(server: &Server, statements_kept: u32, pool_size: u32) -> Result<Self> {
        let program = program()?;
        let cluster = server.cluster();
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let file = |name: &str| cluster.directory().join(format!("pgbouncer-{port}{name}"));
        let users = format!("\"postgres\" \"{}\"\n", cluster.password());
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = plain\nauth_file = {}\npool_mode = transaction\n\
             default_pool_size = {pool_size}\nmax_client_conn = 2000\nmax_prepared_statements = {statements_kept}\n\
             ignore_startup_parameters = extra_float_digits,options\npidfile = {}\nlogfile = {}\n",
            cluster.port(),
            file(".users").display(),
            file(".pid").display(),
            file(".log").display(),
        );
        for (name, text) in [(".users", &users), (".ini", &settings)] {
            fs::write(file(name), text)?;
            fs::set_permissions(file(name), fs::Permissions::from_mode(0o600))?;
            cluster.account().own(&file(name))?;
        }
        let mut command = Command::new(program);
        command.arg("--quiet").arg(file(".ini")).current_dir(cluster.directory());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = cluster.account().apply(&mut command).spawn()?;
        let url = format!("postgres://postgres:{}@127.0.0.1:{port}/postgres", cluster.password());
        let pooler = Self { process, url };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if begun.elapsed() > START_MAX {
                let log = fs::read_to_string(file(".log")).unwrap_or_default();
                return Err(format!("PgBouncer does not listen:\n{log}").into());
            }
            std::thread::yield_now();
        }
        Ok(pooler)
    }

    /// URL of the database `postgres` through it.
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // It has nothing to write down.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A PgBouncer that will do; installed or built if there is none.
fn program() -> Result<PathBuf> {
    if let Some(named) = env::var_os("AWA_PGBOUNCER") {
        return usable(Path::new(&named))
            .ok_or_else(|| format!("AWA_PGBOUNCER: {named:?} is too old or does not run").into());
    }
    let built = built();
    // Tests that run side by side find none at the same time: one of them sees to it, and the others wait.
    let lock = fs::File::create(env::temp_dir().join("awa-pgbouncer.lock"))?;
    lock.lock()?;
    if let Some(found) = installed().or_else(|| usable(&built)) {
        return Ok(found);
    }
    let needed = format!("PgBouncer {}.{} or newer is needed for this", VERSION_MIN.0, VERSION_MIN.1);
    if output(Command::new("id").arg("-u"))?.trim() != "0" || output(Command::new("apt-get").arg("--version")).is_err()
    {
        return Err(format!("{needed}: install it, or name it by AWA_PGBOUNCER").into());
    }
    eprintln!("{needed}: installing it");
    let mut apt = Command::new("apt-get");
    apt.args(["install", "--yes", "--no-install-recommends", "pgbouncer"]).env("DEBIAN_FRONTEND", "noninteractive");
    if output(Command::new("apt-get").arg("update")).and_then(|_| output(&mut apt)).is_ok()
        && let Some(found) = installed()
    {
        return Ok(found);
    }
    build(&built).map_err(|error| format!("{needed}, and cannot be built: {error}"))?;
    usable(&built).ok_or_else(|| "the PgBouncer that was built does not run".into())
}

fn installed() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    directories.map(|directory| directory.join("pgbouncer")).find_map(|program| usable(&program))
}

/// The program, if it runs and keeps prepared statements.
fn usable(program: &Path) -> Option<PathBuf> {
    let said = output(Command::new(program).arg("--version")).ok()?;
    (version(&said)? >= VERSION_MIN).then(|| program.to_owned())
}

/// From `PgBouncer 1.24.1` and more lines.
fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.lines().next()?.split_whitespace().nth(1)?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Where accounts without rights can reach it, which may not be true of the build directory of cargo.
fn built() -> PathBuf {
    env::temp_dir().join("awa-pgbouncer").join("pgbouncer")
}

/// Builds the newer version in the build directory, and puts the program in its place.
fn build(place: &Path) -> Result {
    let work = target_directory().join("pgbouncer");
    fs::create_dir_all(work.join("lists/partial"))?;
    fs::create_dir_all(work.join("source"))?;
    fs::write(work.join("sources.list"), sources()?)?;
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        for (option, place) in [("Dir::Etc::SourceList", "sources.list"), ("Dir::State::Lists", "lists")] {
            command.arg("-o").arg(format!("{option}={}", work.join(place).display()));
        }
        command.args(["-o", "Dir::Etc::SourceParts=/dev/null", "-o", "APT::Sandbox::User=root"]);
        output(command.args(arguments).current_dir(work.join("source"))).map(drop)
    };
    output(Command::new("apt-get").args([
        "install",
        "--yes",
        "--no-install-recommends",
        "libevent-dev",
        "pkg-config",
        "make",
        "gcc",
    ]))?;
    apt(&["update"])?;
    apt(&["source", "--download-only", "pgbouncer"])?;
    let script = "tar xf pgbouncer_*.orig.tar.gz --strip-components=1 \
                  && ./configure --without-openssl --without-cares --disable-evdns && make -j2 pgbouncer";
    output(Command::new("sh").args(["-c", script]).current_dir(work.join("source")))?;
    let directory = place.parent().ok_or("a path without a directory")?;
    fs::create_dir_all(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    // Under another name first: a test program beside this one must not start half of it.
    let unfinished = directory.join(format!("unfinished-{}", std::process::id()));
    fs::copy(work.join("source/pgbouncer"), &unfinished)?;
    Ok(fs::rename(unfinished, place)?)
}

/// The newer source, from where this machine takes its packages.
fn sources() -> Result<String> {
    let mut asked = Command::new("apt-get");
    let told = output(asked.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]))?;
    let mirror = told.lines().find(|line| line.ends_with("/debian/")).ok_or("apt-get knows no mirror of Debian")?;
    let (release, keys) = NEWER;
    Ok(format!("deb-src [signed-by={keys}] {mirror} {release} main\n"))
}

#[cfg(test)]
mod tests {
    //! Versions as the program states them.

    use super::{VERSION_MIN, version};

    #[test]
    fn version_is_read_from_what_the_program_says() {
        assert_eq!(version("PgBouncer 1.24.1\nlibevent 2.1.12-stable\n"), Some((1, 24)));
        assert!(version("PgBouncer 1.18.0").is_some_and(|old| old < VERSION_MIN));
        assert_eq!(version("pgbouncer: not found"), None);
    }
}
