//! What a transfer came to, as a line or as JSON.

use std::net::SocketAddr;
use std::time::Duration;

use pliant_net::clock::to_timeout;
use pliant_net::connection::{Keys, Refused};
use pliant_net::flow::{Protocol, SocketTransport};
use pliant_net::transfer::{Received, Sent, Settings, Unchanged};
use pliant_proto::congestion::Algorithm;
use pliant_proto::time::Instant;
use pliant_proto::transport::Statistics;
use pliant_sim::one_line::OneLine;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::error::CliError;
use crate::status::rate;
use crate::stdout::print_result;

/// What a transfer came to; the JSON object has these fields.
#[derive(Serialize)]
pub(super) struct Outcome {
    /// `sent` or `received`.
    direction: &'static str,
    file: String,
    peer: SocketAddr,
    /// What both agreed on: `expresspass`, `flexpass`, `bounded-two-class`, `atp`, or TCP, of which the sender tells its controller.
    transport: &'static str,
    encrypted: bool,
    /// Of the content (sender), or that arrived (receiver).
    bytes: u64,
    /// Of these, bytes that the receiver had from a transfer that was cut off.
    kept_bytes: u64,
    /// Files of a directory that were not sent as the receiver had them, and their bytes; these are not among `bytes`.
    unchanged_files: u64,
    unchanged_bytes: u64,
    elapsed_s: f64,
    /// When it had to be done, whether it was, and when it said that it would not be (a sender with `--done-by`).
    #[serde(skip_serializing_if = "Option::is_none")]
    done_by_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    done_in_time: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    said_late_s: Option<f64>,
    /// Whether the receiver's host told which rate is fair on its link (a sender with `--host-reports`).
    #[serde(skip_serializing_if = "Option::is_none")]
    peer_reports: Option<bool>,
    gbit_per_s: f64,
    /// CPU seconds of this process, user and system, per 10^9 bytes.
    cpu_s_per_gb: f64,
    retransmissions: u64,
    timeouts: u64,
    /// Marked packets (receiver), or acknowledgements that echo marks (sender).
    marks: u64,
    /// Of the content, when it was sent whole.
    blake3: Option<String>,
    /// First byte and one past the last of each part that is missing (receiver).
    missing: Vec<(u64, u64)>,
    /// Bytes that the sender left out, and that it sent while it gave way (REFLEX).
    given_up_bytes: u64,
    low_bytes: u64,
    credits_sent: u64,
    /// How far the peer's clock is ahead, and how uncertain that is (sender).
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_offset_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_uncertainty_us: Option<f64>,
    /// Datagrams that were of no use: not of this protocol, of no connection here, forged or altered, repeated.
    malformed: u64,
    stray: u64,
    forged: u64,
    replayed: u64,
}

/// The transport of a sender that wanted one, and agreed with its peer on a protocol.
fn agreed(wanted: SocketTransport, protocol: Protocol) -> &'static str {
    match (wanted, protocol) {
        (SocketTransport::Tcp(controller), _) => controller.name(),
        (SocketTransport::TwoClass, Protocol::Tcp) => Algorithm::Bounded.name(),
        // A peer without a line rate gives no credits.
        (_, Protocol::Tcp) => Algorithm::Dctcp.name(),
        (other, _) => other.name(),
    }
}

/// What a sender is told whose peer cannot receive as it wanted to send.
pub(super) fn fallback(wanted: SocketTransport, protocol: Protocol) -> Option<String> {
    if protocol == wanted.protocol() {
        return None;
    }
    let why = match wanted {
        SocketTransport::TwoClass => "the receiver knows no two classes",
        _ => "the receiver gives no credits (`pliant recv --line-rate RATE`)",
    };
    Some(format!("{why}: sent by {}, not {}", agreed(wanted, protocol), wanted.name()))
}

/// What a sender is told that expected reports of the receiver's host.
pub(super) fn unreported(settings: &Settings, sent: &Sent) -> Option<String> {
    let interval = settings.flow.host_reports?;
    // A transfer may be over before the first report.
    let long = sent.elapsed >= to_timeout(interval.times(10));
    let why = "the receiver's host does not report (`pliant recv --host-reports TIME --line-rate RATE`): the fair rate was estimated";
    (long && !sent.peer_reports && sent.protocol == Protocol::TwoClass).then(|| why.to_owned())
}

/// What both sides have to tell.
struct Common<'o> {
    bytes: u64,
    kept_bytes: u64,
    unchanged: Unchanged,
    elapsed: Duration,
    protocol: Protocol,
    statistics: &'o Statistics,
    refused: Refused,
    hash: Option<String>,
}

