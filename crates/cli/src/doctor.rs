//! `pliant doctor`: what this host and the ways to its peers can do.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use pliant_daemon::doctor::{Finding, Verdict, examine_host, examine_program};
use pliant_daemon::{Config, ConfigError};

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::stdout::print;

const EXAMPLES: &str = "\
Examples:
  # this host: clock, UDP buffers, offload
  pliant doctor
  # its key file, descriptors, and each peer that a door uses, too
  pliant doctor /etc/pliant/daemon.toml
  # whether they would load the preload library, which `wrap` uses
  pliant doctor --program curl --program rclone

Run it as the user of the daemon, while the daemons of the peers run. Exit codes: 0 all works, 2 something does not.";

/// Says what this host and the ways to a daemon's peers can do, and what would make them better.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The configuration of a daemon
    config: Option<PathBuf>,
    /// A program: whether it would load the preload library (docs/daemon.md)
    #[arg(long, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let mut findings = examine_host()?;
    if let Some(path) = &arguments.config {
        let config = Config::read(path).map_err(|error: ConfigError| CliError::User(error.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        findings.extend(runtime.block_on(config.examine())?);
    }
    findings.extend(arguments.program.iter().map(|program| examine_program(program)));
    print(&findings.iter().map(|finding| line(finding) + "\n").collect::<String>())?;
    match findings.iter().filter(|finding| finding.verdict == Verdict::Broken).count() {
        0 => Ok(ExitStatus::Done),
        1 => Err(CliError::User("1 thing does not work".to_owned())),
        count => Err(CliError::User(format!("{count} things do not work"))),
    }
}

fn line(finding: &Finding) -> String {
    let Finding { subject, verdict, found, advice } = finding;
    let verdict = match verdict {
        Verdict::Good => "good",
        Verdict::Weak => "weak",
        Verdict::Broken => "broken",
    };
    let advice = if advice.is_empty() { String::new() } else { format!("; {advice}") };
    format!("{verdict:<6}  {subject}: {found}{advice}")
}
