//! A switch without its sockets: a pool of frames, the [`Fabric`] they cross, and counts of all that happens to them.

use pliant_proto::packet::TrafficClass;
use pliant_proto::switch::queue::Occupancy;
use pliant_proto::time::{Instant, Span};

use super::fabric::{Arrival, Fabric, FabricConfig, Output};
use super::faults::{Fate, FaultConfig, Faults};
use super::frame_pool::FramePool;

/// What a switch is made of.
#[derive(Clone, Debug)]
pub struct SwitchConfig {
    /// Links, nodes and queues.
    pub fabric: FabricConfig,
    /// What each port is called.
    pub ports: Vec<String>,
    /// What a bad network would do to frames.
    pub faults: FaultConfig,
    /// Frames that it holds at most, in all queues and on all wires.
    pub frames: usize,
    /// Bytes of the largest frame.
    pub frame_bytes: usize,
    /// How often queue lengths are recorded, if they are.
    pub sample_interval: Option<Span>,
}

/// Frames a switch holds unless told otherwise.
pub const DEFAULT_FRAMES: usize = 16_384;
/// Bytes of the largest frame unless told otherwise: an Ethernet frame with room for longer headers.
pub const DEFAULT_FRAME_BYTES: usize = 2048;

/// What one port counted. Received = the sum of all that was refused here, and of all that went in; over all ports, in +
/// copies = sent + refused by queues + lost by faults + still inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames that arrived.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Of these, too short, or with an IP header that contradicts itself.
    pub malformed: u64,
    /// Of these, with a VLAN tag.
    pub tagged: u64,
    /// Of these, longer than the switch takes: superframes of an interface that leaves segmentation to its hardware.
    pub oversized: u64,
    /// Of these, to an address that no port has.
    pub unknown_destination: u64,
    /// Of these, refused because every frame of the pool was taken.
    pub no_frame: u64,
    /// Of these, passed on.
    pub forwarded: u64,
    /// Datagrams to a relay's alias from an address that is no port's host; none of the above.
    pub strangers: u64,
    /// Checksums completed that a kernel had left to its interface.
    pub checksums_completed: u64,
    /// Frames lost before the switch saw them, because it came too late to read them.
    pub overrun: u64,
    /// Times that the interface went down, or was removed.
    pub went_down: u64,
    /// Frames that left.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames that the kernel refused to take.
    pub send_failed: u64,
}

/// One queue at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLength {
    /// When, from the start of the switch.
    pub at: Instant,
    /// Index of the link.
    pub link: u32,
    /// Index of its queue.
    pub queue: u8,
    /// Packets it held.
    pub packets: u32,
    /// Bytes it held.
    pub bytes: u64,
    /// Bytes of red packets among them, if it limits those.
    pub red_bytes: u64,
}

/// A frame about to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Where it is in the pool; [`Switch::recycle`] gives it back.
    pub frame: u32,
    /// Port it came by.
    pub source: u16,
    /// Port it leaves by.
    pub port: u16,
    /// Its traffic class now.
    pub traffic_class: TrafficClass,
}

/// How late departures were: a count for each power of two of microseconds, and the latest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    counts: [u64; 32],
    /// The latest.
    pub max: Span,
}

impl Lateness {
    fn add(&mut self, late: Span) {
        let us = late.as_ps() / 1_000_000;
        self.counts[(u64::BITS - us.leading_zeros()).min(31) as usize] += 1;
        self.max = self.max.max(late);
    }

    /// A bound on the delay of the fraction `quantile` of all departures: the power of two of microseconds above it.
    pub fn quantile(&self, quantile: f64) -> Span {
        let all: u64 = self.counts.iter().sum();
        let mut seen = 0;
        for (power, count) in self.counts.iter().enumerate() {
            seen += count;
            if all > 0 && seen as f64 >= quantile * all as f64 {
                return Span::from_us(1 << power);
            }
        }
        Span::ZERO
    }
}

/// What a driver has read of a frame.
#[derive(Clone, Copy, Debug)]
pub struct FrameMetadata {
    /// Port it goes to; `None`: to all but the one it came from.
    pub destination: Option<u16>,
    /// Bytes it takes on the wire.
    pub wire_bytes: u16,
    /// What queues look at.
    pub traffic_class: TrafficClass,
    /// Hash of its flow.
    pub flow: u32,
}

