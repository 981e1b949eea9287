//! Marking: which packets learn of congestion.
//!
//! Only ECN-capable packets are marked; by the same rule a Not-ECT packet is dropped (RFC 3168 section 7), unless the
//! plan lets it pass.

use alloc::boxed::Box;

use super::queue::Occupancy;
use crate::rng::Stream;
use crate::time::{Instant, Span};
use crate::units::Rate;

/// How a queue marks.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum MarkerConfig {
    /// Never.
    #[default]
    None,
    /// Every packet that finds the queue at the threshold (DCTCP, SIGCOMM 2010).
    Threshold(Threshold),
    /// With a probability that grows with the averaged queue (Floyd and Jacobson 1993).
    Red(RedConfig),
    /// By a counter that drains more slowly than the link sends (HULL, NSDI 2012, section 4.1).
    Phantom(PhantomConfig),
}

/// A hard threshold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threshold {
    /// Where it lies.
    pub level: Level,
    /// When the queue is looked at.
    pub at: MarkAt,
    /// Which queue is looked at.
    pub scope: Scope,
    /// Whether Not-ECT packets pass instead of being dropped.
    pub pass_not_ect: bool,
}

/// A queue length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Marks a packet that finds at least this many packets queued before it.
    Packets(u32),
    /// Marks a packet with which more than this many bytes are queued.
    Bytes(u64),
    /// Marks a packet with which more bytes are queued than the link sends in this time.
    Time(Span),
}

impl Level {
    /// Bytes of this level on `link`, where packets have `packet_bytes`.
    pub fn bytes(self, packet_bytes: u32, link: Rate) -> u64 {
        match self {
            Self::Packets(packets) => u64::from(packets) * u64::from(packet_bytes),
            Self::Bytes(bytes) => bytes,
            Self::Time(span) => link.bytes_in(span),
        }
    }
}

/// When a threshold is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarkAt {
    /// When the packet joins the queue.
    Enqueue,
    /// When it leaves, with the queue it leaves behind: a signal fresher by one queueing delay, but a starved queue
    /// never signals.
    Dequeue,
}

/// What counts as the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The packet's own queue.
    Queue,
    /// All queues of the port (PIAS).
    Port,
}

/// A phantom queue: what a queue would hold if the link were slower. It marks before the real queue grows, so that the
/// queue stays short and the difference between both rates stays unused.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PhantomConfig {
    /// Its rate, as a share of the link's, in (0, 1]. HULL uses 0.95.
    pub drain: f64,
    /// Where it marks, in bytes or in time of the link.
    pub level: Level,
    /// Whether Not-ECT packets pass instead of being dropped.
    pub pass_not_ect: bool,
}

/// In what RED measures its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RedUnit {
    /// Packets, as in the paper.
    Packets,
    /// Bytes, as switches have it.
    Bytes,
    /// Seconds in which the link sends the bytes of the queue.
    Seconds,
}

impl RedUnit {
    /// How many bytes a length of one is on `link`, where packets have `packet_bytes`.
    pub fn bytes(self, packet_bytes: u32, link: Rate) -> f64 {
        match self {
            Self::Packets => f64::from(packet_bytes),
            Self::Bytes => 1.0,
            Self::Seconds => link.bits_per_sec() as f64 / 8.0,
        }
    }
}

/// Random early detection.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RedConfig {
    /// Marking begins at this average queue, in `unit`.
    pub min: f64,
    /// Marking probability reaches `max_probability` at this average queue, in `unit`.
    pub max: f64,
    /// In what the queue is measured.
    pub unit: RedUnit,
    /// See `max`, in (0, 1].
    pub max_probability: f64,
    /// Weight of the instantaneous queue in the average, in (0, 1].
    pub weight: f64,
    /// Between max and twice max the probability rises to 1 instead of jumping there.
    pub gentle: bool,
    /// Above max (gentle: twice max) ECT packets are dropped too, not marked.
    pub hard_drop: bool,
    /// Time to transmit one mean packet, by which the average decays while the queue is idle.
    pub mean_packet_time: Span,
    /// Spreads marks evenly: the probability grows with the packets since the last one. Without it each packet is judged
    /// by itself.
    pub spread: bool,
    /// With `spread`: marks are 1/p to 2/p packets apart, not 1 to 1/p (`wait_` of ns-2, `Wait` of ns-3).
    pub wait: bool,
    /// A packet that finds at most one queued passes, and the spacing of marks starts over with it, whatever the average is,
    /// as in ns-2 and ns-3; the paper does not say so.
    pub spares_short: bool,
}

