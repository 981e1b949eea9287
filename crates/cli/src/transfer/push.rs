//! `pliant offer` and `pliant fetch`: one file, or one folder, from many sources at once.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};

use clap::Args;
use pliant_mirror::{HttpMirror, MirrorUrl, S3Access};
use pliant_net::flow::{FlowSettings, SocketTransport};
use pliant_net::transfer::{
    self, FetchNews, Fetched, FolderFilter, FromMirror, Hash, Mirror, Offer, OfferedFiles, Served, Settings,
    TransferError, WantedFile, WantedFolder,
};
use pliant_proto::congestion::Algorithm;
use pliant_proto::contract::Contract;
use pliant_proto::units::{Bytes, Rate};
use pliant_sim::one_line::OneLine;
use serde::Serialize;

use super::arguments::{
    ConnectionArgs, DEFAULT_LISTEN, OutputArgs, Peer, buffer, called, further, parse_peer, target_of,
};
use super::outcome::process_cpu;
use super::progress::TransferProgress;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::status::rate;
use crate::stdout::print_result;
use crate::{flags, interrupt};

const OFFER_EXAMPLES: &str = "\
Examples:
  # on each host that has the file
  pliant offer model.bin --key lab.key --listen 0.0.0.0:7410
  # the folder, and each of its files
  pliant offer models/ --key lab.key --listen 0.0.0.0:7410
  pliant offer models/ --key lab.key --exclude cache --exclude '*.tmp'
  pliant offer model.bin --plain --count 1 --max-rate 200Mbit/s

A folder is offered under its name and a slash, and each of its files under its path in the folder: none whose name, \
or whose folder's name, begins with a dot. Patterns have `*`, `?`, `[ab]`, `{a,b}` and, for any folders, `**`; one \
without a slash is of a name in any folder, and one of a folder is of all that is in it. It serves until interrupted, \
or for --count receivers; a hangup signal (kill -HUP) has the key file read again.

Exit codes are those of `pliant send`.";

const FETCH_EXAMPLES: &str = "\
Examples:
  # into this directory, under its name
  pliant fetch 192.0.2.1:7410 192.0.2.2:7410 192.0.2.3:7410 --key lab.key
  pliant fetch 192.0.2.1:7410 192.0.2.2:7410 --key lab.key --into copy.bin \\
      --weight 4
  pliant fetch 127.0.0.1:7410 127.0.0.1:7411 --plain --discard \\
      --json | jq .sources
  # a folder: what has changed
  pliant fetch 192.0.2.1:7410 192.0.2.2:7410 --key lab.key --name models/ \\
      --overwrite
  # a part of it
  pliant fetch 192.0.2.1:7410 --key lab.key --name models/ --include '*.bin'
  # on each of many hosts: they serve each other
  pliant fetch 192.0.2.1:7410 --key lab.key --name model.bin \\
      --serve 0.0.0.0:7410 --peer 192.0.2.4:7410 --peer 192.0.2.5:7410
  # a mirror of yours fills in
  pliant fetch 192.0.2.1:7410 --key lab.key \\
      --source https://mirror.example/model.bin
  # from a mirror alone
  pliant fetch --source s3://bucket/model.bin --plain \\
      --hash af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262
  # as `b3sum model.bin` prints it
  pliant fetch 192.0.2.1:7410 192.0.2.2:7410 --key lab.key \\
      --hash af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262

Each source runs `pliant offer` with the same file, and sends RaptorQ symbols that no other sends. Where sources offer \
different contents, the one that more than half of them offer is fetched, or the one with --hash. A source that is \
lost or left out is told on stderr; the others go on. A folder keeps the times, the permissions and the links of its \
files; what of it is there already and has not changed is not sent, and what is there and not in it stays. With \
--source, servers of HTTP, HTTPS or S3 give blocks that the sources come to last, each verified before it is used; of \
S3 the variables AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN say \
where and who. With them alone, or where no source is left, the file is verified once all of it is here. With --serve \
it offers what it has verified while it fetches the rest, and all of it until it is interrupted.

Exit codes: 0 done, 1 failure of the machine, 2 mistake in the command or a file, 3 no source answers, 4 all sources \
were lost, 5 what arrived is not what was offered, or the sources do not agree, 130 interrupted.";

