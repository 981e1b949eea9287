//! `pliant show`: one thing that scenarios can name.

use clap::Args;
use pliant_sim::scenario::{OracleSpec, PRESETS, QueuesSpec, ReflexSpec, TransportName};
use pliant_sim::suggest::nearest;
use pliant_sim::workload::{BUILT_IN as WORKLOADS, Distribution};

use crate::Ending;
use crate::error::CliError;
use crate::scenarios::BUILT_IN as SCENARIOS;
use crate::stdout::print;

const AFTER_HELP: &str = "\
Examples:
  pliant show web_search       a workload: mean, percentiles and table
  pliant show dwrr-9-1         a queue plan, written out
  pliant show weighted-fair    a transport: contract and settings
  pliant show leaf-spine       a topology, as a scenario describes it
  pliant show demo             a built-in scenario";

/// Shows one transport, workload, topology, queue plan or built-in scenario.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Its name, as `pliant list` gives it
    name: String,
}

/// Topologies: name, description, and a table `topology` to copy.
pub(crate) const TOPOLOGIES: &[(&str, &str, &str)] = &[
    (
        "dumbbell",
        "pairs of hosts across one bottleneck",
        "[topology]\nkind = \"dumbbell\"\npairs = 4\nedge_link = { rate = \"10Gbit/s\", delay = \"1us\" }\nbottleneck_link = { \
         rate = \"10Gbit/s\", delay = \"10us\" }\n",
    ),
    (
        "star",
        "hosts around one switch",
        "[topology]\nkind = \"star\"\nhosts = 40\nlink = { rate = \"10Gbit/s\", delay = \"10us\" }\n",
    ),
    (
        "parking-lot",
        "a row of switches: one long pair, and one pair per hop",
        "[topology]\nkind = \"parking-lot\"\nhops = 3\nedge_link = { rate = \"10Gbit/s\", delay = \"1us\" }\nbottleneck_link = { \
         rate = \"10Gbit/s\", delay = \"1us\" }\n",
    ),
    (
        "leaf-spine",
        "two tiers: every leaf connects to every spine",
        "[topology]\nkind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 8\nhost_link = { rate = \
         \"10Gbit/s\", delay = \"1us\" }\nfabric_link = { rate = \"40Gbit/s\", delay = \"1us\" }\n",
    ),
    (
        "fat-tree",
        "three tiers of equal k-port switches, nowhere oversubscribed",
        "[topology]\nkind = \"fat-tree\"\nk = 8\nlink = { rate = \"10Gbit/s\", delay = \"1us\" }\n",
    ),
    (
        "clos",
        "three tiers with pods, of any sizes",
        "[topology]\nkind = \"clos\"\npods = 4\nracks_per_pod = 2\naggs_per_pod = 2\nhosts_per_rack = 6\ncores = 4\n\
         host_link = { rate = \"10Gbit/s\", delay = \"1us\" }\n",
    ),
    (
        "b4",
        "Google's wide-area network: 18 sites on 4 continents, the 40 links of it that are known",
        "[topology]\nkind = \"b4\"\nhosts_per_site = 1\nhost_link = { rate = \"10Gbit/s\", delay = \"10us\" }\nrate = \
         \"1Gbit/s\"\n",
    ),
    (
        "edge-list",
        "cables listed in a CSV file under the header `from,to,rate,delay`; names that begin with `host` are hosts",
        "[topology]\nkind = \"edge-list\"\nfile = \"cables.csv\"\n",
    ),
];

pub(crate) fn run(arguments: &Arguments) -> Result<Ending, CliError> {
    print(&describe(&arguments.name)?)?;
    Ok(Ending::Done)
}

