//! Whether an HTTP request is for this host.

use std::net::IpAddr;

use hyper::Uri;

/// Whether a `Host` header names this host; so does a request without one. A browser names a foreign host for a foreign page
/// whose name resolves to loopback (DNS rebinding).
pub(crate) fn names_this_host(header: Option<&[u8]>) -> bool {
    let Some(header) = header else { return true };
    let named = str::from_utf8(header).ok().and_then(|host| host.trim().parse::<Uri>().ok());
    named.as_ref().and_then(Uri::host).is_some_and(|host| {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_this_host() {
        for host in ["localhost", "LocalHost:7480", "127.0.0.1:80", "127.9.9.9", "[::1]:7480", " [::1] "] {
            assert!(names_this_host(Some(host.as_bytes())), "{host}");
        }
        for host in ["", "pages.example:7480", "localhost.example", "10.0.0.1", "[::2]", "127.0.0.1.example", "\u{e9}"]
        {
            assert!(!names_this_host(Some(host.as_bytes())), "{host}");
        }
        assert!(names_this_host(None) && !names_this_host(Some(b"\xff")));
    }
}
