//! Callers, two receivers with the same key, and an attacker who sees every datagram, may withhold it, repeat it, change
//! it and send it from any address to anybody, while receivers are restarted and time passes. Whatever the input makes of
//! that: every call is accepted at most once, and only from its own address; nobody is told more bytes than it sent before
//! it has a connection; places are bounded; only a receiver that forgot a connection can reset it.
#![no_main]

#[path = "../checks/handshake_sequence.rs"]
mod handshake_sequence;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| handshake_sequence::check(bytes));
