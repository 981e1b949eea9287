//! Hosts that tell each other which rate is fair on their links ([`pliant_proto::host::fair_rates`]), on real networks.
//!
//! Each side of a connection counts the flows on its host's link: its own connections, those of other Pliant processes that
//! report, and the TCP connections of other programs. It sends the peer a report every so often, and tells its flows what is fair. Flows of
//! other programs that use UDP are not seen.

mod kernel_flows;
mod siblings;

use std::io;
use std::net::IpAddr;

use pliant_proto::host::fair_rates::{Direction, FairRates, FlowCounts, LinkReport};
use pliant_proto::time::{Instant, Span};
use pliant_proto::units::Rate;

use crate::connection::ConnectionId;
use kernel_flows::{KernelFlow, KernelFlows};
use siblings::Sign;

/// A TCP connection that moves less than this part of what would be fair is held back elsewhere, and counts for what it moves.
/// One that moves more may be held back by this link, and counts as a whole flow.
const MODEST: f64 = 0.1;

/// What a host tells others of its link, and what it is told.
#[derive(Debug)]
pub(crate) struct HostReports {
    interval: Span,
    next_at: Instant,
    line: Rate,
    rates: FairRates<ConnectionId>,
    kernel: KernelFlows,
    sign: Sign,
}

/// A connection of this process whose flows are under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnFlow {
    pub(crate) connection: ConnectionId,
    pub(crate) peer: IpAddr,
    pub(crate) flows: FlowCounts,
    /// What the peer reported last, and when.
    pub(crate) heard: Option<(Instant, LinkReport)>,
}

impl HostReports {
    /// A host whose link has the rate `line` in both directions, and which reports every `interval`, above zero.
    pub(crate) fn new(line: Rate, interval: Span) -> io::Result<Self> {
        let untold = |error: io::Error| {
            let why =
                format!("host reports: the kernel does not tell of this host's TCP connections (sock_diag): {error}");
            io::Error::new(error.kind(), why)
        };
        let sign = Sign::new()?;
        let (rates, kernel) = (FairRates::new(line, line), KernelFlows::watch(sign.id()).map_err(untold)?);
        Ok(Self { interval, next_at: Instant::ZERO, line, rates, kernel, sign })
    }

    /// When the next reports are due.
    pub(crate) const fn next_at(&self) -> Instant {
        self.next_at
    }

    /// Ends an interval in which `own` were under way. Calls `tell` with each connection, what its peer is to be told, and which rate is
    /// fair for what it sends, if that is known.
    pub(crate) fn exchange(
        &mut self,
        now: Instant,
        own: &[OwnFlow],
        mut tell: impl FnMut(ConnectionId, LinkReport, Option<Rate>),
    ) {
        self.next_at = now.after(self.interval);
        for flow in own {
            if let Some((at, report)) = flow.heard {
                self.rates.hear(at, flow.connection, report);
            }
            self.rates.count(now, flow.connection, flow.flows);
        }
        let counts = siblings::sum(own.iter().map(|flow| flow.flows));
        // If it fails, other processes do not see these flows, and take more.
        _ = self.sign.say(counts);
        let seen = self.kernel.newest();
        for (direction, own_flows, siblings) in
            [(Direction::Up, counts.up, seen.siblings.up), (Direction::Down, counts.down, seen.siblings.down)]
        {
            self.rates.count_limited(direction, f64::INFINITY, siblings);
            self.count_kernel(now, direction, own, own_flows.saturating_add(siblings), &seen.kernel);
        }
        self.rates.end_interval(now);
        let report = self.rates.report();
        for flow in own {
            tell(flow.connection, report, self.rates.fair_rate(now, flow.connection));
        }
    }

