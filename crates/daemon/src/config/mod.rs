//! The configuration file.

mod class;
mod objects;
mod words;

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pliant_handover::{MAX_CLASS_BYTES, ServiceRule};
use pliant_kafka::ledger::MinDelivery;
use pliant_kafka::thin::LossPattern;
use pliant_mirror::MirrorUrl;
use pliant_net::bundle::BundleClass;
use pliant_net::clock::to_timeout;
use pliant_net::connection::{KeyError, Keys};
use pliant_net::flow::SocketTransport;
use pliant_net::socket::canonical;
use pliant_net::transfer::{FolderFilter, Hash};
use pliant_proto::congestion::Algorithm;
use pliant_proto::contract::schedule::TimeOfDay;
use pliant_proto::time::Span;
use pliant_proto::units::Bytes;
use serde::Deserialize;
use thiserror::Error;
use toml::{Spanned, Table};

use self::class::{ClassTable, above_zero, from_text, set_keys};
use self::objects::{FolderTable, ObjectsTable};
use self::words::in_words;
use crate::header::Service;
use crate::lossy::rules::{Carry, MAX_RULES_BYTES, TopicRule, TopicRules, is_first};
use crate::objects::name::is_plain;
use crate::rules::HostRule;
use crate::topics::TopicClasses;

/// So many brokers of a Kafka door have certain ports.
const FIRST_BROKERS: u16 = 10;
/// So many brokers of a Kafka door get ports unless its table says otherwise, and at most. Each takes a socket.
const DEFAULT_BROKERS: usize = 100;
const MAX_BROKERS: usize = 1000;
/// Larger files are refused, because they were probably named by mistake.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Why a configuration is refused.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A file cannot be read, or a socket cannot be opened.
    #[error("{path}: {error}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A line is wrong.
    #[error("{path}:{line}: {why}")]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

/// The configuration of a daemon.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) path: PathBuf,
    pub(crate) listen: Listen,
    pub(crate) control: Option<PathBuf>,
    pub(crate) control_line: usize,
    /// How long a drain may take.
    pub(crate) drain: Duration,
    pub(crate) keys: Keys,
    /// The line that names the key file.
    pub(crate) key_line: usize,
    /// The name in the key file of the peer at an address.
    pub(crate) called: Vec<(SocketAddr, String)>,
    /// Addresses of peers, by their names here.
    pub(crate) peers: BTreeMap<String, SocketAddr>,
    pub(crate) classes: Vec<BundleClass>,
    /// The tables of the classes as written.
    class_tables: BTreeMap<String, Table>,
    pub(crate) doors: Vec<Door>,
    /// The door of the preload library.
    pub(crate) preload: Option<Preload>,
    pub(crate) exit: ExitRules,
    /// The ledger of Kafka records that the exit leaves out.
    pub(crate) kafka_ledger: Option<LedgerFile>,
    pub(crate) limits: Limits,
    /// Files that it offers and fetches.
    pub(crate) objects: Option<ObjectsConfig>,
}

/// The services that peers may reach.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ExitRules {
    /// For every peer.
    all: Vec<ServiceRule>,
    /// Further services for peers, by the names of their keys.
    peers: BTreeMap<String, Vec<ServiceRule>>,
}

impl ExitRules {
    /// The rules of a peer, by the name of its key.
    pub(crate) fn of<'r>(&'r self, peer: Option<&str>) -> impl Iterator<Item = &'r ServiceRule> + Clone + use<'r> {
        self.all.iter().chain(peer.and_then(|name| self.peers.get(name)).into_iter().flatten())
    }

    fn is_empty(&self) -> bool {
        self.all.is_empty() && self.peers.values().all(Vec::is_empty)
    }
}

/// Limits for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// Most connections to services for a peer.
    #[serde(deserialize_with = "above_zero")]
    pub(crate) peer_connections: usize,
    /// Most connections to a door for a user of this host, or for another host.
    #[serde(deserialize_with = "above_zero")]
    pub(crate) user_connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { peer_connections: 10_000, user_connections: 10_000 }
    }
}

/// The address of a listener, and the line that gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Listen {
    pub(crate) address: SocketAddr,
    pub(crate) line: usize,
}

/// Accepts connections of programs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Door {
    pub(crate) listen: Listen,
    pub(crate) kind: DoorKind,
}

/// What a door does with a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum DoorKind {
    /// Connects it to one service.
    Forward { next_hop: NextHop, target: Service },
    /// Leads to a Kafka cluster.
    Kafka(KafkaCluster),
    /// Serves the daemon's metrics.
    Metrics,
    /// Serves files by HTTP, which it fetches if necessary.
    Objects,
    /// Speaks SOCKS5 and HTTP CONNECT.
    Proxy { routes: Vec<(HostRule, NextHop)>, classes: Vec<String> },
}

impl DoorKind {
    /// The word for it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Forward { .. } => "forward",
            Self::Kafka(_) => "kafka",
            Self::Metrics => "metrics",
            Self::Objects => "objects",
            Self::Proxy { .. } => "proxy",
        }
    }
}

/// A Kafka cluster behind a door.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KafkaCluster {
    pub(crate) next_hop: NextHop,
    pub(crate) bootstrap: Service,
    /// Broker n has this port plus n. Without it, brokers have any ports.
    pub(crate) broker_ports: Option<u16>,
    /// Most brokers that get ports.
    pub(crate) max_brokers: usize,
    /// Topics of which records may be left out.
    pub(crate) topics: TopicRules,
    /// Topics whose connections have a class of their own.
    pub(crate) classes: TopicClasses,
}

/// The file in which an exit notes the Kafka records that it leaves out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LedgerFile {
    pub(crate) path: PathBuf,
    pub(crate) line: usize,
}

/// Files that a daemon offers and fetches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ObjectsConfig {
    /// Where others fetch them by UDP.
    pub(crate) listen: Listen,
    /// Folders whose files are offered.
    pub(crate) offer: Vec<PathBuf>,
    /// Folders that are offered with everything in them, by name.
    pub(crate) folders: BTreeMap<String, FolderConfig>,
    /// Sources of files, by name.
    pub(crate) sources: BTreeMap<String, SocketAddr>,
    /// Folders of other servers with the same files.
    pub(crate) mirrors: Vec<MirrorUrl>,
    /// Required hashes of files, by name.
    pub(crate) hashes: BTreeMap<String, Hash>,
    /// The name in the key file of the source at an address.
    pub(crate) called: Vec<(SocketAddr, String)>,
    /// The folder for fetched files, and its limit in bytes.
    pub(crate) cache: PathBuf,
    pub(crate) cache_limit: Bytes,
    /// The class whose contract governs all of it.
    pub(crate) class: String,
}

/// A folder that is offered with everything in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FolderConfig {
    pub(crate) path: PathBuf,
    /// Patterns of what is offered of it, and of what is left out.
    pub(crate) include: Vec<String>,
    pub(crate) exclude: Vec<String>,
}

impl FolderConfig {
    /// What is offered of it; the error names a pattern that is none.
    pub(crate) fn filter(&self) -> Result<FolderFilter, String> {
        FolderFilter::new(&self.include, &self.exclude)
    }
}

/// Where programs with the preload library request connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Preload {
    pub(crate) socket: PathBuf,
    pub(crate) line: usize,
    pub(crate) rules: Vec<PreloadRule>,
}

/// Services that programs with the preload library reach through a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PreloadRule {
    pub(crate) service: ServiceRule,
    pub(crate) next_hop: NextHop,
}

/// The peer of a connection, and its class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NextHop {
    pub(crate) to: String,
    pub(crate) peer: SocketAddr,
    pub(crate) class: String,
}

