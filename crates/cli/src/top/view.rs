//! What is on the screen.

use std::array;
use std::cmp::Reverse;

use pliant_daemon::control::{BundleStatus, ClassStatus, DoorStatus, DoorStatusKind, Status};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Row, Table, Widget};

use crate::counted::counted;
use crate::status::rate;

/// Rows of text that holds all bundles: more are cut.
const MAX_TEXT_BUNDLES: usize = 1000;

/// What bundles are sorted by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    Peer,
    Sending,
    Receiving,
    Streams,
}

impl Order {
    /// The next one.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Peer => Self::Sending,
            Self::Sending => Self::Receiving,
            Self::Receiving => Self::Streams,
            Self::Streams => Self::Peer,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Sending => "sending",
            Self::Receiving => "receiving",
            Self::Streams => "streams",
        }
    }
}

/// A daemon's status, and how the user wants to see it.
pub(super) struct View {
    pub(super) status: Status,
    pub(super) order: Order,
    /// The screen stays as it is.
    pub(super) stopped: bool,
    /// Bundles above the screen.
    skipped: usize,
}

impl View {
    pub(super) fn new(status: Status) -> Self {
        Self { status, order: Order::Peer, stopped: false, skipped: 0 }
    }

    /// Goes through the bundles.
    pub(super) fn skip(&mut self, rows: isize) {
        let last = self.status.bundles.len().saturating_sub(1);
        self.skipped = self.skipped.saturating_add_signed(rows).min(last);
    }

    /// All of it as text, so many columns wide.
    pub(super) fn text(&self, width: u16) -> String {
        let height =
            10 + self.status.classes.len() + self.status.doors.len() + self.status.bundles.len().min(MAX_TEXT_BUNDLES);
        let area = Rect::new(0, 0, width, u16::try_from(height).unwrap_or(u16::MAX));
        let mut buffer = Buffer::empty(area);
        self.draw(area, &mut buffer);
        let line = |row: u16| (0..width).map(|column| buffer[(column, row)].symbol()).collect::<String>();
        let lines: Vec<String> = (0..area.height).map(|row| line(row).trim_end().to_owned()).collect();
        lines.join("\n").trim_end().to_owned() + "\n"
    }

