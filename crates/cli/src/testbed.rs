//! `pliant testbed` and `pliant switch`: scenarios and plans on a real network.

pub(crate) mod record;

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use pliant_net::clock::SharedClock;
use pliant_net::switch::counters::{Names, prometheus, text};
use pliant_net::switch::ethernet::{EthernetSwitch, Mode, SwitchError};
use pliant_net::switch::relay::Relay;
use pliant_net::switch::{FaultConfig, PortCounters, Switch};
use pliant_sim::output::{check_folder, write_run};
use pliant_sim::results::RunResult;
use pliant_sim::scenario::Resolved;
use pliant_testbed::host::{HostArguments, HostError};
use pliant_testbed::plan::{FaultSpec, Plan, PlanFileError};
use pliant_testbed::run::{Headroom, Options, TestbedError};
use pliant_testbed::switch::{Medium, SwitchProcessError};

use crate::error::CliError;
use crate::run::{OutputArguments, TableArguments};
use crate::scenarios::ScenarioArguments;
use crate::stdout::print;
use crate::{Ending, flags, interrupt, scenarios};

const AFTER_HELP: &str = "\
Examples:
  pliant testbed run experiments/testbed/two-dctcp.toml                    as root: namespaces, interfaces, a switch
  pliant testbed run experiments/testbed/two-dctcp.toml --relay            by anybody: on loopback
  pliant testbed run two.toml --set duration=2s --out results/testbed      the files that `pliant run` writes
  pliant testbed run experiments/testbed/*.toml --out results/testbed      one after the other
  pliant testbed run two.toml --faults 'loss = 0.05, reorder = 0.1'        through a bad network
  pliant compare two.toml --on sim,testbed                                 beside the simulator
  pliant testbed record --real-time                                        what experiments/testbed.toml claims, kept";

const SWITCH_EXAMPLES: &str = "\
Examples:
  pliant switch plan.toml                                until Ctrl-C, then the counters
  pliant switch plan.toml --metrics switch.prom          counters for Prometheus's textfile collector, every second
  pliant switch plan.toml --for 10                       for ten seconds

A plan:
  rate = \"500Mbit/s\"
  queues = { plan = \"dwrr-9-1\" }         # as in a scenario
  dscp = { 46 = 0, 0 = 1 }               # traffic classes; else the upper five bits of DSCP
  faults = { loss = 0.05, duplicate = 0.01, corrupt = 0.01, reorder = 0.1, reorder_delay = \"1ms\",
             blackouts = [{ from = \"1s\", length = \"2s\" }] }

  [[port]]
  interface = \"veth0\"                    # or, without root: host = \"127.0.1.1:7000\", alias = \"127.0.2.1:7000\"
  addresses = [\"10.0.0.1\", \"02:00:00:00:00:01\"]
  delay = \"1ms\"";

/// Runs scenarios on a real network.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(RunArguments),
    Record(record::Arguments),
    #[command(hide = true)]
    Host(HostCommand),
    #[command(hide = true)]
    Switch(SwitchCommand),
}

/// Runs a scenario on network namespaces, or on loopback, with its flows as real processes.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
struct RunArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// Further scenarios, run one after the other; with --out each has a folder of its name in it
    more: Vec<PathBuf>,
    #[command(flatten)]
    how: HowArguments,
    /// Prints what every port and queue of the switch counted
    #[arg(long)]
    counters: bool,
    #[command(flatten)]
    table: TableArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// How a testbed is made.
#[derive(Args)]
pub(crate) struct HowArguments {
    /// Without privileges: hosts are addresses on loopback, the switch relays UDP between them
    #[arg(long)]
    pub(crate) relay: bool,
    /// `fidelity`: frames as a wire has them, links of up to 1 Gbit/s; `speed`: superframes of up to 64 kB, which are one
    /// entry of a queue each
    #[arg(long, value_enum, default_value = "fidelity")]
    pub(crate) mode: ModeName,
    /// Gives all processes real-time priority, for machines that have other work: needs root
    #[arg(long)]
    pub(crate) real_time: bool,
    /// What the switch does to frames: loss, duplicate, corrupt, reorder (probabilities), reorder_delay, blackouts
    #[arg(long, value_name = "TABLE", default_value = "")]
    pub(crate) faults: String,
}

impl HowArguments {
    /// The first flag that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--relay", self.relay),
            ("--mode", self.mode != ModeName::Fidelity),
            ("--real-time", self.real_time),
            ("--faults", !self.faults.is_empty()),
        ];
        flags.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }
}

/// What a switch takes for a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ModeName {
    Fidelity,
    Speed,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Fidelity => Self::Fidelity,
            ModeName::Speed => Self::Speed,
        }
    }
}

#[derive(Args)]
struct HostCommand {
    #[arg(long)]
    scenario: PathBuf,
    #[arg(long)]
    host: u32,
    #[arg(long)]
    address: Ipv4Addr,
    #[arg(long, value_delimiter = ',')]
    peers: Vec<Ipv4Addr>,
}

#[derive(Args)]
struct SwitchCommand {
    #[arg(long)]
    scenario: PathBuf,
    #[arg(long, value_delimiter = ',')]
    interfaces: Vec<String>,
    #[arg(long, value_delimiter = ',')]
    loopback: Vec<String>,
    #[arg(long, value_enum, default_value = "fidelity")]
    mode: ModeName,
    #[arg(long, default_value = "")]
    faults: String,
}

/// Forwards between interfaces, or relays UDP on loopback, through the queues of a plan.
#[derive(Args)]
#[command(after_help = SWITCH_EXAMPLES)]
pub(crate) struct SwitchArguments {
    /// The plan
    plan: PathBuf,
    /// Ends after so many seconds
    #[arg(long = "for", value_name = "SECONDS", value_parser = flags::whole::<u64>(0..=u64::MAX))]
    seconds: Option<u64>,
    /// Writes the counters into this file every second, in Prometheus's text form
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Ending, CliError> {
    match &arguments.command {
        Command::Run(arguments) => run_scenarios(arguments),
        Command::Record(arguments) => record::run(arguments),
        Command::Host(arguments) => {
            let HostCommand { scenario, host, address, peers } = arguments;
            let arguments = HostArguments { host: *host, address: *address, peers: peers.clone() };
            pliant_testbed::host::run(scenario, &arguments)?;
            Ok(Ending::Done)
        }
        Command::Switch(arguments) => {
            let (_, faults) = read_faults(&arguments.faults)?;
            pliant_testbed::switch::run(&arguments.scenario, &medium(arguments)?, arguments.mode.into(), faults)?;
            Ok(Ending::Done)
        }
    }
}

fn medium(arguments: &SwitchCommand) -> Result<Medium, CliError> {
    if !arguments.interfaces.is_empty() {
        return Ok(Medium::Interfaces(arguments.interfaces.clone()));
    }
    let pair =
        |pair: &String| pair.split_once('=').and_then(|(own, alias)| Some((own.parse().ok()?, alias.parse().ok()?)));
    let pairs: Option<Vec<_>> = arguments.loopback.iter().map(pair).collect();
    pairs.map(Medium::Loopback).ok_or_else(|| CliError::User("--loopback: addresses are pairs".to_owned()))
}

/// The table of `--faults`, as the text of a TOML file, and what it says.
fn read_faults(text: &str) -> Result<(String, FaultConfig), CliError> {
    let refuse = |why: String| CliError::User(format!("--faults: {why}"));
    // On the command line commas separate keys; in a file, lines do.
    let table = if text.contains('\n') || text.is_empty() { text.to_owned() } else { format!("faults = {{ {text} }}") };
    let inner = match table.strip_prefix("faults = ") {
        Some(_) => {
            let whole: toml::Table = toml::from_str(&table).map_err(|error| refuse(error.message().to_owned()))?;
            toml::to_string(&whole["faults"]).map_err(|error| refuse(error.to_string()))?
        }
        None => table,
    };
    let faults = FaultSpec::parse(&inner).and_then(|spec| spec.build()).map_err(refuse)?;
    Ok((inner, faults))
}

fn run_scenarios(arguments: &RunArguments) -> Result<Ending, CliError> {
    let output = &arguments.output;
    let others = arguments.more.iter().map(|file| arguments.scenario.load_from(file));
    // Every scenario is checked before the first one runs.
    let mut said = BTreeSet::new();
    let scenarios = std::iter::once(arguments.scenario.load())
        .chain(others)
        .map(|scenario| scenarios::resolve(&scenario?, &mut said))
        .collect::<Result<Vec<Resolved>, CliError>>()?;
    let several = scenarios.len() > 1;
    let folder = |scenario: &Resolved| {
        output.out.as_ref().map(|out| if several { out.join(scenario.name()) } else { out.clone() })
    };
    for out in scenarios.iter().filter_map(folder) {
        check_folder(&out, output.force)?;
    }
    let mut worst = Ending::Done;
    for scenario in &scenarios {
        if several && !output.json {
            print(&format!("\n{}\n", scenario.name()))?;
        }
        worst = worst.max(run_scenario(arguments, scenario, folder(scenario).as_deref())?);
        if worst == Ending::Interrupted {
            break;
        }
    }
    Ok(worst)
}

fn run_scenario(arguments: &RunArguments, scenario: &Resolved, out: Option<&Path>) -> Result<Ending, CliError> {
    let output = &arguments.output;
    let (result, headroom) =
        run_one(scenario, &arguments.how, interrupt::listen(interrupt::SO_FAR_IS_THE_RESULT), output.quiet)?;
    if let Some(out) = out {
        write_run(out, &result, &scenario.to_toml(), output.force)?;
    }
    print(&arguments.table.of_run(&result, output.json))?;
    if arguments.counters {
        eprint!("{}", headroom.counters);
    }
    if let (Some(out), false) = (out, output.json) {
        print(&format!("written to {}\n", out.display()))?;
    }
    Ok(Ending::of(&result))
}

/// Runs a scenario on a testbed and says on stderr what the machine had left.
pub(crate) fn run_one(
    scenario: &Resolved,
    how: &HowArguments,
    interrupt: &AtomicBool,
    quiet: bool,
) -> Result<(RunResult, Headroom), CliError> {
    let (fault_text, faults) = read_faults(&how.faults)?;
    if how.relay && faults.corrupt > 0.0 {
        return Err(CliError::User("--faults: a relay cannot corrupt what it sends".to_owned()));
    }
    if how.mode == ModeName::Speed && faults.corrupt > 0.0 {
        return Err(CliError::User(
            "--faults: corrupt needs --mode fidelity, superframes have no checksums".to_owned(),
        ));
    }
    let program = std::env::current_exe().map_err(|error| CliError::Machine(format!("cannot find myself: {error}")))?;
    if how.relay && how.mode == ModeName::Speed {
        return Err(CliError::User("--mode speed: a relay has no superframes".to_owned()));
    }
    let mode = how.mode.into();
    let options = Options { program, mode, on_loopback: how.relay, real_time: how.real_time, faults, fault_text };
    let (mut result, headroom) = pliant_testbed::run::run(scenario, &options, interrupt, &mut |_| {})?;
    result.overloaded = headroom.overload();
    if !quiet || headroom.overload().is_some() {
        eprint!("{}", headroom.text());
    }
    if headroom.wrong_bytes > 0 {
        let why = format!("{} payload bytes arrived that were not sent", headroom.wrong_bytes);
        return Err(CliError::Machine(why));
    }
    Ok((result, headroom))
}

/// `pliant switch`.
pub(crate) fn switch(arguments: &SwitchArguments) -> Result<Ending, CliError> {
    let plan = Plan::load(&arguments.plan)?;
    let names = Names::new(plan.switch());
    let interrupt = interrupt::listen("");
    let clock = SharedClock::start();
    let mut running: Box<dyn Turning> = match &plan {
        Plan::Ethernet(config) => Box::new(EthernetSwitch::open(config, clock)?),
        Plan::Relay(config) => Box::new(Relay::open(config, clock)?),
    };
    eprintln!("forwarding between {} ports; Ctrl-C ends it", plan.switch().ports.len());
    let (mut next_look, mut interrupted) = (0, false);
    let mut unsaid = REFUSALS.to_vec();
    loop {
        running.turn()?;
        let seconds = clock.now().as_secs_f64();
        interrupted |= interrupt.load(Ordering::Relaxed);
        let ends = interrupted || arguments.seconds.is_some_and(|limit| seconds >= limit as f64);
        // Once a second, and at the end.
        if ends || seconds >= f64::from(next_look) {
            next_look += 1;
            unsaid.retain(|(refused, why)| {
                let port = names.ports().zip(running.switch().ports()).find(|(_, counters)| refused(counters) > 0);
                port.inspect(|(name, _)| eprintln!("warning: port {name}: {why}")).is_none()
            });
            if let Some(file) = &arguments.metrics {
                write_metrics(file, &prometheus(&names, running.switch()))?;
            }
        }
        if ends {
            break;
        }
    }
    running.switch().assert_conserved();
    print(&text(&names, running.switch()))?;
    Ok(if interrupted { Ending::Interrupted } else { Ending::Done })
}

type Refusal = (fn(&PortCounters) -> u64, &'static str);

/// What a switch refuses that its user has to set right: said once.
const REFUSALS: [Refusal; 2] = [
    (
        |counters| counters.oversized,
        "frames are too long, as superframes are: `ip link set dev IF gso_max_segs 1` at the sender, or its --no-offload",
    ),
    (
        |counters| counters.strangers,
        "datagrams to its alias come from an address that is no port's `host`: see --bind of `send` and `fetch`",
    ),
];

/// Either driver of a switch. A call for each batch of frames may be virtual.
trait Turning {
    fn turn(&mut self) -> std::io::Result<()>;
    fn switch(&self) -> &Switch;
}

/// How soon Ctrl-C is heard.
const NAP: Duration = Duration::from_millis(50);

impl Turning for EthernetSwitch {
    fn turn(&mut self) -> std::io::Result<()> {
        self.turn(NAP)
    }

    fn switch(&self) -> &Switch {
        self.switch()
    }
}

impl Turning for Relay {
    fn turn(&mut self) -> std::io::Result<()> {
        self.turn(NAP)
    }

    fn switch(&self) -> &Switch {
        self.switch()
    }
}

/// Replaces the file as a whole: a collector never sees half of it.
fn write_metrics(file: &Path, text: &str) -> Result<(), CliError> {
    let fresh = file.with_extension(format!("new-{}", std::process::id()));
    let written = fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, file));
    written.map_err(|error| CliError::Machine(format!("cannot write {}: {error}", file.display())))
}

impl From<TestbedError> for CliError {
    fn from(error: TestbedError) -> Self {
        match error {
            TestbedError::Unsuitable(_) | TestbedError::NotPermitted => Self::User(error.to_string()),
            TestbedError::Process { .. } | TestbedError::Io { .. } => Self::Machine(error.to_string()),
        }
    }
}

impl From<PlanFileError> for CliError {
    fn from(error: PlanFileError) -> Self {
        Self::User(error.to_string())
    }
}

impl From<SwitchError> for CliError {
    fn from(error: SwitchError) -> Self {
        Self::User(error.to_string())
    }
}

impl From<HostError> for CliError {
    fn from(error: HostError) -> Self {
        Self::Machine(error.to_string())
    }
}

impl From<SwitchProcessError> for CliError {
    fn from(error: SwitchProcessError) -> Self {
        Self::Machine(error.to_string())
    }
}
