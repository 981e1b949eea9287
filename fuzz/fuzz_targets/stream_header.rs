//! Whatever a peer says of a stream is refused, or is a text that says the same.
#![no_main]

#[path = "../checks/stream_header.rs"]
mod stream_header;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stream_header::check(bytes));
