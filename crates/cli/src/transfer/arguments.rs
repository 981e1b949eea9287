//! The command lines of `send` and `recv`.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use pliant_net::connection::{KeyUpdates, Keys, check_name};
use pliant_net::flow::{Classes, FlowError, FlowSettings, SocketTransport};
use pliant_net::transfer::{Limits, Settings, Source, Target};
use pliant_proto::congestion::cubic::HyStartKind;
use pliant_proto::contract::schedule::{DayPart, DaySchedule};
use pliant_proto::contract::{Contract, ContractError, Field};
use pliant_proto::host::fair_rates::LONGEST_INTERVAL;
use pliant_proto::time::Span;
use pliant_proto::units::{Bytes, Rate};
use pliant_sim::families::{EXPRESS_PASS, FLEX_PASS, NEAR_OPT};
use pliant_sim::one_line::OneLine;

use super::done_by::{self, DoneBy};
use crate::error::CliError;
use crate::flags;

/// Where `recv` listens unless told otherwise.
pub(super) const DEFAULT_LISTEN: &str = "127.0.0.1:7410";

/// Range of the least retransmission timeout: TCP's greatest is a minute (RFC 6298, 2.5).
const LEAST_TIMEOUT: Span = Span::from_us(1);
const MOST_TIMEOUT: Span = Span::from_secs(60);
/// How often hosts may report.
const LEAST_INTERVAL: Span = Span::from_ms(1);

const SEND_EXAMPLES: &str = "\
Examples:
  pliant send model.bin 192.0.2.7:7410 --key lab.key
  pliant send results/ 192.0.2.7:7410 --key lab.key --transport ledbat++ \\
      --max-rate 200Mbit/s
  pliant send backup.tar 192.0.2.7:7410 --key lab.key --transport bounded \\
      --min-share 0 --done-by 06:00
  tar c src | pliant send - 192.0.2.7:7410 --key lab.key
  pliant send samples.bin 192.0.2.7:7410 --key lab.key --transport atp \\
      --min-delivery 0.9
  pliant send samples.bin 192.0.2.7:7410 --key lab.key --transport atp \\
      --min-delivery 0.9 --message-bytes 64KiB
  pliant send model.bin 127.0.0.1:7410 --plain --transport weighted-fair \\
      --weight 4
  # to the peer that the key file calls store
  pliant send backup.tar store@192.0.2.7:7410 --key host.key
  # half of what is fair on both hosts' links
  pliant send backup.tar 192.0.2.7:7410 --key lab.key \\
      --transport bounded-two-class --min-share 0.5 --line-rate 1Gbit/s \\
      --host-reports 10ms
  pliant send --bytes 1GB 127.0.0.1:7410 --plain --json | jq .gbit_per_s

Make a key with `pliant keygen`; the receiver needs the same. Start `pliant recv --listen 0.0.0.0:7410` first, or \
within ten seconds. It is done once the receiver says that the content is verified and in its place.

Exit codes: 0 done, 1 failure of the machine, 2 mistake in the command or a file, 3 the peer does not answer or \
refuses, 4 the peer was lost under way, says no more or could not keep it, 5 what arrived is not what was sent, 130 \
interrupted.";

const RECV_EXAMPLES: &str = "\
Examples:
  # into this directory, under the sender's name
  pliant recv --key lab.key --listen 0.0.0.0:7410
  # into that directory
  pliant recv results/ --key lab.key --listen 0.0.0.0:7410
  # takes what `send --min-delivery 0.9` may leave out, with a list
  pliant recv --key lab.key --listen 0.0.0.0:7410 --min-delivery 0.9
  # into that file; one that is there is replaced by a whole one
  pliant recv copy.bin --plain
  # received, hashed and forgotten, until interrupted
  pliant recv --discard --plain --json --count 0
  # gives credits for a link of that rate (expresspass, flexpass)
  pliant recv --plain --line-rate 1Gbit/s
  # tells `send --host-reports` which rate is fair on this link
  pliant recv --key lab.key --listen 0.0.0.0:7410 --line-rate 1Gbit/s \\
      --host-reports 10ms

Without --listen only this host can send. After a hangup signal (kill -HUP) the key file is read again. It says to the \
sender whether the content was verified and is in its place.