/// A switch without its sockets.
pub struct Switch {
    fabric: Fabric,
    pool: FramePool,
    faults: Faults<Departure>,
    /// Bytes at the start of every frame in which no bit is flipped.
    spared_bytes: usize,
    ports: Vec<PortCounters>,
    /// Frames that the engine got, copies of those for all ports included.
    entered: u64,
    dropped: u64,
    lost: u64,
    copies: u64,
    departed: u64,
    lateness: Lateness,
    ready: Option<Departure>,
    sample_interval: Option<Span>,
    next_sample: Instant,
    samples: Vec<QueueLength>,
    /// Smallest pool that there was, for sizing.
    least_free: usize,
}

impl Switch {
    /// An empty switch.
    pub fn new(config: &SwitchConfig) -> Self {
        Self {
            fabric: Fabric::new(&config.fabric, config.frames),
            pool: FramePool::new(config.frames, config.frame_bytes),
            faults: Faults::new(config.faults.clone(), config.fabric.seed),
            spared_bytes: 0,
            ports: vec![PortCounters::default(); config.ports.len()],
            entered: 0,
            dropped: 0,
            lost: 0,
            copies: 0,
            departed: 0,
            lateness: Lateness::default(),
            ready: None,
            sample_interval: config.sample_interval,
            next_sample: Instant::ZERO,
            samples: Vec::new(),
            least_free: config.frames,
        }
    }

    /// Flips no bit in the first `bytes` of a frame: what is no part of it, and what brings it to where it is checked.
    pub(super) fn sparing(self, bytes: usize) -> Self {
        Self { spared_bytes: bytes, ..self }
    }

    /// Bytes of the largest frame that fits.
    pub fn frame_bytes(&self) -> usize {
        self.pool.frame_bytes()
    }

    /// Takes a frame that arrived by `port`, after all that was due before. The driver has counted it as received.
    pub fn take(&mut self, at: Instant, port: u16, metadata: &FrameMetadata, content: &[u8]) {
        if content.len() > self.pool.frame_bytes() {
            self.ports[usize::from(port)].oversized += 1;
            return;
        }
        self.sample(at);
        match metadata.destination {
            Some(destination) => {
                let Some(frame) = self.pool.store(content) else {
                    self.ports[usize::from(port)].no_frame += 1;
                    return;
                };
                self.entered += 1;
                self.ports[usize::from(port)].forwarded += 1;
                let FrameMetadata { wire_bytes, traffic_class, flow, .. } = *metadata;
                self.fabric.arrive(at, port, &Arrival { frame, destination, wire_bytes, traffic_class, flow });
            }
            None => self.take_for_all(at, port, metadata, content),
        }
        self.least_free = self.least_free.min(self.pool.free());
    }

    /// Gives every other port a copy.
    #[cold]
    fn take_for_all(&mut self, at: Instant, port: u16, metadata: &FrameMetadata, content: &[u8]) {
        let mut copies = 0;
        for destination in (0..self.ports.len() as u16).filter(|&other| other != port) {
            let Some(frame) = self.pool.store(content) else { break };
            copies += 1;
            let FrameMetadata { wire_bytes, traffic_class, flow, .. } = *metadata;
            let arrival = Arrival { frame, destination, wire_bytes, traffic_class, flow };
            self.fabric.arrive_at_last_link(at, port, &arrival);
        }
        self.entered += copies;
        let counters = &mut self.ports[usize::from(port)];
        if copies > 0 { counters.forwarded += 1 } else { counters.no_frame += 1 }
    }

    /// Does all that is due by `now`.
    pub fn advance(&mut self, now: Instant) {
        self.sample(now);
        self.fabric.advance(now);
    }

    /// The next frame to send at `now`. After [`advance`](Self::advance) call it until it gives none.
    pub fn poll_departure(&mut self, now: Instant) -> Option<Departure> {
        if let Some(copy) = self.ready.take() {
            return Some(copy);
        }
        while let Some(output) = self.fabric.poll_output() {
            let (departure, due) = match output {
                Output::Depart { frame, source, port, traffic_class, due } => {
                    (Departure { frame, source, port, traffic_class }, due)
                }
                Output::Drop { frame } => {
                    self.dropped += 1;
                    self.pool.recycle(frame);
                    continue;
                }
            };
            self.lateness.add(now.since(due));
            let fate = self.faults.judge(due);
            if fate == Fate::NONE {
                return Some(departure);
            }
            if let Some(departure) = self.suffer(due, departure, fate) {
                return Some(departure);
            }
        }
        self.faults.release(now)
    }