    /// Counts the connections of other programs, of which those that move least are first. Beside them are so many flows of Pliant; `own`
    /// are connections of this process.
    fn count_kernel(
        &mut self,
        now: Instant,
        direction: Direction,
        own: &[OwnFlow],
        beside: u32,
        kernel: &[KernelFlow],
    ) {
        let others = kernel.iter().filter(|flow| flow.direction == direction);
        let mut waiting = others.clone().count() + beside as usize;
        let mut left = self.line.bits_per_sec() as f64;
        for flow in others {
            if flow.rate < MODEST * left / waiting as f64 {
                self.rates.count_limited(direction, flow.rate, 1);
                left -= flow.rate;
                waiting -= 1;
                continue;
            }
            // The report of a peer holds for all flows between the two hosts.
            match own.iter().find(|own| own.peer == flow.peer) {
                Some(own) => self.rates.count(now, own.connection, one(direction)),
                None => self.rates.count_limited(direction, f64::INFINITY, 1),
            }
        }
    }
}

/// One flow in a direction.
fn one(direction: Direction) -> FlowCounts {
    FlowCounts { up: u32::from(direction == Direction::Up), down: u32::from(direction == Direction::Down) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Rate = Rate::from_gbit_per_sec(1);

    fn host() -> HostReports {
        HostReports::new(LINE, Span::from_ms(10)).expect("the kernel tells of connections")
    }

    fn own(connection: u32, heard: Option<LinkReport>) -> OwnFlow {
        let (connection, peer) = (ConnectionId(connection), [192, 0, 2, 1].into());
        OwnFlow { connection, peer, flows: one(Direction::Up), heard: heard.map(|report| (Instant::ZERO, report)) }
    }

    /// The fair rate up, with these connections of other programs.
    fn level(own: &[OwnFlow], kernel: &[(IpAddr, f64)]) -> f64 {
        let mut host = host();
        let flow = |&(peer, rate)| KernelFlow { direction: Direction::Up, peer, rate };
        for flow in own {
            let (at, report) = flow.heard.unwrap_or((Instant::ZERO, LinkReport { up: 1e9, down: 1e9 }));
            host.rates.hear(at, flow.connection, report);
            host.rates.count(Instant::ZERO, flow.connection, flow.flows);
        }
        host.count_kernel(
            Instant::ZERO,
            Direction::Up,
            own,
            own.len() as u32,
            &kernel.iter().map(flow).collect::<Vec<_>>(),
        );
        host.rates.end_interval(Instant::ZERO);
        host.rates.report().up
    }

    /// By hand, one own flow on a line of 1 Gbit/s: beside a connection that is squeezed to 100 Mbit/s a half is fair; one that moves
    /// 1 Mbit/s leaves the rest; a thousand of these leave what they do not use, of which the own flow and another large one have a half.
    #[test]
    fn connections_count_as_flows_unless_they_are_modest() {
        let elsewhere: IpAddr = [198, 51, 100, 9].into();
        let alone = [own(1, None)];
        assert_eq!(level(&alone, &[(elsewhere, 100e6)]), 500e6);
        assert_eq!(level(&alone, &[(elsewhere, 1e6)]), 999e6);
        let mut many = vec![(elsewhere, 0.01e6); 1000];
        many.push((elsewhere, 300e6));
        assert!((level(&alone, &many) - 495e6).abs() < 1.0);
    }

    /// A connection to a host that reports can use no more than is fair there, as the own flow to it.
    #[test]
    fn a_peer_speaks_for_all_flows_between_two_hosts() {
        let busy = LinkReport { up: 1e9, down: 100e6 };
        let flows = [own(1, Some(busy)), OwnFlow { peer: [198, 51, 100, 9].into(), ..own(2, None) }];
        assert_eq!(level(&flows, &[([192, 0, 2, 1].into(), 90e6)]), 800e6);
    }

    /// What is told: the report goes to every peer, a fair rate only to connections whose peers report.
    #[test]
    fn silent_peers_are_told_but_tell_nothing() {
        let mut host = host();
        let flows = [own(1, Some(LinkReport { up: 1e9, down: 200e6 })), own(2, None)];
        let mut told = Vec::new();
        host.exchange(Instant::ZERO, &flows, |connection, report, fair| told.push((connection, report.down, fair)));
        let fair = Some(Rate::from_bits_per_sec(200_000_000));
        assert_eq!(told, [(ConnectionId(1), 1e9, fair), (ConnectionId(2), 1e9, None)]);
        assert_eq!(host.next_at(), Instant::ZERO.after(Span::from_ms(10)));
    }
}