impl RedConfig {
    /// [`min`](Self::min) and [`max`](Self::max) in bytes, on `link` with packets of `packet_bytes`.
    pub fn bytes(&self, packet_bytes: u32, link: Rate) -> (u64, u64) {
        let one = self.unit.bytes(packet_bytes, link);
        let whole = |length: f64| libm::round(length * one) as u64;
        (whole(self.min), whole(self.max))
    }

    /// Whether a packet is judged by the queue it finds and nothing else.
    fn is_instantaneous(&self) -> bool {
        self.weight == 1.0 && !self.spread && !self.spares_short
    }
}

impl MarkerConfig {
    /// Checks ranges.
    pub fn check(&self) -> Result<(), &'static str> {
        let unit = |value: f64| value > 0.0 && value <= 1.0;
        match self {
            Self::Threshold(Threshold { level: Level::Packets(0), .. }) => {
                Err("a marking threshold of 0 packets marks all")
            }
            Self::Threshold(Threshold { level: Level::Time(Span::ZERO), .. }) => {
                Err("a marking threshold of no time marks all")
            }
            Self::Phantom(phantom) if !unit(phantom.drain) => Err("a phantom queue's drain must lie in (0, 1]"),
            Self::Phantom(PhantomConfig { level: Level::Packets(_), .. }) => {
                Err("a phantom queue counts bytes: its threshold is in bytes or in time")
            }
            Self::Red(red) if !(red.min >= 0.0 && red.max >= red.min) => Err("RED needs 0 <= min <= max"),
            Self::Red(red) if !unit(red.max_probability) => Err("RED's max_probability must lie in (0, 1]"),
            Self::Red(red) if !unit(red.weight) => Err("RED's weight must lie in (0, 1]"),
            Self::Red(red) if red.wait && !red.spread => Err("RED's wait needs spread"),
            _ => Ok(()),
        }
    }
}

impl MarkerConfig {
    /// A packet that finds fewer packets queued than this is surely not marked; zero if their number does not tell.
    pub(super) fn unmarked_below(&self) -> u32 {
        match *self {
            Self::None | Self::Threshold(Threshold { at: MarkAt::Dequeue, .. }) => u32::MAX,
            Self::Threshold(Threshold { scope: Scope::Queue, level: Level::Packets(packets), .. }) => packets,
            Self::Red(red) if red.is_instantaneous() && red.unit == RedUnit::Packets => libm::ceil(red.min) as u32,
            Self::Threshold(_) | Self::Red(_) | Self::Phantom(_) => 0,
        }
    }
}

impl MarkerConfig {
    /// The least queue that may be marked, if any. `packet` is what a packet weighs, in bytes, where that is in packets and
    /// not whole.
    pub fn lowest(&self, packet: u32) -> Option<Level> {
        match *self {
            Self::None => None,
            Self::Threshold(threshold) => Some(threshold.level),
            Self::Red(red) => Some(match red.unit {
                RedUnit::Packets => Level::Bytes(libm::round(red.min * f64::from(packet)) as u64),
                RedUnit::Bytes => Level::Bytes(red.min as u64),
                RedUnit::Seconds => Level::Time(Span::from_ps(libm::round(red.min * 1e12) as u64)),
            }),
            Self::Phantom(phantom) => Some(phantom.level),
        }
    }
}

impl MarkerConfig {
    /// The largest packet, in bytes, that is surely not marked where nothing else is queued for `link`.
    pub(super) fn unmarked_alone(&self, link: Rate) -> u64 {
        match *self {
            Self::None | Self::Threshold(Threshold { at: MarkAt::Dequeue, .. }) => u64::MAX,
            Self::Threshold(Threshold { level: Level::Packets(0), .. }) => 0,
            Self::Threshold(Threshold { level: Level::Packets(_), .. }) => u64::MAX,
            Self::Threshold(Threshold { level, .. }) => level.bytes(0, link),
            Self::Red(_) if self.unmarked_below() > 0 => u64::MAX,
            Self::Red(_) | Self::Phantom(_) => 0,
        }
    }
}

/// What a marker asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Pass,
    Mark,
    Drop,
}

/// A marker with its state.
#[derive(Clone, Debug)]
pub(super) enum Marker {
    None,
    Threshold(Step),
    Red(Box<Red>),
    Phantom(Box<Phantom>),
}

impl Marker {
    /// A marker of a queue for `link`.
    pub(super) fn new(config: &MarkerConfig, link: Rate, stream: impl FnOnce() -> Stream) -> Self {
        match *config {
            MarkerConfig::None => Self::None,
            MarkerConfig::Threshold(threshold) => Self::Threshold(Step::new(threshold, link)),
            MarkerConfig::Red(config) => Self::Red(Box::new(Red::new(config, link, stream()))),
            MarkerConfig::Phantom(config) => Self::Phantom(Box::new(Phantom::new(config, link))),
        }
    }

