//! What a program asks the door of files for is a plain name, a hash or nothing, and a range within the file or none.
#![no_main]

#[path = "../checks/object_request.rs"]
mod object_request;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| object_request::check(bytes));
