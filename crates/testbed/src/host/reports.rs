//! What hosts tell each other of their links, on a port of its own, so that flows carry nothing more than in the simulator.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use pliant_proto::host::fair_rates::{FairRates, FlowCounts, LinkReport, REPORT_BYTES};
use pliant_proto::packet::TrafficClass;
use pliant_proto::time::{Instant, Span};
use pliant_proto::units::Rate;
use rustix::net::sockopt::set_ip_tos;

use crate::network::REPORT_PORT;

/// This host's reports, and those of the hosts that it has flows with.
pub(super) struct Reports {
    interval: Span,
    next_at: Instant,
    socket: UdpSocket,
    rates: FairRates<u32>,
    addresses: Vec<Ipv4Addr>,
    numbers: HashMap<Ipv4Addr, u32>,
}

impl Reports {
    /// Of the host at `address`, whose links have the rate `link` together. Reports are sent every `interval` in `class` to the hosts that have
    /// `addresses`, by number.
    pub(super) fn bind(
        address: Ipv4Addr,
        addresses: &[Ipv4Addr],
        link: Rate,
        interval: Span,
        class: u8,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind(SocketAddrV4::new(address, REPORT_PORT))?;
        socket.set_nonblocking(true)?;
        set_ip_tos(&socket, TrafficClass::new(class).octet())?;
        Ok(Self {
            interval,
            next_at: Instant::ZERO,
            socket,
            rates: FairRates::new(link, link),
            addresses: addresses.to_vec(),
            numbers: (0..).zip(addresses).map(|(number, address)| (*address, number)).collect(),
        })
    }

    /// When the next reports are due.
    pub(super) const fn next_at(&self) -> Instant {
        self.next_at
    }

    /// Ends an interval with these flows under way, by the host at the other end.
    pub(super) fn exchange(&mut self, now: Instant, flows: &BTreeMap<u32, FlowCounts>) -> io::Result<()> {
        self.next_at = now.after(self.interval);
        self.hear(now)?;
        for (&peer, &counts) in flows {
            self.rates.count(now, peer, counts);
        }
        self.rates.end_interval(now);
        let report = self.rates.report().encode();
        for &peer in flows.keys() {
            // A report that is lost is followed by the next.
            _ = self.socket.send_to(&report, (self.addresses[peer as usize], REPORT_PORT));
        }
        Ok(())
    }

    /// What is fair for a flow to a host, if that is known.
    pub(super) fn fair_rate(&self, now: Instant, peer: u32) -> Option<Rate> {
        self.rates.fair_rate(now, peer)
    }

    fn hear(&mut self, now: Instant) -> io::Result<()> {
        // One byte more, so that a longer datagram is seen to be none.
        let mut datagram = [0; REPORT_BYTES + 1];
        loop {
            let (length, from) = match self.socket.recv_from(&mut datagram) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // An answer to a report that nobody took.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(error),
            };
            let Some((report, &[])) = datagram[..length].split_first_chunk() else { continue };
            if let SocketAddr::V4(from) = from
                && let Some(&number) = self.numbers.get(from.ip())
            {
                self.rates.hear(now, number, LinkReport::decode(*report));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two hosts tell each other of their links; what is too long, or of nobody's, is not heard.
    #[test]
    fn hosts_hear_each_other() {
        let addresses = [Ipv4Addr::new(127, 0, 7, 1), Ipv4Addr::new(127, 0, 7, 2)];
        let [fast, slow] = [10, 1].map(Rate::from_gbit_per_sec);
        let bind = |host: usize, link| Reports::bind(addresses[host], &addresses, link, Span::from_ms(10), 0).unwrap();
        let (mut first, mut second) = (bind(0, fast), bind(1, slow));
        let now = Instant::ZERO;
        let flows = |peer, up, down| BTreeMap::from([(peer, FlowCounts { up, down })]);
        let stranger = UdpSocket::bind("127.0.7.3:0").unwrap();
        stranger.send_to(&[1; REPORT_BYTES], (addresses[0], REPORT_PORT)).unwrap();
        second.socket.send_to(&[1; REPORT_BYTES + 1], (addresses[0], REPORT_PORT)).unwrap();
        first.exchange(now, &flows(1, 2, 0)).unwrap();
        assert_eq!(first.fair_rate(now, 1), None);
        second.exchange(now, &flows(0, 0, 2)).unwrap();
        first.exchange(now, &flows(1, 2, 0)).unwrap();
        assert_eq!(first.fair_rate(now, 1), Some(Rate::from_bits_per_sec(500_000_000)));
        assert_eq!(first.next_at(), now.after(Span::from_ms(10)));
    }
}
