//! `pliant export` and `pliant import`: queue plans for real switches and hosts, and from them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pliant_proto::units::{Bytes, Rate};
use pliant_sim::one_line::OneLine;
use pliant_sim::scenario::Resolved;
use pliant_sim::switch_config::{Form, Port, export, from_sonic};

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::files::read_text;
use crate::flags;
use crate::scenarios::{ScenarioArguments, VariantArgument, resolve};
use crate::show::in_table;
use crate::stdout::print;

const EXPORT_EXAMPLES: &str = "\
Examples:
  pliant export demo --variant dwrr-9-1 --to sonic --port Ethernet0 --port Ethernet4 > qos.json
  pliant export demo --variant strict --to tc --rate 10Gbit/s --port eth0 > queues.sh     a script for Linux (ets, red)
  pliant export demo --variant strict --to htb --rate 10Gbit/s --port eth0 > queues.sh    with htb, without marking
  pliant export demo --to json --rate 10Gbit/s                                            everything, for programs

Each class has two DSCPs: twice its number, and one more for packets that may be dropped first. What the target cannot
express is said on stderr, and in the comments of scripts.";

const IMPORT_EXAMPLES: &str = "\
Examples:
  pliant import config_db.json --port Ethernet0 > queues.toml     to be taken into a scenario";

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
    let plan = if arguments.hosts { &scenario.host_plan } else { &scenario.switch_plan };
    // SONiC's tables speak of rates where a queue is limited, and nowhere else.
    let needs_rate = form != Form::Sonic || plan.queues.iter().any(|queue| queue.shaper.is_some());
    let port = Port {
        plan,
        rate: match arguments.rate {
            Some(rate) => rate,
            None if needs_rate => only_rate(&scenario, arguments.hosts)?,
            None => Rate::from_gbit_per_sec(1),
        },
        packet_bytes: arguments.mtu.0 as u32,
        names: &names,
    };
    let exported = export(&port, form).map_err(CliError::User)?;
    print(&exported.text)?;
    for sentence in &exported.not_expressed {
        eprintln!("not expressed: {}", OneLine(sentence));
    }
    Ok(ExitStatus::Done)
}

/// The rate of all links that leave hosts, or switches.
fn only_rate(scenario: &Resolved, hosts: bool) -> Result<Rate, CliError> {
    let topology = &scenario.topology;
    let links = topology.links().iter().filter(|link| topology.is_host(link.from) == hosts);
    let rates: BTreeSet<u64> = links.map(|link| link.rate.bits_per_sec()).collect();
    match rates.first() {
        Some(&rate) if rates.len() == 1 => Ok(Rate::from_bits_per_sec(rate)),
        _ => {
            let rates: Vec<String> = rates.iter().map(|rate| Rate::from_bits_per_sec(*rate).to_string()).collect();
            Err(CliError::User(format!("--rate is needed: the scenario's links have {}", rates.join(", "))))
        }
    }
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
        eprintln!("assumed: {}", OneLine(sentence));
    }
    Ok(ExitStatus::Done)
}
