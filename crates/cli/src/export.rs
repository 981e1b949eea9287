//! `pliant export` and `pliant import`: queue plans for real switches and hosts, and from them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pliant_proto::units::{Bytes, Rate};
use pliant_sim::one_line::OneLine;
use pliant_sim::scenario::{Direction, Resolved};
use pliant_sim::switch_config::{Form, Port, export, from_sonic};
use pliant_sim::topology::LinkId;

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::files::read_text;
use crate::flags;
use crate::scenarios::{ScenarioArguments, VariantArgument, resolve};
use crate::show::in_table;
use crate::stdout::print;

const EXPORT_EXAMPLES: &str = "\
Examples:
  pliant export demo --variant dwrr-9-1 --to sonic --port Ethernet0 \\
      --port Ethernet4 > qos.json
  # a script for Linux (ets, red)
  pliant export demo --variant strict --to tc --rate 10Gbit/s --port eth0 \\
      > queues.sh
  # with htb, without marking
  pliant export demo --variant strict --to htb --rate 10Gbit/s --port eth0 \\
      > queues.sh
  # everything, for programs
  pliant export demo --to json --rate 10Gbit/s
  # where queues differ by port
  pliant export demo --to json --tier 1 --direction up > uplinks.json

Each class has two DSCPs: twice its number, and one more for packets that may be dropped first. What the target cannot \
express is said on stderr, and in the comments of scripts.";

const IMPORT_EXAMPLES: &str = "\
Examples:
  # to be taken into a scenario
  pliant import config_db.json --port Ethernet0 > queues.toml";

/// Writes the queues of a scenario's switch ports as a SONiC switch, or Linux, takes them.
#[derive(Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    scenario: ScenarioArguments,
    #[command(flatten)]
    variant: VariantArgument,
    /// The target
    #[arg(long)]
    to: Target,
    /// Name of a port, or of a host's interface; may be given again. Default: Ethernet0 or eth0
    #[arg(long = "port", value_name = "NAME")]
    ports: Vec<String>,
    /// Rate of the ports' links. Default: the scenario's, where all of its links have one
    #[arg(long, value_parser = flags::above_zero::<Rate>())]
    rate: Option<Rate>,
    /// Bytes of a full IP packet, by which numbers of packets become bytes
    #[arg(long, value_name = "SIZE", default_value = "1500B", value_parser = packet_bytes())]
    mtu: Bytes,
    /// The queues of hosts in place of those of switches
    #[arg(long)]
    hosts: bool,
    /// Of switches of this tier, 1 for those with hosts, where queues differ by port
    #[arg(long, value_name = "N", conflicts_with = "hosts")]
    tier: Option<u32>,
    /// Of ports that lead there, where queues differ by port
    #[arg(long, value_name = "WHERE", conflicts_with = "hosts")]
    direction: Option<Direction>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Tables of SONiC's config_db.json
    Sonic,
    /// A script of tc with ets and red
    Tc,
    /// A script of tc with htb and bfifo
    Htb,
    /// A neutral description
    Json,
}

/// Reads the queues of a SONiC switch's port as a scenario has them.
#[derive(Args)]
#[command(after_help = IMPORT_EXAMPLES)]
pub(crate) struct ImportArgs {
    /// The switch's config_db.json
    file: PathBuf,
    /// The port
    #[arg(long, value_name = "NAME")]
    port: String,
    /// Bytes of a full IP packet, by which numbers of packets become bytes
    #[arg(long, value_name = "SIZE", default_value = "1500B", value_parser = packet_bytes())]
    mtu: Bytes,
}

fn packet_bytes() -> impl Fn(&str) -> Result<Bytes, String> + Clone + Send + Sync + 'static {
    flags::within(Bytes(64)..=Bytes(65_535))
}

pub(crate) fn run_export(arguments: &ExportArgs) -> Result<ExitStatus, CliError> {
    let scenario = arguments.scenario.load_variant(&arguments.variant)?;
    arguments.variant.say_there_are(&scenario)?;
    let scenario = resolve(&scenario, &mut BTreeSet::new())?;
    let form = match arguments.to {
        Target::Sonic => Form::Sonic,
        Target::Tc => Form::Tc,
        Target::Htb => Form::Htb,
        Target::Json => Form::Json,
    };
    let names = match (&arguments.ports[..], form) {
        ([], Form::Tc | Form::Htb) => vec!["eth0".to_owned()],
        ([], Form::Sonic | Form::Json) => vec!["Ethernet0".to_owned()],
        ([_, _, ..], Form::Tc | Form::Htb) => {
            return Err(CliError::User(
                "--port: a script is for one interface; it takes another as its argument".to_owned(),
            ));
        }
        (names, _) => names.to_vec(),
    };
    let unusable =
        |name: &&String| name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-@".contains(c));
    if let Some(name) = names.iter().find(unusable) {
        return Err(CliError::User(format!("--port {}: letters, digits, dots, dashes and underscores", OneLine(name))));
    }
    let kind = KindOfPort::chosen(&scenario, arguments)?;
    let plan = scenario.plans().of(&scenario.topology, kind.links[0]);
    // SONiC's tables speak of rates where a queue is limited, and nowhere else.
    let needs_rate = form != Form::Sonic || plan.queues.iter().any(|queue| queue.shaper.is_some());
    let port = Port {
        plan,
        rate: match arguments.rate {
            Some(rate) => rate,
            None if needs_rate => kind.only_rate(&scenario)?,
            None => Rate::from_gbit_per_sec(1),
        },
        packet_bytes: arguments.mtu.0 as u32,
        names: &names,
        kind: &kind.name,
    };
    let exported = export(&port, form).map_err(CliError::User)?;
    print(&exported.text)?;
    for sentence in &exported.not_expressed {
        say!("not expressed: {}", OneLine(sentence));
    }
    Ok(ExitStatus::Done)
}