Exit codes: 0 done, 1 failure of the machine, 2 mistake in the command or a file, 3 the peer refuses, 4 the peer was \
lost under way, 5 what arrived is not what was sent, 130 interrupted.";

/// Sends a file, a directory or a stream to a `pliant recv`.
#[derive(Args)]
#[command(after_help = SEND_EXAMPLES)]
pub(crate) struct SendArgs {
    /// The file or directory, `-` for standard input, and where `pliant recv` listens
    #[arg(value_names = ["FILE", "ADDRESS"], num_args = 1..=2, required = true)]
    what: Vec<String>,
    /// Sends so many zeros, which the receiver does not keep, instead of a file
    #[arg(long, value_name = "SIZE", conflicts_with = "time")]
    bytes: Option<Bytes>,
    /// Sends zeros for so long instead of a file
    #[arg(long = "for", value_name = "TIME")]
    time: Option<Span>,
    /// How to send
    #[arg(long, alias = "congestion", value_name = "NAME", default_value = "dctcp", value_parser = transports())]
    transport: String,
    /// Least fraction that must arrive, in [0, 1]: then the transfer ends (REFLEX r, ATP 1 - MLR); the receiver must agree
    #[arg(long, value_name = "FRACTION", default_value_t = 1.0, value_parser = flags::fraction())]
    min_delivery: f64,
    /// Least share of the fair rate, in [0, 1], that the flow keeps while it gives way to others (REFLEX alpha)
    #[arg(long, value_name = "FRACTION", default_value_t = 1.0, value_parser = flags::fraction())]
    min_share: f64,
    /// Least rate of payload that the flow keeps while it gives way, as far as the path carries it, under bounded
    #[arg(long, value_name = "RATE", value_parser = flags::above_zero::<Rate>())]
    min_rate: Option<Rate>,
    /// Weight under weighted-fair: a flow of weight 2 takes twice the rate of one of weight 1
    #[arg(long, value_name = "W", value_parser = flags::positive())]
    weight: Option<f64>,
    /// How slow start ends before packets are lost, under cubic: as in Linux, by RFC 9406, or not at all [default: linux]
    #[arg(long, value_name = "NAME", value_parser = hystart())]
    hystart: Option<HyStartKind>,
    /// Queueing delay that is aimed at, under ledbat and ledbat++, up to 1s [default: 100ms, ledbat++ 60ms]
    #[arg(long, value_name = "TIME")]
    target: Option<Span>,
    /// Greatest rate on the wire
    #[arg(long, alias = "rate-cap", value_name = "RATE", value_parser = flags::above_zero::<Rate>())]
    max_rate: Option<Rate>,
    /// Greatest rates by time of day here, each FROM-TO=RATE, or =none for no bound; else --max-rate holds. A part may have a
    /// share of its own: 04:00-06:00=none+min-share=1
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    schedule: Vec<DayPart>,
    /// When it must be done, under bounded: in so long, at a time of day here, or then (2h, 90s, 06:00,
    /// 2026-11-26T06:00:00Z). It gives way as long as that can be kept, and says as soon as it cannot
    #[arg(long, value_name = "WHEN", value_parser = done_by::parse)]
    done_by: Option<DoneBy>,
    /// For how long a receiver that was restarted is called again; it gets what it has not kept
    #[arg(long, value_name = "TIME", default_value = "60s")]
    retry: Span,
    /// Address and port to send from, as a relay's plan names them [default: any]
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<SocketAddr>,
    /// Largest IP packet in bytes, 576 to 65535
    #[arg(long, value_name = "BYTES", default_value_t = 1200, value_parser = flags::whole::<u16>(576..=65535))]
    mtu: u16,
    /// Size of a message under atp, no more than the receiver's --receive-buffer [default: what a packet holds]
    #[arg(long, value_name = "SIZE", value_parser = flags::within(Bytes(1)..=Bytes(u32::MAX.into())))]
    message_bytes: Option<Bytes>,
    /// REFLEX's interval
    #[arg(long, value_name = "TIME", default_value = "5ms", hide = true, value_parser = flags::above_zero::<Span>())]
    reflex_interval: Span,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Receives from a `pliant send`.
#[derive(Args)]
#[command(after_help = RECV_EXAMPLES)]
pub(crate) struct RecvArgs {
    /// A directory, or the file to write [default: the current directory]
    #[arg(value_name = "TARGET", conflicts_with = "discard")]
    target: Option<PathBuf>,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = DEFAULT_LISTEN)]
    pub(super) listen: SocketAddr,
    /// Writes nothing, but checks the hash
    #[arg(long)]
    discard: bool,
    /// Least fraction of a file, in [0, 1], if its sender may leave out the rest
    #[arg(long, value_name = "FRACTION", default_value_t = 1.0, value_parser = flags::fraction())]
    min_delivery: f64,
    /// Replaces files that have the name a sender gives, and directories that the same peer has sent, of which it sends what
    /// has changed [default: such a transfer fails]
    #[arg(long)]
    overwrite: bool,
    /// Most bytes of one content, unpacked or not
    #[arg(long, value_name = "SIZE", default_value = "1TiB")]
    max_bytes: Bytes,
    /// Most files and folders of one directory
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = flags::whole::<u64>(1..=u64::MAX))]
    max_files: u64,
    /// Ends after so many transfers; 0 goes on until interrupted
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = flags::whole::<u64>(0..=u64::MAX))]
    count: u64,
    #[command(flatten)]
    network: NetworkArgs,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// What `send` and `recv` have.
