//! The C library's allocator.

#![allow(unsafe_code, reason = "no well-kept crate calls mallopt")]

/// Bytes of the smallest block that gets pages of its own: glibc's initial M_MMAP_THRESHOLD.
const LARGE: i32 = 128 * 1024;

/// Large blocks go back to the operating system when they are freed.
///
/// As glibc comes, each large block that is freed raises the size from which blocks get pages of their own, up to 32 MiB. Later
/// blocks of that size are then in the heap, and a small one above them keeps their pages for as long as it lives. So the memory of a process that
/// runs for weeks grows by steps. Other C libraries do not do that; this does nothing there.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `mallopt` takes numbers and changes parameters of the allocator, under its lock.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE);
    }
}