    /// Writes the screen.
    pub(super) fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let Self { status, .. } = self;
        let (classes, doors) = (status.classes.len() as u16, status.doors.len() as u16);
        // On a low screen bundles stay, and doors go first.
        let [head, of_classes, of_bundles, of_doors] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Max(classes + 2),
            Constraint::Min(4),
            Constraint::Max(doors + 1),
        ])
        .areas(area);
        self.head(head, buffer);
        self.classes(area.width).render(of_classes, buffer);
        self.bundles(area.width).render(of_bundles, buffer);
        self.doors(area.width).render(of_doors, buffer);
    }

    fn head(&self, area: Rect, buffer: &mut Buffer) {
        let Status { version, process, uptime_seconds, draining, connections, listen, peers, bundles, .. } =
            &self.status;
        let open = peers.iter().filter(|peer| peer.open).count();
        let sum = |speed: fn(&BundleStatus) -> f64| rate(bundles.iter().map(speed).sum());
        let state = match (draining, self.stopped) {
            (true, _) => "draining",
            (_, true) => "stopped",
            _ => "",
        };
        let first = [
            format!("pliant {version}"),
            format!("process {process}"),
            format!("up {}", time(*uptime_seconds)),
            listen.clone(),
            state.to_owned(),
        ];
        let second = [
            format!("connections {connections}"),
            format!("peers {open}/{}", peers.len()),
            format!("sending {}", sum(|bundle| bundle.sent_bytes_per_second)),
            format!("receiving {}", sum(|bundle| bundle.received_bytes_per_second)),
        ];
        let texts = [uncut(&first, area.width), uncut(&second, area.width)];
        for (row, text) in texts.into_iter().enumerate().take(area.height.into()) {
            Line::from(text).render(Rect { y: area.y + row as u16, height: 1, ..area }, buffer);
        }
    }

    fn classes(&self, room: u16) -> Table<'static> {
        let row = |class: &ClassStatus| {
            let max_rate = class.max_rate_bits_per_second.map_or("none".to_owned(), |bits| rate(bits as f64 / 8.0));
            let bundles: Vec<_> = self.status.bundles.iter().filter(|bundle| bundle.class == class.name).collect();
            let streams: usize = bundles.iter().map(|bundle| bundle.streams).sum();
            let sending: f64 = bundles.iter().map(|bundle| bundle.sent_bytes_per_second).sum();
            [
                class.name.clone(),
                class.transport.clone(),
                class.weight.to_string(),
                floor(class),
                max_rate,
                // The class is the upper five bits of six.
                (class.class * 2).to_string(),
                streams.to_string(),
                rate(sending),
            ]
        };
        let head = ["CLASS", "TRANSPORT", "WEIGHT", "FLOOR", "GREATEST", "DSCP", "STREAMS", "SENDING"];
        table(room, head, [12, 10, 6, 12, 12, 4, 7, 12], self.status.classes.iter().map(row))
    }

    fn bundles(&self, room: u16) -> Table<'static> {
        let mut bundles: Vec<&BundleStatus> = self.status.bundles.iter().collect();
        match self.order {
            Order::Peer => {}
            Order::Sending => bundles.sort_by(|a, b| b.sent_bytes_per_second.total_cmp(&a.sent_bytes_per_second)),
            Order::Receiving => {
                bundles.sort_by(|a, b| b.received_bytes_per_second.total_cmp(&a.received_bytes_per_second));
            }
            Order::Streams => bundles.sort_by_key(|bundle| Reverse(bundle.streams)),
        }
        let row = |bundle: &&BundleStatus| {
            let again = 100.0 * bundle.retransmissions as f64 / (bundle.packets.max(1)) as f64;
            [
                bundle.name.clone().unwrap_or_else(|| bundle.peer.clone()),
                bundle.class.clone(),
                bundle.state.clone(),
                bundle.streams.to_string(),
                rate(bundle.sent_bytes_per_second),
                rate(bundle.received_bytes_per_second),
                format!("{:.1} ms", bundle.added_delay_seconds * 1e3),
                owed(bundle),
                format!("{again:.2} %"),
                bundle.marks.to_string(),
                bytes(bundle.held_bytes),
            ]
        };
        let head =
            ["PEER", "CLASS", "STATE", "STREAMS", "SENDING", "RECEIVING", "DELAY", "FLOOR", "AGAIN", "MARKS", "HELD"];
        let is_order = |name: &str| name.eq_ignore_ascii_case(self.order.name());
        let head = head.map(|name| if is_order(name) { format!("{name}*") } else { name.to_owned() });
        table(room, head, [12, 10, 7, 8, 12, 12, 9, 19, 7, 6, 9], bundles.iter().skip(self.skipped).map(row))
    }

    fn doors(&self, room: u16) -> Table<'static> {
        let row = |door: &DoorStatus| {
            let leads = match &door.kind {
                DoorStatusKind::Forward { to, target, class } | DoorStatusKind::Kafka { to, target, class } => {
                    format!("{to} {target} {class}")
                }
                DoorStatusKind::Preload { rules } => counted(rules.len() as u64, "rule"),
                DoorStatusKind::Metrics | DoorStatusKind::Objects | DoorStatusKind::Proxy => String::new(),
            };
            [door.kind.name().to_owned(), door.accepted.to_string(), door.listen.clone(), leads]
        };
        table(room, ["DOOR", "TAKEN", "LISTENS", "LEADS TO"], [8, 9, 22, 8], self.status.doors.iter().map(row))
    }
}

