//! Two endpoints, and a network that does with their datagrams what the input says: nothing panics, no packet arrives that
//! was not sent, none twice, and there are never more connections than allowed.
#![no_main]

#[path = "../checks/connection_endpoint.rs"]
mod connection_endpoint;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| connection_endpoint::check(bytes));