    /// Judges a packet of `bytes` that joins a queue with `queue` before it, on a port with `port` queued.
    #[inline]
    pub(super) fn on_enqueue(
        &mut self,
        now: Instant,
        bytes: u32,
        ect: bool,
        queue: Occupancy,
        port: Occupancy,
    ) -> Verdict {
        match self {
            Self::Threshold(step) if step.at == MarkAt::Enqueue => step.judge(bytes, ect, queue, port),
            Self::None | Self::Threshold(_) => Verdict::Pass,
            Self::Red(red) => red.judge(now, ect, queue),
            Self::Phantom(phantom) => phantom.judge(now, bytes, ect),
        }
    }

    /// Whether a packet that leaves `queue` behind is marked. A packet that was admitted is not dropped here.
    #[inline]
    pub(super) fn marks_on_dequeue(&self, ect: bool, queue: Occupancy, port: Occupancy) -> bool {
        match self {
            Self::Threshold(step) if step.at == MarkAt::Dequeue => {
                ect && step.judge(0, true, queue, port) == Verdict::Mark
            }
            _ => false,
        }
    }

    /// Whether it has to hear of departures: [`Self::marks_on_dequeue`] may be true, or [`Self::on_emptied`] has an effect.
    #[inline]
    pub(super) fn acts_on_dequeue(&self) -> bool {
        matches!(self, Self::Threshold(Step { at: MarkAt::Dequeue, .. }) | Self::Red(_))
    }

    /// A packet of `bytes` starts now and leaves nothing queued behind it.
    #[inline]
    pub(super) fn on_emptied(&mut self, now: Instant, bytes: u64) {
        if let Self::Red(red) = self {
            red.on_emptied(now, bytes);
        }
    }
}

/// A threshold at one link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Marks a packet that finds so many; `u32::MAX` for never.
    packets: u32,
    /// Marks a packet with which more bytes are queued; `u64::MAX` for never.
    bytes: u64,
    at: MarkAt,
    scope: Scope,
    pass_not_ect: bool,
}

impl Step {
    fn new(Threshold { level, at, scope, pass_not_ect }: Threshold, link: Rate) -> Self {
        let (packets, bytes) = match level {
            Level::Packets(packets) => (packets, u64::MAX),
            Level::Bytes(_) | Level::Time(_) => (u32::MAX, level.bytes(0, link)),
        };
        Self { packets, bytes, at, scope, pass_not_ect }
    }

    #[inline]
    fn judge(&self, bytes: u32, ect: bool, queue: Occupancy, port: Occupancy) -> Verdict {
        let seen = if self.scope == Scope::Queue { queue } else { port };
        let above = seen.packets >= self.packets || seen.bytes + u64::from(bytes) > self.bytes;
        verdict(above, ect, self.pass_not_ect)
    }
}

fn verdict(above: bool, ect: bool, pass_not_ect: bool) -> Verdict {
    match above {
        true if ect => Verdict::Mark,
        true if !pass_not_ect => Verdict::Drop,
        _ => Verdict::Pass,
    }
}

/// The counter of a phantom queue. A byte is [`BYTE`] units, and so many bits per second drain so many units in a picosecond.
#[derive(Clone, Debug)]
pub(super) struct Phantom {
    bits_per_sec: u64,
    level: u128,
    queued: u128,
    updated: Instant,
    pass_not_ect: bool,
}

/// Units of a byte.
const BYTE: u128 = 8_000_000_000_000;

impl Phantom {
    fn new(PhantomConfig { drain, level, pass_not_ect }: PhantomConfig, link: Rate) -> Self {
        let bits_per_sec = (link.bits_per_sec() as f64 * drain) as u64;
        let level = u128::from(level.bytes(0, link)) * BYTE;
        Self { bits_per_sec, level, queued: 0, updated: Instant::ZERO, pass_not_ect }
    }

    /// A packet that is dropped here never leaves, and is not counted.
    fn judge(&mut self, now: Instant, bytes: u32, ect: bool) -> Verdict {
        let drained = u128::from(now.since(self.updated).as_ps()) * u128::from(self.bits_per_sec);
        self.updated = now;
        let rest = self.queued.saturating_sub(drained);
        let queued = rest + u128::from(bytes) * BYTE;
        let verdict = verdict(queued > self.level, ect, self.pass_not_ect);
        self.queued = if verdict == Verdict::Drop { rest } else { queued };
        verdict
    }
}

/// RED's average and spreading of marks.
#[derive(Clone, Debug)]
pub(super) struct Red {
    config: RedConfig,
    /// The thresholds, in packets or in bytes.
    min: f64,
    max: f64,
    counts_bytes: bool,
    average: f64,
    /// Packets since the last mark; -1 below min.
    count: i64,
    link: Rate,
    /// When the last packet had left the link, or will have; while something is queued, when that was last so.
    idle_since: Instant,
    stream: Stream,
}

