//! What a host knows of its link: which rate is max-min fair there, up and down, and for each flow to another host.
//!
//! Hosts tell each other this rate, the *level* of each direction of their links, in a few bytes ([`LinkReport`]). A flow whose other end has a
//! lower level cannot use more than that. A link's level is then the rate at which the flows that can use it fill the link, if each
//! of the others has what its other end says (water-filling; Charny, Clark and Jain, ICC 1995). A few reports bring all levels
//! to the max-min fair rates of a network whose bottlenecks are hosts' links. Links inside the network tell nothing: where one
//! of them is the bottleneck, levels are too high.
//!
//! A host counts the flows on its link itself, those of transports that do not bend among them. It need not measure their rates:
//! a flow that takes more than its share because others yield would look as if it had a right to that.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::time::{Instant, Span};
use crate::units::Rate;

/// A report counts for so long.
pub const REPORT_LIFE: Span = Span::from_ms(100);
/// Longest time between two reports of a host. One may be lost.
pub const LONGEST_INTERVAL: Span = Span::from_ms(50);
/// Bytes of a report.
pub const REPORT_BYTES: usize = 16;

/// The fair rates on a host's link, in bit/s: what it tells other hosts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LinkReport {
    /// On the way to the network.
    pub up: f64,
    /// On the way from it.
    pub down: f64,
}

impl LinkReport {
    /// As bytes: both rates in whole bit/s.
    pub fn encode(self) -> [u8; REPORT_BYTES] {
        let [up, down] = [self.up, self.down].map(|rate| u128::from(rate as u64));
        (up << 64 | down).to_be_bytes()
    }

    /// From bytes. Any bytes are a report; the harm of a false one is bounded ([`FairRates`]).
    pub fn decode(bytes: [u8; REPORT_BYTES]) -> Self {
        let both = u128::from_be_bytes(bytes);
        Self { up: (both >> 64) as u64 as f64, down: both as u64 as f64 }
    }
}

/// A direction of a host's link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To the network.
    Up,
    /// From it.
    Down,
}

/// Flows under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowCounts {
    /// On their way up.
    pub up: u32,
    /// On their way down.
    pub down: u32,
}

/// One host with one link, and what other hosts, which `P` names, have reported.
///
/// In each interval its driver counts the flows under way, ends the interval, sends the new [`report`](Self::report) to the hosts at the other
/// ends, and tells each flow its [fair rate](Self::fair_rate). Whatever other hosts say, no level is below an even share of the link.
#[derive(Clone, Debug)]
pub struct FairRates<P> {
    up: HostLink,
    down: HostLink,
    heard: BTreeMap<P, (LinkReport, Instant)>,
}

impl<P: Ord + Copy> FairRates<P> {
    /// A host without flows, whose link has these rates, above zero.
    pub fn new(up: Rate, down: Rate) -> Self {
        let link = |rate: Rate| HostLink::new(rate.bits_per_sec() as f64);
        Self { up: link(up), down: link(down), heard: BTreeMap::new() }
    }

    /// Another host reports. Its last report is kept until it is too old.
    pub fn hear(&mut self, now: Instant, from: P, report: LinkReport) {
        self.heard.insert(from, (report, now));
    }

    /// The last report of a host, unless it is too old.
    fn heard(&self, now: Instant, from: P) -> Option<LinkReport> {
        let (report, at) = self.heard.get(&from)?;
        (now.since(*at) <= REPORT_LIFE).then_some(*report)
    }

    /// These flows are under way to and from the host `peer`.
    pub fn count(&mut self, now: Instant, peer: P, flows: FlowCounts) {
        let heard = self.heard(now, peer).unwrap_or(LinkReport { up: f64::INFINITY, down: f64::INFINITY });
        self.count_limited(Direction::Up, heard.down, flows.up);
        self.count_limited(Direction::Down, heard.up, flows.down);
    }

    /// So many flows are under way of which each can use `limit` bit/s at the most.
    pub fn count_limited(&mut self, direction: Direction, limit: f64, flows: u32) {
        match direction {
            Direction::Up => self.up.count(limit, flows),
            Direction::Down => self.down.count(limit, flows),
        }
    }

    /// Ends an interval in which each flow was counted once, and forgets reports that are too old.
    pub fn end_interval(&mut self, now: Instant) {
        self.up.end_interval();
        self.down.end_interval();
        self.heard.retain(|_, (_, at)| now.since(*at) <= REPORT_LIFE);
    }

    /// What is fair on its link as of the last interval.
    pub const fn report(&self) -> LinkReport {
        LinkReport { up: self.up.level, down: self.down.level }
    }

    /// What is fair for a flow to the host `peer`; `None` while that is silent.
    pub fn fair_rate(&self, now: Instant, peer: P) -> Option<Rate> {
        let report = self.heard(now, peer)?;
        Some(Rate::from_bits_per_sec(self.up.level.min(report.down) as u64))
    }
}

/// One direction of a host's link, between two reports. Rates are in any one unit.
#[derive(Clone, Debug)]
struct HostLink {
    capacity: f64,
    level: f64,
    /// What flows can use at the most, in this interval, and how many of them there are.
    limits: Vec<(f64, u32)>,
}

impl HostLink {
    /// A link without flows. `capacity` is above zero.
    const fn new(capacity: f64) -> Self {
        Self { capacity, level: capacity, limits: Vec::new() }
    }

    /// Flows are open on this link of which each can use `limit` at the most; infinity if that is not known.
    fn count(&mut self, limit: f64, flows: u32) {
        if flows > 0 {
            self.limits.push((limit.max(0.0), flows));
        }
    }