/// Ports that have the same queues.
struct KindOfPort {
    /// At least one.
    links: Vec<LinkId>,
    /// What tells them from other ports of hosts, or of switches; empty if all have the same queues.
    name: String,
}

impl KindOfPort {
    /// The ports that the flags choose, of hosts or of switches.
    fn chosen(scenario: &Resolved, arguments: &ExportArgs) -> Result<Self, CliError> {
        let topology = &scenario.topology;
        let all: Vec<LinkId> =
            topology.link_ids().filter(|&link| topology.is_host(topology.link(link).from) == arguments.hosts).collect();
        let wanted = |link: &LinkId| {
            arguments.tier.is_none_or(|tier| tier == topology.tier(topology.link(*link).from))
                && arguments.direction.is_none_or(|direction| direction == Direction::of(topology, *link))
        };
        let mut links: Vec<LinkId> = all.iter().copied().filter(wanted).collect();
        // A rate that no link has is one to be asked about.
        let has = |rate: Rate| move |link: &LinkId| topology.link(*link).rate == rate;
        if let Some(rate) = arguments.rate.filter(|&rate| links.iter().any(has(rate))) {
            links.retain(has(rate));
        }
        if links.is_empty() {
            let tiers = topology.tiers();
            return Err(CliError::User(format!(
                "--tier, --direction: no port of a switch is such a one: tiers are 1 to {tiers}"
            )));
        }
        let other = |link: &LinkId| scenario.other_plans.of(*link);
        let kinds = |links: &[LinkId]| links.iter().map(other).collect::<BTreeSet<_>>();
        if kinds(&links).len() > 1 {
            let names = kinds(&links);
            let of_kind =
                |kind: &Option<usize>| links.iter().filter(|link| other(link) == *kind).copied().collect::<Vec<_>>();
            let names: Vec<String> = names.iter().map(|kind| described(scenario, &of_kind(kind))).collect();
            return Err(CliError::User(format!(
                "--tier, --direction and --rate choose ports, whose queues differ here: {}",
                names.join("; ")
            )));
        }
        let differs = kinds(&all).len() > 1;
        let name = if differs { described(scenario, &links) } else { String::new() };
        Ok(Self { links, name })
    }

    /// The rate of all links of these ports.
    fn only_rate(&self, scenario: &Resolved) -> Result<Rate, CliError> {
        match &rates(scenario, &self.links)[..] {
            [rate] => Ok(*rate),
            rates => {
                let rates: Vec<String> = rates.iter().map(Rate::to_string).collect();
                Err(CliError::User(format!("--rate is needed: the scenario's links have {}", rates.join(", "))))
            }
        }
    }
}

fn rates(scenario: &Resolved, links: &[LinkId]) -> Vec<Rate> {
    let rates: BTreeSet<Rate> = links.iter().map(|&link| scenario.topology.link(link).rate).collect();
    rates.into_iter().collect()
}

/// Ports in words: tiers, directions and rates.
fn described(scenario: &Resolved, links: &[LinkId]) -> String {
    let topology = &scenario.topology;
    let list = |texts: BTreeSet<String>| texts.into_iter().collect::<Vec<_>>().join(" and ");
    let tiers = list(links.iter().map(|&link| topology.tier(topology.link(link).from).to_string()).collect());
    let directions = list(links.iter().map(|&link| Direction::of(topology, link).to_string()).collect());
    let rates = rates(scenario, links).iter().map(Rate::to_string).collect::<Vec<_>>().join(" and ");
    if links.iter().all(|&link| topology.is_host(topology.link(link).from)) {
        return format!("of hosts, {rates}");
    }
    format!("of tier {tiers}, {directions}, {rates}")
}

pub(crate) fn run_import(arguments: &ImportArgs) -> Result<ExitStatus, CliError> {
    let text = read_text(&arguments.file)?;
    let imported = from_sonic(&text, &arguments.port, arguments.mtu.0 as u32);
    let (plan, assumed) = imported.map_err(|error| CliError::User(format!("{}: {error}", arguments.file.display())))?;
    print(&format!(
        "# {}, {}\n[queues]\n{}",
        OneLine(&arguments.file.display()),
        OneLine(&arguments.port),
        in_table(&plan)?
    ))?;
    for sentence in &assumed {
        say!("assumed: {}", OneLine(sentence));
    }
    Ok(ExitStatus::Done)
}
