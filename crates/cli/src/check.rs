//! `pliant check`: what a scenario says, defaults filled in.

use std::collections::BTreeSet;

use clap::Args;

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::scenarios::{ScenarioArguments, VariantArgument, say_warnings};
use crate::stdout::print;

const AFTER_HELP: &str = "\
Examples:
  # prints every setting; a mistake is named by line and key
  pliant check rack.toml
  # would that be accepted?
  pliant check rack.toml --set load=0.9
  # a scenario to start from, with its variants and comments
  pliant show demo > mine.toml
  # its variants are checked, too
  pliant check mine.toml";

/// Checks a scenario and prints it with every default filled in. Running what is printed gives the same results.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    #[command(flatten)]
    variant: VariantArgument,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let scenario = arguments.scenario.load_variant(&arguments.variant)?.resolve()?;
    arguments.scenario.check_variants(&arguments.variant)?;
    let estimate = scenario.estimate();
    let busiest = scenario.busiest_link().map(|busiest| format!("# busiest link, in the mean: {busiest}\n"));
    let (topology, busiest) = (scenario.topology.describe(), busiest.unwrap_or_default());
    let ports = scenario.kinds_of_ports().map(|told| format!("# ports: {told}\n")).unwrap_or_default();
    let facts = format!("# {topology}\n{ports}# {estimate}\n{busiest}");
    // In a terminal the end is what is seen.
    print(&format!("{facts}{}{facts}", scenario.to_toml()))?;
    say_warnings(&scenario, &mut BTreeSet::new());
    Ok(ExitStatus::Done)
}
