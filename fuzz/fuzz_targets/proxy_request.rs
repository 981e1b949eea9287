//! Whatever a program says to the door that speaks SOCKS5 and HTTP is refused, or names a service that a header can say; a
//! name and a password for the proxy do not go on to the service.
#![no_main]

#[path = "../checks/proxy_request.rs"]
mod proxy_request;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| proxy_request::check(bytes));
