//! Whatever another daemon says of a response whose records travel apart, nothing of it is a panic, and what is put together
//! is a response.
#![no_main]

#[path = "../checks/kafka_apart.rs"]
mod kafka_apart;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kafka_apart::check(bytes));
