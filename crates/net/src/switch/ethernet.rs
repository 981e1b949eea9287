//! The switch on interfaces.
//!
//! Frames come by a ring per interface, each with the time at which the kernel got it; the switch takes them in the
//! order of these times, and they leave by one `sendmmsg` for up to 64, datagrams of one flow joined (`merge`). A
//! checksum that a kernel left to hardware that a virtual interface does not have is passed on as left, which the frame's
//! offload header says: without it receivers would drop the frame without a word.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use pliant_proto::packet::{Ecn, TrafficClass, WireFormat};
use pliant_proto::time::{Instant, Span};
use pliant_proto::wire;
use rustix::event::{PollFd, PollFlags};

use super::forwarder::{AddressTable, DEFAULT_FRAME_BYTES, DEFAULT_FRAMES, Departure, Intake, Switch, SwitchConfig};
use super::frame::{self, FrameError, Layer4};
use super::merge;
use super::packet_ring::{OFFLOAD_BYTES, PacketRing, RingShape, interface_index, sending_socket};
use crate::clock::{SharedClock, nap, realtime_ns};
use crate::event_loop::wait;
use crate::mmsg::{BATCH, Outgoing, Sender, To};

/// Frames taken before others are sent on.
const INTAKE: usize = 128;
/// Departures are sent together that are due within this part of the shortest way through the switch, which makes them
/// late by half of that in the mean: waking up for each frame costs more than all else, most of all in virtual machines.
const COALESCE: u64 = 10;
/// The longest that departures wait for each other.
const MAX_COALESCE: Span = Span::from_us(100);
/// Time between looks at how many frames rings had no room for.
const OVERRUN_INTERVAL: Span = Span::from_ms(100);

/// Bytes that a frame counts for on the wire of a plan, by what it carries. A scenario's packets have the headers of its
/// framing; real frames have others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireSize {
    /// Added to the length of a frame with UDP.
    pub udp: i16,
    /// Added to the length of a frame with TCP.
    pub tcp: i16,
    /// Added to the length of any other.
    pub other: i16,
    /// The least it counts for.
    pub least: u16,
    /// Framing of Pliant's own packets, which count for their payload in it whatever their headers are in fact.
    pub framing: Option<WireFormat>,
}

impl Default for WireSize {
    /// What Ethernet adds: checksum, preamble and gap.
    fn default() -> Self {
        Self { udp: 24, tcp: 24, other: 24, least: 84, framing: None }
    }
}

impl WireSize {
    /// Sizes as a scenario with this framing has them: TCP with timestamps counts as without.
    pub fn framed(framing: WireFormat) -> Self {
        let headers = framing.header_bytes as i16;
        let (udp, tcp) = (headers - DATA_FRAME_BYTES, headers - 66);
        Self { udp, tcp, other: headers - 54, least: framing.minimum_bytes, framing: Some(framing) }
    }

    /// The size of a datagram in a frame of `bytes`.
    #[inline]
    pub fn of_datagram(&self, bytes: usize, datagram: &[u8]) -> u16 {
        if let Some(framing) = self.framing
            && let Ok((packet, ..)) = wire::decode(datagram, TrafficClass::default())
        {
            return framing.wire_bytes(packet.payload());
        }
        self.of(bytes, Layer4::Udp)
    }

    /// The size of a frame of `bytes`.
    pub fn of(&self, bytes: usize, layer4: Layer4) -> u16 {
        let added = match layer4 {
            Layer4::Udp => self.udp,
            Layer4::Tcp => self.tcp,
            Layer4::Other => self.other,
        };
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX).saturating_add(i64::from(added));
        u16::try_from(bytes.max(i64::from(self.least))).unwrap_or(u16::MAX)
    }
}

/// Headers of a frame with data of a byte stream: Ethernet, IPv4, UDP, and Pliant's own.
const DATA_FRAME_BYTES: i16 = 14 + 20 + 8 + wire::DATA_HEADER_BYTES as i16;

