//! The `pliant` command.
//!
//! Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 a failure of the machine (a disk, a
//! file that vanished), 2 a mistake of the user's (one line says which), 3 to 5 of transfers only, 130 interrupted
//! (what finished is written).

mod check;
mod compare;
mod error;
mod files;
mod fluid;
mod grid;
mod interrupt;
mod list;
mod memory;
mod progress;
mod report;
mod reproduce;
mod run;
mod scenarios;
mod show;
mod sweep;
mod testbed;
mod transfer;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use error::CliError;

const AFTER_HELP: &str = "\
Examples:
  pliant run demo                                   run the built-in scenario `demo`
  pliant run rack.toml --set load=0.7 --out results/rack
  pliant compare demo                               the scenario's variants side by side
  pliant sweep demo --vary web.load=0.2:0.8:0.2 --seeds 3 --out results/sweep
  pliant reproduce reflex                           a paper's figures: what it says, what comes out here
  pliant check rack.toml                            every setting, defaults filled in
  pliant list transports
  pliant keygen lab.key
  pliant recv --key lab.key & pliant send model.bin 127.0.0.1:7410 --key lab.key

Exit codes: 0 done, 1 failure of the machine, 2 mistake in the command or a file, 130 interrupted.";

/// Simulates and runs datacenter transports for traffic that can give way.
#[derive(Parser)]
#[command(name = "pliant", version, after_help = AFTER_HELP, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Arguments),
    Compare(compare::Arguments),
    Sweep(sweep::Arguments),
    Reproduce(reproduce::Arguments),
    Check(check::Arguments),
    List(list::Arguments),
    Show(show::Arguments),
    Report(report::Arguments),
    Fluid(fluid::Arguments),
    Send(transfer::SendArgs),
    Recv(transfer::RecvArgs),
    Offer(transfer::OfferArgs),
    Fetch(transfer::FetchArgs),
    Keygen(transfer::KeygenArgs),
    Switch(testbed::SwitchArguments),
    Testbed(testbed::Arguments),
}

/// How a command ended, if not by an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Done,
    Interrupted,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse_arguments(&error),
    };
    let ending = match &cli.command {
        Command::Run(arguments) => run::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::Sweep(arguments) => sweep::run(arguments),
        Command::Reproduce(arguments) => reproduce::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::List(arguments) => list::run(arguments),
        Command::Show(arguments) => show::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Fluid(arguments) => fluid::run(arguments),
        Command::Send(arguments) => transfer::send(arguments),
        Command::Recv(arguments) => transfer::recv(arguments),
        Command::Offer(arguments) => transfer::offer(arguments),
        Command::Fetch(arguments) => transfer::fetch(arguments),
        Command::Keygen(arguments) => transfer::keygen(arguments),
        Command::Switch(arguments) => testbed::switch(arguments),
        Command::Testbed(arguments) => testbed::run(arguments),
    };
    match ending {
        Ok(Ending::Done) | Err(CliError::OutputClosed) => ExitCode::SUCCESS,
        Ok(Ending::Interrupted) => ExitCode::from(130),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.code())
        }
    }
}

/// Help and version are printed whole; a mistake in one line, without the usage.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        print!("{error}");
        return ExitCode::SUCCESS;
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        eprint!("{error}");
        return ExitCode::from(2);
    }
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.starts_with("Usage:")).map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    eprintln!("{}", lines.join("; "));
    ExitCode::from(2)
}
