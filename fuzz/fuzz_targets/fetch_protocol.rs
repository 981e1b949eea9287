//! What receivers and sources of one file say to each other: each message is refused or is exactly what encodes to it. A source
//! follows whatever orders and acknowledgements come and sends only symbols that there are; a receiver bears any symbols.
#![no_main]

#[path = "../checks/fetch_protocol.rs"]
mod fetch_protocol;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fetch_protocol::check(bytes));
