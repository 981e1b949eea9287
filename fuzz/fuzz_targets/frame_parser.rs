//! Whatever a station puts on the wire is no frame to the switch, or one whose headers lie within it and stay what they are
//! when the switch marks it and completes its checksum.
#![no_main]

#[path = "../checks/frame_parser.rs"]
mod frame_parser;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| frame_parser::check(bytes));
