//! The functions that this library stands before.

use core::ffi::{CStr, c_int, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{sockaddr, socklen_t};

use crate::errno;

type Connect = unsafe extern "C" fn(c_int, *const sockaddr, socklen_t) -> c_int;
type GetName = unsafe extern "C" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
type GetOption = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
type SetOption = unsafe extern "C" fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;

/// A function of the next library that has one of its name. It is looked up at its first call: threads that do so at the
/// same time find the same.
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(null_mut()) }
    }

    /// The function, or null if there is none.
    fn get(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name ends with a zero byte; RTLD_NEXT begins behind this library, so it is not found itself.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Release);
        found
    }
}

static CONNECT: Next = Next::new(c"connect");
static GETPEERNAME: Next = Next::new(c"getpeername");
static GETSOCKNAME: Next = Next::new(c"getsockname");
static GETSOCKOPT: Next = Next::new(c"getsockopt");
static SETSOCKOPT: Next = Next::new(c"setsockopt");

pub(crate) unsafe fn connect(descriptor: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    let next = CONNECT.get();
    if next.is_null() {
        return errno::fail(libc::ENOSYS);
    }
    // SAFETY: it is the C library's function of this name, which has this type (connect(2)).
    let next = unsafe { transmute::<*mut c_void, Connect>(next) };
    // SAFETY: the caller's promise is passed on.
    unsafe { next(descriptor, address, length) }
}

/// getpeername(2) and getsockname(2) have one type.
unsafe fn get_name(next: &Next, descriptor: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    let next = next.get();
    if next.is_null() {
        return errno::fail(libc::ENOSYS);
    }
    // SAFETY: it is the C library's function of one of the two names, which have this type.
    let next = unsafe { transmute::<*mut c_void, GetName>(next) };
    // SAFETY: the caller's promise is passed on.
    unsafe { next(descriptor, address, length) }
}

pub(crate) unsafe fn getpeername(descriptor: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: the caller's promise is passed on.
    unsafe { get_name(&GETPEERNAME, descriptor, address, length) }
}

pub(crate) unsafe fn getsockname(descriptor: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: the caller's promise is passed on.
    unsafe { get_name(&GETSOCKNAME, descriptor, address, length) }
}

pub(crate) unsafe fn getsockopt(
    descriptor: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    let next = GETSOCKOPT.get();
    if next.is_null() {
        return errno::fail(libc::ENOSYS);
    }
    // SAFETY: it is the C library's function of this name, which has this type (getsockopt(2)).
    let next = unsafe { transmute::<*mut c_void, GetOption>(next) };
    // SAFETY: the caller's promise is passed on.
    unsafe { next(descriptor, level, name, value, length) }
}

pub(crate) unsafe fn setsockopt(
    descriptor: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    let next = SETSOCKOPT.get();
    if next.is_null() {
        return errno::fail(libc::ENOSYS);
    }
    // SAFETY: it is the C library's function of this name, which has this type (setsockopt(2)).
    let next = unsafe { transmute::<*mut c_void, SetOption>(next) };
    // SAFETY: the caller's promise is passed on.
    unsafe { next(descriptor, level, name, value, length) }
}

/// An option that is a number.
pub(crate) fn number_option(descriptor: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as socklen_t;
    // SAFETY: `value` has as many bytes as `length` says, and both outlive the call.
    let done = unsafe { getsockopt(descriptor, level, name, (&raw mut value).cast(), &raw mut length) };
    (done == 0).then_some(value)
}
