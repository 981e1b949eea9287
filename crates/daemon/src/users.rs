//! The origin of a connection on this host.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A TCP socket of this host in the kernel's table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Socket {
    local: SocketAddr,
    remote: SocketAddr,
    user: u32,
}

/// The kernel's codes for connections of a program: established, or half-closed.
const STATES: [&str; 4] = ["01", "04", "05", "08"];

/// Who is at the far end of a connection to a door.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Origin {
    /// A user of this host.
    User(u32),
    /// Another host.
    Host(IpAddr),
}

/// Open connections to a door.
///
/// If a socket of this host is the far end of one, all connections of its user to the door count. Otherwise those of its
/// address count.
pub(crate) struct Connections {
    /// Users of this host, by their ends.
    users: HashMap<SocketAddr, u32>,
    counts: HashMap<Origin, usize>,
}

impl Connections {
    /// Reads the kernel's table, which has a line for each socket of this host.
    pub(crate) fn read(door: u16) -> io::Result<Self> {
        let mut sockets = Vec::new();
        for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
            match std::fs::read_to_string(table) {
                Ok(text) => sockets.extend(text.lines().filter_map(parse)),
                // A kernel without IPv6.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self::of(&sockets, door))
    }

    fn of(sockets: &[Socket], door: u16) -> Self {
        let (mut users, mut counts) = (HashMap::new(), HashMap::new());
        for socket in sockets {
            if socket.remote.port() == door {
                users.insert(socket.local, socket.user);
                *counts.entry(Origin::User(socket.user)).or_default() += 1;
            }
            if socket.local.port() == door {
                *counts.entry(Origin::Host(socket.remote.ip())).or_default() += 1;
            }
        }
        Self { users, counts }
    }

    pub(crate) fn origin(&self, from: SocketAddr) -> Origin {
        let from = as_listed(from);
        self.users.get(&from).map_or(Origin::Host(from.ip()), |user| Origin::User(*user))
    }

    /// Which of these connections, accepted in this order before the table was read, are more than `most` of their origin.
    pub(crate) fn are_too_many(&self, from: &[SocketAddr], most: usize) -> Vec<bool> {
        let origins: Vec<Origin> = from.iter().map(|from| self.origin(*from)).collect();
        let mut later: HashMap<Origin, usize> = HashMap::new();
        for origin in &origins {
            *later.entry(*origin).or_default() += 1;
        }
        let is_too_many = |origin: &Origin| {
            let later = later.get_mut(origin).expect("it was counted");
            *later -= 1;
            self.counts.get(origin).copied().unwrap_or(0).saturating_sub(*later) > most
        };
        origins.iter().map(is_too_many).collect()
    }
}

/// As the kernel's table has it: without the scope of a link.
fn as_listed(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// A line of `/proc/net/tcp` or `tcp6` (Linux, Documentation/networking/proc_net_tcp.rst) of a connection.
fn parse(line: &str) -> Option<Socket> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, local, remote, state, _, _, _, user, ..] = words[..] else { return None };
    STATES.contains(&state).then_some(())?;
    Some(Socket { local: address(local)?, remote: address(remote)?, user: user.parse().ok()? })
}

/// An address as the kernel prints it: words of 32 bits in the host's byte order, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let words = ip.as_bytes().chunks(8).map(|word| {
        let word = u32::from_str_radix(str::from_utf8(word).ok()?, 16).ok()?;
        Some(word.to_ne_bytes())
    });
    let words: Vec<[u8; 4]> = words.collect::<Option<_>>()?;
    let ip = match words[..] {
        [word] => IpAddr::from(Ipv4Addr::from(word)),
        [_, _, _, _] => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?)),
        _ => return None,
    };
    Some(as_listed(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of a kernel on a machine with the least significant byte first: one of IPv4, one of IPv6, a listener, and the
    /// heading.
    #[cfg(target_endian = "little")]
    #[test]
    fn lines_of_the_kernel_are_read() {
        let line =
            "   1: 0100007F:C350 0100007F:0438 01 00000000:00000000 00:00000000 00000000  1000        0 8 1 0 20 4";
        let socket = parse(line).unwrap();
        assert_eq!(
            (socket.local.to_string(), socket.remote.to_string()),
            ("127.0.0.1:50000".into(), "127.0.0.1:1080".into())
        );
        assert_eq!(socket.user, 1000);
        let six = line.replace("0100007F:C350", "00000000000000000000000001000000:C350");
        assert_eq!(parse(&six).unwrap().local.to_string(), "[::1]:50000");
        let mapped = line.replace("0100007F:C350", "0000000000000000FFFF00000100007F:C350");
        assert_eq!(parse(&mapped).unwrap().local, socket.local);
        for other in [line.replace(" 01 ", " 0A "), "  sl  local_address rem_address   st".to_owned(), String::new()] {
            assert_eq!(parse(&other), None);
        }
    }

    /// A user of this host is counted by all its sockets, whatever their addresses; another host by its address.
    #[test]
    fn users_and_hosts_are_counted() {
        let socket = |local: &str, remote: &str, user| Socket {
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            user,
        };
        let sockets = [
            socket("127.0.0.1:50000", "127.0.0.1:1080", 1000),
            socket("127.0.0.2:50001", "127.0.0.1:1080", 1000),
            socket("127.0.0.1:50002", "127.0.0.1:1080", 1001),
            socket("127.0.0.1:50003", "127.0.0.1:80", 1000),
            // The door's own ends belong to the daemon.
            socket("127.0.0.1:1080", "127.0.0.1:50000", 7),
            socket("10.0.0.1:1080", "10.0.0.9:50000", 7),
            socket("10.0.0.1:1080", "10.0.0.9:50001", 7),
        ];
        let connections = Connections::of(&sockets, 1080);
        let from = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let too_many = |texts: &[&str], most| connections.are_too_many(&from(texts), most);
        assert_eq!((too_many(&["127.0.0.1:50000"], 1), too_many(&["127.0.0.1:50000"], 2)), (vec![true], vec![false]));
        assert_eq!((too_many(&["127.0.0.1:50002"], 0), too_many(&["127.0.0.1:50002"], 1)), (vec![true], vec![false]));
        assert_eq!(
            (too_many(&["10.0.0.9:50000"], 1), too_many(&["[::ffff:10.0.0.9]:50000"], 2)),
            (vec![true], vec![false])
        );
        // Of those that came together the first have room.
        let together = ["127.0.0.1:50000", "127.0.0.1:50002", "10.0.0.9:50000", "127.0.0.2:50001", "10.0.0.9:50001"];
        assert_eq!(too_many(&together, 1), [false, false, false, true, true]);
    }

    /// The kernel tells of connections that are really there.
    #[test]
    fn the_kernel_knows_connections() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let door = listener.local_addr().unwrap();
        let (mut programs, mut all) = (Vec::new(), Vec::new());
        for expected in 1..=3 {
            let program = std::net::TcpStream::connect(door).unwrap();
            let (accepted, from) = listener.accept().unwrap();
            let connections = Connections::read(door.port()).unwrap();
            assert_eq!(connections.are_too_many(&[from], expected - 1), [true]);
            assert_eq!(connections.are_too_many(&[from], expected), [false]);
            // Half of a connection is one still.
            program.shutdown(std::net::Shutdown::Write).unwrap();
            programs.push((program, accepted));
            all.push(from);
        }
        assert_eq!(Connections::read(door.port()).unwrap().are_too_many(&all, 2), [false, false, true]);
    }
}
