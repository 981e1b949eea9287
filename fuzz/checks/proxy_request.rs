//! Whatever a program says to the door that speaks SOCKS5 and HTTP is refused, or names a service that a header can say; a
//! name and a password for the proxy do not go on to the service.

use pliant_daemon::parsers;

pub(crate) fn check(bytes: &[u8]) {
    let Some(asked) = parsers::proxy_request(bytes) else { return };
    assert_eq!(parsers::stream_header(asked.service.as_bytes()).as_ref(), Some(&asked.service));
    assert!(asked.head.len() <= 2 * bytes.len() + 100);
    let head = String::from_utf8(asked.head).expect("a head is text").to_ascii_lowercase();
    assert!(!head.contains("\nproxy-authorization:"));
}
