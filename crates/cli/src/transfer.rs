//! `pliant send` and `pliant recv`: a file between two processes of this host, over UDP.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pliant_net::transfer::{self, Progress, Receiver, Settings, Source, Target, TransferError};
use pliant_proto::congestion::Algorithm;
use pliant_proto::transport::Statistics;
use pliant_sim::scenario::TransportName;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::error::CliError;
use crate::{Ending, interrupt};

/// Where `recv` listens unless told otherwise.
const DEFAULT_LISTEN: &str = "127.0.0.1:7410";

const SEND_EXAMPLES: &str = "\
Examples:
  pliant send model.bin 127.0.0.1:7410
  pliant send model.bin 127.0.0.1:7410 --congestion weighted-fair --weight 4
  pliant send model.bin [::1]:7410 --mtu 9000 --json | jq .gbit_per_s

Start `pliant recv` first, or within ten seconds. Transfers are not encrypted yet, so only loopback addresses are allowed.

Exit codes: 0 done, 1 failure of the machine or the peer, 2 mistake in the command or a file, 130 interrupted.";

const RECV_EXAMPLES: &str = "\
Examples:
  pliant recv                              into this directory, under the sender's name
  pliant recv results/                     into that directory
  pliant recv copy.bin                     into that file; one that is there is replaced once all of it has arrived
  pliant recv --discard --json             received, hashed and forgotten: measures the way, not the disk
  pliant recv --listen [::1]:0             on any free port, which stderr tells

Exit codes: 0 done, 1 failure of the machine or the peer, 2 mistake in the command or a file, 130 interrupted.";

/// Sends a file to a `pliant recv` on this host.
#[derive(Args)]
#[command(after_help = SEND_EXAMPLES)]
pub(crate) struct SendArgs {
    /// The file
    file: PathBuf,
    /// Where `pliant recv` listens
    #[arg(value_name = "ADDRESS")]
    to: SocketAddr,
    /// Congestion control
    #[arg(long, value_name = "NAME", default_value = "dctcp", value_parser = congestion())]
    congestion: String,
    /// Weight under weighted-fair: a flow of weight 2 takes twice the rate of one of weight 1
    #[arg(long, value_name = "W", value_parser = parse_weight)]
    weight: Option<f64>,
    /// Largest IP packet in bytes, 576 to 65535
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u16).range(576..))]
    mtu: u16,
    #[command(flatten)]
    output: OutputArgs,
}

/// Receives one file from a `pliant send` on this host.
#[derive(Args)]
#[command(after_help = RECV_EXAMPLES)]
pub(crate) struct RecvArgs {
    /// A directory, or the file to write [default: the current directory]
    #[arg(value_name = "TARGET", conflicts_with = "discard")]
    target: Option<PathBuf>,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = DEFAULT_LISTEN)]
    listen: SocketAddr,
    /// Writes nothing, but checks the hash
    #[arg(long)]
    discard: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Args)]
