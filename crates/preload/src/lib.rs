//! A library that is loaded before a program (`LD_PRELOAD`) and has its connections go through Pliant's daemon.
//!
//! `connect` to a service of which a rule says so asks the daemon for one end of a socket pair and puts it in the place of
//! the program's socket: from then on the kernel does the rest. Reading, writing, `poll`, `epoll`, `shutdown`, `dup`, `fork`
//! and `exec` are the program's own. Four more functions answer for such a descriptor what a TCP socket would:
//! `getpeername`, `getsockname`, `getsockopt` and `setsockopt`. All else is left alone.
//!
//! The library keeps nothing: what there is to know of a descriptor is in the names of its pair (`pliant_handover`), so it
//! holds in another thread, after `fork` and after `exec`. It allocates nothing, takes no lock and logs nothing.

mod address;
mod connect;
mod errno;
mod handed_over;
mod options;
mod real;

use core::ffi::{c_int, c_void};

use libc::{sockaddr, socklen_t};

use crate::handed_over::HandedOver;

/// connect(2).
///
/// # Safety
///
/// As of connect(2): `address` points to `length` bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(descriptor: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: the caller's promise is passed on.
    let service = unsafe { address::read(address, length) };
    if let Some(answer) = service.and_then(|service| connect::connect(descriptor, service)) {
        return answer;
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { real::connect(descriptor, address, length) }
}

/// getpeername(2).
///
/// # Safety
///
/// As of getpeername(2): `length` points to the number of bytes that `address` points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getpeername(descriptor: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    match HandedOver::of(descriptor) {
        // SAFETY: the caller's promise is passed on.
        Some(here) if here.is_connected() => unsafe { address::write(here.service(), address, length) },
        Some(_) => errno::fail(libc::ENOTCONN),
        // SAFETY: the caller's promise is passed on.
        None => unsafe { real::getpeername(descriptor, address, length) },
    }
}

/// getsockname(2).
///
/// # Safety
///
/// As of getsockname(2): `length` points to the number of bytes that `address` points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(descriptor: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    match HandedOver::of(descriptor) {
        // SAFETY: the caller's promise is passed on.
        Some(here) => unsafe { address::write(here.local(), address, length) },
        // SAFETY: the caller's promise is passed on.
        None => unsafe { real::getsockname(descriptor, address, length) },
    }
}

/// getsockopt(2).
///
/// # Safety
///
/// As of getsockopt(2): `length` points to the number of bytes that `value` points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    descriptor: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    if options::differs_to_get(level, name)
        && let Some(here) = HandedOver::of(descriptor)
        && let Some(answer) = options::get(&here, level, name)
    {
        return match answer {
            // SAFETY: the caller's promise is passed on.
            Ok(number) => unsafe { options::write(number, value, length) },
            Err(error) => errno::fail(error),
        };
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { real::getsockopt(descriptor, level, name, value, length) }
}

/// setsockopt(2).
///
/// # Safety
///
/// As of setsockopt(2): `value` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    descriptor: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    if options::is_tcps_alone(level, name) && HandedOver::of(descriptor).is_some() {
        return 0;
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { real::setsockopt(descriptor, level, name, value, length) }
}
