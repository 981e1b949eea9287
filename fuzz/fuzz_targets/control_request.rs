//! Whatever is written on a control socket is no request, or one that says the same when it is written again.
#![no_main]

#[path = "../checks/control_request.rs"]
mod control_request;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| control_request::check(bytes));
