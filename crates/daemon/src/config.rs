//! The configuration file.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pliant_net::bundle::BundleClass;
use pliant_net::connection::{KeyError, Keys};
use pliant_net::flow::{Classes, FlowSettings, SocketTransport};
use pliant_proto::contract::Contract;
use pliant_proto::units::{Bytes, Rate};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use thiserror::Error;
use toml::Spanned;

use crate::header::Service;
use crate::rules::{HostRule, ServiceRule};

/// Larger files are named by mistake.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Why a configuration is refused.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
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
    /// The key file is refused.
    #[error("{0}")]
    Key(KeyError),
}

/// What a daemon does.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) keys: Keys,
    pub(crate) classes: Vec<BundleClass>,
    pub(crate) forwards: Vec<Forward>,
    pub(crate) proxy: Option<Proxy>,
    pub(crate) allow: Vec<ServiceRule>,
}

/// A door to one service.
#[derive(Clone, Debug)]
pub(crate) struct Forward {
    pub(crate) listen: SocketAddr,
    pub(crate) way: Way,
    pub(crate) target: Service,
}

/// A peer, and the class of what goes there.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) peer: SocketAddr,
    pub(crate) class: String,
}

/// A door that speaks SOCKS5 and HTTP CONNECT.
#[derive(Clone, Debug)]
pub(crate) struct Proxy {
    pub(crate) listen: SocketAddr,
    pub(crate) routes: Vec<(HostRule, Way)>,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: SocketAddr,
    key: PathBuf,
    #[serde(default)]
    peers: BTreeMap<String, SocketAddr>,
    #[serde(default)]
    classes: BTreeMap<Spanned<String>, ClassTable>,
    #[serde(default)]
    forward: Vec<ForwardTable>,
    proxy: Option<ProxyTable>,
    #[serde(default)]
    exit: ExitTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassTable {
    #[serde(deserialize_with = "from_text")]
    transport: SocketTransport,
    #[serde(default = "one")]
    weight: f64,
    #[serde(default = "one")]
    min_share: f64,
    #[serde(default, deserialize_with = "some_from_text")]
    max_rate: Option<Rate>,
    #[serde(default)]
    class: u8,
    #[serde(default = "default_mtu")]
    mtu: u16,
    #[serde(default = "default_streams")]
    max_streams: usize,
    #[serde(default = "default_memory", deserialize_with = "from_text")]
    memory: Bytes,
    #[serde(default = "default_window", deserialize_with = "from_text")]
    window: Bytes,
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
struct ProxyTable {
    listen: Spanned<SocketAddr>,
    #[serde(default)]
    route: Vec<RouteTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteTable {
    #[serde(deserialize_with = "from_text")]
    host: HostRule,
    to: Spanned<String>,
    class: Spanned<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct ExitTable {
    #[serde(default)]
    allow: Vec<Spanned<String>>,
}

fn one() -> f64 {
    1.0
}

fn default_mtu() -> u16 {
    1200
}

fn default_streams() -> usize {
    10_000
}

fn default_memory() -> Bytes {
    Bytes(128 << 20)
}

fn default_window() -> Bytes {
    Bytes(4 << 20)
}

fn from_text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(D::Error::custom)
}

fn some_from_text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<Option<T>, D::Error> {
    from_text(deserializer).map(Some)
}

impl Config {
    /// Reads a file and checks all of it, the key file too, whose path counts from the file's folder.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let file = |error| ConfigError::File { path: path.into(), error };
        if std::fs::metadata(path).map_err(file)?.len() > MAX_FILE_BYTES {
            return Err(file(std::io::Error::other("larger than any configuration")));
        }
        let text = std::fs::read_to_string(path).map_err(file)?;
        Self::parse(&text, path)
    }

    /// The same of a text; `path` is its name in errors.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let wrong = |at: usize, why: String| {
            let line = text[..at.min(text.len())].matches('\n').count() + 1;
            ConfigError::Line { path: path.into(), line, why }
        };
        let file: File = match toml::from_str(text) {
            Ok(file) => file,
            Err(error) => {
                let why = error.message().trim_end().replace('\n', " ");
                return Err(wrong(error.span().map_or(0, |span| span.start), why));
            }
        };
        let key = path.parent().unwrap_or(Path::new("")).join(&file.key);
        let keys = Keys::read(&key).map_err(ConfigError::Key)?;
        let mut classes = Vec::new();
        for (name, table) in &file.classes {
            let class = table.class_of(name.get_ref());
            if let Err(error) = class.check() {
                return Err(wrong(name.span().start, error.to_string()));
            }
            classes.push(class);
        }
        let mut used = HashSet::new();
        let mut way = |to: &Spanned<String>, class: &Spanned<String>| {
            let Some(&peer) = file.peers.get(to.get_ref()) else {
                return Err(wrong(to.span().start, format!("there is no peer `{}` in [peers]", to.get_ref())));
            };
            if !classes.iter().any(|known| known.name == *class.get_ref()) {
                return Err(wrong(class.span().start, format!("there is no class `{}` in [classes]", class.get_ref())));
            }
            used.insert(class.get_ref().clone());
            Ok(Way { peer, class: class.get_ref().clone() })
        };
        let mut forwards = Vec::new();
        for table in &file.forward {
            let Some(target) = Service::parse(table.target.get_ref()) else {
                let why = format!("`{}` is not HOST:PORT", table.target.get_ref());
                return Err(wrong(table.target.span().start, why));
            };
            let way = way(&table.to, &table.class)?;
            forwards.push(Forward { listen: *table.listen.get_ref(), way, target });
        }
        let proxy = match &file.proxy {
            None => None,
            Some(table) => {
                let route = |route: &RouteTable| Ok((route.host.clone(), way(&route.to, &route.class)?));
                let routes = table.route.iter().map(route).collect::<Result<_, _>>()?;
                Some(Proxy { listen: *table.listen.get_ref(), routes })
            }
        };
        let mut doors = HashSet::new();
        let listeners =
            file.forward.iter().map(|table| &table.listen).chain(file.proxy.iter().map(|proxy| &proxy.listen));
        for listen in listeners {
            if listen.get_ref().port() != 0 && !doors.insert(*listen.get_ref()) {
                return Err(wrong(listen.span().start, format!("two doors listen on {}", listen.get_ref())));
            }
        }
        let mut allow = Vec::new();
        for rule in &file.exit.allow {
            match rule.get_ref().parse() {
                Ok(rule) => allow.push(rule),
                Err(why) => return Err(wrong(rule.span().start, why)),
            }
        }
        let Some(unused) = file.classes.keys().find(|name| !used.contains(name.get_ref()) && allow.is_empty()) else {
            return Ok(Self { listen: file.listen, keys, classes, forwards, proxy, allow });
        };
        let why = format!("no door uses the class `{}`, and no exit serves others", unused.get_ref());
        Err(wrong(unused.span().start, why))
    }
}