/// The file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Spanned<SocketAddr>,
    key: Spanned<PathBuf>,
    control: Option<Spanned<PathBuf>>,
    #[serde(default = "default_drain", deserialize_with = "from_text")]
    drain: Span,
    #[serde(default)]
    peers: BTreeMap<Spanned<String>, SocketAddr>,
    #[serde(default)]
    classes: BTreeMap<Spanned<String>, ClassTable>,
    #[serde(default)]
    forward: Vec<ForwardTable>,
    #[serde(default)]
    kafka: Vec<KafkaTable>,
    proxy: Option<ProxyTable>,
    preload: Option<PreloadTable>,
    metrics: Option<Spanned<SocketAddr>>,
    objects: Option<ObjectsTable>,
    #[serde(default)]
    exit: ExitTable,
    #[serde(default)]
    limits: Limits,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForwardTable {
    listen: Spanned<SocketAddr>,
    to: Spanned<String>,
    target: Spanned<String>,
    class: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KafkaTable {
    listen: Spanned<SocketAddr>,
    to: Spanned<String>,
    bootstrap: Spanned<String>,
    class: Spanned<String>,
    broker_ports: Option<Spanned<u16>>,
    max_brokers: Option<Spanned<usize>>,
    #[serde(default)]
    topics: BTreeMap<Spanned<String>, TopicTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicTable {
    class: Option<Spanned<String>>,
    min_delivery: Option<Spanned<f64>>,
    #[serde(default)]
    compacted: bool,
    #[serde(default)]
    when: When,
    #[serde(default)]
    pattern: LossPattern,
    #[serde(default)]
    carry: Carry,
}

/// When records are left out.
#[derive(Deserialize, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum When {
    #[default]
    Congested,
    Always,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProxyTable {
    listen: Spanned<SocketAddr>,
    #[serde(default)]
    route: Vec<RouteTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteTable {
    host: Spanned<String>,
    to: Spanned<String>,
    class: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PreloadTable {
    socket: Spanned<PathBuf>,
    #[serde(default)]
    rule: Vec<PreloadRuleTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PreloadRuleTable {
    service: Spanned<String>,
    to: Spanned<String>,
    class: Spanned<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct ExitTable {
    #[serde(default)]
    allow: Vec<Spanned<String>>,
    kafka_ledger: Option<Spanned<PathBuf>>,
    #[serde(default)]
    peers: BTreeMap<Spanned<String>, PeerExitTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerExitTable {
    allow: Vec<Spanned<String>>,
}

fn default_drain() -> Span {
    Span::from_secs(30)
}

impl Config {
    /// Reads a file and checks all of it, including the key file. Paths in it are relative to its folder.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let file = |error| ConfigError::File { path: path.into(), error };
        if std::fs::metadata(path).map_err(file)?.len() > MAX_FILE_BYTES {
            return Err(file(std::io::Error::other("larger than any configuration")));
        }
        let text = String::from_utf8(std::fs::read(path).map_err(file)?).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let source = Source { text: &String::from_utf8_lossy(before), path };
            source.wrong(before.len(), "this is no text in UTF-8".to_owned())
        })?;
        Self::parse(&text, path)
    }

    /// The same for a text; `path` is its name in errors.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let source = Source { text, path };
        let mut file: File = toml::from_str(text).map_err(|error| {
            let (at, why) = (error.span().map_or(0, |span| span.start), in_words(error.message()));
            source.wrong(at, source.key_before(at).map_or_else(|| why.clone(), |key| format!("`{key}`: {why}")))
        })?;
        let sockets =
            [("control", file.control.as_ref()), ("socket", file.preload.as_ref().map(|table| &table.socket))];
        for (key, path) in sockets {
            if let Some(path) = path.filter(|path| path.get_ref().as_os_str().is_empty()) {
                return Err(source.wrong(path.span().start, format!("`{key}` is empty: it is the path of a socket")));
            }
        }
        for (name, peer) in &mut file.peers {
            *peer = canonical(*peer);
            let reached = check_reach(*file.listen.get_ref(), *peer, is_for_ipv6_only);
            let wrong = |why| source.wrong(name.span().start, format!("peers.{}: {why}", name.get_ref()));
            reached.map_err(wrong)?;
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let keys = read_keys(&source, folder, &file.key)?;
        let called = called(&source, &keys, &file)?;
        let mut classes = Vec::new();
        for (name, table) in &file.classes {
            let class = table.to_class(name.get_ref());
            classes.push(class.map_err(|error| source.wrong(name.span().start, error.to_string()))?);
        }
        let Doors { listening: doors, preload, mut used } = doors(&source, &file, folder)?;
        let objects = file.objects.as_ref().map(|table| objects(&source, &file, &keys, folder, &classes, table));
        let objects = objects.transpose()?;
        used.extend(objects.iter().map(|objects| objects.class.clone()));
        let exit = exit_rules(&source, &keys, &file.exit)?;
        if let Some(unused) = file.classes.keys().find(|name| !used.contains(name.get_ref()) && exit.is_empty()) {
            let why = format!("no door uses the class `{}`, and no exit serves others", unused.get_ref());
            return Err(source.wrong(unused.span().start, why));
        }
        let ledger = file.exit.kafka_ledger.as_ref();
        if let Some(ledger) = ledger.filter(|_| exit.is_empty()) {
            let why = "no `allow` lets a peer reach a broker, so this exit leaves no record out";
            return Err(source.wrong(ledger.span().start, why.to_owned()));
        }
        let of_messages = |(name, table): (_, &ClassTable)| Some((name, table.message_key()?));
        let mut of_messages = file.classes.iter().filter_map(of_messages);
        if let Some((name, key)) = of_messages.find(|_| file.kafka.is_empty() && ledger.is_none()) {
            let why = format!(
                "class {}: {key} is for records of Kafka, and there is neither a Kafka door nor `exit.kafka_ledger`",
                name.get_ref()
            );
            return Err(source.wrong(name.span().start, why));
        }
        let kafka_ledger = file
            .exit
            .kafka_ledger
            .as_ref()
            .map(|path| LedgerFile { path: folder.join(path.get_ref()), line: source.line(path.span().start) });
        let tables: Table = text.parse().expect("it was read as a file before");
        let of_class = |(name, table): (&String, &toml::Value)| Some((name.clone(), table.as_table()?.clone()));
        let class_tables = tables.get("classes").and_then(toml::Value::as_table);
        Ok(Self {
            path: path.into(),
            listen: source.listen(&file.listen),
            control_line: file.control.as_ref().map_or(1, |control| source.line(control.span().start)),
            control: file.control.map(|control| folder.join(control.get_ref())),
            drain: to_timeout(file.drain),
            keys,
            key_line: source.line(file.key.span().start),
            called,
            peers: file.peers.into_iter().map(|(name, address)| (name.into_inner(), address)).collect(),
            classes,
            class_tables: class_tables.into_iter().flatten().filter_map(of_class).collect(),
            doors,
            preload,
            exit,
            kafka_ledger,
            limits: file.limits,
            objects,
        })
    }

    /// Settings that are allowed but rarely intended.
    pub fn warnings(&self) -> Vec<String> {
        let open = self.doors.iter().filter(|door| !door.listen.address.ip().is_loopback());
        let warning = |door: &Door| {
            let Listen { address, line } = door.listen;
            format!("{}:{line}: everybody who can reach {address} can use this door", self.path.display())
        };
        // A reload may close every door for a while, so it is no mistake.
        let is_idle = self.doors.is_empty() && self.preload.is_none() && self.objects.is_none() && self.exit.is_empty();
        let idle = is_idle.then(|| format!("{}: there is neither a door nor an exit", self.path.display()));
        open.map(warning).chain(idle).collect()
    }

    pub(crate) fn cannot_listen(&self, listen: &Listen, error: &io::Error) -> ConfigError {
        self.wrong_line(listen.line, format!("cannot listen on {}: {error}", listen.address))
    }

    /// The name of the peer at an address.
    pub(crate) fn peer_at(&self, address: SocketAddr) -> Option<String> {
        self.peers.iter().find(|(_, known)| **known == address).map(|(name, _)| name.clone())
    }

    /// Sets the control socket, if the file does not.
    pub fn set_default_control(&mut self, path: PathBuf) {
        self.control.get_or_insert(path);
    }

    /// The classes at a time of day.
    pub(crate) fn classes_at(&self, at: TimeOfDay) -> Vec<BundleClass> {
        self.classes.iter().map(|class| class.at(at)).collect()
    }

    /// Sets keys of a class, each as it would be written in the file; `none` removes a key.
    pub(crate) fn set_class(&mut self, name: &str, settings: &BTreeMap<String, String>) -> Result<(), String> {
        let table = self.class_tables.get_mut(name).ok_or_else(|| format!("there is no class `{name}`"))?;
        let changed = set_keys(table, name, settings)?;
        *table = changed.table;
        let class = self.classes.iter_mut().find(|class| class.name == name).expect("it has a table");
        *class = changed.class;
        Ok(())
    }

    /// The error of a line of this file.
    pub(crate) fn wrong_line(&self, line: usize, why: String) -> ConfigError {
        ConfigError::Line { path: self.path.clone(), line, why }
    }
}

/// A text and its name.
struct Source<'t> {
    text: &'t str,
    path: &'t Path,
}

impl Source<'_> {
    fn line(&self, at: usize) -> usize {
        self.text[..at.min(self.text.len())].matches('\n').count() + 1
    }

    /// The key whose value begins there.
    fn key_before(&self, at: usize) -> Option<&str> {
        let before = self.text.get(..at)?.trim_end().strip_suffix('=')?.trim_end();
        let begins = before.rfind(['\n', '{', ',']).map_or(0, |before| before + 1);
        Some(before[begins..].trim()).filter(|key| !key.is_empty())
    }

    fn wrong(&self, at: usize, why: String) -> ConfigError {
        ConfigError::Line { path: self.path.into(), line: self.line(at), why }
    }

    fn service_rule(&self, rule: &Spanned<String>) -> Result<ServiceRule, ConfigError> {
        let wrong = |why| self.wrong(rule.span().start, format!("`{}` is {why}", rule.get_ref()));
        rule.get_ref().parse().map_err(|why: pliant_handover::WrongRule| wrong(why))
    }

    fn listen(&self, listen: &Spanned<SocketAddr>) -> Listen {
        Listen { address: *listen.get_ref(), line: self.line(listen.span().start) }
    }
}

fn read_keys(source: &Source<'_>, folder: &Path, key: &Spanned<PathBuf>) -> Result<Keys, ConfigError> {
    Keys::read(&folder.join(key.get_ref())).map_err(|error| match error {
        // A line of the key file says most.
        KeyError::Line { file, line, why } => ConfigError::Line { path: file.into(), line, why },
        error => source.wrong(key.span().start, error.to_string()),
    })
}

/// The daemon calls from the socket on which it listens: that one must be of the peer's kind, or of both.
fn check_reach(own: SocketAddr, peer: SocketAddr, is_for_ipv6_only: impl Fn() -> bool) -> Result<(), String> {
    let why = match (canonical(own), peer) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) | (SocketAddr::V6(_), SocketAddr::V6(_)) => return Ok(()),
        (SocketAddr::V4(_), _) => "calls by IPv4 only; \"[::]:PORT\" calls by both",
        (SocketAddr::V6(own), _) if !own.ip().is_unspecified() => "calls by IPv6 only; \"[::]:PORT\" calls by both",
        _ if is_for_ipv6_only() => "calls by IPv6 only, because this host has net.ipv6.bindv6only = 1",
        _ => return Ok(()),
    };
    Err(format!("{peer} cannot be reached: listen = \"{own}\" {why}"))
}

