//! What the library asks for.
//!
//! ```text
//!  byte  0        1       2..4   4..20                             20      21..
//!        version  4 or 6  port   address, IPv4 in the first four   length  class
//! ```
//!
//! Numbers are in network byte order.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const VERSION: u8 = 1;
const IPV4: u8 = 4;
const IPV6: u8 = 6;

/// Bytes of a request without its class.
pub const REQUEST_HEAD_BYTES: usize = 21;
/// Most bytes of a class's name.
pub const MAX_CLASS_BYTES: usize = 255;
/// Most bytes of a request.
pub const MAX_REQUEST_BYTES: usize = REQUEST_HEAD_BYTES + MAX_CLASS_BYTES;

/// A program connects to a service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'b> {
    /// The service, as the program names it.
    pub service: SocketAddr,
    /// The class; empty if none is named.
    pub class: &'b str,
}

impl<'b> Request<'b> {
    /// Writes it; how many bytes it takes. `None` if the class's name is too long.
    pub fn encode(&self, into: &mut [u8; MAX_REQUEST_BYTES]) -> Option<usize> {
        let class = self.class.as_bytes();
        let (family, address) = match self.service.ip() {
            IpAddr::V4(address) => {
                let mut octets = [0; 16];
                octets[..4].copy_from_slice(&address.octets());
                (IPV4, octets)
            }
            IpAddr::V6(address) => (IPV6, address.octets()),
        };
        into[0] = VERSION;
        into[1] = family;
        into[2..4].copy_from_slice(&self.service.port().to_be_bytes());
        into[4..20].copy_from_slice(&address);
        into[20] = u8::try_from(class.len()).ok()?;
        into[REQUEST_HEAD_BYTES..][..class.len()].copy_from_slice(class);
        Some(REQUEST_HEAD_BYTES + class.len())
    }

    /// How many bytes of a class follow the head of a request.
    pub fn class_bytes(head: &[u8; REQUEST_HEAD_BYTES]) -> usize {
        head[REQUEST_HEAD_BYTES - 1].into()
    }

    /// The request that all of `bytes` are; `None` if they are none.
    pub fn parse(bytes: &'b [u8]) -> Option<Self> {
        let (head, class) = bytes.split_first_chunk::<REQUEST_HEAD_BYTES>()?;
        let [version, family, port_high, port_low, ..] = *head;
        let address: [u8; 16] = head[4..20].try_into().ok()?;
        let ip = match (version, family) {
            (VERSION, IPV4) => {
                let [a, b, c, d, rest @ ..] = address;
                if rest != [0; 12] {
                    return None;
                }
                IpAddr::V4(Ipv4Addr::new(a, b, c, d))
            }
            (VERSION, IPV6) => IpAddr::V6(Ipv6Addr::from(address)),
            _ => return None,
        };
        if class.len() != Self::class_bytes(head) {
            return None;
        }
        let service = SocketAddr::new(ip, u16::from_be_bytes([port_high, port_low]));
        Some(Self { service, class: core::str::from_utf8(class).ok()? })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        /// A request comes back, and no part of it is one.
        #[test]
        fn requests_round_trip(ip: IpAddr, port: u16, class in "[a-zä]{0,80}") {
            let request = Request { service: SocketAddr::new(ip, port), class: &class };
            let mut bytes = [0; MAX_REQUEST_BYTES];
            let length = request.encode(&mut bytes).unwrap();
            prop_assert_eq!(Request::parse(&bytes[..length]), Some(request));
            for shorter in 0..length {
                prop_assert_eq!(Request::parse(&bytes[..shorter]), None);
            }
        }

        /// What is a request is written as it was read.
        #[test]
        fn nonsense_is_none(mut bytes: Vec<u8>, likely: bool) {
            if likely && bytes.len() >= REQUEST_HEAD_BYTES {
                (bytes[0], bytes[1]) = (VERSION, if bytes[1] % 2 == 0 { IPV4 } else { IPV6 });
                bytes[20] = (bytes.len() - REQUEST_HEAD_BYTES) as u8;
            }
            if let Some(request) = Request::parse(&bytes) {
                let mut again = [0; MAX_REQUEST_BYTES];
                let length = request.encode(&mut again).unwrap();
                prop_assert_eq!(&again[..length], &bytes[..]);
            }
        }
    }

    #[test]
    fn a_class_that_is_too_long_is_refused() {
        let class = std::string::String::from_utf8([b'x'; MAX_CLASS_BYTES + 1].into()).unwrap();
        let request = Request { service: ([1, 2, 3, 4], 5).into(), class: &class };
        assert_eq!(request.encode(&mut [0; MAX_REQUEST_BYTES]), None);
    }
}
