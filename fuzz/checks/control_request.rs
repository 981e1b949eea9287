//! Whatever is written on a control socket is no request, or one that says the same when it is written again.

use pliant_daemon::control::{Answer, Request};

pub(crate) fn check(bytes: &[u8]) {
    if let Ok(request) = serde_json::from_slice::<Request>(bytes) {
        let line = serde_json::to_string(&request).expect("a request is JSON");
        assert!(!line.contains('\n'), "a request is one line");
        assert_eq!(serde_json::from_str::<Request>(&line).expect("it was one before"), request);
    }
    // What a daemon answers is read by programs that ask.
    let _ = serde_json::from_slice::<Answer>(bytes);
}