/// Whether sockets of IPv6 cannot reach IPv4 on this host.
fn is_for_ipv6_only() -> bool {
    // A host without IPv6 refuses the daemon's own socket, and says so.
    UdpSocket::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)))
        .is_ok_and(|socket| rustix::net::sockopt::ipv6_v6only(&socket).unwrap_or(false))
}

/// Peers with a line in the key file are called by its name. Every other must be the only one.
fn called(source: &Source<'_>, keys: &Keys, file: &File) -> Result<Vec<(SocketAddr, String)>, ConfigError> {
    called_by(source, keys, &file.peers, *file.listen.get_ref())
}

/// The same for any table of peers, for a daemon that listens at `own`.
fn called_by(
    source: &Source<'_>,
    keys: &Keys,
    peers: &BTreeMap<Spanned<String>, SocketAddr>,
    own: SocketAddr,
) -> Result<Vec<(SocketAddr, String)>, ConfigError> {
    let mut called = Vec::new();
    let mut addresses = BTreeMap::new();
    for (name, address) in peers {
        let wrong = |why| Err(source.wrong(name.span().start, why));
        let name = name.get_ref();
        if address.port() == 0 || address.ip().is_unspecified() {
            return wrong(format!("{address} is no address of a peer"));
        }
        if *address == own {
            return wrong(format!("the peer `{name}` is this daemon itself"));
        }
        if let Some(other) = addresses.insert(*address, name) {
            return wrong(format!("the peers `{other}` and `{name}` have one address"));
        }
        let Keys::Static { peers, .. } = keys else { continue };
        if peers.iter().any(|peer| peer.name.as_ref() == Some(name)) {
            called.push((*address, name.clone()));
        } else if peers.len() > 1 {
            return wrong(format!("the key file has more than one peer, and none that is called `{name}`"));
        }
    }
    Ok(called)
}

fn exit_rules(source: &Source<'_>, keys: &Keys, table: &ExitTable) -> Result<ExitRules, ConfigError> {
    let parse = |rules: &[Spanned<String>]| {
        rules.iter().map(|rule| source.service_rule(rule)).collect::<Result<Vec<ServiceRule>, _>>()
    };
    let mut peers = BTreeMap::new();
    for (name, rules) in &table.peers {
        let known = |known: &Keys| match known {
            Keys::Static { peers, .. } => peers.iter().any(|peer| peer.name.as_ref() == Some(name.get_ref())),
            _ => false,
        };
        if !known(keys) {
            let why = format!("the key file has no peer that is called `{}`", name.get_ref());
            return Err(source.wrong(name.span().start, why));
        }
        peers.insert(name.get_ref().clone(), parse(&rules.allow)?);
    }
    Ok(ExitRules { all: parse(&table.allow)?, peers })
}

