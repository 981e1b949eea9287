//! `pliant status`: how a daemon stands.

use std::fmt::Write;

use clap::Args;
use pliant_daemon::control::{DoorStatusKind, Request, Status};

use crate::counted::counted;
use crate::daemon::Target;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::stdout::print;

const EXAMPLES: &str = "\
Examples:
  pliant status
  pliant status --json
  pliant status --control /run/pliant/daemon.sock

Rates are those of the last second. In the JSON a field with a unit has it in its name, as sent_bytes_per_second.";

/// Says how this host's daemon stands: peers, classes, bundles, streams, bytes and rates.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// As JSON, on one line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let answer = arguments.target.ask(&Request::Status)?;
    if arguments.json {
        print(&answer.to_string())?;
        return Ok(ExitStatus::Done);
    }
    let status: Status = serde_json::from_value(answer)
        .map_err(|error| CliError::User(format!("the daemon is of another version: {error}")))?;
    print(&page(&status))?;
    Ok(ExitStatus::Done)
}

/// Bits per second of bytes per second.
pub(crate) fn rate(bytes_per_second: f64) -> String {
    // A sum of nothing is minus zero.
    let bits = bytes_per_second * 8.0 + 0.0;
    match bits {
        bits if bits >= 1e9 => format!("{:.2} Gbit/s", bits / 1e9),
        bits if bits >= 1e6 => format!("{:.1} Mbit/s", bits / 1e6),
        bits => format!("{:.1} kbit/s", bits / 1e3),
    }
}

/// Columns as wide as their widest cell.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("  {}", padded.collect::<Vec<_>>().join("  ")).trim_end().to_owned() + "\n"
    };
    let rows = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    line(head.to_vec()) + rows.collect::<String>().as_str()
}

fn page(status: &Status) -> String {
    let mut page = format!(
        "pliant {}, process {}, up {:.0} s{}\nconfiguration {}, listening on {}, {}\n",
        status.version,
        status.process,
        status.uptime_seconds,
        if status.draining { ", draining" } else { "" },
        status.configuration,
        status.listen,
        counted(status.connections as u64, "connection")
    );
    let mut part = |name: &str, head: &[&str], rows: Vec<Vec<String>>| {
        if !rows.is_empty() {
            write!(page, "\n{name}\n{}", table(head, &rows)).expect("writing to a string succeeds");
        }
    };
    let peers = status.peers.iter().map(|peer| {
        vec![peer.name.clone(), peer.address.clone(), if peer.open { "open" } else { "no bundle" }.to_owned()]
    });
    part("peers", &["name", "address", "state"], peers.collect());
    let classes = status.classes.iter().map(|class| {
        let max_rate = class.max_rate_bits_per_second.map_or("none".to_owned(), |bits| rate(bits as f64 / 8.0));
        let (weight, min_share) = (class.weight.to_string(), class.min_share.to_string());
        vec![class.name.clone(), class.transport.clone(), weight, min_share, max_rate, class.class.to_string()]
    });
    part("classes", &["name", "transport", "weight", "min_share", "max_rate", "class"], classes.collect());
    let doors = status.doors.iter().map(|door| {
        let [to, target, class] = match &door.kind {
            DoorStatusKind::Forward { to, target, class } | DoorStatusKind::Kafka { to, target, class } => {
                [to.as_str(), target, class]
            }
            DoorStatusKind::Metrics
            | DoorStatusKind::Objects
            | DoorStatusKind::Preload { .. }
            | DoorStatusKind::Proxy => ["-"; 3],
        };
        let texts = [&door.listen, door.kind.name(), to, target, class].map(str::to_owned);
        texts.into_iter().chain([door.accepted.to_string()]).collect()
    });
    part("doors", &["listen", "kind", "to", "target", "class", "accepted"], doors.collect());
    let objects = status
        .objects
        .iter()
        .map(|objects| vec![objects.listen.clone(), objects.files.to_string(), objects.fetches.to_string()]);
    part("objects", &["listen", "files", "fetches"], objects.collect());
    let folders = status.objects.iter().flat_map(|objects| &objects.folders).map(|folder| {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        vec![folder.name.clone(), or_none(&folder.hash), or_none(&folder.problem)]
    });
    part("folders", &["name", "hash", "problem"], folders.collect());
    let bundles = status.bundles.iter().map(|bundle| {
        vec![
            bundle.name.clone().unwrap_or_else(|| bundle.peer.clone()),
            bundle.class.clone(),
            bundle.state.clone(),
            bundle.streams.to_string(),
            bundle.sent_bytes.to_string(),
            bundle.received_bytes.to_string(),
            rate(bundle.sent_bytes_per_second),
            rate(bundle.received_bytes_per_second),
            bundle.retransmissions.to_string(),
        ]
    });
    let head = ["peer", "class", "state", "streams", "sent", "received", "sending", "receiving", "sent again"];
    part("bundles", &head, bundles.collect());
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "bcd".to_owned()], vec!["efgh".to_owned(), "i".to_owned()]];
        assert_eq!(table(&["x", "y"], &rows), "  x     y\n  a     bcd\n  efgh  i\n");
    }

    #[test]
    fn rates_have_their_unit() {
        assert_eq!([25e6, 1250.0, 2.5e8].map(rate), ["200.0 Mbit/s", "10.0 kbit/s", "2.00 Gbit/s"]);
        assert_eq!([0.0, [0.0; 0].iter().sum()].map(rate), ["0.0 kbit/s", "0.0 kbit/s"]);
    }
}
