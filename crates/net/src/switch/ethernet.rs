//! The switch on interfaces.
//!
//! Frames come by a ring per interface, each with the time at which the kernel got it; the switch takes them in the
//! order of these times, and they leave by one `sendmmsg` for up to 64, datagrams of one flow joined (`gro`). A
//! checksum that a kernel left to hardware that a virtual interface does not have is passed on as left, which the frame's
//! offload header says: without it receivers would drop the frame without a word.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use pliant_proto::packet::Ecn;
use pliant_proto::time::{Instant, Span};
use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt::socket_error;

use super::error::SwitchError;
use super::forwarder::{DEFAULT_FRAME_BYTES, DEFAULT_FRAMES, Departure, FrameMetadata, Switch, SwitchConfig};
use super::forwarding_table::ForwardingTable;
use super::frame::{self, ETHERNET_BYTES, FrameError, Layer4};
use super::gro;
use super::packet_ring::{OFFLOAD_BYTES, PacketRing, RingShape, interface_index, sending_socket};
use super::wire_size::WireSize;
use crate::clock::{SharedClock, realtime_ns, to_timeout};
use crate::mmsg::{BATCH, BatchSender, Destination, Transmit};
use crate::poll::wait;

/// Frames taken before others are sent on.
const RECEIVE_BURST: usize = 128;
/// Departures are sent together that are due within this part of the shortest way through the switch, which makes them
/// late by half of that in the mean: waking up for each frame costs more than all else, most of all in virtual machines.
const COALESCE: u64 = 10;
/// The longest that departures wait for each other.
const MAX_COALESCE: Span = Span::from_us(100);
/// Time between looks at how many frames rings had no room for.
const OVERRUN_INTERVAL: Span = Span::from_ms(100);

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
    pub addresses: ForwardingTable,
    /// What frames count for.
    pub wire_size: WireSize,
    /// What counts as a frame.
    pub mode: Mode,
    /// Traffic class of each DSCP.
    pub class_of_dscp: [u8; 64],
}

/// A running switch on interfaces.
pub struct EthernetSwitch {
    switch: Switch,
    clock: SharedClock,
    rings: Vec<PacketRing>,
    interfaces: Vec<u32>,
    names: Vec<String>,
    /// Whether one of them has gone down.
    some_went_down: bool,
    sending: OwnedFd,
    sender: BatchSender,
    addresses: ForwardingTable,
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
            switch: Switch::new(&config.switch).sparing(OFFLOAD_BYTES + ETHERNET_BYTES),
            clock,
            rings,
            names: config.interfaces.clone(),
            some_went_down: false,
            interfaces,
            sending,
            sender: BatchSender::new(),
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
    pub fn run_once(&mut self, at_most: Duration) -> io::Result<()> {
        let now = self.clock.now();
        let taken = self.take(now);
        self.switch.advance(now);
        let sent = self.send(now)?;
        if now >= self.next_overrun {
            self.next_overrun = now.after(OVERRUN_INTERVAL);
            for (port, ring) in self.rings.iter().enumerate() {
                self.switch.port_mut(port as u16).overrun += ring.overrun();
            }
            if self.some_went_down {
                self.find_interfaces()?;
            }
        }
        if taken + sent == 0 { self.sleep(at_most) } else { Ok(()) }
    }

    /// Takes frames of all rings in the order of their arrival. Returns how many there were.
    fn take(&mut self, now: Instant) -> usize {
        let realtime = realtime_ns();
        for taken in 0..RECEIVE_BURST {
            let first = self.rings.iter().enumerate().filter_map(|(port, ring)| Some((ring.peek()?, port))).min();
            let Some((arrived_ns, port)) = first else { return taken };
            let at = now.before(Span::from_ns(realtime.saturating_sub(arrived_ns)));
            self.take_frame(at, port as u16);
        }
        RECEIVE_BURST
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
            let metadata = FrameMetadata {
                destination,
                wire_bytes: match header.layer4 {
                    Layer4::Udp => wire_size.of_datagram(frame.len(), header.layer4_payload(frame)),
                    other => wire_size.of(frame.len(), other),
                },
                traffic_class: frame::classify(header.octet, class_of_dscp),
                flow: header.flow,
            };
            if completed {
                gro::clear_offload_header(whole.bytes);
            }
            switch.take(at, port, &metadata, whole.bytes);
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
                && let Some(mut superframe) = gro::Superframe::begin(switch.frame(head.frame))
            {
                while let Some(next) = departures.get(end).filter(|next| next.port == head.port)
                    && superframe.append(switch.frame(head.frame), switch.frame(next.frame))
                {
                    joins[end] = true;
                    end += 1;
                }
                superframe.write_headers(switch.frame_mut(head.frame));
            }
            first = end;
        }
    }

    /// Sends what was collected. Returns how many frames that were.
    fn send_batch(&mut self) -> io::Result<usize> {
        self.join();
        let mut refused = [false; BATCH];
        let message = |(departure, &joins): (&Departure, &bool)| Transmit {
            bytes: &self.switch.frame(departure.frame)[if joins { gro::HEADERS } else { 0 }..],
            to: Destination::Interface(self.interfaces[usize::from(departure.port)]),
            octet: None,
            joins,
        };
        let messages: Vec<Transmit<'_>> = self.departures.iter().zip(&self.joins).map(message).collect();
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
            gro::split(self.switch.frame_mut(departure.frame));
        }
        self.departures = again;
        Ok(count + self.send_batch()?)
    }

    fn sleep(&mut self, at_most: Duration) -> io::Result<()> {
        let now = self.clock.now();
        let crossing = self.switch.fabric().least_crossing();
        let until = self.switch.next_departure().map_or(Span::MAX, |at| at.since(now));
        if until < crossing {
            // Frames that arrive meanwhile have their times and cannot leave before: they need not be seen at once.
            let span = until.max(crossing.divided_by(COALESCE).min(MAX_COALESCE)).min(crossing);
            std::thread::sleep(at_most.min(to_timeout(span)));
            return Ok(());
        }
        let timeout = at_most.min(to_timeout(until));
        let mut files: Vec<PollFd<'_>> = self.rings.iter().map(|ring| PollFd::new(ring, PollFlags::IN)).collect();
        wait(&mut files, Some(timeout))?;
        if files.iter().any(|file| file.revents().intersects(PollFlags::ERR)) {
            self.take_errors();
        }
        Ok(())
    }

    /// An interface that goes down tells so by an error of its socket, and each wait ends at once until that is read. The
    /// socket works again once the interface is back up.
    #[cold]
    fn take_errors(&mut self) {
        self.some_went_down = true;
        for (port, ring) in self.rings.iter().enumerate() {
            if !matches!(socket_error(ring), Ok(Ok(()))) {
                self.switch.port_mut(port as u16).went_down += 1;
            }
        }
    }

    /// Whether there are any of the interfaces still. One that was removed does not come back under its index.
    #[cold]
    fn find_interfaces(&self) -> io::Result<()> {
        let is_there = |(name, index): (&String, &u32)| interface_index(name).is_ok_and(|found| found == *index);
        if self.names.iter().zip(&self.interfaces).any(is_there) {
            return Ok(());
        }
        Err(io::Error::other(format!("every interface was removed: {}", self.names.join(", "))))
    }
}