/// What a switch on interfaces takes for a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Frames as a wire has them. Queues mean what plans say.
    #[default]
    Fidelity,
    /// Also superframes of up to 64 kB, whose cutting and checksums hosts leave to their interfaces, and the switch to
    /// those behind it: faster by far, but one entry of a queue each.
    Speed,
}

impl Mode {
    /// Number and size of frames that a switch keeps in this mode.
    pub const fn frames(self) -> (usize, usize) {
        match self {
            Self::Fidelity => (DEFAULT_FRAMES, DEFAULT_FRAME_BYTES),
            Self::Speed => (1024, 66 << 10),
        }
    }
}

/// A switch on interfaces.
#[derive(Clone, Debug)]
pub struct EthernetConfig {
    /// The switch; port `i` is interface `i`.
    pub switch: SwitchConfig,
    /// Names of the interfaces.
    pub interfaces: Vec<String>,
    /// Which port leads to which address.
    pub addresses: AddressTable,
    /// What frames count for.
    pub wire_size: WireSize,
    /// What counts as a frame.
    pub mode: Mode,
    /// Traffic class of each DSCP.
    pub class_of_dscp: [u8; 64],
}

/// Why a switch cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// There is no such interface.
    #[error("interface {name}: {error}")]
    Interface {
        /// Its name.
        name: String,
        /// The system's reason.
        error: io::Error,
    },
    /// The user may not.
    #[error(
        "interface {name}: packet sockets need root, or the capability CAP_NET_RAW; a plan of relay ports needs neither"
    )]
    NotPermitted {
        /// The interface.
        name: String,
    },
    /// An address of a relay cannot be bound.
    #[error("cannot use {address}: {error}")]
    Address {
        /// The address.
        address: std::net::SocketAddrV4,
        /// The system's reason.
        error: io::Error,
    },
}

impl SwitchError {
    /// What an error means at an interface.
    pub(super) fn of(name: &str, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { name: name.to_owned() },
            _ => Self::Interface { name: name.to_owned(), error },
        }
    }
}

/// A running switch on interfaces.
pub struct EthernetSwitch {
    switch: Switch,
    clock: SharedClock,
    rings: Vec<PacketRing>,
    interfaces: Vec<u32>,
    sending: OwnedFd,
    sender: Sender,
    addresses: AddressTable,
    wire_size: WireSize,
    /// Checksums are completed here: bits will be flipped, and receivers are to see that.
    completes: bool,
    class_of_dscp: [u8; 64],
    departures: Vec<Departure>,
    /// For each departure whether it leaves as a part of the one before.
    joins: Vec<bool>,
    /// Whether the kernel takes superframes, once that was seen.
    takes_superframes: Option<bool>,
    next_overrun: Instant,
}

