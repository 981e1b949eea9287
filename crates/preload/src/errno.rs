//! The number of the last error.

use core::ffi::c_int;

/// The number that the thread's last call left.
pub(crate) fn get() -> c_int {
    // SAFETY: the C library's function takes nothing and returns a valid pointer to the thread's own number.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set(error: c_int) {
    // SAFETY: as in `get`; no other thread has this pointer.
    unsafe { *libc::__errno_location() = error }
}

/// What a function returns that has failed with this error.
pub(crate) fn fail(error: c_int) -> c_int {
    set(error);
    -1
}
