//! What the tests share: files, a transfer in two threads, and a relay that misbehaves.

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pliant_net::socket::{Batch, Socket};
use pliant_net::transfer::{Received, Receiver, Sent, Settings, Source, Target, TransferError, send};
use pliant_proto::packet::Ecn;
use pliant_proto::rng::Stream;
use pliant_proto::time::Span;

/// Nobody interrupts.
pub(crate) static NEVER: AtomicBool = AtomicBool::new(false);

pub(crate) fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// Settings under which a test that goes wrong ends soon.
pub(crate) fn settings() -> Settings {
    Settings { connect_timeout: Span::from_secs(20), idle_timeout: Span::from_secs(20), ..Settings::default() }
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

/// Both results of a transfer through `way`, which is given the receiver's address and returns where to send.
pub(crate) fn transfer(
    path: &Path,
    target: &Target,
    settings: &Settings,
    way: impl FnOnce(SocketAddr) -> SocketAddr,
) -> (Result<Sent, TransferError>, Result<Received, TransferError>) {
    let receiver = Receiver::bind(loopback(), settings.clone()).unwrap();
    let to = way(receiver.address());
    let source = Source::open(path).unwrap();
    thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.receive(target, &NEVER, |_| {}));
        let sent = send(source, to, settings, &NEVER, |_| {});
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

/// What a relay does to every n-th data datagram; 0 is never.
#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) mark: u64,
    pub(crate) drop: u64,
    pub(crate) duplicate: u64,
    /// Held back until three more have passed.
    pub(crate) reorder: u64,
}

/// What a relay did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Done {
    pub(crate) marked: u64,
    pub(crate) dropped: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
}

/// Passes datagrams between the first that writes to it and `receiver`, until `stop`.
pub(crate) struct Relay {
    socket: Socket,
    receiver: SocketAddr,
    sender: Option<SocketAddr>,
    faults: Faults,
    /// How many of each hostile datagram both sides are still to be sent.
    pub(crate) hostility: u64,
    data_seen: u64,
    held: Option<(u64, Ecn, Vec<u8>)>,
    pub(crate) done: Done,
}

impl Relay {
    pub(crate) fn new(faults: Faults, receiver: SocketAddr) -> Self {
        let socket = Socket::bind(loopback()).unwrap();
        Self { socket, receiver, sender: None, faults, hostility: 0, data_seen: 0, held: None, done: Done::default() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.socket.local_address().unwrap()
    }

    pub(crate) fn run(mut self, stop: &AtomicBool) -> Done {
        while !stop.load(Ordering::Relaxed) {
            self.turn();
        }
        self.done
    }

    /// Raises `interrupted` once `data` data datagrams have passed; returns how many.
    pub(crate) fn run_until(mut self, data: u64, interrupted: &AtomicBool) -> u64 {
        while self.data_seen < data {
            self.turn();
        }
        interrupted.store(true, Ordering::Relaxed);
        self.data_seen
    }

    fn turn(&mut self) {
        self.socket.wait_readable(Duration::from_millis(10)).unwrap();
        let mut arrived = Vec::new();
        self.socket.receive(|datagram| arrived.push((datagram.from, datagram.ecn, datagram.bytes.to_vec()))).unwrap();
        for (from, ecn, bytes) in arrived {
            self.pass(from, ecn, bytes);
        }
    }

    fn pass(&mut self, from: SocketAddr, ecn: Ecn, bytes: Vec<u8>) {
        if from == self.receiver {
            let sender = self.sender.expect("the sender speaks first");
            // Kind 1 is an acknowledgement: returned to who sent it.
            if self.hostility > 0 && bytes[1] & 0xf == 1 && self.data_seen > 0 {
                self.harass(&bytes, sender);
            }
            return self.forward(sender, ecn, &bytes);
        }
        self.sender = Some(from);
        // Kind 0 is data (pliant_proto::wire).
        if bytes[1] & 0xf != 0 {
            return self.forward(self.receiver, ecn, &bytes);
        }
        self.data_seen += 1;
        let turn = |every: u64| every > 0 && self.data_seen.is_multiple_of(every);
        let (mark, drop) = (turn(self.faults.mark) && ecn == Ecn::Ect0, turn(self.faults.drop));
        let (duplicate, reorder) = (turn(self.faults.duplicate), turn(self.faults.reorder) && self.held.is_none());
        let ecn = if mark { Ecn::Ce } else { ecn };
        self.done.marked += u64::from(mark && !drop);
        if drop {
            self.done.dropped += 1;
        } else if reorder {
            self.done.reordered += 1;
            self.held = Some((self.data_seen + 3, ecn, bytes));
        } else {
            self.forward(self.receiver, ecn, &bytes);
            if duplicate {
                self.done.duplicated += 1;
                self.forward(self.receiver, ecn, &bytes);
            }
        }
        if let Some((_, ecn, bytes)) = self.held.take_if(|(until, _, _)| *until <= self.data_seen) {
            self.forward(self.receiver, ecn, &bytes);
        }
    }

    /// Sends the receiver noise, a cut packet, packets of another flow and from another port, and its own
    /// acknowledgement; and the sender a packet addressed to its peer.
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
        self.forward(self.receiver, Ecn::NotEct, &acknowledgement[..20]);
        self.forward(self.receiver, Ecn::NotEct, b"noise");
    }

    fn forward(&self, to: SocketAddr, ecn: Ecn, bytes: &[u8]) {
        let mut batch = Batch::default();
        batch.push(to, ecn, bytes.len()).copy_from_slice(bytes);
        self.socket.send(&batch).unwrap();
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
