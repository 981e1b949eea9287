//! The `pliant` command.
//!
//! Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 a failure of the machine (a disk, a
//! peer that fell silent), 2 a mistake of the user's (one line says which), 130 interrupted.

mod error;
mod interrupt;
mod transfer;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use error::CliError;

/// Runs datacenter transports for traffic that can give way.
#[derive(Parser)]
#[command(name = "pliant", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Send(transfer::SendArgs),
    Recv(transfer::RecvArgs),
}

/// How a command ended, if not by an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Done,
    Interrupted,
}

fn main() -> ExitCode {
    let ending = match &Cli::parse().command {
        Command::Send(arguments) => transfer::send(arguments),
        Command::Recv(arguments) => transfer::recv(arguments),
    };
    match ending {
        Ok(Ending::Done) | Err(CliError::OutputClosed) => ExitCode::SUCCESS,
        Ok(Ending::Interrupted) => ExitCode::from(130),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(if error.is_user() { 2 } else { 1 })
        }
    }
}
