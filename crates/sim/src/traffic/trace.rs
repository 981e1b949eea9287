//! Flows from a file.
//!
//! A trace is CSV: the line `start,src,dst,bytes,class` (the last column may be missing), then one flow a line in the
//! order of their starts; lines that begin with `#` are comments.
//!
//! | column | meaning |
//! | --- | --- |
//! | `start` | a time with its unit (`1.5ms`, exact) or seconds (`0.0015`, `1.5e-3`, rounded to a picosecond) |
//! | `src`, `dst` | host indices, or names that `hosts_file` lists; different |
//! | `bytes` | payload: a whole number of bytes, or a size with its unit (`250MB`) |
//! | `class` | traffic class by name or number; empty for the group's own |
//!
//! The file is read twice and never held: once when the scenario is loaded, to refuse a wrong line before the run, and
//! once during the run, a line at a time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::path::Path;

use pliant_proto::packet::CLASSES;
use pliant_proto::time::{Instant, Span};
use pliant_proto::units::Bytes;
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::error::TrafficError;
use super::flow_spec::{Arrival, FlowSpec, UNLIMITED_BYTES};
use super::hosts::no_host;
use crate::{suggest, text_file};

const COLUMNS: [&str; 5] = ["start", "src", "dst", "bytes", "class"];
/// Longest line, its end included: a file of another kind must not fill the memory.
const MAX_LINE_BYTES: u64 = 4096;

/// Flows from a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceSpec {
    /// The file, relative to the scenario's folder.
    pub path: String,
    /// Names of hosts as the trace has them, a CSV file with the columns `name,host`. Default: hosts have their numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts_file: Option<String>,
    /// Added to every start in the file. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub start: Option<Span>,
    /// The trace is cut here. Default: the run's duration.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub stop: Option<Span>,
}

/// The running generator: it ends early, with an error, if the file has changed for the worse since it was checked.
#[derive(Debug)]
pub(super) struct Trace {
    rows: Rows,
    ended: bool,
    error: Option<TrafficError>,
}

impl Trace {
    pub(super) fn new(spec: &TraceSpec, context: &Context<'_>) -> Result<Self, TrafficError> {
        let mut check = Rows::open(spec, context)?;
        while check.next_row()?.is_some() {}
        Ok(Self { rows: Rows::open(spec, context)?, ended: false, error: None })
    }

    pub(super) fn error(&self) -> Option<&TrafficError> {
        self.error.as_ref()
    }
}

impl Iterator for Trace {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        if self.ended {
            return None;
        }
        let row = self.rows.next_row().unwrap_or_else(|error| {
            self.error = Some(error);
            None
        });
        let row = row.filter(|arrival| arrival.start.as_ps() < self.rows.window.end);
        self.ended = row.is_none();
        row
    }
}

/// Opens a file that is read twice: a FIFO would never end, or never begin.
fn open_file(path: &Path) -> io::Result<File> {
    if std::fs::metadata(path)?.is_file() {
        File::open(path)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "a trace is read twice, and this is no plain file"))
    }
}

/// Reads and checks one line after the other.
#[derive(Debug)]
struct Rows {
    reader: BufReader<File>,
    text: String,
    line: u64,
    /// Number of columns that the first line names.
    columns: usize,
    previous: Instant,
    window: Range<u64>,
    hosts: u32,
    /// Numbers of hosts by name; without names hosts have their numbers.
    names: Option<BTreeMap<String, u32>>,
    classes: Vec<String>,
    group: String,
    path: String,
}

impl Rows {
    fn open(spec: &TraceSpec, context: &Context<'_>) -> Result<Self, TrafficError> {
        let window = context.window(spec.start, spec.stop)?;
        let (group, path) = (context.name.to_owned(), spec.path.clone());
        let file = match open_file(&context.environment.directory.join(&path)) {
            Ok(file) => file,
            Err(source) => return Err(TrafficError::Unreadable { group, path, source }),
        };
        let classes = context.environment.classes.iter().map(|class| (*class).to_owned()).collect();
        let mut rows = Self {
            reader: BufReader::new(file),
            text: String::new(),
            line: 0,
            columns: 0,
            previous: Instant::ZERO,
            window,
            hosts: context.fabric().hosts(),
            names: spec.hosts_file.as_ref().map(|file| host_names(file, context)).transpose()?,
            classes,
            group,
            path,
        };
        rows.read_columns()?;
        Ok(rows)
    }

    fn read_columns(&mut self) -> Result<(), TrafficError> {
        let found = self.read_line()?;
        self.columns = self.text.split(',').count();
        let named = COLUMNS.iter().take(self.columns).copied();
        let is_header = found && matches!(self.columns, 4 | 5) && self.text.split(',').map(str::trim).eq(named);
        if is_header { Ok(()) } else { Err(self.error(format!("the first line must be \"{}\"", COLUMNS.join(",")))) }
    }