/// A table in so many columns of the screen. Its own have these widths where there is room, and where there is not, those of
/// what is in them; the last that do not fit are left out, because half a number is another one.
fn table<const N: usize>(
    room: u16,
    head: [impl Into<String>; N],
    widths: [u16; N],
    rows: impl Iterator<Item = [String; N]>,
) -> Table<'static> {
    let head = head.map(Into::into);
    let rows: Vec<[String; N]> = rows.collect();
    let width = |column: usize| rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or(0);
    let contents: [u16; N] = array::from_fn(|column| u16::try_from(width(column)).unwrap_or(u16::MAX));
    let wide: [u16; N] = array::from_fn(|column| contents[column].max(widths[column]));
    let has_room = |widths: &[u16]| total(widths, 1) <= u32::from(room);
    let widths = if has_room(&wide) { wide } else { contents };
    // One is always there, and cut at worst.
    let shown = (1..=N).rev().find(|&count| has_room(&widths[..count])).unwrap_or(1);
    let row = |row: [String; N]| Row::new(row.into_iter().take(shown));
    let head = row(head).style(Style::new().add_modifier(Modifier::REVERSED));
    let constraints = widths.into_iter().take(shown).map(Constraint::Length);
    Table::new(rows.into_iter().map(row), constraints).header(head).column_spacing(1)
}

/// Columns of parts with spaces between them.
fn total(widths: &[u16], spaces: usize) -> u32 {
    let spaces = widths.len().saturating_sub(1) * spaces;
    widths.iter().map(|&width| u32::from(width)).sum::<u32>() + spaces as u32
}

/// As many of the texts as have room in a line, none of them cut.
fn uncut(texts: &[String], room: u16) -> String {
    let widths: Vec<u16> = texts.iter().map(|text| text.chars().count() as u16).collect();
    let shown = (0..=texts.len()).rev().find(|&count| total(&widths[..count], 2) <= u32::from(room));
    texts[..shown.unwrap_or(0)].join("  ")
}

/// What a class's contract promises.
fn floor(class: &ClassStatus) -> String {
    let share = (class.min_share < 1.0).then(|| format!("{:.0} %", class.min_share * 100.0));
    let least = class.min_rate_bits_per_second.map(|bits| rate(bits as f64 / 8.0));
    match (share, least) {
        (None, None) => "-".to_owned(),
        (Some(share), Some(least)) if class.min_share > 0.0 => format!("{share}, {least}"),
        (share, least) => least.or(share).unwrap_or_default(),
    }
}

/// The floor of a bundle's rate where it stands, and whether it is kept.
fn owed(bundle: &BundleStatus) -> String {
    let Some(floor) = bundle.floor_bits_per_second else { return "-".to_owned() };
    let kept = if bundle.floor_kept == Some(false) { "missed" } else { "kept" };
    format!("{} {kept}", rate(floor / 8.0))
}

