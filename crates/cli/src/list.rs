//! `pliant list`: what scenarios can name, and the scenarios and experiments there are.

use clap::{Args, ValueEnum};
use pliant_sim::families::TransportName;
use pliant_sim::output::{ColumnDescription, tables};
use pliant_sim::scenario::{PRESETS, Scenario};
use pliant_sim::topology::TOPOLOGIES;
use pliant_sim::workload::BUILT_IN as WORKLOADS;

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::experiments;
use crate::scenarios::BUILT_IN as SCENARIOS;
use crate::show::workload;
use crate::stdout::print_rows;

const AFTER_HELP: &str = "\
Examples:
  pliant list             what there is to list
  pliant list transports
  pliant list queue-plans
  pliant list columns     of the files that --out writes
  pliant show web_search  more about one of them";

/// Lists what a scenario can name, built-in scenarios, the experiments of `pliant reproduce`, or the columns of results.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// What to list. Default: what there is to list
    what: Option<What>,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    Transports,
    Workloads,
    Topologies,
    QueuePlans,
    Scenarios,
    Experiments,
    Columns,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let Some(what) = arguments.what else { return print_rows(&kinds()) };
    let rows: Vec<(String, String)> = match what {
        What::Transports => {
            let named: Vec<_> = TransportName::all().iter().map(|name| (name.name(), name.description())).collect();
            rows(named.iter())
        }
        What::Topologies => {
            rows(TOPOLOGIES.iter().map(|topology| (topology.name, topology.description)).collect::<Vec<_>>().iter())
        }
        What::QueuePlans => rows(PRESETS.iter()),
        What::Workloads => WORKLOADS.iter().map(|(name, text)| ((*name).to_owned(), workload(name, text))).collect(),
        What::Scenarios => SCENARIOS.iter().map(|(name, text)| described(name, text)).collect::<Result<_, _>>()?,
        What::Columns => columns(),
        What::Experiments => experiments::titles(&experiments::library()?, None, None)?,
    };
    print_rows(&rows)
}

/// What can be listed, and how.
fn kinds() -> Vec<(String, String)> {
    let name = |what: &What| what.to_possible_value().expect("none is hidden").get_name().to_owned();
    What::value_variants().iter().map(name).map(|name| (name.clone(), format!("pliant list {name}"))).collect()
}

fn rows<'a>(pairs: impl Iterator<Item = &'a (&'static str, &'static str)>) -> Vec<(String, String)> {
    pairs.map(|(name, description)| ((*name).to_owned(), (*description).to_owned())).collect()
}

/// Every column of the files of an output folder, by file.
fn columns() -> Vec<(String, String)> {
    let told = |ColumnDescription { meaning, unit, .. }: &ColumnDescription| {
        if unit.is_empty() { (*meaning).to_owned() } else { format!("{meaning} ({unit})") }
    };
    let rows = tables().into_iter().flat_map(|table| {
        let head = (table.files.to_owned(), String::new());
        let columns: Vec<_> = table.columns.iter().map(|column| (format!("  {}", column.name), told(column))).collect();
        std::iter::once(head).chain(columns)
    });
    rows.collect()
}

fn described(name: &str, text: &str) -> Result<(String, String), CliError> {
    let scenario = Scenario::parse(text, std::path::Path::new(name))?.resolve()?;
    Ok((name.to_owned(), scenario.spec.description))
}
