//! `pliant show`: one thing that scenarios can name.

use std::fmt::Write as _;

use clap::Args;
use pliant_sim::families::{NEAR_OPT, OracleSpec, TCP_TABLE, TransportName};
use pliant_sim::scenario::{PRESETS, QueuesSpec, ReflexSettings};
use pliant_sim::suggest::nearest;
use pliant_sim::tables;
use pliant_sim::topology::{TOPOLOGIES, TopologyKind};
use pliant_sim::workload::{BUILT_IN as WORKLOADS, Distribution};

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::scenarios::BUILT_IN as SCENARIOS;
use crate::stdout::print;

const AFTER_HELP: &str = "\
Examples:
  pliant show web_search     a workload: mean, percentiles and table
  pliant show dwrr-9-1       a queue plan, written out
  pliant show weighted-fair  a transport: contract and settings
  pliant show leaf-spine     a topology, as a scenario describes it
  pliant show demo           a built-in scenario, as a file to start from";

/// Shows one transport, workload, topology, queue plan or built-in scenario.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Its name, as `pliant list` gives it
    name: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    print(&describe(&arguments.name)?)?;
    Ok(ExitStatus::Done)
}

fn describe(name: &str) -> Result<String, CliError> {
    if let Some(transport) = TransportName::find(name) {
        return Ok(show_transport(transport));
    }
    if let Some((name, text)) = WORKLOADS.iter().find(|(workload, _)| *workload == name) {
        return Ok(format!("{name}: {}\n\n{text}", workload(name, text)));
    }
    if let Some(TopologyKind { name, description, example }) = TOPOLOGIES.iter().find(|topology| topology.name == name)
    {
        return Ok(format!("{name}: {description}\n\n{example}"));
    }
    if let Some((_, text)) = SCENARIOS.iter().find(|(scenario, _)| *scenario == name) {
        return Ok((*text).to_owned());
    }
    match QueuesSpec::named(name) {
        Ok(plan) => Ok(format!("# {name}\n[queues]\n{}", in_table(&plan)?)),
        Err(_) => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> CliError {
    let transports = TransportName::all().into_iter().map(TransportName::name);
    let workloads = WORKLOADS.iter().map(|(name, _)| *name);
    let topologies = TOPOLOGIES.iter().map(|topology| topology.name);
    let others = PRESETS.iter().chain(SCENARIOS).map(|(name, _)| *name);
    let near = nearest(name, transports.chain(workloads).chain(topologies).chain(others));
    let hint = near.map_or("see `pliant list`".to_owned(), |near| format!("did you mean `{near}`?"));
    CliError::User(format!("nothing is called `{name}`, {hint}"))
}

/// A queue plan under the table `queues`.
pub(crate) fn in_table(plan: &QueuesSpec) -> Result<String, CliError> {
    let text = toml::to_string(plan).map_err(|error| CliError::Machine(error.to_string()))?;
    Ok(text.replace("[[queue]]", "[[queues.queue]]").replace("[queue.", "[queues.queue."))
}

fn show_transport(transport: TransportName) -> String {
    let honours: Vec<String> = transport.honours().iter().map(ToString::to_string).collect();
    let honours = if honours.is_empty() { "nothing: its traffic does not bend".to_owned() } else { honours.join(", ") };
    let mut settings = String::new();
    for (number, table) in transport.tables().iter().enumerate() {
        let shared = if table.name == TCP_TABLE { " or `[transport]`" } else { "" };
        let whose = if number == 0 { "Settings" } else { "Settings of its window" };
        let (name, defaults) = (table.name, &table.defaults);
        let ending = if table.name == "udp" { "" } else { ", at their defaults" };
        let _ = write!(settings, "\n{whose} under `[traffic.NAME.{name}]`{shared}{ending}:\n\n{defaults}");
    }
    if transport.name() == NEAR_OPT {
        let oracle = toml::to_string(&OracleSpec::default()).expect("settings are plain values");
        let _ = write!(settings, "\nWhat the oracle does, under `[oracle]`:\n\n{oracle}");
    }
    let traits = transport.traits();
    if traits.bends {
        let reflex = tables::write(&ReflexSettings::default());
        let fields = if traits.takes_messages { "min_delivery and min_share" } else { "min_share" };
        let _ = write!(settings, "\nWith a table `[traffic.NAME.reflex]` it honours {fields}. Defaults:\n\n{reflex}");
    }
    format!("{}: {}\n\nOf the contract it honours: {honours}\n{settings}", transport.name(), transport.description())
}

/// A workload in a line.
pub(crate) fn workload(name: &str, text: &str) -> String {
    let sizes = Distribution::parse(name, text).expect("built-in tables are right");
    let size = |u: f64| bytes(sizes.quantile(u) as f64);
    format!(
        "mean {}, median {}, 99th percentile {}, largest {}",
        bytes(sizes.mean_bytes()),
        size(0.5),
        size(0.99),
        bytes(sizes.max_bytes() as f64)
    )
}

fn bytes(value: f64) -> String {
    match value {
        small if small < 1e3 => format!("{small:.0} B"),
        kilo if kilo < 1e6 => format!("{:.1} kB", kilo / 1e3),
        mega if mega < 1e9 => format!("{:.1} MB", mega / 1e6),
        large => format!("{:.1} GB", large / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pliant_sim::scenario::Scenario;

    const TRAFFIC: &str = "\n[traffic.all]\nkind = \"permutation\"\nsize = \"1kB\"\n";

    /// Every example can be pasted into a scenario.
    #[test]
    fn examples_of_topologies_resolve() {
        for TopologyKind { name, example, .. } in TOPOLOGIES.iter().filter(|topology| topology.name != "edge-list") {
            let text = format!("duration = \"1ms\"\n{example}{TRAFFIC}");
            let resolved =
                Scenario::parse(&text, std::path::Path::new("example.toml")).and_then(|scenario| scenario.resolve());
            assert!(resolved.is_ok(), "{name}: {}", resolved.unwrap_err());
        }
    }

    #[test]
    fn everything_listed_can_be_shown() {
        let plans = PRESETS.iter().map(|(name, _)| name.replace("W-W", "4-1"));
        let others = TransportName::all().into_iter().map(|name| name.name().to_owned());
        for name in plans.chain(others).chain(["demo".to_owned(), "web_search".to_owned(), "clos".to_owned()]) {
            assert!(describe(&name).is_ok(), "{name}");
        }
        assert!(describe("dctpc").unwrap_err().to_string().contains("did you mean `dctcp`?"));
    }
}
