//! What the tests share: files, a transfer in two threads, and a relay that misbehaves.

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pliant_net::clock::Clock;
use pliant_net::connection::Keys;
use pliant_net::flow::{FlowSettings, Protocol, SocketTransport};
use pliant_net::socket::{Batch, Socket};
use pliant_net::transfer::{Received, Receiver, Sent, Settings, Source, Target, TransferError, send};
use pliant_proto::contract::schedule::DaySchedule;
use pliant_proto::packet::{Ecn, TrafficClass};
use pliant_proto::rng::Stream;
use pliant_proto::time::{Instant, Span};
use pliant_proto::units::Rate;

/// Nobody interrupts.
pub(crate) static NEVER: AtomicBool = AtomicBool::new(false);

pub(crate) fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// Loopback in IPv4, and in IPv6 where this machine has it.
pub(crate) fn loopbacks() -> Vec<SocketAddr> {
    let six = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0));
    let there = UdpSocket::bind(six).is_ok();
    if !there {
        eprintln!("skipped in IPv6: this machine has none");
    }
    [loopback()].into_iter().chain(there.then_some(six)).collect()
}

/// Plain, under which a test that goes wrong ends soon. Both sides have credits.
pub(crate) fn settings() -> Settings {
    let flow = FlowSettings { mtu: 1500, line_rate: Some(Rate::from_gbit_per_sec(1)), ..FlowSettings::default() };
    let (connect_timeout, idle_timeout) = (Span::from_secs(20), Span::from_secs(20));
    Settings { flow, connect_timeout, idle_timeout, ..Settings::default() }
}

pub(crate) fn by(transport: SocketTransport) -> Settings {
    let settings = settings();
    Settings { flow: FlowSettings { transport, ..settings.flow }, ..settings }
}

pub(crate) fn encrypted(settings: Settings) -> Settings {
    Settings { keys: Keys::Preshared([7; 32]), ..settings }
}

/// Bytes that look random, always the same.
pub(crate) fn content(bytes: usize) -> Vec<u8> {
    let mut rng = Stream::named(bytes as u64, "content");
    std::iter::repeat_with(|| rng.next_u64().to_le_bytes()).flatten().take(bytes).collect()
}

pub(crate) fn write_file(directory: &Path, name: &str, bytes: usize) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, content(bytes)).unwrap();
    path
}

pub(crate) type Results = (Result<Sent, TransferError>, Result<Received, TransferError>);

/// Both results of a transfer through `way`, which is given the receiver's address and returns where to send.
pub(crate) fn transfer(
    path: &Path,
    target: &Target,
    settings: &Settings,
    way: impl FnOnce(SocketAddr) -> SocketAddr,
) -> Results {
    transfer_of(Source::open(path).unwrap(), target, settings, settings, way)
}

/// The same of any source, with settings for each side.
pub(crate) fn transfer_of(
    source: Source,
    target: &Target,
    sender: &Settings,
    receiver: &Settings,
    way: impl FnOnce(SocketAddr) -> SocketAddr,
) -> Results {
    let receiver = Receiver::bind(loopback(), receiver.clone()).unwrap();
    let to = way(receiver.address());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.receive(target, &stop, |_| {}));
        let sent = send(source, to, sender, &NEVER, |_| {}, |_| {});
        // A receiver that nobody got through to waits for others.
        stop.store(
            matches!(sent, Err(TransferError::Ended { .. } | TransferError::NoAnswer { .. })),
            Ordering::Relaxed,
        );
        (sent, receiving.join().unwrap())
    })
}

