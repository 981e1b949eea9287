//! What can be wrong with a topology's description.

use std::path::PathBuf;

use pliant_proto::units::ParseUnitError;

use super::{MAX_HOSTS, MAX_LINKS};

/// Why a topology cannot be built or routed. Messages name the key, or the file and line.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// A number lies outside its range.
    #[error("`{key}` = {value} is out of range: it must be between {minimum} and {maximum}")]
    OutOfRange {
        /// Key of the scenario file.
        key: &'static str,
        /// Its value.
        value: u64,
        /// Smallest valid value.
        minimum: u64,
        /// Largest valid value.
        maximum: u64,
    },
    /// A number must be a multiple of another.
    #[error("`{key}` = {value} must be a multiple of {divisor}, {reason}")]
    NotMultiple {
        /// Key of the scenario file.
        key: &'static str,
        /// Its value.
        value: u64,
        /// What must divide it.
        divisor: u64,
        /// Where the divisor comes from.
        reason: &'static str,
    },
    /// A link without a rate.
    #[error("`{key}.rate` must be above zero")]
    ZeroRate {
        /// Key of the link.
        key: &'static str,
    },
    /// More hosts than [`MAX_HOSTS`].
    #[error("{hosts} hosts are too many: a topology holds at most {MAX_HOSTS}")]
    TooManyHosts {
        /// Hosts asked for.
        hosts: u64,
    },
    /// More directed links than [`MAX_LINKS`].
    #[error("{links} directed links are too many: a topology holds at most {MAX_LINKS}")]
    TooManyLinks {
        /// Directed links asked for.
        links: u64,
    },
    /// The routing tables would not fit in memory.
    #[error(
        "routing needs {entries} table entries, the limit is {limit}: too many switches that have hosts and no \
         neighbours in common"
    )]
    TooManyRoutes {
        /// Table entries needed.
        entries: u64,
        /// Most table entries.
        limit: u64,
    },
    /// The network falls apart.
    #[error("{}there is no path from {from} to {to}", file.as_ref().map_or(String::new(), |file| format!("{}: ", file.display())))]
    Unreachable {
        /// The edge list, if the topology is one.
        file: Option<PathBuf>,
        /// A node.
        from: String,
        /// A node that it does not reach.
        to: String,
    },
    /// A file could not be opened or read.
    #[error("{}: cannot read the edge list: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// An edge list has too few hosts for traffic.
    #[error("{}: the edge list names {hosts} hosts, at least 2 are needed (names of hosts begin with \"host\")", file.display())]
    TooFewHosts {
        /// The file.
        file: PathBuf,
        /// Hosts found.
        hosts: u64,
    },
    /// A line of an edge list is wrong.
    #[error("{}, line {line}: {error}", file.display())]
    EdgeList {
        /// The file.
        file: PathBuf,
        /// Line number, from 1.
        line: u64,
        /// What is wrong there.
        error: EdgeError,
    },
}

/// What is wrong with a line of an edge list.
#[derive(Debug, thiserror::Error)]
pub enum EdgeError {
    /// The first line is not the header.
    #[error("the header must be `from,to,rate,delay`, not `{0}`")]
    Header(String),
    /// The line is not four fields of text.
    #[error("{0}")]
    Csv(String),
    /// A node without a name.
    #[error("`{0}` is empty")]
    EmptyName(&'static str),
    /// A rate or delay that cannot be read.
    #[error("`{column}`: {error}")]
    Quantity {
        /// Column of the header.
        column: &'static str,
        /// Why it cannot be read.
        error: ParseUnitError,
    },
    /// A link without a rate.
    #[error("`rate` must be above zero")]
    ZeroRate,
    /// Both ends are one node.
    #[error("{0} is connected to itself")]
    SelfLoop(String),
    /// Both ends are hosts.
    #[error("{0} and {1} are both hosts: a host connects to a switch")]
    HostToHost(String, String),
}
