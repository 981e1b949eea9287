//! The TCP connections of this host that move bytes, as the kernel counts them (sock_diag, `man 7 sock_diag`).
//!
//! They are those of the network namespace. Connections over loopback are left out, as they cross no link.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, connect, recv, send, socket,
};
use pliant_proto::host::fair_rates::{Direction, FlowCounts};
use pliant_proto::time::{Instant, Span};

use super::siblings;
use crate::clock::{Clock, to_timeout};

/// Between two looks at the kernel's counters.
const LOOK_EVERY: Span = Span::from_ms(50);
/// A connection counts for so long after it has moved bytes: a small window sends once in a round trip.
const COUNTS_FOR: Span = Span::from_ms(250);
/// A look may take a twentieth of the time at most.
const LOOK_SHARE: u64 = 20;
/// Bytes of the kernel's answers that are read at once.
const ANSWER_BYTES: usize = 64 << 10;

/// A connection that moves bytes in one direction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct KernelFlow {
    pub(super) direction: Direction,
    pub(super) peer: IpAddr,
    /// Bits of its content per second.
    pub(super) rate: f64,
}

/// What a look has seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Those that move least are first.
    pub(super) kernel: Vec<KernelFlow>,
    /// Flows of other Pliant processes.
    pub(super) siblings: FlowCounts,
}

/// A thread that looks at the kernel's counters every so often, for as long as this is there.
#[derive(Debug)]
pub(super) struct KernelFlows {
    newest: Arc<Mutex<Arc<Seen>>>,
}

impl KernelFlows {
    /// Begins to look, for the process whose sign is called `own`. Fails if the kernel does not tell of connections.
    pub(super) fn watch(own: &str) -> io::Result<Self> {
        let (own, newest) = (own.to_owned(), Arc::new(Mutex::new(Arc::new(Seen::default()))));
        let reader: Weak<Mutex<Arc<Seen>>> = Arc::downgrade(&newest);
        let mut history = History::default();
        // What cannot be read now could not be read later: it is said at once.
        let clock = Clock::start();
        history.look(clock.now(), counters()?);
        std::thread::Builder::new().name("pliant-flows".into()).spawn(move || {
            let mut sleep = LOOK_EVERY;
            loop {
                std::thread::sleep(to_timeout(sleep));
                let Some(newest) = reader.upgrade() else { return };
                let began = clock.now();
                // One look that fails leaves what the last one saw.
                if let (Ok(counters), Ok(siblings)) = (counters(), siblings::of_others(&own)) {
                    let mut kernel = history.look(began, counters);
                    kernel.sort_unstable_by(|one, other| one.rate.total_cmp(&other.rate));
                    *newest.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(Seen { kernel, siblings });
                }
                sleep = LOOK_EVERY.max(clock.now().since(began).times(LOOK_SHARE));
            }
        })?;
        Ok(Self { newest })
    }

    /// What moved bytes when it last looked.
    pub(super) fn newest(&self) -> Arc<Seen> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What the kernel has counted of a connection.
#[derive(Clone, Copy, Debug)]
struct Counters {
    /// The kernel's own name for the connection.
    cookie: [u8; 8],
    peer: IpAddr,
    acknowledged: u64,
    received: u64,
}

/// Every connection of TCP that may move bytes, but for those over loopback.
fn counters() -> io::Result<Vec<Counters>> {
    let mut counters = Vec::new();
    for (family, socket_id) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
        read_answer(&ask(family, socket_id)?, &mut counters)?;
    }
    Ok(counters)
}

/// A socket from which the kernel's answer can be read.
fn ask(family: u8, socket_id: SocketId) -> io::Result<OwnedFd> {
    let protocol = SockProtocol::NetlinkSockDiag;
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
    connect(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let states = StateFlags::ESTABLISHED | StateFlags::FIN_WAIT1 | StateFlags::FIN_WAIT2 | StateFlags::CLOSE_WAIT;
    let request = InetRequest { family, protocol: IPPROTO_TCP, extensions: ExtensionFlags::INFO, states, socket_id };
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    send(socket.as_raw_fd(), &bytes, MsgFlags::empty())?;
    Ok(socket)
}

fn read_answer(socket: &OwnedFd, counters: &mut Vec<Counters>) -> io::Result<()> {
    let mut buffer = vec![0; ANSWER_BYTES];
    loop {
        let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let mut left = &buffer[..length];
        if left.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while !left.is_empty() {
            let message: NetlinkMessage<SockDiagMessage> =
                NetlinkMessage::deserialize(left).map_err(io::Error::other)?;
            match message.payload {
                NetlinkPayload::Done(_) => return Ok(()),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(response)) => {
                    counters.extend(counters_of(&response));
                }
                _ => {}
            }
            // Messages begin at multiples of four bytes (`man 7 netlink`).
            let bytes = (message.header.length as usize).next_multiple_of(4);
            left = left.get(bytes.max(4)..).unwrap_or_default();
        }
    }
}

