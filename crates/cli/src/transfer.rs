//! `pliant send`, `recv` and `keygen`: a file, a directory or a stream between two hosts, over UDP; `offer` and `fetch`: a
//! file from many hosts at once.

mod arguments;
mod outcome;
mod push;

use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pliant_net::connection::Keys;
use pliant_net::entropy;
use pliant_net::transfer::{self, Progress, Receiver, TransferError};
use pliant_sim::one_line::OneLine;

use crate::error::{CliError, is_about_a_path};
use crate::{Ending, interrupt};
pub(crate) use arguments::{RecvArgs, SendArgs};
use outcome::Outcome;
pub(crate) use push::{FetchArgs, OfferArgs, fetch, offer};

const KEYGEN_EXAMPLES: &str = "\
Examples:
  pliant keygen lab.key                    one key for both sides: copy the file to the other host, secretly
  pliant keygen --pair here.key            a key pair: add the peer's public key as a line `peer KEY`, and this one there";

/// Makes a key file for `send` and `recv`.
#[derive(Args)]
#[command(after_help = KEYGEN_EXAMPLES)]
pub(crate) struct KeygenArgs {
    /// The file to write; one that is there stays
    file: PathBuf,
    /// A pair of keys, of which only the public half is told to the peer
    #[arg(long)]
    pair: bool,
}

pub(crate) fn keygen(arguments: &KeygenArgs) -> Result<Ending, CliError> {
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
        println!("peer {}", public.split_whitespace().next().unwrap_or_default());
    }
    Ok(Ending::Done)
}

pub(crate) fn send(arguments: &SendArgs) -> Result<Ending, CliError> {
    let settings = arguments.settings()?;
    let (source, to) = arguments.source()?;
    let display = Display::new(arguments.output.quiet);
    let sent = transfer::send(source, to, &settings, interrupt::listen(""), |progress| display.show(progress));
    drop(display);
    match sent {
        Err(TransferError::Interrupted) => Ok(Ending::Interrupted),
        sent => {
            let sent = sent?;
            if let Some(why) = outcome::without_credits(settings.flow.transport, sent.family) {
                eprintln!("{why}");
            }
            Outcome::sent(&arguments.name(), to, &settings, &sent).print(arguments.output.json)?;
            Ok(Ending::Done)
        }
    }
}

pub(crate) fn recv(arguments: &RecvArgs) -> Result<Ending, CliError> {
    let settings = arguments.settings()?;
    let target = arguments.target()?;
    let receiver = Receiver::bind(arguments.listen, settings.clone())?;
    let interrupt = interrupt::listen("");
    if !arguments.output.quiet {
        eprintln!("listening on {}", receiver.address());
    }
    let display = Display::new(arguments.output.quiet);
    let mut first_failure = None;
    let served = receiver.serve(
        &target,
        arguments.count(),
        interrupt,
        |progress| display.show(progress),
        |received| {
            let printed = match received {
                Ok(received) => Outcome::received(&settings, &received).print(arguments.output.json),
                Err(error) => Err(CliError::from(error)),
            };
            let Err(error) = printed else { return };
            // One of several that failed does not end the others.
            if arguments.count() != Some(1) {
                eprintln!("error: {}", OneLine(&error));
            }
            first_failure.get_or_insert(error);
        },
    );
    drop(display);
    match (served, first_failure) {
        (Err(TransferError::Interrupted), _) => Ok(Ending::Interrupted),
        (Err(error), _) => Err(error.into()),
        (Ok(()), Some(error)) => Err(error),
        (Ok(()), None) => Ok(Ending::Done),
    }
}

impl From<TransferError> for CliError {
    /// A path or an address that cannot work is the user's mistake.
    fn from(error: TransferError) -> Self {
        use io::ErrorKind as Kind;
        let text = error.to_string();
        let kind = match &error {
            TransferError::NotLoopback(_)
            | TransferError::Flow(_)
            | TransferError::Connect(_)
            | TransferError::Sources(_) => Kind::InvalidInput,
            TransferError::File { error, .. } | TransferError::Socket { error, .. } => error.kind(),
            TransferError::NoAnswer { .. } => return Self::NoPeer(text),
            TransferError::Ended { why, .. } if why.is_refusal() => return Self::NoPeer(text),
            TransferError::Ended { .. } => return Self::PeerLost(text),
            TransferError::NotATransfer { .. }
            | TransferError::HashMismatch { .. }
            | TransferError::BoundMissed { .. } => return Self::WrongContent(text),
            TransferError::Interrupted => Kind::Interrupted,
        };
        match kind {
            Kind::AddrInUse | Kind::AddrNotAvailable | Kind::InvalidInput => Self::User(text),
            kind if is_about_a_path(kind) => Self::User(text),
            _ => Self::Machine(text),
        }
    }
}

/// How far a transfer is, as a bar on stderr; nothing where stderr is no terminal.
struct Display(ProgressBar);

impl Display {
    fn new(quiet: bool) -> Self {
        let shown = io::stderr().is_terminal() && !quiet;
        let target = if shown { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(ProgressStyle::with_template("{decimal_bytes}  {decimal_bytes_per_sec}").expect("it is fixed"));
        Self(bar)
    }

    fn show(&self, progress: Progress) {
        if let Some(total) = progress.total_bytes
            && self.0.length() != Some(total)
        {
            let style = ProgressStyle::with_template(
                "{bar:30} {percent}%  {decimal_bytes} of {decimal_total_bytes}  {decimal_bytes_per_sec}  {eta} left",
            );
            self.0.set_style(style.expect("the template is fixed"));
            self.0.set_length(total);
        }
        self.0.set_position(progress.done_bytes);
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