/// Offers a file, or the files of a folder, to all who `fetch` them.
#[derive(Args)]
#[command(after_help = OFFER_EXAMPLES)]
pub(crate) struct OfferArgs {
    /// The file, or the folder
    file: PathBuf,
    #[command(flatten)]
    patterns: PatternArgs,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = DEFAULT_LISTEN)]
    listen: SocketAddr,
    /// Ends after so many receivers have all they want; 0 goes on until interrupted
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = flags::whole::<u64>(0..=u64::MAX))]
    count: u64,
    /// Greatest rate on the wire, to each receiver
    #[arg(long, alias = "rate-cap", value_name = "RATE", value_parser = flags::above_zero::<Rate>())]
    max_rate: Option<Rate>,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Which files of a folder.
#[derive(Args)]
struct PatternArgs {
    /// Of a folder only files that this pattern matches. May be given more than once
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Of a folder no files that this pattern matches, whatever is included. May be given more than once
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
}

impl PatternArgs {
    fn are_given(&self) -> bool {
        !self.include.is_empty() || !self.exclude.is_empty()
    }

    fn filter(&self) -> Result<FolderFilter, CliError> {
        FolderFilter::new(&self.include, &self.exclude).map_err(CliError::User)
    }
}

/// Fetches a file or a folder from many `pliant offer` at once.
#[derive(Args)]
#[command(after_help = FETCH_EXAMPLES)]
pub(crate) struct FetchArgs {
    /// Where the sources listen; NAME@HOST:PORT where the key file has several peers
    #[arg(value_name = "ADDRESS", required_unless_present = "mirrors", value_parser = parse_peer)]
    sources: Vec<Peer>,
    /// The file at another server: http://HOST/PATH, https://HOST/PATH or s3://BUCKET/KEY. Without an ADDRESS it needs --hash.
    /// May be given more than once
    #[arg(long = "source", value_name = "URL", value_parser = MirrorUrl::of_file)]
    mirrors: Vec<MirrorUrl>,
    /// A directory, or the file to write [default: the current directory]
    #[arg(long, value_name = "TARGET", conflicts_with = "discard")]
    into: Option<PathBuf>,
    /// BLAKE3 hash of the content to fetch, as `pliant offer` and `b3sum` print it: sources that offer another are left out
    /// [default: what more than half of the sources that answer offer]
    #[arg(long, value_name = "HEX", value_parser = parse_hash)]
    hash: Option<Hash>,
    /// Name of the file, where sources offer many, or of a folder, with a slash at its end
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    patterns: PatternArgs,
    /// Another host that may fetch the same at this time, and serves it: NAME@HOST:PORT as with sources. It has no say in
    /// what is fetched. May be given more than once
    #[arg(long = "peer", value_name = "ADDRESS", value_parser = parse_peer)]
    peers: Vec<Peer>,
    /// Offers the file at this address, each block once it is verified, and goes on until interrupted
    #[arg(long, value_name = "ADDRESS", conflicts_with = "discard")]
    serve: Option<SocketAddr>,
    /// Writes nothing, but checks the hash
    #[arg(long)]
    discard: bool,
    /// Replaces a file that has the name which the sources give [default: the fetch fails]
    #[arg(long)]
    overwrite: bool,
    /// Weight of each flow (theta), at least 0.5: at weight 2 it takes twice the rate of one of weight 1
    #[arg(long, value_name = "W", default_value_t = 1.0, value_parser = flags::number("from 0.5", |weight| weight >= 0.5))]
    weight: f64,
    /// Address and port to send from, as a relay's plan names them [default: any]
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<SocketAddr>,
    /// Largest IP packet in bytes that sources send, 576 to 65535
    #[arg(long, value_name = "BYTES", default_value_t = 1200, value_parser = flags::whole::<u16>(576..=65535))]
    mtu: u16,
    /// Most bytes under way from all sources together: 512 KiB at first, more while they do not wait in queues
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = buffer())]
    window: Bytes,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    output: OutputArgs,
}

fn parse_hash(text: &str) -> Result<Hash, String> {
    Hash::from_hex(text).map_err(|_| "it must be a BLAKE3 hash: 64 hexadecimal digits".to_owned())
}

/// The flow of either side.
fn flow(weight: f64) -> FlowSettings {
    let transport = SocketTransport::Tcp(Algorithm::WeightedFair);
    FlowSettings { transport, contract: Contract { weight, ..Contract::default() }, ..FlowSettings::default() }
}

