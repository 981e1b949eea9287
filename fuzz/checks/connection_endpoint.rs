//! Two endpoints, and a network that does with their datagrams what the input says: nothing panics, no packet arrives that
//! was not sent, none twice, and there are never more connections than allowed.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use pliant_net::connection::{Config, ConnectionId, Endpoint, Event, Keys, MAX_NOTICE_BYTES};
use pliant_proto::time::{Instant, Span};

const MAX_CONNECTIONS: usize = 8;

struct Side {
    endpoint: Endpoint,
    address: SocketAddr,
    open: Vec<ConnectionId>,
    sent: BTreeSet<u64>,
    arrived: BTreeSet<u64>,
}

impl Side {
    fn new(port: u16, seed: u8, plain: bool) -> Self {
        let keys = if plain { Keys::Plain } else { Keys::Preshared([7; 32]) };
        let config = Config { keys, max_connections: MAX_CONNECTIONS, packets_per_key: 3, ..Config::default() };
        let endpoint = Endpoint::new(config, [seed; 32]);
        let address = ([192, 0, 2, 1], port).into();
        Self { endpoint, address, open: Vec::new(), sent: BTreeSet::new(), arrived: BTreeSet::new() }
    }

    fn hear(&mut self, now: Instant, from: SocketAddr, datagram: &[u8], peer: &BTreeSet<u64>, plain: bool) {
        let mut bytes = datagram.to_vec();
        let arrival = self.endpoint.handle_datagram(now, from, &mut bytes, &mut |_, opening| {
            if opening.len() > 4 { Err("no".into()) } else { Ok(opening.to_vec()) }
        });
        self.poll();
        assert!(self.endpoint.connections() <= MAX_CONNECTIONS);
        let Some(arrival) = arrival else { return };
        if plain {
            return;
        }
        let number = u64::from_be_bytes(bytes[arrival.packet][8..16].try_into().unwrap());
        assert!(peer.contains(&number), "a packet that nobody sent");
        assert!(self.arrived.insert(number), "a packet arrived twice");
    }

    fn poll(&mut self) {
        while let Some((connection, event)) = self.endpoint.poll_event() {
            match event {
                Event::Connected { .. } | Event::Accepted { .. } => self.open.push(connection),
                Event::Closed(_) => self.open.retain(|open| *open != connection),
                Event::Notice(content) => assert!(content.len() <= MAX_NOTICE_BYTES),
                Event::HostReport(_) | Event::Moved { .. } | Event::OwnMove => {}
            }
        }
    }

    fn packet(&mut self, number: u64) -> Option<Vec<u8>> {
        let connection = *self.open.last()?;
        let (before, behind) = self.endpoint.overhead();
        let to = self.endpoint.remote(connection)? << 2;
        let packet = [&[0x50, 0, 0, 0][..], &to.to_be_bytes(), &number.to_be_bytes()].concat();
        let mut bytes = [vec![0; before], packet, vec![0; behind]].concat();
        self.endpoint.seal(connection, &mut bytes).then(|| {
            self.sent.insert(number);
            bytes
        })
    }
}

/// Whether it is from the first side, and its bytes.
type Datagram = (bool, Vec<u8>);

pub(crate) fn check(input: &[u8]) {
    let Some((first, operations)) = input.split_first() else { return };
    let plain = first & 1 == 1;
    let (mut a, mut b) = (Side::new(1, 1, plain), Side::new(2, 2, plain));
    let mut now = Instant::ZERO;
    let (mut wire, mut log) = (Vec::<Datagram>::new(), Vec::<Datagram>::new());
    let mut operations = operations.iter().copied();
    let mut number = 0;
    while let Some(operation) = operations.next() {
        let from_a = operation & 0x80 != 0;
        let argument = usize::from(operations.next().unwrap_or(0));
        let (side, other) = if from_a { (&mut a, &mut b) } else { (&mut b, &mut a) };
        match operation & 0xf {
            0 => drop(side.endpoint.connect(now, other.address, &vec![0; argument % 8])),
            1 => {
                number += 1;
                wire.extend(side.packet(number).map(|bytes| (from_a, bytes)));
            }
            2 => {
                if let Some(connection) = side.open.pop() {
                    side.endpoint.close(now, connection, argument as u8, "enough");
                }
            }
            3 => {
                now = now.after(Span::from_ms(argument as u64 * 20));
                for side in [&mut a, &mut b] {
                    side.endpoint.handle_timeout(now);
                    side.poll();
                }
            }
            4 => drop(wire.pop()),
            5 if !wire.is_empty() => {
                let at = argument % wire.len();
                wire.rotate_left(at);
            }
            6 => {
                if let Some((_, bytes)) = wire.last_mut()
                    && !bytes.is_empty()
                {
                    let at = argument % bytes.len();
                    bytes[at] ^= operations.next().unwrap_or(1);
                }
            }
            7 => {
                if let Some((_, bytes)) = wire.last_mut() {
                    bytes.truncate(argument);
                }
            }
            8 if !log.is_empty() => wire.push(log[argument % log.len()].clone()),
            9 => {
                // Whatever follows in the input, as a datagram.
                let bytes: Vec<u8> = operations.by_ref().take(argument).collect();
                wire.push((from_a, bytes));
            }
            10 => {
                if let Some((from_a, _)) = wire.last_mut() {
                    *from_a = !*from_a;
                }
            }
            11 => {
                if let Some(connection) = side.open.last() {
                    side.endpoint.notify(*connection, &vec![1; argument % MAX_NOTICE_BYTES]);
                }
            }
            _ => {
                if let Some((from_a, bytes)) = wire.pop() {
                    log.push((from_a, bytes.clone()));
                    if from_a {
                        b.hear(now, a.address, &bytes, &a.sent, plain);
                    } else {
                        a.hear(now, b.address, &bytes, &b.sent, plain);
                    }
                }
            }
        }
        for (from_a, side) in [(true, &mut a), (false, &mut b)] {
            while let Some((_, bytes)) = side.endpoint.poll_transmit() {
                wire.insert(0, (from_a, bytes));
            }
        }
        wire.truncate(64);
        log.truncate(64);
    }
}