#[derive(Args)]
struct NetworkArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Rate of this host's link: what credits fill, atp's greatest rate, and what bounded-two-class takes for the slowest line
    #[arg(long, value_name = "RATE", value_parser = flags::above_zero::<Rate>())]
    line_rate: Option<Rate>,
    /// How often this host and its peers tell each other which rate is fair on their links, 1ms to 50ms, for
    /// bounded-two-class. It counts its connections and TCP's; both ends need it, and --line-rate [default: they tell nothing]
    #[arg(long, value_name = "TIME", requires = "line_rate", value_parser = flags::within(LEAST_INTERVAL..=LONGEST_INTERVAL))]
    host_reports: Option<Span>,
    /// Traffic class of data that gives way (REFLEX without a weight, bounded-two-class)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = flags::class())]
    low_class: u8,
    /// Traffic class of credits
    #[arg(long, value_name = "N", default_value_t = 31, value_parser = flags::class())]
    credit_class: u8,
    /// Most bytes held for the receiver's application: 1 MiB at first, more on long paths
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = buffer())]
    receive_buffer: Bytes,
}

/// What everything that connects has.
#[derive(Args)]
pub(super) struct ConnectionArgs {
    /// Key file, made by `pliant keygen`
    #[arg(long, value_name = "FILE", conflicts_with = "plain")]
    key: Option<PathBuf>,
    /// Neither encrypts nor authenticates: on loopback only
    #[arg(long)]
    plain: bool,
    /// Plain on any address: inside a testbed
    #[arg(long, requires = "plain", hide = true)]
    testbed: bool,
    /// Traffic class of data, 0 to 31; the DSCP is twice that
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = flags::class())]
    class: u8,
    /// Traffic class of acknowledgements
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = flags::class())]
    control_class: u8,
    /// Least retransmission timeout
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = flags::within(LEAST_TIMEOUT..=MOST_TIMEOUT))]
    min_rto: Span,
    /// Silence after which the peer is given up
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = flags::above_zero::<Span>())]
    idle_timeout: Span,
    /// How long to call for an answer
    #[arg(long, value_name = "TIME", default_value = "10s", hide = true)]
    connect_timeout: Span,
    /// Hands packets to the kernel one by one, so that each waits in queues by itself
    #[arg(long)]
    no_offload: bool,
}

/// How progress is shown.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ProgressFormat {
    Bar,
    Json,
}

#[derive(Args)]
pub(super) struct OutputArgs {
    /// Prints the result as one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// Shows no progress
    #[arg(long, short)]
    pub(super) quiet: bool,
    /// How progress is shown on stderr: a bar on a terminal, or a JSON object per line every second
    #[arg(long, value_name = "HOW", value_enum, default_value_t = ProgressFormat::Bar, conflicts_with = "quiet")]
    pub(super) progress: ProgressFormat,
}