fn counters_of(response: &InetResponse) -> Option<Counters> {
    let SocketId { source_address, destination_address: peer, cookie, .. } = response.header.socket_id;
    let info = response.nlas.iter().find_map(|nla| if let Nla::TcpInfo(info) = nla { Some(info) } else { None })?;
    let stays_here = peer.to_canonical().is_loopback() || peer == source_address;
    let (acknowledged, received) = (info.bytes_acked, info.bytes_received);
    (!stays_here).then(|| Counters { cookie, peer: peer.to_canonical(), acknowledged, received })
}

/// What connections had moved at the last looks, oldest first.
#[derive(Debug, Default)]
struct History {
    connections: HashMap<[u8; 8], VecDeque<(Instant, [u64; 2])>>,
    last: Option<Instant>,
}

impl History {
    /// What has moved bytes lately, as of `now`.
    fn look(&mut self, now: Instant, counters: Vec<Counters>) -> Vec<KernelFlow> {
        // A connection that was not there at the last look has moved all its bytes since. At the first look nothing is known.
        let before = self.last.replace(now).map(|last| (last, [0; 2]));
        let mut connections = HashMap::with_capacity(counters.len());
        let mut flows = Vec::new();
        for Counters { cookie, peer, acknowledged, received } in counters {
            let mut looks = self.connections.remove(&cookie).unwrap_or_else(|| before.into_iter().collect());
            looks.push_back((now, [acknowledged, received]));
            while looks.len() > 2 && now.since(looks[0].0) > COUNTS_FOR {
                looks.pop_front();
            }
            let (then, old) = looks[0];
            let seconds = now.since(then).as_secs_f64();
            for (direction, old, new) in [(Direction::Up, old[0], acknowledged), (Direction::Down, old[1], received)] {
                let moved = new.saturating_sub(old);
                if moved > 0 && seconds > 0.0 {
                    flows.push(KernelFlow { direction, peer, rate: moved as f64 * 8.0 / seconds });
                }
            }
            connections.insert(cookie, looks);
        }
        self.connections = connections;
        flows
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// By hand: what stands at the first look tells nothing, a new connection has moved all its bytes since the last, and one that
    /// rests is forgotten after a while.
    #[test]
    fn connections_count_while_they_move_bytes() {
        let at = |ms| Instant::ZERO.after(Span::from_ms(ms));
        let peer: IpAddr = [192, 0, 2, 7].into();
        let counters = |name: u8, acknowledged, received| Counters { cookie: [name; 8], peer, acknowledged, received };
        let flow = |direction, rate| KernelFlow { direction, peer, rate };
        let mut history = History::default();
        assert_eq!(history.look(at(0), vec![counters(1, 5_000_000, 7)]), []);
        let seen = history.look(at(50), vec![counters(1, 5_000_000, 1007), counters(2, 500, 0)]);
        assert_eq!(seen, [flow(Direction::Down, 160_000.0), flow(Direction::Up, 80_000.0)]);
        // 500 bytes within 250 ms.
        assert_eq!(history.look(at(250), vec![counters(2, 500, 0)]), [flow(Direction::Up, 16_000.0)]);
        assert_eq!(history.look(at(550), vec![counters(2, 500, 0)]), []);
        assert_eq!(history.connections.len(), 1);
    }

    /// The kernel answers. A connection over loopback is not among what it tells.
    #[test]
    fn the_kernel_tells_of_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        here.write_all(&[7; 1000]).unwrap();
        there.read_exact(&mut [0; 1000]).unwrap();
        assert!(counters().unwrap().iter().all(|counters| !counters.peer.is_loopback()));
    }
}