/// Files are offered and fetched under a class that can carry them, at their own port.
fn objects(
    source: &Source<'_>,
    file: &File,
    keys: &Keys,
    folder: &Path,
    classes: &[BundleClass],
    table: &ObjectsTable,
) -> Result<ObjectsConfig, ConfigError> {
    let listen = source.listen(&table.listen);
    if overlap(listen.address, *file.listen.get_ref()) {
        let line = source.line(file.listen.span().start);
        let why = format!("line {line} has this port for the daemon's bundles: files need one of their own");
        return Err(source.wrong(table.listen.span().start, why));
    }
    let wrong_class = |why: String| Err(source.wrong(table.class.span().start, why));
    let name = table.class.get_ref();
    let Some(class) = classes.iter().find(|class| class.name == *name) else {
        return wrong_class(format!("there is no class `{name}` in [classes]"));
    };
    let transport = SocketTransport::Tcp(Algorithm::WeightedFair);
    if class.flow.transport != transport {
        return wrong_class(format!("files are carried by {transport}, and `{name}` has {}", class.flow.transport));
    }
    if class.flow.contract.weight < 0.5 {
        return wrong_class(format!("files are carried with a weight of at least 0.5, and `{name}` has less"));
    }
    for offered in &table.offer {
        let path = folder.join(offered.get_ref());
        if !path.is_dir() {
            return Err(source.wrong(offered.span().start, format!("{} is no folder", path.display())));
        }
    }
    let folders = table.folders.iter().map(|(name, table)| offered_folder(source, folder, name, table));
    let named = |(name, address): (&Spanned<String>, &SocketAddr)| (name.get_ref().clone(), *address);
    let mirror = |url: &Spanned<String>| {
        let wrong = |error| source.wrong(url.span().start, format!("{error}"));
        MirrorUrl::of_folder(url.get_ref()).map_err(wrong)
    };
    let hash = |(name, hash): (&String, &Spanned<String>)| {
        let why = || "it must be a BLAKE3 hash: 64 hexadecimal digits".to_owned();
        let read = Hash::from_hex(hash.get_ref()).map_err(|_| source.wrong(hash.span().start, why()))?;
        Ok((name.clone(), read))
    };
    Ok(ObjectsConfig {
        mirrors: table.mirrors.iter().map(mirror).collect::<Result<_, _>>()?,
        hashes: table.hashes.iter().map(hash).collect::<Result<_, _>>()?,
        listen,
        folders: folders.collect::<Result<_, _>>()?,
        offer: table.offer.iter().map(|offered| folder.join(offered.get_ref())).collect(),
        sources: table.sources.iter().map(named).collect(),
        called: called_by(source, keys, &table.sources, listen.address)?,
        cache: folder.join(&table.cache),
        cache_limit: table.cache_limit,
        class: name.clone(),
    })
}

fn offered_folder(
    source: &Source<'_>,
    folder: &Path,
    name: &Spanned<String>,
    table: &FolderTable,
) -> Result<(String, FolderConfig), ConfigError> {
    if !is_plain(name.get_ref().as_bytes()) {
        let why = format!("`{}` is no name of a folder: it has no slash, and no dot at its beginning", name.get_ref());
        return Err(source.wrong(name.span().start, why));
    }
    let path = folder.join(table.path.get_ref());
    if !path.is_dir() {
        return Err(source.wrong(table.path.span().start, format!("{} is no folder", path.display())));
    }
    for pattern in table.include.iter().chain(&table.exclude) {
        let checked = FolderFilter::new(&[pattern.get_ref().clone()], &[]);
        checked.map_err(|why| source.wrong(pattern.span().start, why))?;
    }
    let texts = |patterns: &[Spanned<String>]| patterns.iter().map(|pattern| pattern.get_ref().clone()).collect();
    let config = FolderConfig { path, include: texts(&table.include), exclude: texts(&table.exclude) };
    Ok((name.get_ref().clone(), config))
}

/// All doors, and the classes that they use.
struct Doors {
    listening: Vec<Door>,
    preload: Option<Preload>,
    used: HashSet<String>,
}

fn doors(source: &Source<'_>, file: &File, folder: &Path) -> Result<Doors, ConfigError> {
    let mut used = HashSet::new();
    let mut next_hop = |to: &Spanned<String>, class: &Spanned<String>| {
        let known = file.peers.iter().find(|(name, _)| name.get_ref() == to.get_ref());
        let Some((_, &peer)) = known else {
            return Err(source.wrong(to.span().start, format!("there is no peer `{}` in [peers]", to.get_ref())));
        };
        if !file.classes.keys().any(|known| known.get_ref() == class.get_ref()) {
            let why = format!("there is no class `{}` in [classes]", class.get_ref());
            return Err(source.wrong(class.span().start, why));
        }
        used.insert(class.get_ref().clone());
        Ok(NextHop { to: to.get_ref().clone(), peer, class: class.get_ref().clone() })
    };
    let mut doors: Vec<Door> = Vec::new();
    let service = |text: &Spanned<String>| {
        let why = || source.wrong(text.span().start, format!("`{}` is not HOST:PORT", text.get_ref()));
        Service::parse(text.get_ref()).ok_or_else(why)
    };
    for table in &file.forward {
        let target = service(&table.target)?;
        let kind = DoorKind::Forward { next_hop: next_hop(&table.to, &table.class)?, target };
        doors.push(Door { listen: source.listen(&table.listen), kind });
    }
    for table in &file.kafka {
        let bootstrap = service(&table.bootstrap)?;
        let topics = topic_rules(source, &table.topics)?;
        let mut rules = Vec::new();
        for (topics, rule) in &table.topics {
            if let Some(class) = &rule.class {
                rules.push((topics.get_ref().clone(), next_hop(&table.to, class)?.class));
            }
        }
        let next_hop = next_hop(&table.to, &table.class)?;
        let classes = TopicClasses { others: next_hop.class.clone(), rules };
        let broker_ports = table.broker_ports.as_ref().map(|first| *first.get_ref());
        let max_brokers = max_brokers(source, table.max_brokers.as_ref())?;
        let kind = DoorKind::Kafka(KafkaCluster { next_hop, bootstrap, broker_ports, max_brokers, topics, classes });
        doors.push(Door { listen: source.listen(&table.listen), kind });
    }
    let preload = match &file.preload {
        Some(table) => Some(preload(source, folder, table, &mut next_hop)?),
        None => None,
    };
    if let Some(table) = &file.proxy {
        let mut routes: Vec<(HostRule, NextHop)> = Vec::new();
        for RouteTable { host, to, class } in &table.route {
            let rule: HostRule = host.get_ref().parse().map_err(|why| source.wrong(host.span().start, why))?;
            if routes.iter().any(|(other, _)| *other == rule) {
                let why = format!("another route is about `{}` already", host.get_ref());
                return Err(source.wrong(host.span().start, why));
            }
            routes.push((rule, next_hop(to, class)?));
        }
        // A program may name any class: none of them is unused.
        let classes: Vec<String> = file.classes.keys().map(|name| name.get_ref().clone()).collect();
        used.extend(classes.iter().cloned());
        let listen = source.listen(&table.listen);
        // `wrap` names the proxy to programs that have the preload library, too.
        let (ip, port) = (listen.address.ip(), listen.address.port());
        let taken = preload.iter().flat_map(|preload| &preload.rules).find(|rule| rule.service.matches(ip, port));
        if let Some(rule) = taken {
            let why = format!("the preload library's rule {} takes what goes to this door", rule.service);
            return Err(source.wrong(table.listen.span().start, why));
        }
        doors.push(Door { listen, kind: DoorKind::Proxy { routes, classes } });
    }
    if let Some(listen) = &file.metrics {
        if !listen.get_ref().ip().is_loopback() {
            return Err(
                source.wrong(listen.span().start, format!("{}: metrics are for loopback only", listen.get_ref()))
            );
        }
        doors.push(Door { listen: source.listen(listen), kind: DoorKind::Metrics });
    }
    if let Some(listen) = file.objects.as_ref().and_then(|objects| objects.door.as_ref()) {
        if !listen.get_ref().ip().is_loopback() {
            let why = format!("{}: programs of this host fetch files, by loopback only", listen.get_ref());
            return Err(source.wrong(listen.span().start, why));
        }
        doors.push(Door { listen: source.listen(listen), kind: DoorKind::Objects });
    }
    for (at, door) in doors.iter().enumerate() {
        let (address, line) = (door.listen.address, door.listen.line);
        let earlier = doors[..at].iter().find(|other| overlap(other.listen.address, address));
        if let Some(other) = earlier {
            let why = format!("two doors listen on {address}: line {} has {}", other.listen.line, other.listen.address);
            return Err(ConfigError::Line { path: source.path.into(), line, why });
        }
    }
    let kafka_doors = doors.iter().filter(|door| matches!(door.kind, DoorKind::Kafka(_)));
    for (door, first) in kafka_doors.zip(file.kafka.iter().map(|table| table.broker_ports.as_ref())) {
        let Some(first) = first else { continue };
        check_broker_ports(door, *first.get_ref(), &doors).map_err(|why| source.wrong(first.span().start, why))?;
    }
    Ok(Doors { listening: doors, preload, used })
}