/// Names that `--transport` takes; unsaid, so are `weighted`, short for `weighted-fair`, and scenarios' names for
/// transports with credits. One that is known but refused has its reason.
fn transports() -> PossibleValuesParser {
    let hidden = [NEAR_OPT, EXPRESS_PASS, FLEX_PASS, "weighted"];
    let names = SocketTransport::all().map(SocketTransport::name).map(PossibleValue::new);
    PossibleValuesParser::new(names.chain(hidden.map(|name| PossibleValue::new(name).hide(true))))
}

/// The name that a socket's transport has here, of one that may have a scenario's.
fn socket_name(name: &str) -> &str {
    let bare = |name: &str| name.replace('-', "");
    SocketTransport::all().map(SocketTransport::name).find(|known| bare(known) == bare(name)).unwrap_or(name)
}

/// Names that `--hystart` takes.
fn hystart() -> impl TypedValueParser<Value = HyStartKind> {
    let kinds = [HyStartKind::Linux, HyStartKind::Rfc9406, HyStartKind::Off];
    PossibleValuesParser::new(kinds.map(HyStartKind::name))
        .map(move |name| kinds.into_iter().find(|kind| kind.name() == name).expect("one of the names"))
}

/// What a receiver, or all sources together, may have under way.
pub(super) fn buffer() -> impl Fn(&str) -> Result<Bytes, String> + Clone + Send + Sync {
    flags::within(Bytes(64 << 10)..=Bytes(1 << 40))
}

/// Whom to call: where, and by which name of the key file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Peer {
    /// Those of its host, of which there is one at least.
    addresses: Vec<SocketAddr>,
    name: Option<String>,
}

impl Peer {
    /// Where it is called first.
    pub(super) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// The same with those addresses only that `holds`, if there are any.
    pub(super) fn only(&self, holds: impl Fn(&SocketAddr) -> bool) -> Option<Self> {
        let addresses: Vec<_> = self.addresses.iter().copied().filter(holds).collect();
        (!addresses.is_empty()).then(|| Self { addresses, name: self.name.clone() })
    }

    /// The same as it can be called from an address.
    pub(super) fn callable_from(&self, bind: Option<SocketAddr>) -> Self {
        let same = |address: &SocketAddr| bind.is_none_or(|bind| bind.is_ipv4() == address.is_ipv4());
        self.only(same).unwrap_or_else(|| self.clone())
    }
}

/// Reads `HOST:PORT` or `NAME@HOST:PORT`.
pub(super) fn parse_peer(text: &str) -> Result<Peer, String> {
    let Some((name, address)) = text.split_once('@') else {
        return Ok(Peer { addresses: parse_address(text)?, name: None });
    };
    check_name(name)?;
    Ok(Peer { addresses: parse_address(address)?, name: Some(name.to_owned()) })
}

/// The names of those whom the user has named.
pub(super) fn called(peers: &[Peer]) -> Vec<(SocketAddr, String)> {
    let named = |peer: &Peer| {
        let name = peer.name.clone()?;
        Some(peer.addresses.iter().map(|address| (*address, name.clone())).collect::<Vec<_>>())
    };
    peers.iter().filter_map(named).flatten().collect()
}

/// Where else those may be called whose names have several addresses.
pub(super) fn further(peers: &[Peer]) -> Vec<(SocketAddr, Vec<SocketAddr>)> {
    let several = peers.iter().filter(|peer| peer.addresses.len() > 1);
    several.map(|peer| (peer.address(), peer.addresses[1..].to_vec())).collect()
}

/// An address, or those of a host by its name: IPv4 before IPv6, as receivers listen unless told otherwise.
fn parse_address(text: &str) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    let port =
        text.rsplit_once(':').filter(|(host, _)| !host.contains(':')).and_then(|(_, port)| port.parse::<u16>().ok());
    if port.is_none() {
        return Err(format!(
            "{text}: an address is HOST:PORT, such as 192.0.2.7:7410, [2001:db8::7]:7410 or storage.example:7410"
        ));
    }
    let found = text.to_socket_addrs().map_err(|error| format!("{text}: {error}"))?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses.sort_by_key(SocketAddr::is_ipv6);
    if addresses.is_empty() { Err(format!("{text}: this host has no address")) } else { Ok(addresses) }
}

