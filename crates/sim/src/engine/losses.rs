//! Packets that links lose by themselves, whatever their queues hold.

use std::collections::BTreeMap;
use std::ops::Range;

use pliant_proto::packet::{Packet, TrafficClass};
use pliant_proto::rng::Stream;
use pliant_proto::switch::queue::Tally;
use pliant_proto::time::Instant;

/// What a link loses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkLoss {
    /// The link.
    pub link: u32,
    /// Which packets.
    pub kind: LossKind,
}

/// Which packets a link loses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LossKind {
    /// Each with this probability.
    Random(f64),
    /// So many in a row.
    Burst {
        /// From here on.
        at: Instant,
        /// How many.
        packets: u32,
    },
    /// Each with this probability in a stretch of time.
    Within {
        /// From here on.
        from: Instant,
        /// Before this.
        until: Instant,
        /// With which probability, in (0, 1].
        probability: f64,
    },
}

/// The losses of one link.
#[derive(Debug)]
struct OfLink {
    probability: f64,
    stream: Stream,
    bursts: Vec<(Instant, u32)>,
    /// From when, until when, with which probability.
    stretches: Vec<(Range<Instant>, f64)>,
    lost: BTreeMap<usize, Tally>,
}

impl OfLink {
    /// With which probability a packet is lost now; the greatest where several hold.
    fn probability_at(&self, now: Instant) -> f64 {
        let stretches = self.stretches.iter().filter(|(stretch, _)| stretch.contains(&now));
        stretches.map(|(_, probability)| *probability).fold(self.probability, f64::max)
    }
}

/// The losses of all links.
#[derive(Debug)]
pub(super) struct Losses(BTreeMap<u32, OfLink>);

impl Losses {
    pub(super) fn new(losses: &[LinkLoss], seed: u64) -> Self {
        let mut links = BTreeMap::new();
        for &LinkLoss { link, kind } in losses {
            let of_link = links.entry(link).or_insert_with(|| OfLink {
                probability: 0.0,
                stream: Stream::named(seed, &format!("losses/{link}")),
                bursts: Vec::new(),
                stretches: Vec::new(),
                lost: BTreeMap::new(),
            });
            match kind {
                LossKind::Random(probability) => of_link.probability = probability,
                LossKind::Burst { at, packets } => of_link.bursts.push((at, packets)),
                LossKind::Within { from, until, probability } => {
                    of_link.stretches.push((from..until, probability));
                }
            }
        }
        Self(links)
    }

    /// Whether the link loses this packet.
    #[inline]
    pub(super) fn takes(&mut self, now: Instant, link: u32, packet: &Packet) -> bool {
        !self.0.is_empty() && self.takes_from(now, link, packet)
    }

    #[cold]
    fn takes_from(&mut self, now: Instant, link: u32, packet: &Packet) -> bool {
        let Some(of_link) = self.0.get_mut(&link) else { return false };
        let burst = of_link.bursts.iter_mut().find(|(at, left)| *at <= now && *left > 0);
        let lost = if let Some((_, left)) = burst {
            *left -= 1;
            true
        } else {
            let probability = of_link.probability_at(now);
            probability > 0.0 && of_link.stream.unit() < probability
        };
        if lost {
            let sum = of_link.lost.entry(packet.traffic_class.class()).or_default();
            (sum.packets, sum.bytes) = (sum.packets + 1, sum.bytes + u64::from(packet.wire_bytes));
        }
        lost
    }

    /// Whether the link loses every packet now.
    pub(super) fn all_at(&self, now: Instant, link: u32) -> bool {
        self.0.get(&link).is_some_and(|of_link| of_link.probability_at(now) >= 1.0)
    }

    /// What a link has lost, by class.
    pub(super) fn counts(&self, link: u32) -> impl Iterator<Item = (TrafficClass, Tally)> {
        let of_link = self.0.get(&link).into_iter();
        of_link.flat_map(|of_link| of_link.lost.iter().map(|(&class, &lost)| (TrafficClass::new(class as u8), lost)))
    }
}