impl Outcome {
    pub(super) fn sent(file: &str, settings: &Settings, sent: &Sent) -> Self {
        let Sent { to, bytes, kept_bytes, unchanged, elapsed, protocol, ref statistics, refused, .. } = *sent;
        let clock_offset = sent.clock_offset;
        let hash = sent.hash.map(|hash| hash.to_string());
        let common = Common { bytes, kept_bytes, unchanged, elapsed, protocol, statistics, refused, hash };
        let us = |ns: f64| Some(ns * 1e-3);
        Self {
            transport: agreed(settings.flow.transport, protocol),
            clock_offset_us: us(clock_offset.ns as f64),
            clock_uncertainty_us: us(clock_offset.uncertainty_ns as f64),
            done_by_s: sent.done_by.map(|by| by.as_secs_f64()),
            done_in_time: sent.done_by.map(|by| elapsed <= by),
            peer_reports: settings.flow.host_reports.map(|_| sent.peer_reports),
            said_late_s: statistics.said_late.filter(|_| sent.done_by.is_some()).map(Instant::as_secs_f64),
            ..Self::new("sent", file.to_owned(), to, settings, common)
        }
    }

    pub(super) fn received(settings: &Settings, received: &Received) -> Self {
        let Received { from, bytes, kept_bytes, unchanged, elapsed, protocol, ref statistics, refused, .. } = *received;
        let file = received.path.as_ref().map_or(received.name.clone(), |path| path.display().to_string());
        let hash = received.hash.map(|hash| hash.to_string());
        let common = Common { bytes, kept_bytes, unchanged, elapsed, protocol, statistics, refused, hash };
        let missing = received.missing.iter().map(|range| (range.start, range.end)).collect();
        Self { missing, ..Self::new("received", file, from, settings, common) }
    }

    fn new(direction: &'static str, file: String, peer: SocketAddr, settings: &Settings, common: Common<'_>) -> Self {
        let Common { bytes, kept_bytes, unchanged, elapsed, protocol, statistics, refused, hash } = common;
        let elapsed_s = elapsed.as_secs_f64();
        let across = bytes - kept_bytes;
        let per = |amount: f64, unit: f64| if unit > 0.0 { amount / unit } else { 0.0 };
        Self {
            direction,
            file,
            peer,
            transport: match protocol {
                Protocol::Tcp => "tcp",
                Protocol::ExpressPass => SocketTransport::ExpressPass.name(),
                Protocol::FlexPass => SocketTransport::FlexPass.name(),
                Protocol::TwoClass => SocketTransport::TwoClass.name(),
                Protocol::Atp => SocketTransport::Atp.name(),
            },
            encrypted: settings.keys != Keys::Plain,
            bytes,
            kept_bytes,
            unchanged_files: unchanged.files,
            unchanged_bytes: unchanged.bytes,
            elapsed_s,
            done_by_s: None,
            done_in_time: None,
            said_late_s: None,
            peer_reports: None,
            gbit_per_s: per(across as f64 * 8e-9, elapsed_s),
            cpu_s_per_gb: per(process_cpu().as_secs_f64(), across as f64 * 1e-9),
            retransmissions: statistics.retransmissions,
            timeouts: statistics.timeouts,
            marks: statistics.marks,
            blake3: hash,
            missing: Vec::new(),
            given_up_bytes: statistics.given_up_bytes,
            low_bytes: statistics.policy.low_bytes,
            credits_sent: statistics.credits_sent,
            clock_offset_us: None,
            clock_uncertainty_us: None,
            malformed: refused.malformed,
            stray: refused.stray + refused.reflected,
            forged: refused.forged,
            replayed: refused.replayed,
        }
    }

    pub(super) fn print(&self, json: bool) -> Result<(), CliError> {
        print_result(self, || self.line(), json)
    }

    fn line(&self) -> String {
        let Self { direction, file, bytes, elapsed_s, gbit_per_s, cpu_s_per_gb, .. } = self;
        let Self { transport, retransmissions, marks, missing, .. } = self;
        let protection = if self.encrypted { "encrypted" } else { "plain" };
        let repeated =
            if *direction == "sent" { format!("{retransmissions} retransmissions, ") } else { String::new() };
        let kept =
            if self.kept_bytes > 0 { format!(", {} of them were there", self.kept_bytes) } else { String::new() };
        let unchanged = match self.unchanged_files {
            0 => String::new(),
            files => format!(", besides {files} unchanged files of {} bytes", self.unchanged_bytes),
        };
        let lost: u64 = missing.iter().map(|(start, end)| end - start).sum();
        let missing = if lost > 0 { format!(", {lost} bytes missing") } else { String::new() };
        let hash = self.blake3.as_ref().map_or_else(String::new, |hash| format!(", blake3 {hash}"));
        format!(
            "{direction} {}: {bytes} bytes{kept}{unchanged} in {elapsed_s:.3} s, {}, {cpu_s_per_gb:.3} CPU s/GB, \
             {transport}, {protection}, {repeated}{marks} marks{missing}{hash}",
            OneLine(file),
            rate(gbit_per_s * 1e9 / 8.0)
        )
    }
}

/// CPU time of this process so far.
pub(super) fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