/// What the flow refuses, by the flag that asks for it.
fn refused(error: &FlowError) -> CliError {
    CliError::User(match error {
        FlowError::Contract { transport, error: ContractError::NotHonoured(field) } => {
            let flag = field.to_string().replace('_', "-");
            format!("--{flag}: {} does not honour it{}", transport.name(), who_does(*field))
        }
        FlowError::Contract { error: ContractError::NoEffect(Field::DoneBy), .. } => {
            "--done-by: it has no effect without --min-share below 1, such as --min-share 0".to_owned()
        }
        FlowError::Contract { error: ContractError::NoEffect(Field::MinRate), .. } => {
            "--min-rate: it has no effect without --min-share below 1, such as --min-share 0".to_owned()
        }
        FlowError::Contract { error: ContractError::Contradiction(field, bound), .. } => {
            let flag = |field: &Field| format!("--{}", field.to_string().replace('_', "-"));
            format!("{} is above {}", flag(field), flag(bound))
        }
        FlowError::AboveLine { line_rate, .. } => format!("--min-rate is above --line-rate, {line_rate}"),
        FlowError::Setting { setting, why } => format!("--{setting}: {why}"),
        FlowError::OneClass(class) => {
            format!("--low-class: it is {class}, as --class is, and bounded-two-class needs two")
        }
        FlowError::NothingNeeded => "--min-delivery: atp needs more than 0".to_owned(),
        other => other.to_string(),
    })
}

/// The transports that keep a bound which few do.
fn who_does(field: Field) -> String {
    let honour = |transport: &SocketTransport| transport.honours().contains(&field);
    let names: Vec<&str> = SocketTransport::all().filter(honour).map(SocketTransport::name).collect();
    if field == Field::DoneBy { format!(", only --transport {}", names.join(", ")) } else { String::new() }
}

impl NetworkArgs {
    fn settings(&self, flow: &FlowSettings) -> Result<Settings, CliError> {
        let classes = Classes { low: self.low_class, credit: self.credit_class, ..flow.classes };
        let (line_rate, host_reports) = (self.line_rate, self.host_reports);
        let flow = FlowSettings { line_rate, host_reports, classes, ..flow.clone() };
        self.connection.settings(&flow.with_receive_buffer(self.receive_buffer.0))
    }
}

impl ConnectionArgs {
    pub(super) fn settings(&self, flow: &FlowSettings) -> Result<Settings, CliError> {
        let keys = match &self.key {
            Some(path) => Keys::read(path).map_err(|error| CliError::User(error.to_string()))?,
            None if self.plain => Keys::Plain,
            None => {
                let why = "a transfer needs a key: `--key FILE`, made by `pliant keygen`; or `--plain` on loopback";
                return Err(CliError::User(why.to_owned()));
            }
        };
        let classes = Classes { data: self.class, control: self.control_class, ..flow.classes };
        let flow = FlowSettings { classes, min_rto: self.min_rto, ..flow.clone() };
        let (connect_timeout, idle_timeout) = (self.connect_timeout, self.idle_timeout);
        let offload = !self.no_offload;
        let testbed = self.testbed;
        Ok(Settings { flow, keys, testbed, offload, connect_timeout, idle_timeout, ..Settings::default() })
    }

    /// What reads the key file again; the peers in it then take the place of those before.
    pub(super) fn reread_keys(&self, settings: &mut Settings) -> impl FnMut() + Send + 'static {
        let file = self.key.clone();
        let updates = Arc::new(KeyUpdates::new(settings.keys.clone()));
        settings.key_updates = Some(updates.clone());
        move || {
            let Some(file) = &file else { return };
            let keys = Keys::read(file).map_err(|error| error.to_string());
            let put = keys.and_then(|keys| updates.put(keys).map_err(|error| format!("{}: {error}", file.display())));
            match put {
                Ok(()) => say!("{} was read again", OneLine(&file.display())),
                Err(error) => say!("error: {}; the keys stay as they were", OneLine(&error)),
            }
        }
    }
}