pub(crate) fn offer(arguments: &OfferArgs) -> Result<ExitStatus, CliError> {
    let mut flow = flow(1.0);
    flow.contract.max_rate = arguments.max_rate;
    let mut settings = arguments.connection.settings(&flow)?;
    let reread = arguments.connection.reread_keys(&mut settings);
    let files = OfferedFiles::new();
    match arguments.file.is_dir() {
        true => {
            files.add_folder(&arguments.file, &arguments.patterns.filter()?)?;
        }
        false if arguments.patterns.are_given() => {
            return Err(CliError::User("`--include` and `--exclude` are for a folder, and this is none".to_owned()));
        }
        false => files.add(&arguments.file)?,
    }
    let offer = Offer::of(arguments.listen, files, settings)?;
    let offered = offer.offered();
    // The folder itself is one of them.
    if arguments.file.is_dir() && offered.len() == 1 {
        let error = std::io::Error::new(std::io::ErrorKind::NotFound, "there is no file in this folder to offer");
        return Err(TransferError::File { path: arguments.file.clone(), error }.into());
    }
    if !arguments.output.quiet {
        say!("listening on {}", offer.address());
        for file in &offered {
            say!("offering {}: {} bytes, blake3 {}", OneLine(&file.name), file.bytes, file.hash);
        }
    }
    let mut failed = None;
    let served = offer.serve(
        (arguments.count > 0).then_some(arguments.count),
        interrupt::listen_and_on_hangup("", reread),
        |served| {
            let printed = match served {
                Ok(served) => {
                    let sent = OfferOutcome::new(&served);
                    print_result(&sent, || sent.line(), arguments.output.json)
                }
                Err(error) => {
                    say!("error: {}", OneLine(&error));
                    Ok(())
                }
            };
            failed = failed.take().or(printed.err());
        },
    );
    match (served, failed) {
        (Err(TransferError::Interrupted), _) => Ok(ExitStatus::Interrupted),
        (Err(error), _) => Err(error.into()),
        (Ok(()), Some(error)) => Err(error),
        (Ok(()), None) => Ok(ExitStatus::Done),
    }
}

pub(crate) fn fetch(arguments: &FetchArgs) -> Result<ExitStatus, CliError> {
    let flow = FlowSettings { mtu: arguments.mtu, ..flow(arguments.weight) }.with_receive_buffer(arguments.window.0);
    let (bind, overwrite) = (arguments.bind, arguments.overwrite);
    let all = [&arguments.sources[..], &arguments.peers].concat();
    let settings = Settings { bind, overwrite, called: called(&all), ..arguments.connection.settings(&flow)? };
    let target = target_of(arguments.into.as_deref(), arguments.discard)?;
    let display = TransferProgress::new(&arguments.output);
    let kept = if arguments.discard { "" } else { "; the same command goes on where this one was" };
    let tell = |news: FetchNews<'_>| match news {
        FetchNews::Lost(error) => say!("lost: {}", OneLine(error)),
        FetchNews::Slow(why) => say!("slow: {}", OneLine(&why)),
        news => say!("{news}"),
    };
    let folder = arguments.name.as_ref().filter(|name| name.ends_with('/'));
    check_folder(arguments, folder.is_some())?;
    let interrupt = interrupt::listen(kept);
    let offered_in = arguments.serve.map(|_| OfferedFiles::new());
    let serving = match (arguments.serve, &offered_in) {
        (Some(address), Some(files)) => Some(serve(address, files.clone(), settings.clone(), interrupt, arguments)?),
        _ => None,
    };
    let (mirrors, hash) = (mirrors(&arguments.mirrors), arguments.hash);
    let filter = if folder.is_some() { arguments.patterns.filter()? } else { FolderFilter::default() };
    let fetch_from = |sources: &[Peer], peers: &[Peer]| {
        let settings = Settings { further: further(&[sources, peers].concat()), ..settings.clone() };
        let addresses = |hosts: &[Peer]| hosts.iter().map(Peer::address).collect::<Vec<SocketAddr>>();
        let (sources, peers, show) = (addresses(sources), addresses(peers), |p| display.show(p));
        if let Some(name) = folder {
            let wanted = WantedFolder { name: name.clone(), hash, filter: filter.clone() };
            return transfer::fetch_folder(&sources, &wanted, &target, &settings, interrupt, show, tell);
        }
        let (name, mirrors, offered_in) = (arguments.name.clone(), mirrors.clone(), offered_in.clone());
        let wanted = WantedFile { hash, name, peers, mirrors, offered_in, ..WantedFile::default() };
        transfer::fetch(&sources, wanted, &target, &settings, interrupt, show, tell)
    };
    let fetched = of_either_family(&arguments.sources, &arguments.peers, bind, fetch_from);
    drop(display);
    match fetched {
        Err(TransferError::Interrupted) => Ok(ExitStatus::Interrupted),
        fetched => {
            let arrived = FetchOutcome::new(&fetched?);
            print_result(&arrived, || arrived.line(), arguments.output.json)?;
            serving.map_or(Ok(ExitStatus::Done), |serving| match serving.join().expect("it does not panic") {
                Err(TransferError::Interrupted) => Ok(ExitStatus::Interrupted),
                served => served.map(|()| ExitStatus::Done).map_err(CliError::from),
            })
        }
    }
}

