//! Descriptors that the daemon has handed over, known by their names.

use core::ffi::c_int;
use core::mem::offset_of;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use libc::{sa_family_t, sockaddr, sockaddr_un, socklen_t};
use pliant_handover::{Connection, Outcome};

use crate::{errno, real};

/// A descriptor that the daemon has handed over.
pub(crate) struct HandedOver {
    descriptor: c_int,
    connection: Connection,
}

impl HandedOver {
    /// The descriptor, if it is one. The number of the last error stays as it is.
    pub(crate) fn of(descriptor: c_int) -> Option<Self> {
        let before = errno::get();
        let connection = name(descriptor, real::getsockname, Connection::parse);
        errno::set(before);
        connection.map(|connection| Self { descriptor, connection })
    }

    /// The service, as the program has named it.
    pub(crate) fn service(&self) -> SocketAddr {
        self.connection.service
    }

    /// What the program is told of its own end: loopback, and a port that no socket has.
    pub(crate) fn local(&self) -> SocketAddr {
        let ip: IpAddr = match self.connection.service {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(service) if service.ip().to_ipv4_mapped().is_some() => {
                Ipv4Addr::LOCALHOST.to_ipv6_mapped().into()
            }
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        SocketAddr::new(ip, self.connection.local_port())
    }

    /// How it stands; `None` while the far end has not answered.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let before = errno::get();
        let outcome = name(self.descriptor, real::getpeername, Outcome::parse);
        errno::set(before);
        outcome
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.outcome() == Some(Outcome::Connected)
    }

    /// The error that the kernel has for the descriptor, which forgets it by that, as the program is to hear it.
    pub(crate) fn take_error(&self) -> c_int {
        let pending = real::number_option(self.descriptor, libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0);
        match self.outcome() {
            // The daemon has closed its end with bytes unread: a reset, to the kernel.
            Some(Outcome::Failed(error)) if pending != 0 => error,
            _ => pending,
        }
    }
}

type GetName = unsafe fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;

/// What an abstract name of a descriptor says.
fn name<T>(descriptor: c_int, get: GetName, parse: fn(&[u8]) -> Option<T>) -> Option<T> {
    const PATH: usize = offset_of!(sockaddr_un, sun_path);
    let mut address = sockaddr_un { sun_family: 0, sun_path: [0; 108] };
    let mut length = size_of::<sockaddr_un>() as socklen_t;
    // SAFETY: `address` has as many bytes as `length` says, and both outlive the call.
    let done = unsafe { get(descriptor, (&raw mut address).cast::<sockaddr>(), &raw mut length) };
    if done != 0 || address.sun_family != libc::AF_UNIX as sa_family_t {
        return None;
    }
    let bytes = (length as usize).checked_sub(PATH)?.min(address.sun_path.len());
    // SAFETY: `sun_path` has at least so many bytes, all of them set; a `c_char` is a byte.
    let path = unsafe { core::slice::from_raw_parts(address.sun_path.as_ptr().cast::<u8>(), bytes) };
    // An abstract name begins with a zero byte.
    let (0, name) = path.split_first()? else { return None };
    parse(name)
}