impl SendArgs {
    pub(super) fn settings(&self) -> Result<Settings, CliError> {
        if self.transport == NEAR_OPT {
            let why = "--transport near-opt needs an oracle, which exists in the simulator only";
            return Err(CliError::User(why.to_owned()));
        }
        let transport: SocketTransport = socket_name(&self.transport).parse().map_err(CliError::User)?;
        let weight = self.weight.unwrap_or(1.0);
        let min_rate = self.min_rate.unwrap_or_default();
        let contract = Contract {
            min_delivery: self.min_delivery,
            min_share: self.min_share,
            min_rate,
            max_rate: self.max_rate,
            done_by: self.done_by.map(DoneBy::span_from_now).transpose().map_err(CliError::User)?,
            weight,
            ..Contract::default()
        };
        let flow = FlowSettings {
            transport,
            contract,
            mtu: self.mtu,
            reflex_interval: self.reflex_interval,
            message_bytes: self.message_bytes.map(|bytes| bytes.0 as u32),
            hystart: self.hystart,
            target: self.target,
            ..FlowSettings::default()
        };
        flow.check().map_err(|error| refused(&error))?;
        let wrong = |why: String| CliError::User(format!("--schedule: {why}"));
        let schedule = DaySchedule::new(self.schedule.clone()).map_err(|error| wrong(error.to_string()))?;
        flow.check_schedule(&schedule).map_err(|error| wrong(error.to_string()))?;
        let settings = self.network.settings(&flow)?;
        settings.flow.check().map_err(|error| refused(&error))?;
        Ok(Settings { bind: self.bind, retry_for: self.retry, schedule, ..settings })
    }

    pub(super) fn source(&self) -> Result<(Source, Peer), CliError> {
        let measures = self.bytes.is_some() || self.time.is_some();
        let (file, address) = match (&self.what[..], measures) {
            ([address], true) => (None, address),
            ([file, address], false) => (Some(file), address),
            ([_, _], true) => return Err(CliError::User("--bytes and --for go without a FILE".to_owned())),
            _ => return Err(CliError::User("send needs a FILE and an ADDRESS; see `pliant send --help`".to_owned())),
        };
        let to = parse_peer(address).map_err(CliError::User)?;
        let source = match (file.map(String::as_str), self.bytes, self.time) {
            (Some("-"), ..) => Source::stream(io::stdin(), "stdin"),
            (Some(file), ..) => Source::open(Path::new(file))?,
            (None, Some(bytes), _) => Source::zeros(bytes.0),
            (None, None, time) => Source::zeros_for(Duration::from_nanos(time.unwrap_or(Span::ZERO).as_ps() / 1000)),
        };
        Ok((source, to))
    }

    /// What is sent, as the user has named it.
    pub(super) fn name(&self) -> String {
        if self.what.len() == 2 { self.what[0].clone() } else { "test".to_owned() }
    }
}

impl RecvArgs {
    /// What reads the key file again.
    pub(super) fn reread_keys(&self, settings: &mut Settings) -> impl FnMut() + Send + 'static {
        self.network.connection.reread_keys(settings)
    }

    pub(super) fn settings(&self) -> Result<Settings, CliError> {
        let settings = self.network.settings(&FlowSettings::default())?;
        let limits = Limits { max_bytes: self.max_bytes.0, max_files: self.max_files };
        Ok(Settings { min_delivery: self.min_delivery, overwrite: self.overwrite, limits, ..settings })
    }

    /// After how many transfers it ends.
    pub(super) fn count(&self) -> Option<u64> {
        (self.count > 0).then_some(self.count)
    }

    pub(super) fn target(&self) -> Result<Target, CliError> {
        target_of(self.target.as_deref(), self.discard)
    }
}

/// Where what arrives goes; refused, before anybody sends, where nothing can be written.
pub(super) fn target_of(path: Option<&Path>, discard: bool) -> Result<Target, CliError> {
    let Some(path) = path else {
        return Ok(if discard { Target::Discard } else { Target::Directory(PathBuf::from(".")) });
    };
    if path.is_dir() {
        return Ok(Target::Directory(path.to_owned()));
    }
    let folder = if path.as_os_str().as_encoded_bytes().ends_with(b"/") { Some(path) } else { path.parent() };
    match folder.filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        Some(folder) => Err(CliError::User(format!("{}: no such folder: {}", path.display(), folder.display()))),
        None => Ok(Target::File(path.to_owned())),
    }
}