/// Fetches over IPv4, or over IPv6 if not all have an address of IPv4, or none of them answers there: a fetch has one socket.
fn of_either_family(
    sources: &[Peer],
    peers: &[Peer],
    bind: Option<SocketAddr>,
    fetch_from: impl Fn(&[Peer], &[Peer]) -> Result<Fetched, TransferError>,
) -> Result<Fetched, TransferError> {
    let mut silent: Vec<SocketAddr> = Vec::new();
    let within = |hosts: &[Peer], ipv4: bool| -> Option<Vec<Peer>> {
        hosts.iter().map(|host| host.only(|address| address.is_ipv4() == ipv4)).collect()
    };
    let families = [true, false].into_iter().filter(|ipv4| bind.is_none_or(|bind| bind.is_ipv4() == *ipv4));
    let mut families = families.filter_map(|ipv4| within(sources, ipv4).zip(within(peers, ipv4))).peekable();
    if sources.is_empty() || families.peek().is_none() {
        return fetch_from(sources, peers);
    }
    while let Some((sources, peers)) = families.next() {
        match fetch_from(&sources, &peers) {
            Err(TransferError::NoAnswer { addresses, .. }) if families.peek().is_some() => silent.extend(addresses),
            Err(TransferError::NoAnswer { addresses, timeout }) => {
                return Err(TransferError::NoAnswer { addresses: [silent, addresses].concat(), timeout });
            }
            fetched => return fetched,
        }
    }
    unreachable!("the last family's end is returned")
}

/// Refuses what does not go with a folder, or goes with a folder alone.
fn check_folder(arguments: &FetchArgs, is_folder: bool) -> Result<(), CliError> {
    let given = [
        (arguments.discard, "--discard"),
        (arguments.serve.is_some(), "--serve"),
        (!arguments.peers.is_empty(), "--peer"),
        (!arguments.mirrors.is_empty(), "--source"),
    ];
    match given.into_iter().find(|(given, _)| *given) {
        Some((_, flag)) if is_folder => {
            Err(CliError::User(format!("`{flag}` is for a file, and `--name` is a folder's")))
        }
        _ if !is_folder && arguments.patterns.are_given() => {
            let why = "`--include` and `--exclude` are for a folder: `--name` with a slash at its end";
            Err(CliError::User(why.to_owned()))
        }
        _ => Ok(()),
    }
}

fn mirrors(urls: &[MirrorUrl]) -> Vec<Arc<dyn Mirror>> {
    let s3 = S3Access::from_environment();
    urls.iter().map(|url| Arc::new(HttpMirror::of_file(url.clone(), s3.clone())) as Arc<dyn Mirror>).collect()
}

/// Serves what comes in, in a thread of its own, until it is interrupted.
fn serve(
    address: SocketAddr,
    files: OfferedFiles,
    settings: Settings,
    interrupt: &'static AtomicBool,
    arguments: &FetchArgs,
) -> Result<JoinHandle<Result<(), TransferError>>, CliError> {
    let offer = Offer::of(address, files, settings)?;
    if !arguments.output.quiet {
        say!("serving on {}", offer.address());
    }
    // What a receiver has lacks nothing that this one could tell.
    Ok(thread::spawn(move || offer.serve(None, interrupt, |_| {})))
}

/// What one receiver was sent.
#[derive(Serialize)]
struct OfferOutcome<'s> {
    direction: &'static str,
    file: &'s str,
    blake3: String,
    peer: SocketAddr,
    /// Of symbols, those sent again included.
    bytes: u64,
    elapsed_s: f64,
    weight: f64,
    retransmissions: u64,
    timeouts: u64,
    marks: u64,
}

