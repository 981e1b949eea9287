//! What peers and files say before there is trust: datagrams of the connection layer, openings, answers, announcements,
//! offers, orders and key files are refused without panic, or are exactly what encodes to them.
#![no_main]

#[path = "../checks/connection_parsers.rs"]
mod connection_parsers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| connection_parsers::check(bytes));