fn max_brokers(source: &Source<'_>, most: Option<&Spanned<usize>>) -> Result<usize, ConfigError> {
    let Some(most) = most else { return Ok(DEFAULT_BROKERS) };
    match *most.get_ref() {
        brokers @ 1..=MAX_BROKERS => Ok(brokers),
        other => Err(source.wrong(most.span().start, format!("max_brokers is {other}; it is from 1 to {MAX_BROKERS}"))),
    }
}

/// The first brokers of a Kafka door have ports that nothing else here has. How many more there will be, only their cluster
/// knows.
fn check_broker_ports(own: &Door, first: u16, doors: &[Door]) -> Result<(), String> {
    let after = FIRST_BROKERS - 1;
    let Some(last) = first.checked_add(after).filter(|_| first > 0) else {
        let most = u16::MAX - after;
        return Err(format!(
            "broker_ports is {first}; it is from 1 to {most}, so that brokers 0 to {after} have ports"
        ));
    };
    for other in doors {
        let Listen { address, line } = other.listen;
        for port in first..=last {
            // The first broker of many clusters has number 1.
            let is_own = other == own && port == first;
            if !is_own && overlap(SocketAddr::new(own.listen.address.ip(), port), address) {
                return Err(format!("broker {} would have port {port}: line {line} has {address}", port - first));
            }
        }
        let DoorKind::Kafka(KafkaCluster { broker_ports: Some(theirs), .. }) = other.kind else { continue };
        // Where one can have a port, the other cannot.
        let at = |door: &Door| SocketAddr::new(door.listen.address.ip(), first);
        if other != own && theirs.abs_diff(first) < FIRST_BROKERS && overlap(at(own), at(other)) {
            return Err(format!("the door of line {line} has broker_ports {theirs}: brokers would share ports"));
        }
    }
    Ok(())
}

fn topic_rules(source: &Source<'_>, tables: &BTreeMap<Spanned<String>, TopicTable>) -> Result<TopicRules, ConfigError> {
    let mut rules = TopicRules::default();
    for (topics, table) in tables {
        let known = |c: char| c.is_ascii_alphanumeric() || "._-*".contains(c);
        if topics.get_ref().is_empty() || !topics.get_ref().chars().all(known) {
            let why = format!("`{}` is no topic's name, with `*` for any characters", topics.get_ref());
            return Err(source.wrong(topics.span().start, why));
        }
        let at = topics.span().start;
        let Some(least) = &table.min_delivery else {
            let unused =
                table.compacted || table.when == When::Always || !is_first(&table.pattern) || !is_first(&table.carry);
            if table.class.is_none() || unused {
                let why = format!("`{}` lacks min_delivery, by which records may be left out", topics.get_ref());
                return Err(source.wrong(at, why));
            }
            continue;
        };
        if let Some(class) =
            tables.values().find_map(|table| table.class.as_ref()).filter(|_| table.carry == Carry::Messages)
        {
            let why = "a door whose records travel in messages has no class by topic".to_owned();
            return Err(source.wrong(class.span().start, why));
        }
        let part = *least.get_ref();
        let min_delivery = MinDelivery::from_part(part).ok_or_else(|| {
            let why = format!("min_delivery is {part}; it has to be above 0 and at most 1");
            source.wrong(least.span().start, why)
        })?;
        rules.0.push(TopicRule {
            topics: topics.get_ref().clone(),
            min_delivery,
            compacted: table.compacted,
            always: table.when == When::Always,
            pattern: table.pattern,
            carry: table.carry,
        });
        if rules.text().len() > MAX_RULES_BYTES {
            let why = format!("the door's rules about topics are longer than {MAX_RULES_BYTES} bytes with this one");
            return Err(source.wrong(topics.span().start, why));
        }
    }
    Ok(rules)
}

type FindNextHop<'f> = dyn FnMut(&Spanned<String>, &Spanned<String>) -> Result<NextHop, ConfigError> + 'f;

fn preload(
    source: &Source<'_>,
    folder: &Path,
    table: &PreloadTable,
    next_hop: &mut FindNextHop<'_>,
) -> Result<Preload, ConfigError> {
    let mut rules: Vec<PreloadRule> = Vec::new();
    for PreloadRuleTable { service, to, class } in &table.rule {
        let rule = PreloadRule { service: source.service_rule(service)?, next_hop: next_hop(to, class)? };
        if class.get_ref().len() > MAX_CLASS_BYTES {
            return Err(source.wrong(class.span().start, "the name of this class is too long for a program".to_owned()));
        }
        let is_same =
            |other: &PreloadRule| other.service == rule.service && other.next_hop.class == rule.next_hop.class;
        if rules.iter().any(is_same) {
            let why = format!("another rule of the class `{}` is about {} already", class.get_ref(), rule.service);
            return Err(source.wrong(service.span().start, why));
        }
        rules.push(rule);
    }
    Ok(Preload { socket: folder.join(table.socket.get_ref()), line: source.line(table.socket.span().start), rules })
}

