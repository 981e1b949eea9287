//! Options that a socket pair does not have, or has in another meaning.

use core::ffi::{c_int, c_void};
use core::net::SocketAddr;
use core::ptr::copy_nonoverlapping;

use libc::socklen_t;

use crate::errno;
use crate::handed_over::HandedOver;

/// Levels of options that the kernel knows of TCP only.
fn is_of_internet(level: c_int) -> bool {
    [libc::IPPROTO_TCP, libc::IPPROTO_IP, libc::IPPROTO_IPV6].contains(&level)
}

/// Whether setting it means nothing here: nothing waits to be sent as by Nagle's algorithm, the way's DSCP is the class's,
/// and a large buffer would only hide from the program that its bytes do not go.
pub(crate) fn is_tcps_alone(level: c_int, name: c_int) -> bool {
    is_of_internet(level) || level == libc::SOL_SOCKET && [libc::SO_SNDBUF, libc::SO_SNDBUFFORCE].contains(&name)
}

/// Whether [`get`] may answer.
pub(crate) fn differs_to_get(level: c_int, name: c_int) -> bool {
    is_of_internet(level)
        || level == libc::SOL_SOCKET && [libc::SO_ERROR, libc::SO_DOMAIN, libc::SO_PROTOCOL].contains(&name)
}

/// What an option is of a descriptor that was handed over, or the error; `None` if the kernel's answer is right.
pub(crate) fn get(here: &HandedOver, level: c_int, name: c_int) -> Option<Result<c_int, c_int>> {
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => Some(Ok(here.take_error())),
        (libc::SOL_SOCKET, libc::SO_PROTOCOL) => Some(Ok(libc::IPPROTO_TCP)),
        (libc::SOL_SOCKET, libc::SO_DOMAIN) => Some(Ok(match here.service() {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
        })),
        // So it is, whatever the program has set.
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Some(Ok(1)),
        // TCP_INFO and the like: there is no TCP to tell of.
        (level, _) if is_of_internet(level) => Some(Err(libc::ENOPROTOOPT)),
        _ => None,
    }
}

/// Writes an option's value as getsockopt(2) does: cut if there is no room.
///
/// # Safety
///
/// `length` points to the number of bytes that `value` points to.
pub(crate) unsafe fn write(number: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int {
    if value.is_null() || length.is_null() {
        return errno::fail(libc::EFAULT);
    }
    // SAFETY: the caller's `length` can be read and written, wherever it lies.
    let room = unsafe { length.read_unaligned() };
    let bytes = (room as usize).min(size_of::<c_int>());
    // SAFETY: no more bytes are copied than `number` has and the caller has room for; `number` is no part of that room.
    unsafe { copy_nonoverlapping((&raw const number).cast::<u8>(), value.cast(), bytes) };
    // SAFETY: as above.
    unsafe { length.write_unaligned(bytes as socklen_t) };
    0
}
