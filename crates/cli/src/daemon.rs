//! `pliant daemon`: connections of unmodified programs under a contract.

use std::path::PathBuf;

use clap::Args;
use pliant_daemon::{Config, ConfigError, Daemon};

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::interrupt;

const EXAMPLES: &str = "\
Examples:
  pliant daemon /etc/pliant/daemon.toml --check       every mistake with its line; nothing is opened
  pliant daemon daemon.toml

A daemon runs at both ends. docs/daemon.md has a configuration for each and says what every key means.
Exit codes: 0 the configuration is good (--check), 1 failure of the machine, 2 mistake in the command or the file, 130
interrupted.";

/// Carries connections of unmodified programs to another host's daemon, under a contract.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The configuration
    config: PathBuf,
    /// Reads the configuration, and the key file, and ends
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let config = Config::read(&arguments.config).map_err(|error: ConfigError| CliError::User(error.to_string()))?;
    if arguments.check {
        println!("{} is good", arguments.config.display());
        return Ok(ExitStatus::Done);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let interrupted = interrupt::listen("");
    runtime.block_on(async {
        let daemon = Daemon::start(config).await.map_err(|error| CliError::User(error.to_string()))?;
        eprintln!("listening on {} for daemons", daemon.address());
        for door in daemon.doors() {
            eprintln!("door on {door}");
        }
        tokio::select! {
            () = daemon.run() => Ok(ExitStatus::Done),
            () = interrupt::wait(interrupted) => Ok(ExitStatus::Interrupted),
        }
    })
}