    /// Reads up to the next line that says something; false at the end of the file.
    fn read_line(&mut self) -> Result<bool, TrafficError> {
        loop {
            self.text.clear();
            self.line += 1;
            let read = match self.reader.by_ref().take(MAX_LINE_BYTES).read_line(&mut self.text) {
                Ok(read) => read as u64,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(self.error("not text".to_owned()));
                }
                Err(source) => {
                    return Err(TrafficError::Unreadable {
                        group: self.group.clone(),
                        path: self.path.clone(),
                        source,
                    });
                }
            };
            if read == MAX_LINE_BYTES && !self.text.ends_with('\n') {
                return Err(self.error(format!("longer than {MAX_LINE_BYTES} bytes")));
            }
            let content = self.text.trim();
            if read == 0 || !(content.is_empty() || content.starts_with('#')) {
                return Ok(read > 0);
            }
        }
    }

    fn error(&self, why: String) -> TrafficError {
        TrafficError::TraceLine { group: self.group.clone(), path: self.path.clone(), line: self.line, why }
    }

    fn next_row(&mut self) -> Result<Option<Arrival>, TrafficError> {
        if !self.read_line()? {
            return Ok(None);
        }
        let arrival = self.parse().map_err(|why| self.error(why))?;
        if arrival.start < self.previous {
            let why = format!("starts at {}, before the line above ({})", arrival.start, self.previous);
            return Err(self.error(why));
        }
        self.previous = arrival.start;
        Ok(Some(arrival))
    }

    fn parse(&self) -> Result<Arrival, String> {
        let found = self.text.split(',').count();
        if found != self.columns {
            return Err(format!("{found} columns instead of {}", self.columns));
        }
        let mut columns = self.text.split(',').map(str::trim);
        let [start, source, destination, bytes, class] = std::array::from_fn(|_| columns.next().unwrap_or_default());
        let (source, destination) = (self.host(source)?, self.host(destination)?);
        if source == destination {
            return Err(format!("host {source} would send to itself"));
        }
        let start = Instant::from_ps(self.window.start).after(parse_start(start)?);
        Ok(Arrival { start, source, destination, bytes: parse_bytes(bytes)?, class: self.class(class)?, again: None })
    }

    fn host(&self, text: &str) -> Result<u32, String> {
        if let Some(names) = &self.names {
            let known = names.get(text).copied();
            return known.ok_or_else(|| format!("\"{text}\" is not in the file of hosts' names"));
        }
        let host = text.parse().map_err(|_| {
            format!("\"{text}\" is not a host index; `hosts_file` names a CSV file of names and indices")
        })?;
        if host < self.hosts { Ok(host) } else { Err(no_host(host, self.hosts)) }
    }

    fn class(&self, text: &str) -> Result<Option<u8>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let named = self.classes.iter().position(|class| class == text).or_else(|| text.parse().ok());
        if let Some(class) = named.filter(|class| *class < CLASSES) {
            return Ok(Some(class as u8));
        }
        let numbers = format!("0 to {}", CLASSES - 1);
        let names = self.classes.iter().map(String::as_str).chain([numbers.as_str()]);
        Err(format!("\"{text}\" is not a traffic class{}", suggest::hint(text, names)))
    }
}

/// Reads the names of hosts: the line `name,host`, then a name and a number a line. A host may have several names.
fn host_names(file: &str, context: &Context<'_>) -> Result<BTreeMap<String, u32>, TrafficError> {
    let refuse = |line: usize, why: String| Err(context.error("hosts_file", format!("{file}:{line}: {why}")));
    let text = text_file::read(&context.environment.directory.join(file));
    let text = text.map_err(|error| context.error("hosts_file", format!("{file}: {error}")))?;
    let mut names = BTreeMap::new();
    let mut rows = text.lines().map(str::trim).zip(1..).filter(|(row, _)| !row.is_empty() && !row.starts_with('#'));
    if !rows.next().is_some_and(|(row, _)| row.split(',').map(str::trim).eq(["name", "host"])) {
        return refuse(1, "the first line must be \"name,host\"".to_owned());
    }
    let hosts = context.fabric().hosts();
    for (row, line) in rows {
        let Some((name, host)) = row.rsplit_once(',').map(|(name, host)| (name.trim(), host.trim())) else {
            return refuse(line, "must be a name and a host's number".to_owned());
        };
        let number = match host.parse::<u32>() {
            Ok(number) if number < hosts => number,
            Ok(number) => return refuse(line, no_host(number, hosts)),
            Err(_) => return refuse(line, format!("\"{host}\" is not a host's number")),
        };
        if names.insert(name.to_owned(), number).is_some() {
            return refuse(line, format!("\"{name}\" is named twice"));
        }
    }
    Ok(names)
}

/// Seconds as text are often printed with more digits than picoseconds, so they are rounded; units are exact.
pub(super) fn parse_start(text: &str) -> Result<Span, String> {
    let refuse = || format!("\"{text}\" is not a time: give seconds (0.0015) or a unit (1.5ms)");
    match text.parse::<f64>() {
        Ok(seconds) if seconds >= 0.0 && seconds <= Span::MAX.as_secs_f64() => Ok(Span::from_secs_f64(seconds)),
        Ok(_) => Err(refuse()),
        Err(_) => text.parse::<Span>().map_err(|_| refuse()),
    }
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    let bytes = text.parse::<u64>().or_else(|_| text.parse::<Bytes>().map(|bytes| bytes.0));
    match bytes {
        Ok(bytes) if (1..=UNLIMITED_BYTES).contains(&bytes) => Ok(bytes),
        Ok(bytes) => Err(format!("a flow of {bytes} bytes: sizes are 1 byte to 1 PiB")),
        Err(_) => Err(format!("\"{text}\" is not a number of bytes")),
    }
}

/// Writes `flows`, which come by start time, as a trace that reads back the same.
pub fn write_trace(flows: impl IntoIterator<Item = FlowSpec>, mut out: impl Write) -> io::Result<()> {
    writeln!(out, "{}", COLUMNS.join(","))?;
    for flow in flows {
        write!(out, "{},{},{},{},", flow.start, flow.source, flow.destination, flow.bytes)?;
        match flow.class {
            Some(class) => writeln!(out, "{class}")?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}
