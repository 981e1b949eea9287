//! Stateless cookies: a caller that returns one can receive at its address (as DTLS, RFC 9147 section 5.1, and QUIC's
//! Retry, RFC 9000 section 8.1.2).

use std::net::{IpAddr, SocketAddr};

use pliant_proto::time::{Instant, Span};

use super::datagram::COOKIE_BYTES;

/// How long a cookie is valid.
pub(super) const LIFETIME: Span = Span::from_secs(10);
const TIME_BYTES: usize = 8;

/// Makes and checks cookies: the time, and a keyed hash of it, the peer's address and its connection.
pub(super) struct Cookies {
    key: [u8; blake3::KEY_LEN],
}

impl Cookies {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self { key }
    }

    pub(super) fn make(&self, now: Instant, from: SocketAddr, initiator: u32) -> [u8; COOKIE_BYTES] {
        let time = now.as_ps().to_be_bytes();
        let mut cookie = [0; COOKIE_BYTES];
        cookie[..TIME_BYTES].copy_from_slice(&time);
        cookie[TIME_BYTES..].copy_from_slice(&self.mac(time, from, initiator).as_bytes()[..COOKIE_BYTES - TIME_BYTES]);
        cookie
    }

    pub(super) fn is_good(&self, now: Instant, from: SocketAddr, initiator: u32, cookie: &[u8; COOKIE_BYTES]) -> bool {
        let (time, mac) = cookie.split_at(TIME_BYTES);
        let time: [u8; TIME_BYTES] = time.try_into().expect("split there");
        let age = now.as_ps().checked_sub(u64::from_be_bytes(time));
        let expected = self.mac(time, from, initiator);
        // In constant time, so that nobody finds a cookie byte by byte.
        let differs = mac.iter().zip(expected.as_bytes()).fold(0, |bits, (a, b)| bits | (a ^ b));
        differs == 0 && age.is_some_and(|age| age <= LIFETIME.as_ps())
    }

    fn mac(&self, time: [u8; TIME_BYTES], from: SocketAddr, initiator: u32) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&time);
        match from.ip() {
            IpAddr::V4(ip) => hasher.update(&ip.octets()),
            IpAddr::V6(ip) => hasher.update(&ip.octets()),
        };
        hasher.update(&from.port().to_be_bytes()).update(&initiator.to_be_bytes()).finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cookie is good for its address, its connection and ten seconds, and for nothing else.
    #[test]
    fn cookies_prove_an_address() {
        let cookies = Cookies::new([7; 32]);
        let from: SocketAddr = "192.0.2.1:9".parse().unwrap();
        let at = Instant::from_ps(5_000_000_000_000);
        let cookie = cookies.make(at, from, 3);
        assert!(cookies.is_good(at, from, 3, &cookie));
        assert!(cookies.is_good(at.after(LIFETIME), from, 3, &cookie));
        assert!(!cookies.is_good(at.after(LIFETIME).after(Span::from_ps(1)), from, 3, &cookie));
        assert!(!cookies.is_good(Instant::ZERO, from, 3, &cookie), "of the future");
        assert!(!cookies.is_good(at, "192.0.2.1:10".parse().unwrap(), 3, &cookie));
        assert!(!cookies.is_good(at, "192.0.2.2:9".parse().unwrap(), 3, &cookie));
        assert!(!cookies.is_good(at, from, 4, &cookie));
        assert!(!Cookies::new([8; 32]).is_good(at, from, 3, &cookie));
        for byte in 0..COOKIE_BYTES {
            let mut forged = cookie;
            forged[byte] ^= 1;
            assert!(!cookies.is_good(at, from, 3, &forged), "byte {byte}");
        }
    }
}
