//! `pliant testbed`: scenarios on a real network.

pub(crate) mod record;
mod run;

use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use pliant_testbed::host::HostArguments;
use pliant_testbed::switch::Medium;

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use run::{AFTER_HELP, ModeName, RunArguments, read_faults, run_scenarios};
pub(crate) use run::{TestbedArguments, run_one};

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

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    match &arguments.command {
        Command::Run(arguments) => run_scenarios(arguments),
        Command::Record(arguments) => record::run(arguments),
        Command::Host(arguments) => {
            let HostCommand { scenario, host, address, peers } = arguments;
            let arguments = HostArguments { host: *host, address: *address, peers: peers.clone() };
            pliant_testbed::host::run(scenario, &arguments)?;
            Ok(ExitStatus::Done)
        }
        Command::Switch(arguments) => {
            let (_, faults) = read_faults(&arguments.faults)?;
            pliant_testbed::switch::run(&arguments.scenario, &medium(arguments)?, arguments.mode.into(), faults)?;
            Ok(ExitStatus::Done)
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
