//! Addresses as C has them.

use core::ffi::c_int;
use core::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use core::ptr::copy_nonoverlapping;

use libc::{sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::errno;

/// The service of an address; `None` if it is none of IPv4 or IPv6.
///
/// # Safety
///
/// `address` points to `length` bytes, or is null.
pub(crate) unsafe fn read(address: *const sockaddr, length: socklen_t) -> Option<SocketAddr> {
    let length = length as usize;
    if address.is_null() || length < size_of::<sa_family_t>() {
        return None;
    }
    // SAFETY: the caller has so many bytes there; they may lie anywhere.
    let family = unsafe { address.cast::<sa_family_t>().read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET if length >= size_of::<sockaddr_in>() => {
            // SAFETY: the caller has at least so many bytes there, and any bytes are numbers.
            let ipv4 = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = u32::from_be(ipv4.sin_addr.s_addr);
            Some(SocketAddrV4::new(ip.into(), u16::from_be(ipv4.sin_port)).into())
        }
        libc::AF_INET6 if length >= size_of::<sockaddr_in6>() => {
            // SAFETY: the caller has at least so many bytes there, and any bytes are numbers.
            let ipv6 = unsafe { address.cast::<sockaddr_in6>().read_unaligned() };
            // What needs a scope is on this host's own links, which an exit is not.
            Some(SocketAddrV6::new(ipv6.sin6_addr.s6_addr.into(), u16::from_be(ipv6.sin6_port), 0, 0).into())
        }
        _ => None,
    }
}

/// Writes an address as getpeername(2) does: cut if there is no room, with its whole length.
///
/// # Safety
///
/// `length` points to the number of bytes that `address` points to.
pub(crate) unsafe fn write(of: SocketAddr, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    if address.is_null() || length.is_null() {
        return errno::fail(libc::EFAULT);
    }
    match of {
        SocketAddr::V4(of) => {
            let ipv4 = sockaddr_in {
                sin_family: libc::AF_INET as sa_family_t,
                sin_port: of.port().to_be(),
                sin_addr: libc::in_addr { s_addr: of.ip().to_bits().to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the caller's promise is passed on.
            unsafe { write_bytes(&ipv4, address, length) }
        }
        SocketAddr::V6(of) => {
            let ipv6 = sockaddr_in6 {
                sin6_family: libc::AF_INET6 as sa_family_t,
                sin6_port: of.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: of.ip().octets() },
                sin6_scope_id: 0,
            };
            // SAFETY: the caller's promise is passed on.
            unsafe { write_bytes(&ipv6, address, length) }
        }
    }
    0
}

/// # Safety
///
/// `length` points to the number of bytes that `address` points to.
unsafe fn write_bytes<T>(of: &T, address: *mut sockaddr, length: *mut socklen_t) {
    // SAFETY: the caller's `length` can be read and written, wherever it lies.
    let room = unsafe { length.read_unaligned() } as usize;
    // SAFETY: no more bytes are copied than `of` has and the caller has room for; what is here is no part of that room.
    unsafe { copy_nonoverlapping((&raw const *of).cast::<u8>(), address.cast(), room.min(size_of::<T>())) };
    // SAFETY: as above.
    unsafe { length.write_unaligned(size_of::<T>() as socklen_t) };
}
