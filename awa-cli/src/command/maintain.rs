//! `awa maintain`: the duties of a fleet in a process of their own, or once, from a timer.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::str::FromStr as _;
use std::time::Duration;

use awa_maintenance::{Duties, DutyName, MaintenanceConfig, Ticked};
use awa_model::WorkerId;
use awa_storage::session::Sessions;
use awa_storage::{Error, schema};
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use super::{NO_URL, fail};

/// How long reaching the database may take before the command says that it cannot.
const REACH_MAX: Duration = Duration::from_secs(10);

/// Arguments of `maintain`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The database. Its URL is never printed, since it may hold a password.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// Do every duty until it has nothing more to do, print what was done, and end. Exit code 1 if one failed.
    #[arg(long)]
    once: bool,
    /// With --once: end after so long, finished or not.
    #[arg(long, value_parser = humantime::parse_duration, default_value = "60s", requires = "once")]
    budget: Duration,
    /// With --once: answer in JSON on one line.
    #[arg(long, requires = "once")]
    json: bool,
    /// Leave out this duty; may be given several times: promotion, schedules, rescue, callbacks, ring, claims, retention, audit.
    #[arg(long = "without", value_name = "DUTY")]
    without: Vec<DutyName>,
    /// How often the workers of the fleet show a sign of life; their setting of the same name.
    #[arg(long, value_parser = humantime::parse_duration, default_value = "30s")]
    heartbeat_interval: Duration,
    /// After how long without one an attempt counts as dead; their setting of the same name.
    #[arg(long, value_parser = humantime::parse_duration, default_value = "90s")]
    stale_after: Duration,
    /// How long a handler that was asked to stop may take to return; their setting of the same name.
    #[arg(long, value_parser = humantime::parse_duration, default_value = "5s")]
    cancel_grace: Duration,
}

/// Does it and says so.
pub(crate) async fn run(options: Options) -> ExitCode {
    let Ok(database) = PgConnectOptions::from_str(&options.database_url) else {
        eprintln!("{NO_URL}");
        return ExitCode::from(2);
    };
    let config = config(&options);
    if let Err(broken) = config.validate() {
        broken.iter().for_each(|rule| eprintln!("error: {rule}"));
        return ExitCode::from(2);
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    log.with_ansi(std::io::stderr().is_terminal()).init();
    let sessions = match reach(database.application_name("awa maintain")).await {
        Ok(sessions) => sessions,
        Err(error) => return fail(&error),
    };
    if options.once {
        return report(&awa_maintenance::tick(&sessions, config, options.budget).await, options.json);
    }
    let stop = CancellationToken::new();
    let holder = WorkerId::random();
    // One that does not lead says nothing else.
    tracing::info!(worker.id = %holder.get(), version = env!("CARGO_PKG_VERSION"), duties = ?config.duties, "maintenance started");
    let mut serving = tokio::spawn(awa_maintenance::serve(sessions, holder, config, stop.clone()));
    let ended = tokio::select! {
        biased;
        () = asked_to_stop() => {
            stop.cancel();
            serving.await
        }
        ended = &mut serving => ended,
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn config(options: &Options) -> MaintenanceConfig {
    MaintenanceConfig {
        duties: options.without.iter().fold(Duties::all(), |duties, duty| duties.without(*duty)),
        ..MaintenanceConfig::of_fleet(options.heartbeat_interval, options.stale_after, options.cancel_grace)
    }
}

/// Connects, and sees that the schema is the one of this binary.
async fn reach(database: PgConnectOptions) -> Result<Sessions, Error> {
    let probed = tokio::time::timeout(REACH_MAX, Sessions::probe(database.clone())).await;
    let sessions = probed.unwrap_or(Err(sqlx::Error::PoolTimedOut.into()))?;
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(REACH_MAX).connect_lazy_with(database);
    let checked = schema::require_current_schema(&pool).await;
    pool.close().await;
    checked?;
    Ok(sessions)
}

fn report(ticked: &[Ticked], json: bool) -> ExitCode {
    if json {
        let duties: Vec<Value> = ticked
            .iter()
            .map(|one| {
                let error = one.error.as_ref().map(ToString::to_string);
                json!({ "duty": one.duty.as_str(), "changed": one.changed, "done": one.is_done, "error": error })
            })
            .collect();
        println!("{}", json!({ "duties": duties }));
    } else {
        for one in ticked {
            let end = match &one.error {
                Some(error) => format!("failed: {error}"),
                None if one.is_done => "done".to_owned(),
                None => "not finished in time".to_owned(),
            };
            println!("{:<10} {:>8} changed, {end}", one.duty.as_str(), one.changed);
        }
    }
    if ticked.iter().any(|one| one.error.is_some()) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

async fn asked_to_stop() {
    let mut terminate = match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(signal) => signal,
        Err(error) => {
            eprintln!("error: cannot listen for SIGTERM: {error}");
            return;
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
