//! Whatever a peer says of a stream is no service, or one whose text says the same.

use pliant_daemon::parsers::service;

pub(crate) fn check(bytes: &[u8]) {
    let Some(text) = service(bytes) else { return };
    assert_eq!(service(text.as_bytes()).as_ref(), Some(&text));
    assert!(text.len() <= bytes.len() && text.is_ascii());
}