    /// What is left of a frame after its fate.
    #[cold]
    fn suffer(&mut self, due: Instant, departure: Departure, fate: Fate) -> Option<Departure> {
        if fate.lost {
            self.lost += 1;
            self.pool.recycle(departure.frame);
            return None;
        }
        if fate.duplicated
            && let Some(frame) = self.pool.copy(departure.frame)
        {
            self.copies += 1;
            self.ready = Some(Departure { frame, ..departure });
        }
        if let Some(random) = fate.corrupted {
            corrupt(self.pool.get_mut(departure.frame), self.spared_bytes, random);
        }
        match fate.held {
            Some(span) => {
                self.faults.hold(due.after(span), departure);
                self.ready.take()
            }
            None => Some(departure),
        }
    }

    /// The bytes of a frame.
    pub fn frame(&self, frame: u32) -> &[u8] {
        self.pool.get(frame)
    }

    /// The bytes of a frame, to change them.
    pub fn frame_mut(&mut self, frame: u32) -> &mut [u8] {
        self.pool.get_mut(frame)
    }

    /// A departed frame was sent, or the kernel refused it.
    pub fn recycle(&mut self, departure: &Departure, sent: bool) {
        let counters = &mut self.ports[usize::from(departure.port)];
        if sent {
            counters.sent += 1;
            counters.sent_bytes += u64::from(self.pool.length(departure.frame));
        } else {
            counters.send_failed += 1;
        }
        self.departed += 1;
        self.pool.recycle(departure.frame);
    }

    /// When there may be something to send next.
    pub fn next_departure(&self) -> Option<Instant> {
        [self.fabric.next_departure(), self.faults.next_release()].into_iter().flatten().min()
    }

    /// The counters of a port, for the driver to add to.
    pub fn port_mut(&mut self, port: u16) -> &mut PortCounters {
        &mut self.ports[usize::from(port)]
    }

    /// The counters of all ports.
    pub fn ports(&self) -> &[PortCounters] {
        &self.ports
    }

    /// The engine.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The engine, to read its queues.
    pub fn fabric_mut(&mut self) -> &mut Fabric {
        &mut self.fabric
    }

    /// What faults did.
    pub fn fault_counters(&self) -> super::faults::FaultCounters {
        self.faults.counters()
    }

    /// How late departures were handed to the kernel.
    pub fn lateness(&self) -> Lateness {
        self.lateness
    }

    /// Most frames that were held at once.
    pub fn most_frames(&self) -> usize {
        self.pool.frames() - self.least_free
    }

    /// Takes the queue lengths recorded so far.
    pub fn take_samples(&mut self) -> Vec<QueueLength> {
        std::mem::take(&mut self.samples)
    }

    /// Asserts that every frame taken has left, was lost for a reason that was counted, or is inside.
    pub fn assert_conserved(&self) {
        self.fabric.assert_conserved();
        let inside = self.fabric.inside() + self.faults.held() as u64 + u64::from(self.ready.is_some());
        let accounted = self.departed + self.dropped + self.lost + inside;
        assert_eq!(self.entered + self.copies, accounted, "frames are conserved");
        let out = self.pool.frames() - self.pool.free();
        assert_eq!(out as u64, inside, "frames that are inside are those that are not free");
        for counters in &self.ports {
            let PortCounters { malformed, tagged, oversized, unknown_destination, no_frame, forwarded, .. } = *counters;
            let accounted = malformed + tagged + oversized + unknown_destination + no_frame + forwarded;
            assert_eq!(counters.received, accounted, "received frames are accounted for");
        }
    }

    fn sample(&mut self, now: Instant) {
        let Some(interval) = self.sample_interval else { return };
        while self.next_sample <= now {
            let at = self.next_sample;
            self.fabric.advance(at);
            for (link, queues) in self.fabric.links_now().enumerate() {
                for (queue, held) in queues.queues().enumerate().filter(|(_, queue)| queue.occupancy().packets > 0) {
                    let (link, queue, red_bytes) = (link as u32, queue as u8, held.red_bytes());
                    let Occupancy { packets, bytes } = held.occupancy();
                    self.samples.push(QueueLength { at, link, queue, packets, bytes, red_bytes });
                }
            }
            self.next_sample = at.after(interval);
        }
    }
}

/// Flips one bit behind the first `spared` bytes; where there is an IP packet, in what it carries if there is enough of
/// that, for checksums of TCP and UDP see it there.
fn corrupt(frame: &mut [u8], spared: usize, random: u64) {
    const IP_HEADER_BYTES: usize = 20;
    let carried = spared + IP_HEADER_BYTES;
    let first = if spared > 0 && frame.len() > carried { carried } else { spared.min(frame.len()) };
    let body = &mut frame[first..];
    if !body.is_empty() {
        let bit = random as usize % (body.len() * 8);
        body[bit / 8] ^= 1 << (bit % 8);
    }
}