/// Names of the files in `directory`, hidden ones too.
pub(crate) fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What a relay does to every n-th datagram with data; 0 is never.
#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) mark: u64,
    pub(crate) drop: u64,
    pub(crate) duplicate: u64,
    /// Held back until three more have passed.
    pub(crate) reorder: u64,
    /// One bit flipped; also cut short, sent back to its sender, and passed on as it was.
    pub(crate) corrupt: u64,
    /// Fraction of all datagrams, either way, that are lost at random.
    pub(crate) loss: f64,
    /// Every acknowledgement of a plain connection is lost.
    pub(crate) mute: bool,
    /// From the hundredth datagram with data on nothing passes either way for so long.
    pub(crate) blackout: Option<Span>,
    /// Of every so many datagrams with data of a plain connection the last byte is changed: a symbol that is false.
    pub(crate) falsify: u64,
    /// Pages of a hash tree on a plain connection are changed.
    pub(crate) false_pages: bool,
    /// They are lost.
    pub(crate) no_pages: bool,
    /// Data of this kind on a plain connection is lost (pliant_proto::wire); 0 is none.
    pub(crate) lost_kind: u8,
    /// The receiver is not told that the sender offers two classes on a plain connection, as if it were older than they are.
    pub(crate) older: bool,
    /// Every so many datagrams with data the receiver sees the sender at another port: the relay is a NAT that forgets.
    pub(crate) rebind: u64,
}

/// What a relay did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Done {
    pub(crate) marked: u64,
    pub(crate) dropped: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
    pub(crate) corrupted: u64,
    pub(crate) blacked_out: u64,
    pub(crate) rebound: u64,
    pub(crate) falsified: u64,
}

/// Passes datagrams between who writes to it and `receiver`, until `stop`; data may go either way.
pub(crate) struct Relay {
    socket: Socket,
    /// Seen by the receiver, if not the same.
    outside: Option<Socket>,
    receiver: SocketAddr,
    sender: Option<SocketAddr>,
    faults: Faults,
    /// How many of each hostile datagram both sides are still to be sent.
    pub(crate) hostility: u64,
    data_seen: u64,
    held: Option<(u64, Ecn, Vec<u8>)>,
    random: Stream,
    clock: Clock,
    dark_until: Option<Instant>,
    pub(crate) done: Done,
    /// Raised once so many datagrams with data have passed.
    pub(crate) interrupt_after: Option<(u64, Arc<AtomicBool>)>,
}

/// Whether a datagram is an acknowledgement on a plain connection: kind 1 (pliant_proto::wire).
fn is_acknowledgement(bytes: &[u8]) -> bool {
    bytes[0] == 0x50 && bytes[1] & 0xf == 1
}

/// Whether a datagram carries data, as far as its length and first bytes tell.
fn carries_data(bytes: &[u8]) -> bool {
    let (plain, sealed) = (bytes[0] == 0x50, bytes[0] == 0x51 && bytes.len() > 1 && bytes[1] & 0xf == 5);
    bytes.len() > 200 && (plain || sealed)
}

/// Whether a datagram is a page of a hash tree on a plain connection: a notice, kind 4 behind the header of 8 bytes, that
/// begins with 6.
fn is_page(bytes: &[u8]) -> bool {
    bytes[0] == 0x51 && bytes.len() > 40 && bytes[8..10] == [4, 6]
}

/// Offers of two classes and of TCP, as an opening has them, and what one is that does not know the first.
const TWO_CLASSES: [u8; 4] = [1, 2, Protocol::TwoClass as u8, Protocol::Tcp as u8];
const UNKNOWN: [u8; 4] = [1, 2, 0xff, Protocol::Tcp as u8];

fn older(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(at) = bytes.windows(4).position(|window| window == TWO_CLASSES).filter(|_| bytes.len() <= 200) {
        bytes[at..at + 4].copy_from_slice(&UNKNOWN);
    }
    bytes
}

fn last_byte_changed(bytes: &[u8]) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    *changed.last_mut().unwrap() ^= 1;
    changed
}