struct OutputArgs {
    /// Prints the result as one JSON object
    #[arg(long)]
    json: bool,
    /// Shows no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Names that `--congestion` takes; `weighted` is short for `weighted-fair`.
const CONGESTION: [&str; 5] = ["dctcp", "cubic", "newreno", "weighted-fair", "weighted"];

/// Those names, and one that is known but refused with its reason.
fn congestion() -> PossibleValuesParser {
    let simulated = PossibleValue::new(TransportName::NearOpt.name()).hide(true);
    PossibleValuesParser::new(CONGESTION.map(PossibleValue::new).into_iter().chain([simulated]))
}

fn parse_weight(text: &str) -> Result<f64, String> {
    let weight = text.parse::<f64>().map_err(|error| error.to_string())?;
    let usable = weight.is_finite() && weight > 0.0;
    if usable { Ok(weight) } else { Err("a weight is a number above 0".into()) }
}

pub(crate) fn send(arguments: &SendArgs) -> Result<Ending, CliError> {
    let settings = settings(arguments)?;
    let source = Source::open(&arguments.file)?;
    let display = Display::new(arguments.output.quiet);
    let sent = transfer::send(source, arguments.to, &settings, interrupt::listen(), |progress| display.show(progress));
    drop(display);
    let sent = match sent {
        Err(TransferError::Interrupted) => return Ok(Ending::Interrupted),
        other => other?,
    };
    let file = arguments.file.display().to_string();
    let outcome = Outcome::new("sent", file, sent.bytes, sent.elapsed, sent.hash.to_string(), &sent.statistics);
    outcome.print(arguments.output.json)?;
    Ok(Ending::Done)
}

fn settings(arguments: &SendArgs) -> Result<Settings, CliError> {
    if arguments.congestion == TransportName::NearOpt.name() {
        let why = "--congestion near-opt needs an oracle, which exists in the simulator only";
        return Err(CliError::User(why.to_owned()));
    }
    let name = if arguments.congestion == "weighted" { "weighted-fair" } else { &arguments.congestion };
    let algorithm: Algorithm = name.parse().expect("the parser offers only known names");
    if arguments.weight.is_some() && algorithm != Algorithm::WeightedFair {
        return Err(CliError::User(format!("--weight needs --congestion weighted-fair: {algorithm} has no weight")));
    }
    let weight = arguments.weight.unwrap_or(1.0);
    Ok(Settings { algorithm, weight, mtu: arguments.mtu, ..Settings::default() })
}

pub(crate) fn recv(arguments: &RecvArgs) -> Result<Ending, CliError> {
    let receiver = Receiver::bind(arguments.listen, Settings::default())?;
    if !arguments.output.quiet {
        eprintln!("listening on {}", receiver.address());
    }
    let display = Display::new(arguments.output.quiet);
    let received = receiver.receive(&target(arguments), interrupt::listen(), |progress| display.show(progress));
    drop(display);
    let received = match received {
        Err(TransferError::Interrupted) => return Ok(Ending::Interrupted),
        other => other?,
    };
    let file = received.path.map_or(received.name, |path| path.display().to_string());
    let hash = received.hash.to_string();
    Outcome::new("received", file, received.bytes, received.elapsed, hash, &received.statistics)
        .print(arguments.output.json)?;
    Ok(Ending::Done)
}

fn target(arguments: &RecvArgs) -> Target {
    match &arguments.target {
        _ if arguments.discard => Target::Discard,
        None => Target::Directory(PathBuf::from(".")),
        Some(path) if path.is_dir() => Target::Directory(path.clone()),
        Some(path) => Target::File(path.clone()),
    }
}

impl From<TransferError> for CliError {
    /// A path or an address that cannot work is the user's mistake.
    fn from(error: TransferError) -> Self {
        use io::ErrorKind as Kind;
        let kind = match &error {
            TransferError::NotLoopback(_) => Kind::InvalidInput,
            TransferError::File { error, .. } | TransferError::Socket { error, .. } => error.kind(),
            _ => Kind::Other,
        };
        match kind {
            Kind::AddrInUse
            | Kind::AddrNotAvailable
            | Kind::InvalidInput
            | Kind::IsADirectory
            | Kind::NotADirectory
            | Kind::NotFound
            | Kind::PermissionDenied => Self::User(error.to_string()),
            _ => Self::Machine(error.to_string()),
        }
    }
}

/// What a transfer came to; the JSON object has these fields.
#[derive(Serialize)]
struct Outcome {
    /// `sent` or `received`.
    direction: &'static str,
    file: String,
    bytes: u64,
    elapsed_s: f64,
    gbit_per_s: f64,
    /// CPU seconds of this process, user and system, per 10^9 bytes.
    cpu_s_per_gb: f64,
    retransmissions: u64,
    timeouts: u64,
    /// Marked packets (receiver), or acknowledgements that echo marks (sender).
    marks: u64,
    blake3: String,
}

impl Outcome {
    fn new(
        direction: &'static str,
        file: String,
        bytes: u64,
        elapsed: Duration,
        blake3: String,
        statistics: &Statistics,
    ) -> Self {
        let elapsed_s = elapsed.as_secs_f64();
        let per = |amount: f64, unit: f64| if unit > 0.0 { amount / unit } else { 0.0 };
        Self {
            direction,
            file,
            bytes,
            elapsed_s,
            gbit_per_s: per(bytes as f64 * 8e-9, elapsed_s),
            cpu_s_per_gb: per(process_cpu().as_secs_f64(), bytes as f64 * 1e-9),
            retransmissions: statistics.retransmissions,
            timeouts: statistics.timeouts,
            marks: statistics.marks,
            blake3,
        }
    }

    fn print(&self, json: bool) -> Result<(), CliError> {
        let text = if json { serde_json::to_string(self).expect("plain values") } else { self.line() };
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        Ok(out.flush()?)
    }

    fn line(&self) -> String {
        let Self { direction, file, bytes, elapsed_s, gbit_per_s, cpu_s_per_gb, .. } = self;
        let Self { retransmissions, marks, blake3, .. } = self;
        let repeated =
            if *direction == "sent" { format!("{retransmissions} retransmissions, ") } else { String::new() };
        format!(
            "{direction} {file}: {bytes} bytes in {elapsed_s:.3} s, {gbit_per_s:.2} Gbit/s, {cpu_s_per_gb:.3} CPU s/GB, \
             {repeated}{marks} marks, blake3 {blake3}"
        )
    }
}

/// CPU time of this process so far.
fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How far a transfer is, as a bar on stderr; nothing where stderr is no terminal.
struct Display(ProgressBar);

impl Display {
    fn new(quiet: bool) -> Self {
        let shown = io::stderr().is_terminal() && !quiet;
        let target = if shown { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template(
            "{bar:30} {percent}%  {decimal_bytes} of {decimal_total_bytes}  {decimal_bytes_per_sec}  {eta} left",
        );
        bar.set_style(style.expect("the template is fixed"));
        Self(bar)
    }

    fn show(&self, progress: Progress) {
        if self.0.length() != Some(progress.total_bytes) {
            self.0.set_length(progress.total_bytes);
        }
        self.0.set_position(progress.done_bytes);
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
