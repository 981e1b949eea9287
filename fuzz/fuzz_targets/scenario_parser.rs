//! Arbitrary text is refused in one line or becomes a scenario that reads back as itself.
#![no_main]

#[path = "../checks/scenario_parser.rs"]
mod scenario_parser;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| scenario_parser::check(bytes));