impl ClassTable {
    fn class_of(&self, name: &str) -> BundleClass {
        let contract = Contract { weight: self.weight, min_share: self.min_share, ..Contract::default() };
        let flow = FlowSettings {
            transport: self.transport,
            contract,
            rate_cap: self.max_rate,
            classes: Classes { data: self.class, control: self.class, ..Classes::default() },
            mtu: self.mtu,
            receive_buffer: self.window.0,
            ..FlowSettings::default()
        };
        BundleClass { name: name.to_owned(), flow, max_streams: self.max_streams, window_budget: self.memory.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
listen = "127.0.0.1:7411"
key = "KEY"

[peers]
hostb = "127.0.0.1:7412"

[classes.backup]
transport = "ledbat++"
max_rate = "200Mbit/s"

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
        assert_eq!((config.classes.len(), config.forwards.len(), config.allow.len()), (1, 1, 2));
        assert_eq!(config.classes[0].flow.rate_cap, Some(Rate::from_bits_per_sec(200_000_000)));
        assert_eq!(config.forwards[0].way.peer, "127.0.0.1:7412".parse().unwrap());
        assert_eq!(config.proxy.unwrap().routes.len(), 1);
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (from, to, line, why) in [
            ("to = \"hostb\"\ntarget", "to = \"hostc\"\ntarget", 14, "no peer `hostc`"),
            ("class = \"backup\"\n\n[proxy]", "class = \"bulk\"\n\n[proxy]", 16, "no class `bulk`"),
            ("target = \"127.0.0.1:6379\"", "target = \"6379\"", 15, "`6379` is not HOST:PORT"),
            ("ledbat++", "ledbat+", 9, "ledbat+"),
            ("transport = \"ledbat++\"", "transport = \"atp\"", 8, "does not carry streams"),
            ("max_rate", "min_share = 0.5\nmax_rate", 8, "min_share"),
            ("max_rate", "max_rat", 10, "max_rat"),
            ("200Mbit/s", "200", 10, "200"),
            ("127.0.0.1:1080", "127.0.0.1:6380", 19, "two doors listen on 127.0.0.1:6380"),
            ("*.rack2.example", "*rack2", 22, "`*rack2` is no address"),
            ("10.1.0.0/16:*", "10.1.0.0/16", 27, "`10.1.0.0/16` is not"),
            ("[peers]", "[peer]", 5, "peer"),
            ("127.0.0.1:7411", "7411", 2, "socket address"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("pliant.toml:{line}: ")) && error.contains(why), "{why}: {error}");
        }
        let unused = GOOD.replace("[exit]", "[classes.idle]\ntransport = \"dctcp\"\n[exit]").replace("allow", "#");
        assert!(parse(&unused).unwrap_err().to_string().contains("no door uses the class `idle`"));
    }
}
