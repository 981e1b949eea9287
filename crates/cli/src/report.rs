//! `pliant report`: the report of an output folder, made anew.

use std::path::PathBuf;

use clap::Args;
use pliant_sim::output::rebuild_report;

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::stdout::print;

const AFTER_HELP: &str = "\
Example:
  # writes results/rack/report.html from the files beside it
  pliant report results/rack";

/// Writes the report of an output folder anew from its other files.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The output folder of a run
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let path = rebuild_report(&arguments.folder)?;
    print(&format!("{}\n", path.display()))?;
    Ok(ExitStatus::Done)
}