impl Relay {
    pub(crate) fn new(faults: Faults, receiver: SocketAddr) -> Self {
        Self {
            socket: Socket::bind(loopback()).unwrap(),
            outside: (faults.rebind > 0).then(|| Socket::bind(loopback()).unwrap()),
            receiver,
            sender: None,
            faults,
            hostility: 0,
            data_seen: 0,
            held: None,
            random: Stream::named(1, "relay"),
            clock: Clock::start(),
            dark_until: None,
            done: Done::default(),
            interrupt_after: None,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_address().unwrap()
    }

    pub(crate) fn run(mut self, stop: &AtomicBool) -> Done {
        while !stop.load(Ordering::Relaxed) {
            self.run_once();
        }
        self.done
    }

    fn run_once(&mut self) {
        let longest = Duration::from_millis(if self.outside.is_some() { 1 } else { 10 });
        self.socket.wait_readable(longest).unwrap();
        let mut arrived = Vec::new();
        for socket in std::iter::once(&mut self.socket).chain(&mut self.outside) {
            socket.receive(|datagram| arrived.push((datagram.from, datagram.ecn, datagram.bytes.to_vec()))).unwrap();
        }
        for (from, ecn, bytes) in arrived {
            self.pass(from, ecn, bytes);
        }
    }

    fn is_lost(&mut self) -> bool {
        let now = self.clock.now();
        if let (Some(span), 100, None) = (self.faults.blackout, self.data_seen, self.dark_until) {
            self.dark_until = Some(now.after(span));
        }
        if self.dark_until.is_some_and(|until| now < until) {
            self.done.blacked_out += 1;
            return true;
        }
        let lost = self.random.unit() < self.faults.loss;
        self.done.dropped += u64::from(lost);
        lost
    }

    fn pass(&mut self, from: SocketAddr, ecn: Ecn, bytes: Vec<u8>) {
        let lost = self.is_lost();
        let bytes = if self.faults.older { older(bytes) } else { bytes };
        let to = if from == self.receiver {
            let Some(sender) = self.sender else { return };
            if self.faults.mute && is_acknowledgement(&bytes) {
                self.done.dropped += 1;
                return;
            }
            if self.hostility > 0 && is_acknowledgement(&bytes) && self.data_seen > 0 {
                self.harass(&bytes, sender);
            }
            sender
        } else {
            self.sender = Some(from);
            self.receiver
        };
        if !carries_data(&bytes) {
            if is_page(&bytes) && (self.faults.false_pages || self.faults.no_pages) {
                self.done.falsified += 1;
                if self.faults.false_pages {
                    self.forward(to, ecn, &last_byte_changed(&bytes));
                }
            } else if !lost {
                self.forward(to, ecn, &bytes);
            }
            return;
        }
        self.data_seen += 1;
        if self.faults.lost_kind > 0 && bytes[0] == 0x50 && bytes[1] & 0xf == self.faults.lost_kind {
            self.done.dropped += 1;
            return;
        }
        if self.faults.rebind > 0 && self.data_seen.is_multiple_of(self.faults.rebind) {
            self.done.rebound += 1;
            self.outside = Some(Socket::bind(loopback()).unwrap());
        }
        if let Some((after, flag)) = &self.interrupt_after
            && self.data_seen == *after
        {
            flag.store(true, Ordering::Relaxed);
        }
        if lost {
            return;
        }
        let turn = |every: u64| every > 0 && self.data_seen.is_multiple_of(every);
        let (mark, drop) = (turn(self.faults.mark) && ecn == Ecn::Ect0, turn(self.faults.drop));
        let (duplicate, reorder) = (turn(self.faults.duplicate), turn(self.faults.reorder) && self.held.is_none());
        let (corrupt, falsify) = (turn(self.faults.corrupt), turn(self.faults.falsify));
        self.done.falsified += u64::from(falsify);
        let bytes = if falsify { last_byte_changed(&bytes) } else { bytes };
        let ecn = if mark { Ecn::Ce } else { ecn };
        self.done.marked += u64::from(mark && !drop);
        if corrupt {
            self.done.corrupted += 1;
            let mut changed = bytes.clone();
            let bit = self.random.below(8 * bytes.len() as u64) as usize;
            changed[bit / 8] ^= 1 << (bit % 8);
            self.forward(to, ecn, &changed);
            self.forward(to, ecn, &bytes[..bytes.len() - 1]);
            self.forward(from, ecn, &bytes);
        }
        if drop {
            self.done.dropped += 1;
        } else if reorder {
            self.done.reordered += 1;
            self.held = Some((self.data_seen + 3, ecn, bytes));
        } else {
            self.forward(to, ecn, &bytes);
            if duplicate {
                self.done.duplicated += 1;
                self.forward(to, ecn, &bytes);
            }
        }
        if let Some((_, ecn, bytes)) = self.held.take_if(|(until, _, _)| *until <= self.data_seen) {
            self.forward(to, ecn, &bytes);
        }
    }

    /// Sends the receiver noise, a cut packet, packets of another connection and from another port, and its own
    /// acknowledgement; and the sender a packet addressed to the other side of its flow.
    fn harass(&mut self, acknowledgement: &[u8], sender: SocketAddr) {
        self.hostility -= 1;
        let mut reflected = acknowledgement.to_vec();
        self.forward(self.receiver, Ecn::NotEct, &reflected);
        // The last bit of the address is the side.
        reflected[7] ^= 1;
        self.forward(sender, Ecn::NotEct, &reflected);
        stranger().send_to(&reflected, self.receiver).unwrap();
        reflected[6] ^= 0x80;
        self.forward(self.receiver, Ecn::NotEct, &reflected);
        self.forward(self.receiver, Ecn::NotEct, &acknowledgement[..6]);
        self.forward(self.receiver, Ecn::NotEct, b"noise");
    }

    fn forward(&self, to: SocketAddr, ecn: Ecn, bytes: &[u8]) {
        let mut batch = Batch::default();
        batch.push(to, TrafficClass::default().with_ecn(ecn), bytes.len()).copy_from_slice(bytes);
        let outside = self.outside.as_ref().filter(|_| to == self.receiver);
        outside.unwrap_or(&self.socket).send(&batch).unwrap();
    }
}

/// A transfer through a relay; `Err` of neither side is expected.
pub(crate) fn transfer_through(
    faults: Faults,
    path: &Path,
    target: &Target,
    settings: &Settings,
) -> (Sent, Received, Done) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut relaying = None;
        let (sent, received) = transfer(path, target, settings, |receiver| {
            let relay = Relay::new(faults, receiver);
            let address = relay.address();
            relaying = Some(scope.spawn(|| relay.run(&stop)));
            address
        });
        stop.store(true, Ordering::Relaxed);
        let done = relaying.unwrap().join().unwrap();
        (sent.unwrap(), received.unwrap(), done)
    })
}