    /// Ends an interval in which each flow was counted once.
    fn end_interval(&mut self) {
        self.limits.sort_unstable_by(|(one, _), (other, _)| one.total_cmp(other));
        let (mut left, mut greatest) = (self.capacity, 0.0);
        let mut waiting: u64 = self.limits.iter().map(|&(_, flows)| u64::from(flows)).sum();
        'limits: for &(limit, flows) in &self.limits {
            for _ in 0..flows {
                if limit >= left / waiting as f64 {
                    break 'limits;
                }
                left -= limit;
                greatest = limit;
                waiting -= 1;
            }
        }
        // Where no flow can fill the link, each may have what is left beside the others.
        self.level = if waiting > 0 { left / waiting as f64 } else { left + greatest };
        self.limits.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn level(capacity: f64, others: &[f64]) -> f64 {
        let mut link = HostLink::new(capacity);
        for &other in others {
            link.count(other, 1);
        }
        link.end_interval();
        link.level
    }

    /// By hand: nobody has all, three have a third each; one that can use only 1 of 10 leaves 9 for two; if all are held back
    /// elsewhere, one that is let go would have what is left with its own.
    #[test]
    fn flows_that_are_held_back_leave_the_rest() {
        assert_eq!(level(10.0, &[]), 10.0);
        assert_eq!(level(9.0, &[f64::INFINITY; 3]), 3.0);
        assert_eq!(level(10.0, &[f64::INFINITY, 1.0, 5.0]), 4.5);
        assert_eq!(level(10.0, &[1.0, 2.0]), 9.0);
        assert_eq!(level(10.0, &[-1.0, f64::NAN]), 10.0);
    }

    fn up(up: u32) -> FlowCounts {
        FlowCounts { up, ..FlowCounts::default() }
    }

    fn down(down: u32) -> FlowCounts {
        FlowCounts { down, ..FlowCounts::default() }
    }

    const fn gbit(rate: u64) -> Rate {
        Rate::from_gbit_per_sec(rate)
    }

    /// A chain: A sends to B, and so do three others; A also sends to C, alone there. B's level is a quarter, and A's the rest, after two
    /// reports.
    #[test]
    fn reports_bring_levels_to_the_max_min_rates() {
        let now = Instant::ZERO;
        let (mut a, mut b) = (FairRates::new(gbit(10), gbit(10)), FairRates::new(gbit(10), gbit(10)));
        for _ in 0..2 {
            let (of_a, of_b) = (a.report(), b.report());
            a.hear(now, 'b', of_b);
            b.hear(now, 'a', of_a);
            a.count(now, 'b', up(1));
            a.count(now, 'c', up(1));
            b.count(now, 'a', down(1));
            b.count(now, 'd', down(3));
            a.end_interval(now);
            b.end_interval(now);
        }
        a.hear(now, 'b', b.report());
        assert_eq!((a.report().up, b.report().down), (7.5e9, 2.5e9));
        assert_eq!(a.fair_rate(now, 'b'), Some(Rate::from_bits_per_sec(2_500_000_000)));
        assert_eq!(a.fair_rate(now, 'c'), None, "it was never heard");
    }

    /// A host that falls silent counts as one that said nothing, and its flows are told nothing.
    #[test]
    fn old_reports_are_forgotten() {
        let mut host = FairRates::new(gbit(10), gbit(10));
        host.hear(Instant::ZERO, 'b', LinkReport { up: 1e9, down: 1e9 });
        let level = |host: &mut FairRates<char>, now| {
            host.count(now, 'b', up(1));
            host.count(now, 'c', up(1));
            host.end_interval(now);
            (host.report().up, host.fair_rate(now, 'b').is_some())
        };
        let last = Instant::ZERO.after(REPORT_LIFE);
        assert_eq!(level(&mut host, last), (9e9, true));
        assert_eq!(level(&mut host, last.after(Span::from_us(1))), (5e9, false));
        assert!(host.heard.is_empty());
    }

    /// Flows that can use little leave the rest, counted one by one or together.
    #[test]
    fn flows_of_one_limit_count_together() {
        let mut host: FairRates<char> = FairRates::new(gbit(10), gbit(4));
        host.count_limited(Direction::Up, 0.5e9, 4);
        host.count(Instant::ZERO, 'b', up(2));
        host.count_limited(Direction::Down, f64::INFINITY, 1000);
        host.end_interval(Instant::ZERO);
        assert_eq!(host.report(), LinkReport { up: 4e9, down: 4e6 });
        assert_eq!(LinkReport::decode(host.report().encode()), host.report());
    }

    proptest! {
        /// A level is never below an even share of the link, nor above the link, whatever other ends say.
        #[test]
        fn a_lie_takes_nobody_below_an_even_share(
            capacity in 1e-3..1e12,
            others in prop::collection::vec(prop_oneof![any::<f64>(), 0.0..1e12], 1..50),
        ) {
            let level = level(capacity, &others);
            prop_assert!(level >= capacity / others.len() as f64 * (1.0 - 1e-9) && level <= capacity * (1.0 + 1e-9), "{level}");
        }

        /// Any bytes are a report, and a host that hears it tells its flows no more than its own link has.
        #[test]
        fn any_bytes_are_a_report(bytes: [u8; REPORT_BYTES]) {
            let mut host = FairRates::new(gbit(10), gbit(10));
            host.hear(Instant::ZERO, 'b', LinkReport::decode(bytes));
            host.count(Instant::ZERO, 'b', up(1));
            host.end_interval(Instant::ZERO);
            prop_assert!(host.fair_rate(Instant::ZERO, 'b').is_some_and(|rate| rate <= gbit(10)));
        }
    }
}
