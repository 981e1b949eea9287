//! Whatever arrives from the network is refused without panic, or is exactly what the encoder writes.
#![no_main]

#[path = "../checks/wire_codec.rs"]
mod wire_codec;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire_codec::check(bytes));
