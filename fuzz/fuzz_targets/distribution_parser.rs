//! Arbitrary text is refused or becomes a distribution whose draws stay within its table.
#![no_main]

#[path = "../checks/distribution_parser.rs"]
mod distribution_parser;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| distribution_parser::check(bytes));