impl<'s> OfferOutcome<'s> {
    fn new(served: &'s Served) -> Self {
        let Served { ref file, to, elapsed, weight, ref statistics } = *served;
        Self {
            direction: "offered",
            file: &file.name,
            blake3: file.hash.to_string(),
            peer: to,
            bytes: statistics.bytes_sent,
            elapsed_s: elapsed.as_secs_f64(),
            weight,
            retransmissions: statistics.retransmissions,
            timeouts: statistics.timeouts,
            marks: statistics.marks,
        }
    }

    fn line(&self) -> String {
        let Self { file, peer, bytes, elapsed_s, retransmissions, marks, .. } = self;
        format!(
            "offered {file} to {peer}: {bytes} bytes in {elapsed_s:.3} s, {retransmissions} retransmissions, {marks} marks"
        )
    }
}

/// What came from one source.
#[derive(Serialize)]
struct SourceOutcome {
    address: SocketAddr,
    symbols: u64,
    excess_symbols: u64,
    marks: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<String>,
}

/// What came from one mirror.
#[derive(Serialize)]
struct MirrorOutcome {
    url: String,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<String>,
}

/// What was fetched.
#[derive(Serialize)]
struct FetchOutcome {
    direction: &'static str,
    file: String,
    bytes: u64,
    /// Of these, those that were there before.
    kept_bytes: u64,
    elapsed_s: f64,
    /// Of the others.
    gbit_per_s: f64,
    cpu_s_per_gb: f64,
    /// Blocks that needed no decoding, and those that did.
    whole_blocks: u32,
    decoded_blocks: u32,
    blake3: String,
    sources: Vec<SourceOutcome>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mirrors: Vec<MirrorOutcome>,
}

impl FetchOutcome {
    fn new(fetched: &Fetched) -> Self {
        let Fetched { name, path, bytes, kept, hash, elapsed, sources, mirrors, counts, .. } = fetched;
        let elapsed_s = elapsed.as_secs_f64();
        let per = |amount: f64, unit: f64| if unit > 0.0 { amount / unit } else { 0.0 };
        let from = |source: &transfer::FromSource| SourceOutcome {
            address: source.address,
            symbols: source.symbols,
            excess_symbols: source.excess_symbols,
            marks: source.marks,
            lost: source.lost.clone(),
        };
        let from_mirror = |mirror: &FromMirror| MirrorOutcome {
            url: mirror.name.clone(),
            bytes: mirror.bytes,
            lost: mirror.lost.clone(),
        };
        Self {
            direction: "fetched",
            file: path.as_ref().map_or(name.clone(), |path| path.display().to_string()),
            bytes: *bytes,
            kept_bytes: *kept,
            elapsed_s,
            gbit_per_s: per((bytes - kept) as f64 * 8e-9, elapsed_s),
            cpu_s_per_gb: per(process_cpu().as_secs_f64(), (bytes - kept) as f64 * 1e-9),
            whole_blocks: counts.whole_blocks,
            decoded_blocks: counts.decoded_blocks,
            blake3: hash.to_string(),
            sources: sources.iter().map(from).collect(),
            mirrors: mirrors.iter().map(from_mirror).collect(),
        }
    }

    fn line(&self) -> String {
        let Self { file, bytes, kept_bytes, elapsed_s, gbit_per_s, cpu_s_per_gb, .. } = self;
        let Self { decoded_blocks, blake3, sources, mirrors, .. } = self;
        let kept = if *kept_bytes > 0 { format!(", {kept_bytes} of them kept from before,") } else { String::new() };
        let share = |source: &SourceOutcome| format!("{} of {}", source.symbols, source.address);
        let shares = sources.iter().map(share).collect::<Vec<_>>().join(", ");
        let shares = if sources.is_empty() { shares } else { format!("symbols: {shares}, ") };
        let mirrored = |mirror: &MirrorOutcome| format!("{} bytes of {}, ", mirror.bytes, OneLine(&mirror.url));
        let mirrored: String = mirrors.iter().map(mirrored).collect();
        format!(
            "fetched {}: {bytes} bytes{kept} in {elapsed_s:.3} s, {}, {cpu_s_per_gb:.3} CPU s/GB, \
             {decoded_blocks} blocks decoded, {mirrored}{shares}blake3 {blake3}",
            OneLine(file),
            rate(gbit_per_s * 1e9 / 8.0)
        )
    }
}
