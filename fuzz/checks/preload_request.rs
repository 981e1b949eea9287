//! Whatever a program asks the preload library's door for, and whatever sockets are called.

use pliant_handover::{Connection, MAX_REQUEST_BYTES, Outcome, Request, any_matches};

pub(crate) fn check(bytes: &[u8]) {
    if let Some(request) = Request::parse(bytes) {
        let mut again = [0; MAX_REQUEST_BYTES];
        let length = request.encode(&mut again).expect("it was one before");
        assert_eq!(&again[..length], bytes);
    }
    if let Some(connection) = Connection::parse(bytes) {
        assert_eq!(Connection::parse(connection.name().as_bytes()), Some(connection));
    }
    let _ = Outcome::parse(bytes);
    if let Ok(rules) = std::str::from_utf8(bytes) {
        let _ = any_matches(rules, [127, 0, 0, 1].into(), 80);
    }
}