impl EthernetSwitch {
    /// Opens every interface. From now on their frames wait in rings.
    pub fn open(config: &EthernetConfig, clock: SharedClock) -> Result<Self, SwitchError> {
        let shape = match config.mode {
            Mode::Fidelity => RingShape::FRAMES,
            Mode::Speed => RingShape::SUPERFRAMES,
        };
        let (mut rings, mut interfaces) = (Vec::new(), Vec::new());
        for name in &config.interfaces {
            let index = interface_index(name).map_err(|error| SwitchError::of(name, error))?;
            rings.push(PacketRing::open(index, shape).map_err(|error| SwitchError::of(name, error))?);
            interfaces.push(index);
        }
        let first = config.interfaces.first().map_or("", String::as_str);
        let sending = sending_socket().map_err(|error| SwitchError::of(first, error))?;
        // Sleeps end when they should; the kernel would else join wake-ups 50 us apart.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Ok(Self {
            switch: Switch::new(&config.switch),
            clock,
            rings,
            interfaces,
            sending,
            sender: Sender::new(),
            addresses: config.addresses.clone(),
            wire_size: config.wire_size,
            completes: config.mode == Mode::Fidelity && config.switch.faults.corrupt > 0.0,
            class_of_dscp: config.class_of_dscp,
            departures: Vec::with_capacity(BATCH),
            joins: Vec::with_capacity(BATCH),
            takes_superframes: None,
            next_overrun: Instant::ZERO,
        })
    }

    /// Time counts from another epoch now. Nothing may have arrived before.
    pub fn set_clock(&mut self, clock: SharedClock) {
        assert_eq!(self.switch.fabric().hops(), 0, "a clock is set before frames come");
        self.clock = clock;
    }

    /// The switch without its sockets.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// The switch without its sockets.
    pub fn switch_mut(&mut self) -> &mut Switch {
        &mut self.switch
    }

    /// Takes what has arrived, sends what is due, and sleeps until there is more, for `at_most` at the longest.
    pub fn turn(&mut self, at_most: Duration) -> io::Result<()> {
        let now = self.clock.now();
        let taken = self.take(now);
        self.switch.advance(now);
        let sent = self.send(now)?;
        if now >= self.next_overrun {
            self.next_overrun = now.after(OVERRUN_INTERVAL);
            for (port, ring) in self.rings.iter().enumerate() {
                self.switch.port_mut(port as u16).overrun += ring.overrun();
            }
        }
        if taken + sent == 0 { self.sleep(at_most) } else { Ok(()) }
    }

    /// Takes frames of all rings in the order of their arrival. Returns how many there were.
    fn take(&mut self, now: Instant) -> usize {
        let realtime = realtime_ns();
        for taken in 0..INTAKE {
            let first = self.rings.iter().enumerate().filter_map(|(port, ring)| Some((ring.peek()?, port))).min();
            let Some((arrived_ns, port)) = first else { return taken };
            let at = now.before(Span::from_ns(realtime.saturating_sub(arrived_ns)));
            self.take_frame(at, port as u16);
        }
        INTAKE
    }

    fn take_frame(&mut self, at: Instant, port: u16) {
        let Self { switch, rings, addresses, wire_size, class_of_dscp, completes, .. } = self;
        rings[usize::from(port)].take(|whole| {
            let frame = &mut whole.bytes[OFFLOAD_BYTES..];
            let counters = switch.port_mut(port);
            counters.received += 1;
            counters.received_bytes += frame.len() as u64;
            if whole.truncated {
                counters.oversized += 1;
                return;
            }
            if whole.tagged {
                counters.tagged += 1;
                return;
            }
            let header = match frame::parse(frame) {
                Ok(header) => header,
                Err(FrameError::Malformed) => return counters.malformed += 1,
                Err(FrameError::Tagged) => return counters.tagged += 1,
            };
            let completed = *completes && whole.checksum_missing && frame::complete_checksum(frame);
            counters.checksums_completed += u64::from(completed);
            let destination = addresses.find(header.mac, header.ipv4);
            if destination.is_none() && !header.is_group() || destination == Some(port) {
                counters.unknown_destination += 1;
                return;
            }
            let intake = Intake {
                destination,
                wire_bytes: match header.layer4 {
                    Layer4::Udp => wire_size.of_datagram(frame.len(), header.layer4_payload(frame)),
                    other => wire_size.of(frame.len(), other),
                },
                traffic_class: frame::classify(header.octet, class_of_dscp),
                flow: header.flow,
            };
            if completed {
                merge::finish(whole.bytes);
            }
            switch.take(at, port, &intake, whole.bytes);
        });
    }

    /// Sends all that is due. Returns how many frames that were.
    fn send(&mut self, now: Instant) -> io::Result<usize> {
        let mut sent = 0;
        loop {
            while self.departures.len() < BATCH
                && let Some(departure) = self.switch.poll_departure(now)
            {
                if departure.traffic_class.ecn() == Ecn::Ce {
                    let whole = self.switch.frame_mut(departure.frame);
                    frame::set_ecn(&mut whole[OFFLOAD_BYTES..], departure.traffic_class);
                }
                self.departures.push(departure);
            }
            if self.departures.is_empty() {
                return Ok(sent);
            }
            sent += self.send_batch()?;
        }
    }

    /// Decides which departures leave as one. The order of those of one port stays.
    fn join(&mut self) {
        let Self { switch, departures, joins, takes_superframes, .. } = self;
        departures.sort_by_key(|departure| departure.port);
        joins.clear();
        joins.resize(departures.len(), false);
        let mut first = 0;
        while first < departures.len() {
            let head = departures[first];
            let mut end = first + 1;
            if *takes_superframes != Some(false)
                && let Some(mut run) = merge::Run::begin(switch.frame(head.frame))
            {
                while let Some(next) = departures.get(end).filter(|next| next.port == head.port)
                    && run.take(switch.frame(head.frame), switch.frame(next.frame))
                {
                    joins[end] = true;
                    end += 1;
                }
                run.join(switch.frame_mut(head.frame));
            }
            first = end;
        }
    }

    /// Sends what was collected. Returns how many frames that were.
    fn send_batch(&mut self) -> io::Result<usize> {
        self.join();
        let mut refused = [false; BATCH];
        let message = |(departure, &joins): (&Departure, &bool)| Outgoing {
            bytes: &self.switch.frame(departure.frame)[if joins { merge::HEADERS } else { 0 }..],
            to: To::Interface(self.interfaces[usize::from(departure.port)]),
            octet: None,
            joins,
        };
        let messages: Vec<Outgoing<'_>> = self.departures.iter().zip(&self.joins).map(message).collect();
        self.sender.send(self.sending.as_fd(), &messages, |index| refused[index] = true)?;
        drop(messages);
        let count = self.departures.len();
        if self.takes_superframes.is_none()
            && let Some(joined) = (0..count).find(|&index| self.joins[index])
        {
            self.takes_superframes = Some(!refused[joined]);
            if refused[joined] {
                return self.send_apart(&refused);
            }
        }
        for (departure, refused) in self.departures.iter().zip(refused) {
            self.switch.recycle(departure, !refused);
            if !refused {
                // What stands before a frame is no part of it.
                self.switch.port_mut(departure.port).sent_bytes -= OFFLOAD_BYTES as u64;
            }
        }
        self.departures.clear();
        Ok(count)
    }

    /// The kernel does not take superframes: what it refused is sent again, frame by frame.
    #[cold]
    fn send_apart(&mut self, refused: &[bool; BATCH]) -> io::Result<usize> {
        let (again, gone): (Vec<_>, Vec<_>) = self.departures.iter().zip(refused).partition(|(_, refused)| **refused);
        for (departure, _) in &gone {
            self.switch.recycle(departure, true);
            self.switch.port_mut(departure.port).sent_bytes -= OFFLOAD_BYTES as u64;
        }
        let count = gone.len();
        let again: Vec<Departure> = again.into_iter().map(|(departure, _)| *departure).collect();
        for departure in &again {
            merge::separate(self.switch.frame_mut(departure.frame));
        }
        self.departures = again;
        Ok(count + self.send_batch()?)
    }

    fn sleep(&self, at_most: Duration) -> io::Result<()> {
        let now = self.clock.now();
        let crossing = self.switch.fabric().least_crossing();
        let until = self.switch.next_departure().map_or(Span::MAX, |at| at.since(now));
        if until < crossing {
            // Frames that arrive meanwhile have their times and cannot leave before: they need not be seen at once.
            let span = until.max(crossing.divided_by(COALESCE).min(MAX_COALESCE)).min(crossing);
            std::thread::sleep(at_most.min(nap(span)));
            return Ok(());
        }
        let timeout = at_most.min(nap(until));
        let mut files: Vec<PollFd<'_>> = self.rings.iter().map(|ring| PollFd::new(ring, PollFlags::IN)).collect();
        wait(&mut files, Some(timeout))
    }
}