fn time(seconds: f64) -> String {
    let seconds = seconds as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pliant_daemon::control::PeerStatus;

    fn bundle(peer: &str, sending: f64, streams: usize) -> BundleStatus {
        BundleStatus {
            number: 1,
            peer: "192.0.2.7:7411".to_owned(),
            name: Some(peer.to_owned()),
            class: "backup".to_owned(),
            state: "open".to_owned(),
            streams,
            opened_streams: 9,
            refused_streams: 0,
            sent_bytes: 1,
            received_bytes: 1,
            sent_bytes_per_second: sending,
            received_bytes_per_second: 0.0,
            held_bytes: 2048,
            packets: 1000,
            retransmissions: 15,
            marks: 3,
            round_trip_seconds: 0.0123,
            added_delay_seconds: 0.0023,
            floor_bits_per_second: (streams > 0).then_some(3e8),
            floor_kept: (streams > 0).then_some(false),
        }
    }

    fn view() -> View {
        View::new(Status {
            version: "0.1.0".to_owned(),
            process: 42,
            configuration: "daemon.toml".to_owned(),
            uptime_seconds: 3725.0,
            listen: "0.0.0.0:7411".to_owned(),
            draining: false,
            connections: 7,
            peers: vec![PeerStatus { name: "far".to_owned(), address: "192.0.2.7:7411".to_owned(), open: true }],
            classes: vec![ClassStatus {
                name: "backup".to_owned(),
                transport: "ledbat++".to_owned(),
                weight: 1.0,
                min_share: 0.5,
                min_rate_bits_per_second: None,
                max_rate_bits_per_second: Some(200_000_000),
                class: 4,
                max_streams: 10,
            }],
            doors: vec![DoorStatus {
                listen: "127.0.0.1:8080".to_owned(),
                accepted: 3,
                kind: DoorStatusKind::Forward {
                    to: "far".to_owned(),
                    target: "127.0.0.1:80".to_owned(),
                    class: "backup".to_owned(),
                },
            }],
            bundles: vec![bundle("a", 25e6, 1), bundle("b", 50e6, 0)],
            objects: None,
            kafka_ledger: None,
            kafka_partitions: vec![],
            kafka_responses_in_messages: 0,
        })
    }

    /// All that a screen of a usual width shows.
    #[test]
    fn a_screen_as_text() {
        let expected = "\
pliant 0.1.0  process 42  up 1 h 2 min  0.0.0.0:7411
connections 7  peers 1/1  sending 600.0 Mbit/s  receiving 0.0 kbit/s
CLASS        TRANSPORT  WEIGHT FLOOR        GREATEST     DSCP STREAMS SENDING
backup       ledbat++   1      50 %         200.0 Mbit/s 8    1       600.0 Mbit/s

PEER*        CLASS      STATE   STREAMS  SENDING      RECEIVING    DELAY     FLOOR               AGAIN   MARKS  HELD
a            backup     open    1        200.0 Mbit/s 0.0 kbit/s   2.3 ms    300.0 Mbit/s missed 1.50 %  3      2.0 KiB
b            backup     open    0        400.0 Mbit/s 0.0 kbit/s   2.3 ms    -                   1.50 %  3      2.0 KiB";
        let text = view().text(130);
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("\nDOOR     TAKEN     LISTENS                LEADS TO\nforward  3         127.0.0.1:8080         far 127.0.0.1:80 backup\n"), "{text}");
    }

    /// On a narrow screen columns are missing, and none is cut: neither an address nor a unit.
    #[test]
    fn a_narrow_screen_cuts_nothing() {
        let mut view = view();
        view.status.bundles[0].name = None;
        view.status.bundles[0].peer = "10.213.0.1:7411".to_owned();
        let rules = serde_json::json!({ "listen": "s", "accepted": 0, "kind": "preload", "rules": [
            { "service": "10.0.0.0/8:*", "to": "far", "class": "backup" },
        ] });
        view.status.doors.push(serde_json::from_value(rules).unwrap());
        let expected = "\
pliant 0.1.0  process 42  up 1 h 2 min  0.0.0.0:7411
connections 7  peers 1/1  sending 600.0 Mbit/s
CLASS  TRANSPORT WEIGHT FLOOR GREATEST     DSCP STREAMS
backup ledbat++  1      50 %  200.0 Mbit/s 8    1

PEER*           CLASS  STATE STREAMS SENDING      RECEIVING
10.213.0.1:7411 backup open  1       200.0 Mbit/s 0.0 kbit/s
b               backup open  0       400.0 Mbit/s 0.0 kbit/s




DOOR    TAKEN LISTENS        LEADS TO
forward 3     127.0.0.1:8080 far 127.0.0.1:80 backup
preload 0     s              1 rule
";
        assert_eq!(view.text(60), expected);
    }

    /// Sorted by another column, and scrolled; no width or height makes it fail.
    #[test]
    fn bundles_are_sorted_and_skipped() {
        let mut view = view();
        view.order = view.order.next();
        let text = view.text(100);
        assert!(text.contains("SENDING*") && text.find("\nb ") < text.find("\na "), "{text}");
        view.skip(1);
        assert!(!view.text(100).contains("\nb "));
        view.skip(-5);
        view.skip(9);
        assert!(view.text(100).contains("\na "));
        for width in [1, 20, 80, 200] {
            for height in [0, 1, 3, 24] {
                let area = Rect::new(0, 0, width, height);
                view.draw(area, &mut Buffer::empty(area));
            }
        }
    }
}
