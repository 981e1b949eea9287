//! `pliant keygen`: key files.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use clap::Args;
use pliant_net::connection::Keys;
use pliant_net::entropy;

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::stdout::print;

const AFTER_HELP: &str = "\
Examples:
  # one key for both sides: copy the file to the other host, secretly
  pliant keygen lab.key
  # a key pair: add the peer's public key as a line `peer KEY`, and this one
  # there; `peer KEY NAME RIGHT...` gives it a name and says what it may do here
  pliant keygen --pair here.key";

/// Makes a key file for `send` and `recv`.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The file to write; one that is there stays
    file: PathBuf,
    /// A pair of keys, of which only the public half is told to the peer
    #[arg(long)]
    pair: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let random = entropy::seed()?;
    let text = if arguments.pair { Keys::new_static(random) } else { Keys::new_preshared(random) };
    let failed = |error: io::Error| {
        let why = match error.kind() {
            io::ErrorKind::AlreadyExists => "is there already, and a key is never replaced".to_owned(),
            _ => error.to_string(),
        };
        CliError::User(format!("{}: {why}", arguments.file.display()))
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&arguments.file).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    if let Some(public) = text.lines().find_map(|line| line.strip_prefix("public ")) {
        print(&format!("peer {}", public.split_whitespace().next().unwrap_or_default()))?;
    }
    Ok(ExitStatus::Done)
}
