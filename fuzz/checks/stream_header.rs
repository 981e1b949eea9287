//! Whatever a peer says of a stream is refused, or is a text that says the same.

use pliant_daemon::parsers::stream_header;

pub(crate) fn check(bytes: &[u8]) {
    let Some(text) = stream_header(bytes) else { return };
    assert_eq!(stream_header(text.as_bytes()).as_ref(), Some(&text));
    assert!(text.len() <= bytes.len());
}