fn describe(name: &str) -> Result<String, CliError> {
    if let Some(transport) = TransportName::ALL.into_iter().find(|transport| transport.name() == name) {
        return Ok(show_transport(transport));
    }
    if let Some((name, text)) = WORKLOADS.iter().find(|(workload, _)| *workload == name) {
        return Ok(format!("{name}: {}\n\n{text}", workload(name, text)));
    }
    if let Some((name, description, example)) = TOPOLOGIES.iter().find(|(topology, _, _)| *topology == name) {
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
    let transports = TransportName::ALL.into_iter().map(TransportName::name);
    let workloads = WORKLOADS.iter().map(|(name, _)| *name);
    let topologies = TOPOLOGIES.iter().map(|(name, _, _)| *name);
    let others = PRESETS.iter().chain(SCENARIOS).map(|(name, _)| *name);
    let near = nearest(name, transports.chain(workloads).chain(topologies).chain(others));
    let hint = near.map_or("see `pliant list`".to_owned(), |near| format!("did you mean `{near}`?"));
    CliError::User(format!("nothing is called `{name}`, {hint}"))
}

/// A queue plan under the table `queues`.
fn in_table(plan: &QueuesSpec) -> Result<String, CliError> {
    let text = toml::to_string(plan).map_err(|error| CliError::Machine(error.to_string()))?;
    Ok(text.replace("[[queue]]", "[[queues.queue]]").replace("[queue.", "[queues.queue."))
}

fn show_transport(transport: TransportName) -> String {
    let honours: Vec<String> = transport.honours().iter().map(ToString::to_string).collect();
    let honours = if honours.is_empty() { "nothing: its traffic does not bend".to_owned() } else { honours.join(", ") };
    let table = transport.settings_table();
    let settings = match transport.default_settings() {
        Some(settings) => {
            let shared = if transport.is_tcp() { " or `[transport]`" } else { "" };
            let text = format!("\nSettings under `[traffic.NAME.{table}]`{shared}, at their defaults:\n\n{settings}");
            let more = match transport {
                TransportName::FlexPass | TransportName::Layered => {
                    let tcp = transport.default_tcp_part().expect("its window is TCP's");
                    format!("\nSettings of its window under `[traffic.NAME.tcp]` or `[transport]`:\n\n{tcp}")
                }
                TransportName::NearOpt => {
                    let oracle = toml::to_string(&OracleSpec::default()).expect("settings are plain values");
                    format!("\nWhat the oracle does, under `[oracle]`:\n\n{oracle}")
                }
                _ if transport == TransportName::Push || transport.is_tcp() && !transport.sends_messages() => {
                    let reflex = toml::to_string(&ReflexSpec::default()).expect("settings are plain values");
                    let fields =
                        if transport == TransportName::Push { "min_share" } else { "min_delivery and min_share" };
                    format!("\nWith a table `[traffic.NAME.reflex]` it honours {fields}. Defaults:\n\n{reflex}")
                }
                _ => String::new(),
            };
            text + more.as_str()
        }
        None => format!("\nSettings under `[traffic.NAME.{table}]`:\n\nrate = \"1Gbit/s\"\n"),
    };
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
        for (name, _, example) in TOPOLOGIES.iter().filter(|(name, _, _)| *name != "edge-list") {
            let text = format!("duration = \"1ms\"\n{example}{TRAFFIC}");
            let resolved =
                Scenario::parse(&text, std::path::Path::new("example.toml")).and_then(|scenario| scenario.resolve());
            assert!(resolved.is_ok(), "{name}: {}", resolved.unwrap_err());
        }
    }

    #[test]
    fn everything_listed_can_be_shown() {
        let plans = PRESETS.iter().map(|(name, _)| name.replace("W-W", "4-1"));
        let others = TransportName::ALL.into_iter().map(|name| name.name().to_owned());
        for name in plans.chain(others).chain(["demo".to_owned(), "web_search".to_owned(), "clos".to_owned()]) {
            assert!(describe(&name).is_ok(), "{name}");
        }
        assert!(describe("dctpc").unwrap_err().to_string().contains("did you mean `dctcp`?"));
    }
}
