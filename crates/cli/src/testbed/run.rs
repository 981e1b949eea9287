//! `pliant testbed run`: scenarios on a testbed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::{Args, ValueEnum};
use pliant_net::switch::FaultConfig;
use pliant_net::switch::ethernet::Mode;
use pliant_sim::output::{check_folder, write_run};
use pliant_sim::results::RunResult;
use pliant_sim::results::comparison::Variant;
use pliant_sim::scenario::Resolved;
use pliant_testbed::plan::FaultSpec;
use pliant_testbed::{Headroom, Options};

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::run::{OutputArguments, TableArguments};
use crate::scenarios::ScenarioArguments;
use crate::stdout::print;
use crate::{interrupt, scenarios};

pub(super) const AFTER_HELP: &str = "\
Examples:
  # as root: namespaces, interfaces, a switch
  pliant testbed run experiments/testbed/two-dctcp.toml
  # by anybody: on loopback
  pliant testbed run experiments/testbed/two-dctcp.toml --relay
  # the files that `pliant run` writes
  pliant testbed run two.toml --set duration=2s --out results/testbed
  # one after the other
  pliant testbed run experiments/testbed/*.toml --out results/testbed
  # through a bad network
  pliant testbed run two.toml --faults 'loss = 0.05, reorder = 0.1'
  # beside the simulator
  pliant compare two.toml --on sim,testbed
  # what experiments/testbed.toml claims, kept
  pliant testbed record --real-time";

/// Runs a scenario on network namespaces, or on loopback, with its flows as real processes.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RunArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// Further scenarios, run one after the other; with --out each has a folder of its name in it
    more: Vec<PathBuf>,
    #[command(flatten)]
    how: TestbedArguments,
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
pub(crate) struct TestbedArguments {
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

impl TestbedArguments {
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

/// The table of `--faults`, as the text of a TOML file, and what it says.
pub(super) fn read_faults(text: &str) -> Result<(String, FaultConfig), CliError> {
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

pub(super) fn run_scenarios(arguments: &RunArguments) -> Result<ExitStatus, CliError> {
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
    let mut worst = ExitStatus::Done;
    for scenario in &scenarios {
        if several && !output.json {
            print(&format!("\n{}\n", scenario.name()))?;
        }
        worst = worst.max(run_scenario(arguments, scenario, folder(scenario).as_deref())?);
        if worst == ExitStatus::Interrupted {
            break;
        }
    }
    Ok(worst)
}

fn run_scenario(arguments: &RunArguments, scenario: &Resolved, out: Option<&Path>) -> Result<ExitStatus, CliError> {
    let output = &arguments.output;
    let (result, headroom) =
        run_one(scenario, &arguments.how, interrupt::listen(interrupt::SO_FAR_IS_THE_RESULT), output.quiet)?;
    if let Some(out) = out {
        let run = Variant { label: "", result: &result };
        write_run(out, run, &scenario.to_toml(), output.options())?;
    }
    print(&arguments.table.of_run(&result, output.json))?;
    if arguments.counters {
        say!("{}", headroom.counters.trim_end());
    }
    if let (Some(out), false) = (out, output.json) {
        print(&format!("written to {}\n", out.display()))?;
    }
    Ok(ExitStatus::of(&result))
}

/// Runs a scenario on a testbed and says on stderr what the machine had left.
pub(crate) fn run_one(
    scenario: &Resolved,
    how: &TestbedArguments,
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
    let (mut result, headroom) = pliant_testbed::run(scenario, &options, interrupt, &mut |_| {})?;
    result.overloaded = headroom.overload();
    if !quiet || headroom.overload().is_some() {
        say!("{}", headroom.text().trim_end());
    }
    if headroom.wrong_bytes > 0 {
        let why = format!("{} payload bytes arrived that were not sent", headroom.wrong_bytes);
        return Err(CliError::Machine(why));
    }
    Ok((result, headroom))
}