impl Red {
    fn new(config: RedConfig, link: Rate, stream: Stream) -> Self {
        let counts_bytes = config.unit != RedUnit::Packets;
        let one = if counts_bytes { config.unit.bytes(0, link) } else { 1.0 };
        let (min, max) = (config.min * one, config.max * one);
        Self { config, min, max, counts_bytes, average: 0.0, count: -1, link, idle_since: Instant::ZERO, stream }
    }

    /// Idle time begins when the link is free, as in ns-2 and ns-3: until then the last packet is served.
    #[cold]
    fn on_emptied(&mut self, now: Instant, bytes: u64) {
        self.idle_since = now.after(self.link.time_for(bytes));
    }

    fn judge(&mut self, now: Instant, ect: bool, queue: Occupancy) -> Verdict {
        self.update_average(now, queue);
        let RedConfig { max_probability, gentle, hard_drop, .. } = self.config;
        let (min, max) = (self.min, self.max);
        let ceiling = if gentle { 2.0 * max } else { max };
        let spares = self.config.spares_short;
        if self.average < min || spares && queue.packets <= 1 {
            self.count = -1;
            return Verdict::Pass;
        }
        let starts_over = self.count < 0;
        self.count += 1;
        if self.average >= ceiling {
            self.count = 0;
            return if ect && !hard_drop { Verdict::Mark } else { Verdict::Drop };
        }
        if spares && starts_over {
            self.count = 1;
            return Verdict::Pass;
        }
        let base = if self.average < max {
            max_probability * (self.average - min) / (max - min)
        } else {
            max_probability + (1.0 - max_probability) * (self.average - max) / max
        };
        let probability = if self.config.spread { self.spread(base) } else { base };
        if self.stream.unit() >= probability {
            return Verdict::Pass;
        }
        self.count = 0;
        if ect { Verdict::Mark } else { Verdict::Drop }
    }

    /// The probability that makes the packets between two marks uniform.
    fn spread(&self, base: f64) -> f64 {
        let due = self.count as f64 * base;
        let rest = if self.config.wait { 2.0 - due } else { 1.0 - due };
        match (self.config.wait && due < 1.0, rest > 0.0) {
            (true, _) => 0.0,
            (false, true) => base / rest,
            (false, false) => 1.0,
        }
    }

