//! Whatever a broker gives for records, in whatever order, never is more left out than the bound, and the next reader gets
//! the same.
#![no_main]

#[path = "../checks/kafka_records.rs"]
mod kafka_records;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kafka_records::check(bytes));
