//! One module a command.

pub(crate) mod maintain;
pub(crate) mod migrate;

use std::error::Error;
use std::process::ExitCode;

/// What is wrong with a URL is not told, because that may quote the password.
const NO_URL: &str = "error: the database URL cannot be read; it looks like postgres://user:password@host:5432/name";

/// Says what went wrong, with its causes.
fn fail(error: &dyn Error) -> ExitCode {
    eprintln!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  because {error}");
        cause = error.source();
    }
    ExitCode::FAILURE
}
