//! Whatever a peer says of a stream is no service, or one whose text says the same.
#![no_main]

#[path = "../checks/stream_header.rs"]
mod stream_header;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stream_header::check(bytes));
