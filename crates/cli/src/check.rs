//! `pliant check`: what a scenario says, defaults filled in.

use std::collections::BTreeSet;

use clap::Args;

use crate::Ending;
use crate::error::CliError;
use crate::scenarios::{ScenarioArguments, resolve};
use crate::stdout::print;

const AFTER_HELP: &str = "\
Examples:
  pliant check rack.toml                  prints every setting; a mistake is named by line and key
  pliant check rack.toml --set load=0.9   would that be accepted?
  pliant check demo > mine.toml           a scenario to start from";

/// Checks a scenario and prints it with every default filled in. Running what is printed gives the same results.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending, CliError> {
    let scenario = resolve(&arguments.scenario.load()?, &mut BTreeSet::new())?;
    let estimate = scenario.estimate();
    let mut described = format!("# {}\n# {estimate}\n", scenario.topology.describe());
    if let Some(busiest) = scenario.busiest_link() {
        described = format!("{described}# busiest link, in the mean: {busiest}\n");
    }
    print(&(described + scenario.to_toml().as_str()))?;
    Ok(Ending::Done)
}