/// Whether not both can listen. An unspecified address covers every address. That of IPv6 also covers IPv4.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let takes = |a: SocketAddr, b: SocketAddr| {
        a.ip() == b.ip() || a.ip().is_unspecified() && (a.is_ipv6() || a.is_ipv4() == b.is_ipv4())
    };
    a.port() != 0 && a.port() == b.port() && (takes(a, b) || takes(b, a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pliant_proto::units::Rate;

    const GOOD: &str = r#"
listen = "127.0.0.1:7411"
key = "KEY"

[peers]
hostb = "127.0.0.1:7412"

[classes.backup]
transport = "ledbat++"
max_rate = "200Mbit/s"
schedule = [{ from = "22:00", to = "06:00" }, { from = "08:00", to = "18:00", max_rate = "20Mbit/s" }]
[[forward]]
listen = "127.0.0.1:6380"
to = "hostb"
target = "127.0.0.1:6379"
class = "backup"

[proxy]
listen = "127.0.0.1:1080"

[[proxy.route]]
host = "*.rack2.example"
to = "hostb"
class = "backup"

[exit]
allow = ["127.0.0.1:6379", "10.1.0.0/16:*"]
"#;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        std::fs::write(&key, format!("preshared {}", "07".repeat(32))).unwrap();
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        Config::parse(&text.replace("\"KEY\"", &format!("{key:?}")), Path::new("pliant.toml"))
    }

    #[test]
    fn a_configuration_is_read() {
        let config = parse(GOOD).unwrap();
        assert_eq!((config.classes.len(), config.doors.len(), config.exit.of(None).count()), (1, 2, 2));
        assert_eq!(config.classes[0].flow.contract.max_rate, Some(Rate::from_bits_per_sec(200_000_000)));
        for (at, expected) in [("07:00", Some(200)), ("23:00", None), ("05:59", None), ("08:00", Some(20))] {
            let rate = config.classes_at(at.parse().unwrap())[0].flow.contract.max_rate;
            assert_eq!(rate, expected.map(|mbit| Rate::from_bits_per_sec(1_000_000 * mbit)), "{at}");
        }
        let DoorKind::Forward { next_hop, target } = &config.doors[0].kind else { panic!("{:?}", config.doors) };
        assert_eq!((next_hop.peer, target.port), ("127.0.0.1:7412".parse().unwrap(), 6379));
        let DoorKind::Proxy { routes, .. } = &config.doors[1].kind else { panic!("{:?}", config.doors) };
        assert_eq!((routes.len(), config.doors[1].listen.line), (1, 19));
    }

    /// Where one has all addresses, another cannot have one of them; another port, or none, is another listener.
    #[test]
    fn listeners_that_overlap_are_refused() {
        for (first, second, refused) in [
            ("0.0.0.0:6380", "127.0.0.1:6380", true),
            ("127.0.0.1:6380", "[::]:6380", true),
            ("[::1]:6380", "[::]:6380", true),
            ("[::1]:6380", "127.0.0.1:6380", false),
            ("[::1]:6380", "0.0.0.0:6380", false),
            ("127.0.0.1:6380", "127.0.0.2:6380", false),
            ("127.0.0.1:6380", "127.0.0.1:6381", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
        ] {
            let parsed = parse(&GOOD.replace("127.0.0.1:6380", first).replace("127.0.0.1:1080", second));
            assert_eq!(parsed.is_err(), refused, "{first} {second}");
            if let Err(error) = parsed {
                let why = format!("pliant.toml:19: two doors listen on {second}: line 13 has {first}");
                assert_eq!(error.to_string(), why);
            }
        }
    }

    /// A key file that others may read, or that is not there, is told with the line that names it; a mistake in it with
    /// its own.
    #[test]
    fn key_files_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pliant.toml");
        let (key, line) = (folder.path().join("key"), format!("{}:3: ", path.display()));
        let text = GOOD.replace("\"KEY\"", "\"key\"");
        let check = |mode: u32, content: &str| {
            std::fs::write(&key, content).unwrap();
            std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            Config::parse(&text, &path).map_err(|error| error.to_string())
        };
        let absent = Config::parse(&text, &path).unwrap_err().to_string();
        assert!(absent.starts_with(&line) && absent.contains("No such file"), "{absent}");
        let good = format!("preshared {}", "07".repeat(32));
        for (mode, content, starts, why) in [
            (0o640, &good, &line, "others may read this key"),
            (0o604, &good, &line, "others may read this key"),
            (0o600, &"preshared 07".to_owned(), &format!("{}:1: ", key.display()), "64 hexadecimal digits"),
        ] {
            let error = check(mode, content).unwrap_err();
            assert!(error.starts_with(starts) && error.contains(why), "{error}");
        }
        check(0o600, &good).unwrap();
        // Of several peers the file says which is which.
        let peers = |names: [&str; 2]| {
            format!(
                "private {}\npeer {} {}\npeer {} {}",
                "01".repeat(32),
                "02".repeat(32),
                names[0],
                "03".repeat(32),
                names[1]
            )
        };
        let config = check(0o600, &peers(["hosta", "hostb"])).unwrap();
        assert_eq!(config.called, [("127.0.0.1:7412".parse().unwrap(), "hostb".to_owned())]);
        let error = check(0o600, &peers(["hosta", "hostc"])).unwrap_err();
        assert!(error.contains(":6: ") && error.contains("none that is called `hostb`"), "{error}");
    }

    /// A socket of one kind calls nobody of the other. One for all addresses of IPv6 calls both kinds, unless the host forbids it.
    #[test]
    fn peers_of_the_other_kind_of_address_are_refused() {
        for (own, peer, only_v6, expected) in [
            ("0.0.0.0:1", "192.0.2.1:1", true, ""),
            ("0.0.0.0:1", "[2001:db8::1]:1", false, "IPv4 only"),
            ("[::ffff:192.0.2.7]:1", "[2001:db8::1]:1", false, "IPv4 only"),
            ("[::ffff:192.0.2.7]:1", "192.0.2.1:1", true, ""),
            ("[2001:db8::7]:1", "192.0.2.1:1", false, "IPv6 only"),
            ("[2001:db8::7]:1", "[2001:db8::1]:1", true, ""),
            ("[::]:1", "192.0.2.1:1", false, ""),
            ("[::]:1", "192.0.2.1:1", true, "bindv6only"),
            ("[::]:1", "[2001:db8::1]:1", true, ""),
        ] {
            let reached = check_reach(own.parse().unwrap(), peer.parse().unwrap(), || only_v6);
            let why = reached.err().unwrap_or_default();
            assert!(why.contains(expected) && why.is_empty() == expected.is_empty(), "{own} {peer}: {why}");
        }
    }

    #[test]
    fn a_file_that_is_no_text_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pliant.toml");
        std::fs::write(&path, b"listen = \"127.0.0.1:0\"\n# gr\xf6\xdfer\n").unwrap();
        let error = Config::read(&path).unwrap_err().to_string();
        assert!(error.ends_with("pliant.toml:2: this is no text in UTF-8"), "{error}");
    }

    /// A door that more than this host can reach is told of, and that there is none, nor an exit.
    #[test]
    fn what_is_rarely_intended_is_told() {
        assert!(parse(GOOD).unwrap().warnings().is_empty());
        let warnings = parse(&GOOD.replace("127.0.0.1:1080", "0.0.0.0:1080")).unwrap().warnings();
        assert_eq!(warnings, ["pliant.toml:19: everybody who can reach 0.0.0.0:1080 can use this door"]);
        let warnings = parse("listen = \"127.0.0.1:7411\"\nkey = \"KEY\"\n").unwrap().warnings();
        assert_eq!(warnings, ["pliant.toml: there is neither a door nor an exit"]);
    }

    /// Files have a port of their own, a class that can carry them, folders that are there, and a door on loopback.
    #[test]
    fn files_are_for_loopback_and_their_own_port() {
        let objects = "[classes.images]\ntransport = \"weighted-fair\"\n[objects]\nlisten = \"0.0.0.0:7413\"\nclass = \"images\"\n\
                       offer = [\"/tmp\"]\ndoor = \"127.0.0.1:7480\"\n[objects.sources]\none = \"192.0.2.1:7413\"\n";
        let text = format!("{GOOD}{objects}");
        let config = parse(&text).unwrap();
        let files = config.objects.unwrap();
        assert_eq!((files.class.as_str(), files.cache_limit.0, files.sources.len()), ("images", 10 << 30, 1));
        assert_eq!(config.doors.last().unwrap().kind, DoorKind::Objects);
        for (from, to, why) in [
            ("\"0.0.0.0:7413\"", "\"0.0.0.0:7411\"", "line 2 has this port for the daemon's bundles"),
            ("127.0.0.1:7480", "0.0.0.0:7480", "programs of this host fetch files, by loopback only"),
            ("127.0.0.1:7480", "127.0.0.1:6380", "two doors listen on 127.0.0.1:6380"),
            ("class = \"images\"", "class = \"none\"", "there is no class `none` in [classes]"),
            (
                "class = \"images\"",
                "class = \"backup\"",
                "files are carried by weighted-fair, and `backup` has ledbat++",
            ),
            ("\"weighted-fair\"\n", "\"weighted-fair\"\nweight = 0.4\n", "a weight of at least 0.5"),
            ("\"/tmp\"", "\"/no such folder\"", "/no such folder is no folder"),
            ("192.0.2.1:7413", "192.0.2.1:0", "192.0.2.1:0 is no address of a peer"),
            ("door =", "dor =", "unknown field `dor`"),
            ("door =", "mirrors = [\"https://host/models\"]\ndoor =", "it must end with a slash"),
            ("door =", "mirrors = [\"https://me:word@host/\"]\ndoor =", "would be seen by all users"),
            ("[objects.sources]", "hashes = { \"a.bin\" = \"12\" }\n[objects.sources]", "it must be a BLAKE3 hash"),
            (
                "[objects.sources]",
                "[objects.folders.m]\npath = \"/none\"\n[objects.sources]",
                ":36: /none is no folder",
            ),
            (
                "[objects.sources]",
                "[objects.folders.\"../m\"]\npath = \"/tmp\"\n[objects.sources]",
                ":35: `../m` is no name of a folder",
            ),
            (
                "[objects.sources]",
                "[objects.folders.m]\npath = \"/tmp\"\nexclude = [\n\"*.tmp\", \"a[\"]\n[objects.sources]",
                ":38: `a[` is no pattern: ",
            ),
            (
                "[objects.sources]",
                "[objects.folders.m]\npath = \"/tmp\"\nexlude = []\n[objects.sources]",
                "unknown field `exlude`",
            ),
        ] {
            let error = parse(&text.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    /// All night without a promise, and from four o'clock on as a normal flow. A share that the transport does not keep is refused.
    #[test]
    fn a_schedule_changes_the_share() {
        let of = |transport: &str, share: &str| {
            let schedule = format!("schedule = [{{ from = \"04:00\", to = \"06:00\", min_share = {share} }}]\n");
            let class = format!("[classes.night]\ntransport = \"{transport}\"\n{schedule}");
            parse(&GOOD.replace("[proxy]", &format!("{class}[proxy]")))
        };
        let config = of("bounded\"\nmin_share = 0\nmin_rate = \"5Mbit/s", "1").unwrap();
        let at = |time: &str| {
            let classes = config.classes_at(time.parse().unwrap());
            classes.iter().find(|class| class.name == "night").unwrap().flow.contract
        };
        assert_eq!((at("03:59").min_share, at("03:59").min_rate.bits_per_sec()), (0.0, 5_000_000));
        assert_eq!((at("04:00").min_share, at("04:00").min_rate.bits_per_sec()), (1.0, 0));
        for (transport, share) in [("ledbat++", "0.5"), ("bounded", "1.5"), ("bounded", "-1")] {
            let error = of(transport, share).unwrap_err().to_string();
            assert!(error.contains("class night: schedule: ") && error.contains("min_share"), "{error}");
        }
    }

    #[test]
    fn a_kafka_door_is_read() {
        let door = "[[kafka]]\nlisten = \"127.0.0.1:9092\"\nto = \"hostb\"\nbootstrap = \"kafka.example:9092\"\n\
                    class = \"backup\"\nbroker_ports = 19100\n";
        let config = parse(&GOOD.replace("[proxy]", &format!("{door}[proxy]"))).unwrap();
        let DoorKind::Kafka(cluster) = &config.doors[1].kind else { panic!("{:?}", config.doors) };
        assert_eq!((cluster.bootstrap.text().as_str(), cluster.broker_ports), ("kafka.example:9092", Some(19_100)));
        assert_eq!(cluster.max_brokers, DEFAULT_BROKERS);
        let config = parse(&GOOD.replace("[proxy]", &format!("{door}max_brokers = 1000\n[proxy]"))).unwrap();
        let DoorKind::Kafka(cluster) = &config.doors[1].kind else { panic!("{:?}", config.doors) };
        assert_eq!(cluster.max_brokers, MAX_BROKERS);
        let error = parse(&GOOD.replace("[proxy]", &format!("{}[proxy]", door.replace(".example:9092", ""))));
        assert!(error.unwrap_err().to_string().ends_with(":21: `kafka` is not HOST:PORT"));
        let other = door.replace("9092\"\nto", "9093\"\nto").replace("19100", "19109");
        for (doors, why) in [
            (door.replace("19100", "0"), ":23: broker_ports is 0; it is from 1 to 65526"),
            (door.replace("19100", "65527"), ":23: broker_ports is 65527; it is from 1 to 65526"),
            (format!("{door}max_brokers = 0\n"), ":24: max_brokers is 0; it is from 1 to 1000"),
            (format!("{door}max_brokers = 1001\n"), ":24: max_brokers is 1001; it is from 1 to 1000"),
            (door.replace("19100", "1071"), ":23: broker 9 would have port 1080: line 25 has 127.0.0.1:1080"),
            (door.replace("19100", "9091"), ":23: broker 1 would have port 9092: line 19 has 127.0.0.1:9092"),
            (format!("{door}{other}"), ":23: the door of line 25 has broker_ports 19109: brokers would share ports"),
        ] {
            let error = parse(&GOOD.replace("[proxy]", &format!("{doors}[proxy]"))).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        // Brokers from 1 on, and addresses that are not the door's.
        for doors in [door.replace("19100", "9092"), format!("{door}{}", other.replace("127.0.0.1:9", "127.0.0.2:9"))] {
            parse(&GOOD.replace("[proxy]", &format!("{doors}[proxy]"))).unwrap();
        }
    }

    #[test]
    fn rules_about_topics_are_read() {
        let door = "[[kafka]]\nlisten = \"127.0.0.1:9092\"\nto = \"hostb\"\nbootstrap = \"kafka.example:9092\"\n\
                    class = \"backup\"\n[kafka.topics.\"clicks.*\"]\nmin_delivery = 0.8\nwhen = \"always\"\ncarry = \"messages\"\n";
        let with = |door: &str| parse(&GOOD.replace("[proxy]", &format!("{door}[proxy]")));
        let config = with(door).unwrap();
        let DoorKind::Kafka(cluster) = &config.doors[1].kind else { panic!("{:?}", config.doors) };
        let min_delivery = MinDelivery::from_part(0.8).unwrap();
        let (topics, pattern, carry) = ("clicks.*".to_owned(), LossPattern::Uniform, Carry::Messages);
        let rule = TopicRule { topics, min_delivery, compacted: false, always: true, pattern, carry };
        assert_eq!(cluster.topics, TopicRules(vec![rule]));
        for (from, to, line, why) in [
            ("0.8", "0", 24, "min_delivery is 0; it has to be above 0"),
            ("0.8", "1.5", 24, "at most 1"),
            ("0.8", "nan", 24, "above 0"),
            ("clicks.*", "clicks,*", 23, "`clicks,*` is no topic's name"),
            ("clicks.*", &"c".repeat(700), 23, "longer than 700 bytes"),
            ("always", "never", 25, "never"),
            ("when", "wen", 25, "wen"),
            ("messages", "pigeons", 26, "pigeons"),
            ("when = \"always\"", "pattern = \"heads\"", 25, "heads"),
        ] {
            let error = with(&door.replace(from, to)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("pliant.toml:{line}: ")) && error.contains(why), "{why}: {error}");
        }
        let classes =
            door.replace("min_delivery = 0.8\nwhen = \"always\"\ncarry = \"messages\"\n", "class = \"backup\"\n");
        let config = with(&classes).unwrap();
        let DoorKind::Kafka(cluster) = &config.doors[1].kind else { panic!("{:?}", config.doors) };
        let rules = vec![("clicks.*".to_owned(), "backup".to_owned())];
        assert_eq!(cluster.classes, TopicClasses { others: "backup".to_owned(), rules });
        assert!(cluster.topics.0.is_empty());
        for (door, line, why) in [
            (
                classes.replace(
                    "class = \"backup\"\n[kafka.topics.\"clicks.*\"]\nclass = \"backup\"",
                    "class = \"backup\"\n[kafka.topics.\"clicks.*\"]\nclass = \"fast\"",
                ),
                24,
                "no class `fast`",
            ),
            (classes.replace("]\nclass = \"backup\"\n", "]\n"), 23, "`clicks.*` lacks min_delivery"),
            (format!("{classes}when = \"always\"\n"), 23, "`clicks.*` lacks min_delivery"),
            (
                door.replace("min", "class = \"backup\"\nmin"),
                24,
                "whose records travel in messages has no class by topic",
            ),
        ] {
            let error = with(&door).unwrap_err().to_string();
            assert!(error.starts_with(&format!("pliant.toml:{line}: ")) && error.contains(why), "{why}: {error}");
        }
        let ledger = parse(&GOOD.replace("[exit]", "[exit]\nkafka_ledger = \"kafka.ledger\"")).unwrap().kafka_ledger;
        assert_eq!(ledger, Some(LedgerFile { path: "kafka.ledger".into(), line: 27 }));
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let preload = |service: &str, class: &str| {
            let rule = format!("[[preload.rule]]\nservice = \"{service}\"\nto = \"hostb\"\nclass = \"{class}\"\n");
            format!("[preload]\nsocket = \"s\"\n{rule}[proxy]")
        };
        for (from, to, line, why) in [
            ("to = \"hostb\"\ntarget", "to = \"hostc\"\ntarget", 14, "no peer `hostc`"),
            ("class = \"backup\"\n\n[proxy]", "class = \"bulk\"\n\n[proxy]", 16, "no class `bulk`"),
            ("target = \"127.0.0.1:6379\"", "target = \"6379\"", 15, "`6379` is not HOST:PORT"),
            ("ledbat++", "ledbat+", 9, "\"ledbat+\" is no transport; known are "),
            ("transport = \"ledbat++\"", "transport = \"atp\"", 8, "does not carry streams"),
            ("max_rate", "min_share = 0.5\nmax_rate", 8, "min_share"),
            ("max_rate", "max_rat", 10, "max_rat"),
            ("200Mbit/s", "200", 10, "200"),
            ("\"200Mbit/s\"", "200", 10, "\"200\" is not a rate such as \"10Gbit/s\": it has no unit"),
            ("max_rate", "mtu = 70000\nmax_rate", 10, "`70000`, expected a whole number from 0 to 65535"),
            ("max_rate", "class = -1\nmax_rate", 10, "expected a whole number from 0 to 255"),
            ("max_rate", "weight = \"x\"\nmax_rate", 10, "`weight`: invalid type: string \"x\", expected a number"),
            ("[peers]", "control = 3\n[peers]", 5, "expected a path in quotes"),
            ("[peers]", "control = \"\"\n[peers]", 5, "`control` is empty"),
            ("[proxy]", "[preload]\nsocket = \"\"\n[proxy]", 19, "`socket` is empty"),
            ("127.0.0.1:7412", "far.example:7412", 6, "names of hosts are not taken"),
            ("[peers]", "limits = 3\n[peers]", 5, "expected a table"),
            ("allow = [", "allow = [3, ", 27, "expected text in quotes"),
            ("[exit]", "[exit.peers.a]\nallow = 3\n[exit]", 27, "expected a list in brackets"),
            ("127.0.0.1:1080", "127.0.0.1:6380", 19, "two doors listen on 127.0.0.1:6380"),
            ("*.rack2.example", "*rack2", 22, "`*rack2` is no address"),
            ("10.1.0.0/16:*", "10.1.0.0/16", 27, "`10.1.0.0/16` is not"),
            ("[peers]", "[peer]", 5, "peer"),
            ("hostb = \"127.0.0.1:7412\"", "hostb = \"127.0.0.1:7411\"", 6, "this daemon itself"),
            ("[exit]", "[exit.peers.hostb]\nallow = []\n[exit]", 26, "no peer that is called `hostb`"),
            ("[exit]", "[limits]\npeer_connection = 1\n[exit]", 27, "peer_connection"),
            ("hostb = \"127.0.0.1:7412\"", "hostb = \"\"", 6, "expected an address and a port in quotes"),
            ("hostb = \"127.0.0.1:7412\"", "hostb = \"127.0.0.1:0\"", 6, "no address of a peer"),
            ("hostb = \"127.0.0.1:7412\"", "hostb = \"0.0.0.0:7412\"", 6, "no address of a peer"),
            ("[classes.backup]", "hostc = \"127.0.0.1:7412\"\n[classes.backup]", 8, "have one address"),
            ("[classes.backup]", "hostc = \"[::ffff:127.0.0.1]:7412\"\n[classes.backup]", 8, "have one address"),
            ("127.0.0.1:7412", "[2001:db8::7]:7412", 6, "peers.hostb: [2001:db8::7]:7412 cannot be reached: listen = "),
            ("max_rate", "weight = 2.0\nmax_rate", 8, "does not honour weight"),
            ("200Mbit/s", "0bit/s", 10, "above zero"),
            ("max_rate", "mtu = 100\nmax_rate", 8, "mtu"),
            ("max_rate", "class = 32\nmax_rate", 8, "class is 32: classes are 0 to 31"),
            ("max_rate", "message_class = 40\nmax_rate", 8, "message_class is 40: classes are 0 to 31"),
            ("max_rate", "message_class = 1\nmax_rate", 8, "class backup: message_class is for records of Kafka"),
            ("max_rate", "message_line_rate = \"1Gbit/s\"\nmax_rate", 8, "message_line_rate is for records of Kafka"),
            ("max_rate", "max_streams = 0\nmax_rate", 10, "expected a whole number from 1"),
            ("[exit]", "[limits]\npeer_connections = 0\n[exit]", 27, "expected a whole number from 1"),
            ("[exit]", "[limits]\nuser_connections = 0\n[exit]", 27, "expected a whole number from 1"),
            (
                "[exit]",
                "[[proxy.route]]\nhost = \"*.RACK2.example\"\nto = \"hostb\"\nclass = \"backup\"\n[exit]",
                27,
                "another route is about `*.RACK2.example` already",
            ),
            ("[exit]\nallow", "[exit]\nkafka_ledger = \"ledger\"\n#", 27, "leaves no record out"),
            ("max_rate", "unread = \"0B\"\nmax_rate", 8, "unread is 0 bytes; it is at least 8 MiB"),
            ("max_rate", "unread = \"8388607B\"\nmax_rate", 8, "unread is 8388607 bytes"),
            ("max_rate", "window = \"63999B\"\nmax_rate", 8, "window is 63999 bytes; it is at least 64 kB"),
            ("[peers]", "drain = \"3\"\n[peers]", 5, "a time such as"),
            ("127.0.0.1:7411", "7411", 2, "expected an address and a port in quotes"),
            ("[peers]", "metrics = \"0.0.0.0:9464\"\n[peers]", 5, "metrics are for loopback only"),
            ("[proxy]", "[preload]\nsocke = \"s\"\n[proxy]", 19, "socke"),
            ("[proxy]", &preload("10.0.0.0/8", "backup"), 21, "`10.0.0.0/8` is not"),
            ("[proxy]", &preload("10.0.0.0/8:*", "bulk"), 23, "no class `bulk`"),
            ("[proxy]", &preload("127.0.0.0/8:*", "backup"), 25, "rule 127.0.0.0/8:* takes what goes to this door"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("pliant.toml:{line}: ")) && error.contains(why), "{why}: {error}");
        }
        let unused = GOOD.replace("[exit]", "[classes.idle]\ntransport = \"dctcp\"\n[exit]").replace("allow", "#");
        assert!(parse(&unused).is_ok(), "programs may name it at the proxy");
        let (head, rest) = unused.split_once("[proxy]").unwrap();
        let unused = format!("{head}{}", &rest[rest.find("[classes.idle]").unwrap()..]);
        assert!(parse(&unused).unwrap_err().to_string().contains("no door uses the class `idle`"));
    }
}