/// A plain socket on loopback, for those who send what they should not.
pub(crate) fn stranger() -> UdpSocket {
    UdpSocket::bind(loopback()).unwrap()
}

/// Sends a UDP datagram from port 0, to which nobody can answer. False without the right to (CAP_NET_RAW).
pub(crate) fn send_from_port_zero(to: SocketAddr, content: &[u8]) -> bool {
    use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket};
    let SocketAddr::V4(to) = to else { panic!("IPv4 only") };
    let raw = socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Udp);
    let Ok(raw) = raw else {
        eprintln!("skipped: no right to raw sockets");
        return false;
    };
    let length = 8 + content.len() as u16;
    // Source, destination, length, and no checksum (RFC 768).
    let header = [[0; 2], to.port().to_be_bytes(), length.to_be_bytes(), [0; 2]];
    let datagram = [header.as_flattened(), content].concat();
    let sent = sendto(std::os::fd::AsRawFd::as_raw_fd(&raw), &datagram, &SockaddrIn::from(to), MsgFlags::empty());
    assert_eq!(sent, Ok(datagram.len()));
    true
}

/// A schedule with next to no rate at any time of the day.
pub(crate) fn all_day() -> DaySchedule {
    "00:00-12:00=8kbit/s,12:00-00:00=8kbit/s".parse().unwrap()
}
