//! A server for one test that stops, kills and restarts it: started here, so that there is one way to start servers.
//!
//! The test starts this program (named by a variable that `cargo xtask test` sets), reads the server's URL from its first
//! line, and writes one command a line; each is answered by one line. When the test goes, however it goes, the server goes.

use std::io::{BufRead as _, Write as _};

use crate::command::Result;
use crate::pooler::{POOL_SIZE, Pooler};
use crate::postgres::{Profile, Server};

/// Serves until its input ends.
pub(crate) fn serve() -> Result {
    // What was committed has to be there after a crash.
    let server = Server::start(Profile::Durable, None)?;
    let mut poolers = Vec::new();
    answer(&server.url())?;
    for line in std::io::stdin().lock().lines() {
        match obey(&server, &mut poolers, line?.trim()) {
            Ok(text) => answer(&text)?,
            Err(error) => answer(&format!("error: {}", error.to_string().replace('\n', " | ")))?,
        }
    }
    Ok(())
}

fn obey(server: &Server, poolers: &mut Vec<Pooler>, line: &str) -> Result<String> {
    let cluster = server.cluster();
    match line.split_once(' ').unwrap_or((line, "")) {
        // Disconnects all clients and writes everything down.
        ("stop", _) => cluster.stop()?,
        // As a crash: nothing is written down, and the next start recovers.
        ("kill", _) => cluster.crash()?,
        // On the same port as before.
        ("start", _) => cluster.start_again()?,
        // As after a failover: readable, and nothing can be written until it is promoted.
        ("stand-by", _) => cluster.stand_by()?,
        ("promote", _) => cluster.promote()?,
        // Its arguments are how many prepared statements it keeps for each connection, and how many of those it has.
        ("pooler", arguments) => {
            let (kept, size) = match arguments.split_once(' ') {
                Some((kept, size)) => (kept, size.parse()?),
                None => (arguments, POOL_SIZE),
            };
            let pooler = Pooler::start(server, kept.parse()?, size)?;
            let url = pooler.url();
            poolers.push(pooler);
            return Ok(url);
        }
        (unknown, _) => return Err(format!("no command {unknown:?}").into()),
    }
    Ok("done".to_owned())
}

fn answer(line: &str) -> Result {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}")?;
    Ok(output.flush()?)
}