    /// A packet that finds the queue empty counts for those that the link could have sent since it was idle, and for
    /// itself.
    fn update_average(&mut self, now: Instant, queue: Occupancy) {
        let w = self.config.weight;
        if queue.packets == 0 && now > self.idle_since {
            let idle = now.since(self.idle_since);
            let packets = idle.as_secs_f64() / self.config.mean_packet_time.as_secs_f64().max(1e-12);
            self.average *= libm::pow(1.0 - w, packets);
            // What is dropped here leaves the queue empty, and this time is over.
            self.idle_since = now;
        }
        let queued = if self.counts_bytes { queue.bytes as f64 } else { f64::from(queue.packets) };
        self.average += w * (queued - self.average);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn occupancy(packets: u32) -> Occupancy {
        Occupancy { packets, bytes: u64::from(packets) * 1500 }
    }

    const LINK: Rate = Rate::from_gbit_per_sec(10);

    fn step(threshold: Threshold) -> Step {
        Step::new(threshold, LINK)
    }

    fn red(config: RedConfig) -> Red {
        Red::new(config, LINK, Stream::named(1, "red"))
    }

    const RED: RedConfig = RedConfig {
        min: 5.0,
        max: 15.0,
        unit: RedUnit::Packets,
        max_probability: 0.1,
        weight: 0.002,
        gentle: false,
        hard_drop: false,
        mean_packet_time: Span::from_ns(1200),
        spread: true,
        wait: false,
        spares_short: false,
    };

    /// ATP's tiny queues: the instantaneous queue q decides, p = (q - 1) / 4 between 1 and 5 packets, each packet by
    /// itself. ns-2's defaults (weight 0.002) would not notice a queue of five packets.
    #[test]
    fn instantaneous_red_is_linear_in_the_queue() {
        let config = RedConfig { min: 1.0, max: 5.0, max_probability: 1.0, weight: 1.0, ..RED };
        let mut red = red(RedConfig { spread: false, ..config });
        for packets in 0..=6 {
            let drops = (0..20_000).filter(|_| red.judge(Instant::ZERO, false, occupancy(packets)) == Verdict::Drop);
            let (share, expected) =
                (drops.count() as f64 / 20_000.0, f64::from(packets.saturating_sub(1).min(4)) / 4.0);
            assert!((share - expected).abs() < 0.01, "{share} of packets that find {packets}");
        }
    }

    /// 10 Gbit/s sends 12,500 bytes in 10 us. Thresholds in bytes, and in the time of those bytes, judge as thresholds in
    /// packets of 1250 bytes do.
    #[test]
    fn thresholds_in_bytes_and_in_time_are_those_in_packets() {
        let in_packets = RedConfig { min: 5.0, max: 15.0, weight: 0.5, gentle: true, ..RED };
        let in_bytes = RedConfig { min: 6250.0, max: 18_750.0, unit: RedUnit::Bytes, ..in_packets };
        let in_time = RedConfig { min: 5e-6, max: 15e-6, unit: RedUnit::Seconds, ..in_packets };
        for config in [in_packets, in_bytes, in_time] {
            assert_eq!(config.bytes(1250, LINK), (6250, 18_750));
        }
        let mut reds = [in_packets, in_bytes, in_time].map(red);
        let mut marks = 0;
        for step in 0..2000 {
            let packets = step % 40;
            let queue = Occupancy { packets, bytes: u64::from(packets) * 1250 };
            let verdicts = reds.each_mut().map(|red| red.judge(Instant::ZERO, true, queue));
            assert_eq!(verdicts, [verdicts[0]; 3], "after {step}");
            marks += u32::from(verdicts[0] == Verdict::Mark);
        }
        assert!((500..1500).contains(&marks), "{marks}");
    }

    /// DCTCP's marking is RED with min = max = K and weight 1: marks iff the queue before the packet is at least K.
    #[test]
    fn red_with_min_max_k_is_the_threshold() {
        let mut red = red(RedConfig { min: 65.0, max: 65.0, max_probability: 1.0, weight: 1.0, ..RED });
        let threshold =
            Threshold { level: Level::Packets(65), at: MarkAt::Enqueue, scope: Scope::Queue, pass_not_ect: false };
        for packets in [0, 64, 65, 66, 64, 200] {
            let expected = step(threshold).judge(1500, true, occupancy(packets), occupancy(0));
            assert_eq!(red.judge(Instant::ZERO, true, occupancy(packets)), expected, "{packets} queued");
        }
    }

    /// The average follows avg += w (q - avg). At a constant p the gaps between marks are uniform over 1 .. 1/p - 1: the
    /// published pseudo-code counts a packet before it judges it (Floyd and Jacobson 1993, figure 2).
    #[test]
    fn red_averages_and_spreads() {
        let mut red = red(RED);
        for _ in 0..3 {
            red.judge(Instant::ZERO, true, occupancy(10));
        }
        assert!((red.average - 10.0 * (1.0 - 0.998f64.powi(3))).abs() < 1e-12);
        red.average = 10.0;
        red.config.weight = 1e-12;
        let marks = (0..100_000).filter(|_| red.judge(Instant::ZERO, true, occupancy(10)) == Verdict::Mark).count();
        let gap = 100_000.0 / marks as f64;
        assert!((gap - 10.0).abs() < 0.2, "p = 0.05: mean of 1..=19 is 10, got {gap}");
    }

    /// ns-2's `wait_` and ns-3's `Wait`: at a constant p the gaps are uniform over 1/p .. 2/p - 1, here 20 to 39.
    #[test]
    fn red_that_waits_spreads_further() {
        let mut red = red(RedConfig { wait: true, weight: 1e-12, ..RED });
        red.average = 10.0;
        let (mut gaps, mut gap) = (Vec::new(), 0);
        for _ in 0..100_000 {
            gap += 1;
            if red.judge(Instant::ZERO, true, occupancy(10)) == Verdict::Mark {
                gaps.push(gap);
                gap = 0;
            }
        }
        // The first packet of all counts as 0.
        let (least, most) = (gaps.iter().skip(1).min(), gaps.iter().skip(1).max());
        assert_eq!((least, most), (Some(&20), Some(&39)));
        let mean = 100_000.0 / gaps.len() as f64;
        assert!((mean - 29.5).abs() < 0.3, "{mean}");
        let alone = RedConfig { wait: true, spread: false, ..RED };
        assert_eq!(MarkerConfig::Red(alone).check(), Err("RED's wait needs spread"));
    }

    /// ns-2's condition `qlen > 1` and its `old`, by hand: at p = 1/2 and an average between min and max, packets that find one
    /// queued pass; of those after them that find more the first passes, and the second, for which count is 2, is marked.
    #[test]
    fn short_queues_are_spared_where_asked_for() {
        let config = RedConfig { max_probability: 1.0, weight: 1e-12, spares_short: true, ..RED };
        let found = [1, 1, 10, 10, 1, 10, 10];
        let mut marked = [0; 7];
        for seed in 0..200 {
            let mut red = Red::new(config, LINK, Stream::named(seed, "red"));
            red.average = 10.0;
            for (packets, marked) in found.into_iter().zip(&mut marked) {
                *marked += i32::from(red.judge(Instant::ZERO, true, occupancy(packets)) == Verdict::Mark);
            }
        }
        assert_eq!(marked, [0, 0, 0, 200, 0, 0, 200]);
    }

    #[test]
    fn not_ect_is_dropped_where_ect_is_marked() {
        let base =
            Threshold { level: Level::Packets(3), at: MarkAt::Enqueue, scope: Scope::Queue, pass_not_ect: false };
        assert_eq!(step(base).judge(1, false, occupancy(3), occupancy(3)), Verdict::Drop);
        let pass = Threshold { pass_not_ect: true, ..base };
        assert_eq!(step(pass).judge(1, false, occupancy(3), occupancy(3)), Verdict::Pass);
        let port = Threshold { scope: Scope::Port, ..base };
        assert_eq!(step(port).judge(1, true, occupancy(0), occupancy(3)), Verdict::Mark);
        let bytes = Threshold { level: Level::Bytes(3000), ..base };
        assert_eq!(step(bytes).judge(1500, true, occupancy(1), occupancy(1)), Verdict::Pass);
        assert_eq!(step(bytes).judge(1501, true, occupancy(1), occupancy(1)), Verdict::Mark);
    }

    /// At 0.8 of 10 Gbit/s, 1000 bytes drain in a microsecond. What comes at that rate never queues; what comes at the
    /// link's own rate, 1250 bytes in a microsecond, gains 250 on it with each packet, and is marked beyond 2000 with the
    /// fifth, whatever the real queue holds.
    #[test]
    fn a_phantom_queue_marks_what_outruns_its_drain() {
        let config = PhantomConfig { drain: 0.8, level: Level::Bytes(2000), pass_not_ect: false };
        assert_eq!(MarkerConfig::Phantom(config).check(), Ok(()));
        let at = |us: u64| Instant::ZERO.after(Span::from_us(us));
        let verdicts = |bytes: u32| -> Vec<bool> {
            let mut phantom = Phantom::new(config, LINK);
            (1..=8).map(|us| phantom.judge(at(us), bytes, true) == Verdict::Mark).collect()
        };
        assert_eq!(verdicts(1000), [false; 8]);
        assert_eq!(verdicts(1250), [false, false, false, false, true, true, true, true]);
        let in_time = PhantomConfig { level: Level::Time(Span::from_ns(1600)), ..config };
        assert_eq!(Phantom::new(in_time, LINK).level, Phantom::new(config, LINK).level);
    }

    /// Not-ECT packets are dropped where others are marked, and do not count then; or pass, and do.
    #[test]
    fn a_phantom_queue_counts_what_leaves() {
        for (pass_not_ect, expected) in [(false, Verdict::Pass), (true, Verdict::Mark)] {
            let config = PhantomConfig { drain: 1.0, level: Level::Bytes(2000), pass_not_ect };
            let mut phantom = Phantom::new(config, LINK);
            phantom.judge(Instant::ZERO, 1500, true);
            let not_ect = phantom.judge(Instant::ZERO, 501, false);
            assert_eq!(not_ect, if pass_not_ect { Verdict::Pass } else { Verdict::Drop });
            assert_eq!(phantom.judge(Instant::ZERO, 500, true), expected);
        }
    }

    #[test]
    fn ranges_of_phantom_queues() {
        let config = PhantomConfig { drain: 1.0, level: Level::Bytes(0), pass_not_ect: true };
        for (drain, level) in
            [(0.0, config.level), (1.01, config.level), (f64::NAN, config.level), (1.0, Level::Packets(1))]
        {
            assert!(
                MarkerConfig::Phantom(PhantomConfig { drain, level, ..config }).check().is_err(),
                "{drain} {level:?}"
            );
        }
        let marker = MarkerConfig::Phantom(config);
        assert_eq!((marker.check(), marker.unmarked_below(), marker.unmarked_alone(LINK)), (Ok(()), 0, 0));
    }

    /// 2.4 us of 10 Gbit/s are 3000 bytes, of 100 Gbit/s 30 000.
    #[test]
    fn a_threshold_in_time_is_one_in_bytes_at_each_link() {
        let level = Level::Time(Span::from_ns(2400));
        let threshold = Threshold { level, at: MarkAt::Enqueue, scope: Scope::Queue, pass_not_ect: false };
        for (gbit, most) in [(10, 1500), (100, 28_500)] {
            let link = Rate::from_gbit_per_sec(gbit);
            assert_eq!(level.bytes(1538, link), most + 1500);
            let step = Step::new(threshold, link);
            assert_eq!(step.judge(most as u32, true, occupancy(1), occupancy(1)), Verdict::Pass);
            assert_eq!(step.judge(most as u32 + 1, true, occupancy(1), occupancy(1)), Verdict::Mark);
            assert_eq!(MarkerConfig::Threshold(threshold).unmarked_alone(link), most + 1500);
        }
        let never = MarkerConfig::Threshold(Threshold { level: Level::Time(Span::ZERO), ..threshold });
        assert_eq!(never.check(), Err("a marking threshold of no time marks all"));
        assert_eq!(MarkerConfig::Threshold(threshold).check(), Ok(()));
    }

    /// What a queue may skip (`Queue::admit`): below so many packets, or with so many bytes alone, no marker of this kind
    /// marks. 65 packets are DCTCP's threshold at 10 Gbit/s.
    #[test]
    fn lengths_that_cannot_be_marked_are_known() {
        let threshold =
            Threshold { level: Level::Packets(65), at: MarkAt::Enqueue, scope: Scope::Queue, pass_not_ect: false };
        let instantaneous = RedConfig { min: 1.5, weight: 1.0, spread: false, ..RED };
        for (marker, below, alone) in [
            (MarkerConfig::None, u32::MAX, u64::MAX),
            (MarkerConfig::Threshold(threshold), 65, u64::MAX),
            (MarkerConfig::Threshold(Threshold { scope: Scope::Port, ..threshold }), 0, u64::MAX),
            (MarkerConfig::Threshold(Threshold { level: Level::Bytes(3000), ..threshold }), 0, 3000),
            (MarkerConfig::Threshold(Threshold { level: Level::Packets(0), ..threshold }), 0, 0),
            (MarkerConfig::Threshold(Threshold { at: MarkAt::Dequeue, ..threshold }), u32::MAX, u64::MAX),
            (MarkerConfig::Red(instantaneous), 2, u64::MAX),
            (MarkerConfig::Red(RedConfig { min: 0.0, ..instantaneous }), 0, 0),
            (MarkerConfig::Red(RedConfig { unit: RedUnit::Bytes, ..instantaneous }), 0, 0),
            (MarkerConfig::Red(RedConfig { spread: true, ..instantaneous }), 0, 0),
            (MarkerConfig::Red(RedConfig { weight: 0.5, ..instantaneous }), 0, 0),
            (MarkerConfig::Red(RED), 0, 0),
        ] {
            assert_eq!((marker.unmarked_below(), marker.unmarked_alone(LINK)), (below, alone), "{marker:?}");
        }
    }

    #[test]
    fn ranges_are_checked_at_their_ends() {
        type Change = fn(&mut RedConfig);
        let check = |change: Change| {
            let mut config = RED;
            change(&mut config);
            MarkerConfig::Red(config).check()
        };
        let allowed: [Change; 5] = [
            |red| red.min = 0.0,
            |red| red.min = red.max,
            |red| red.max_probability = 1.0,
            |red| red.weight = 1.0,
            |red| red.weight = 1e-9,
        ];
        for change in allowed {
            assert_eq!(check(change), Ok(()));
        }
        let refused: [(Change, &str); 9] = [
            (|red| red.min = -1.0, "min"),
            (|red| red.min = red.max + 1.0, "min"),
            (|red| red.max = f64::NAN, "min"),
            (|red| red.max_probability = 0.0, "max_probability"),
            (|red| red.max_probability = 1.1, "max_probability"),
            (|red| red.max_probability = -0.1, "max_probability"),
            (|red| red.weight = 0.0, "weight"),
            (|red| red.weight = 1.1, "weight"),
            (|red| red.weight = -0.1, "weight"),
        ];
        for (change, word) in refused {
            assert!(check(change).unwrap_err().contains(word), "{word}");
        }
        let threshold = |level| {
            let (at, scope) = (MarkAt::Enqueue, Scope::Queue);
            MarkerConfig::Threshold(Threshold { level, at, scope, pass_not_ect: false }).check()
        };
        assert_eq!((threshold(Level::Packets(1)), threshold(Level::Bytes(0))), (Ok(()), Ok(())));
        assert!(threshold(Level::Packets(0)).is_err());
    }

    /// A threshold acts at one end of the queue: where it says. What leaves is judged by what it leaves behind.
    #[test]
    fn thresholds_act_where_they_say() {
        let at = |at| Threshold { level: Level::Packets(3), at, scope: Scope::Queue, pass_not_ect: false };
        for (place, arriving, leaving) in
            [(MarkAt::Enqueue, Verdict::Mark, false), (MarkAt::Dequeue, Verdict::Pass, true)]
        {
            let mut marker =
                Marker::new(&MarkerConfig::Threshold(at(place)), LINK, || unreachable!("thresholds do not draw"));
            assert_eq!(marker.on_enqueue(Instant::ZERO, 1, true, occupancy(3), occupancy(3)), arriving);
            assert_eq!(marker.on_enqueue(Instant::ZERO, 1, true, occupancy(2), occupancy(3)), Verdict::Pass);
            assert_eq!(marker.marks_on_dequeue(true, occupancy(3), occupancy(3)), leaving);
            assert!(!marker.marks_on_dequeue(true, occupancy(2), occupancy(3)));
            assert!(!marker.marks_on_dequeue(false, occupancy(3), occupancy(3)), "what cannot be marked");
            assert_eq!(marker.acts_on_dequeue(), leaving);
        }
    }

    /// Gentle RED: above max the probability rises linearly to 1 at twice max. With max_p = 0.1 between 5 and 15 packets:
    /// 0.05 at 10, 0.1 + 0.9 / 3 at 20, certain from 30 on. Where min = max it begins at max_p.
    #[test]
    fn gentle_red_rises_to_one_at_twice_max() {
        let config = RedConfig { weight: 1.0, spread: false, gentle: true, ..RED };
        let edge = RedConfig { min: 15.0, ..config };
        for (config, packets, expected) in [
            (config, 4, 0.0),
            (config, 10, 0.05),
            (config, 15, 0.1),
            (config, 20, 0.4),
            (config, 29, 0.94),
            (config, 30, 1.0),
            (edge, 14, 0.0),
            (edge, 15, 0.1),
        ] {
            let mut red = red(config);
            let marks = (0..20_000).filter(|_| red.judge(Instant::ZERO, true, occupancy(packets)) == Verdict::Mark);
            let share = marks.count() as f64 / 20_000.0;
            assert!((share - expected).abs() < 0.01, "{share} of packets that find {packets}, not {expected}");
        }
    }

    /// Beyond the ceiling packets that can be marked are marked, or dropped where that is asked for.
    #[test]
    fn hard_red_drops_above_its_ceiling() {
        for (hard_drop, verdict) in [(false, Verdict::Mark), (true, Verdict::Drop)] {
            let mut red = red(RedConfig { weight: 1.0, hard_drop, ..RED });
            assert_eq!(red.judge(Instant::ZERO, true, occupancy(15)), verdict);
            assert_eq!(red.judge(Instant::ZERO, false, occupancy(15)), Verdict::Drop);
        }
    }

    /// While the queue is idle the average decays as if so many mean packets had found it empty: after m of them it is
    /// (1 - w)^m of what it was (Floyd and Jacobson 1993, section 4). Idle time begins when the link has sent the last packet,
    /// here of 1500 bytes in 1200 ns; time in which something is queued or sent changes nothing.
    #[test]
    fn the_average_decays_while_idle() {
        let mut red = red(RedConfig { weight: 0.5, max: 1e9, ..RED });
        let after = |packets: u64| Instant::ZERO.after(Span::from_ns(1200 * packets));
        for (at, queued, average) in [(0, 8, 4.0), (5, 4, 4.0)] {
            red.update_average(after(at), occupancy(queued));
            assert_eq!(red.average, average, "after {at}");
        }
        red.on_emptied(after(7), 1500);
        for (at, queued, average) in [
            (7, 0, 2.0),        // the link sends: a packet that finds 0
            (8, 0, 1.0),        // it is free just now
            (10, 0, 0.125),     // 1 / 4, then halfway to 0
            (11, 0, 0.03125),   // that one was dropped: 0.125 / 2, then halfway to 0
            (100, 4, 2.015625), // something is queued: halfway to 4
        ] {
            red.update_average(after(at), occupancy(queued));
            assert!((red.average - average).abs() < 1e-12, "{} after {at}", red.average);
        }
    }

    /// With p_b = 1/2 at least every second packet is marked: of those that come first after the average was below min,
    /// half, and every second one if the first was not.
    #[test]
    fn spreading_starts_over_below_min() {
        let config = RedConfig { min: 5.0, max: 15.0, max_probability: 1.0, weight: 1.0, ..RED };
        let mut first_marked = 0;
        for seed in 0..1000 {
            let mut red = Red::new(config, LINK, Stream::named(seed, "red"));
            (0..5).for_each(|_| _ = red.judge(Instant::ZERO, true, occupancy(10)));
            assert_eq!(red.judge(Instant::ZERO, true, occupancy(1)), Verdict::Pass);
            let [first, second] = [(); 2].map(|()| red.judge(Instant::ZERO, true, occupancy(10)) == Verdict::Mark);
            first_marked += u32::from(first);
            assert!(first || second, "seed {seed}");
        }
        assert!(first_marked.abs_diff(500) < 60, "{first_marked} of 1000");
    }
}
