//! Whatever a program asks the preload library's door for, and whatever sockets are called.
#![no_main]

#[path = "../checks/preload_request.rs"]
mod preload_request;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| preload_request::check(bytes));
