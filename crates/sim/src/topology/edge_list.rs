//! Cables listed in a CSV file.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use csv::StringRecord;
use pliant_proto::time::Span;
use pliant_proto::units::Rate;
use serde::{Deserialize, Serialize};

use super::builder::{Builder, Size};
use super::spec::TopologyKind;
use super::{EdgeError, LinkSpec, Topology, TopologyError};
use crate::text_file;

/// For lists.
pub(super) const KIND: TopologyKind = TopologyKind {
    name: "edge-list",
    description: "cables listed in a CSV file under the header `from,to,rate,delay`; names that begin with `host` are hosts",
    example: r#"[topology]
kind = "edge-list"
file = "cables.csv"
"#,
};

/// One line per cable under the header `from,to,rate,delay`, such as `host0,leaf0,10Gbit/s,1us`; a line stands for
/// both directions. A name that begins with `host` is a host, every other name is a switch; nodes are numbered as they
/// first appear, hosts before switches. Lines that begin with `#` are comments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeList {
    /// The CSV file, relative to the scenario.
    pub file: PathBuf,
    /// Processing delay of a host, added to each direction of its link. Default 0.
    #[serde(default, with = "crate::units_serde")]
    pub host_delay: Span,
}

const HEADER: [&str; 4] = ["from", "to", "rate", "delay"];

impl EdgeList {
    /// Builds it; a relative path starts from the working folder.
    pub fn build(&self) -> Result<Topology, TopologyError> {
        let file = self.file.clone();
        match text_file::open(&file) {
            Ok(reader) => self.build_from(reader, file),
            Err(source) => Err(TopologyError::Read { file, source }),
        }
    }

    /// Builds it from text that came from `file`.
    pub(crate) fn build_from(&self, text: impl Read, file: PathBuf) -> Result<Topology, TopologyError> {
        let cables = Cables::read(text, &file)?;
        let hosts = cables.names.iter().filter(|name| is_host(name)).count() as u64;
        if hosts < 2 {
            return Err(TopologyError::TooFewHosts { file, hosts });
        }
        let size = Size { hosts, switches: cables.names.len() as u64 - hosts, cables: cables.list.len() as u64 };
        let builder = Builder::new("edge-list", size)?;
        let (numbers, names) = hosts_first(cables.names);
        let mut builder = builder.listed(names);
        for (a, b, link) in cables.list {
            let (a, b) = (numbers[a], numbers[b]);
            let at_host = a.min(b) < hosts as u32;
            let link = if at_host { link.at_host(self.host_delay) } else { link };
            // The higher of the two numbers orders equal-cost next hops alike in every run of the same file.
            builder.cable(a, b, link, a.max(b));
        }
        builder.finish().map_err(|error| match error {
            TopologyError::Unreachable { from, to, .. } => TopologyError::Unreachable { file: Some(file), from, to },
            other => other,
        })
    }
}

fn is_host(name: &str) -> bool {
    name.starts_with("host")
}

/// Numbers hosts before switches, keeping the order of appearance: the number of each name, and the names by number.
fn hosts_first(names: Vec<String>) -> (Vec<u32>, Vec<String>) {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|&place| !is_host(&names[place]));
    let mut numbers = vec![0; names.len()];
    for (number, &place) in order.iter().enumerate() {
        numbers[place] = number as u32;
    }
    let mut names: Vec<Option<String>> = names.into_iter().map(Some).collect();
    let sorted = order.into_iter().map(|place| names[place].take().expect("each place occurs once")).collect();
    (numbers, sorted)
}

/// What has been read so far.
#[derive(Default)]
struct Cables {
    /// Names in the order in which they first appear.
    names: Vec<String>,
    places: HashMap<String, usize>,
    /// Ends, as places in `names`, and kind of each cable.
    list: Vec<(usize, usize, LinkSpec)>,
}

impl Cables {
    fn read(text: impl Read, file: &Path) -> Result<Self, TopologyError> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .comment(Some(b'#'))
            .trim(csv::Trim::All)
            .from_reader(text);
        let at_line = |line, error| TopologyError::EdgeList { file: file.to_path_buf(), line, error };
        let mut cables = Self::default();
        let mut record = StringRecord::new();
        let mut seen_header = false;
        while reader.read_record(&mut record).map_err(|error| csv_error(error, file))? {
            let line = record.position().map_or(1, csv::Position::line);
            if seen_header {
                cables.add(&record).map_err(|error| at_line(line, error))?;
            } else if record.iter().eq(HEADER) {
                seen_header = true;
            } else {
                return Err(at_line(line, EdgeError::Header(join(&record))));
            }
        }
        if seen_header { Ok(cables) } else { Err(at_line(1, EdgeError::Header(String::new()))) }
    }

    fn add(&mut self, record: &StringRecord) -> Result<(), EdgeError> {
        let fields: Vec<&str> = record.iter().collect();
        let &[from, to, rate, delay] = fields.as_slice() else {
            return Err(EdgeError::Csv(format!("expected 4 fields (from,to,rate,delay), found {}", fields.len())));
        };
        for (name, column) in [(from, "from"), (to, "to")] {
            if name.is_empty() {
                return Err(EdgeError::EmptyName(column));
            }
        }
        let rate: Rate = rate.parse().map_err(|error| EdgeError::Quantity { column: "rate", error })?;
        let delay: Span = delay.parse().map_err(|error| EdgeError::Quantity { column: "delay", error })?;
        if rate.bits_per_sec() == 0 {
            return Err(EdgeError::ZeroRate);
        }
        self.connect(from, to, LinkSpec { rate, delay })
    }

    fn connect(&mut self, from: &str, to: &str, link: LinkSpec) -> Result<(), EdgeError> {
        if from == to {
            return Err(EdgeError::SelfLoop(from.into()));
        }
        if is_host(from) && is_host(to) {
            return Err(EdgeError::HostToHost(from.into(), to.into()));
        }
        let (a, b) = (self.place(from), self.place(to));
        self.list.push((a, b, link));
        Ok(())
    }

    fn place(&mut self, name: &str) -> usize {
        if let Some(&place) = self.places.get(name) {
            return place;
        }
        let place = self.names.len();
        self.names.push(name.into());
        self.places.insert(name.into(), place);
        place
    }
}

fn join(record: &StringRecord) -> String {
    record.iter().collect::<Vec<_>>().join(",")
}

fn csv_error(error: csv::Error, file: &Path) -> TopologyError {
    let file = file.to_path_buf();
    let line = error.position().map_or(1, csv::Position::line);
    let text = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(source) => TopologyError::Read { file, source },
        csv::ErrorKind::Utf8 { .. } => {
            TopologyError::EdgeList { file, line, error: EdgeError::Csv("it is not UTF-8 text".into()) }
        }
        _ => TopologyError::EdgeList { file, line, error: EdgeError::Csv(text) },
    }
}
