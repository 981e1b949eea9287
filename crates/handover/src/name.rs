//! What the ends of a socket pair are called: abstract names, which begin with a zero byte.
//!
//! ```text
//! pliant-preload PROCESS-NUMBER 192.0.2.7:6379    the program's end: the service that it leads to
//! pliant-preload PROCESS-NUMBER connected         the daemon's end
//! pliant-preload PROCESS-NUMBER error 111         the daemon's end: `connect` has failed with this number
//! ```
//!
//! The process and the number make names unique; a local port is made of the number.

use core::fmt::{self, Write};
use core::net::SocketAddr;

const PREFIX: &str = "pliant-preload ";
const CONNECTED: &str = "connected";
const ERROR: &str = "error ";

/// Most bytes of a name, which stands behind a zero byte in the 108 of `sockaddr_un`.
pub const MAX_NAME_BYTES: usize = 107;

/// A name, without the zero byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameText {
    bytes: [u8; MAX_NAME_BYTES],
    length: usize,
}

impl NameText {
    fn new() -> Self {
        Self { bytes: [0; MAX_NAME_BYTES], length: 0 }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Write for NameText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// What a program's end is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// The daemon's process.
    pub process: u32,
    /// Of the daemon's connections, which one.
    pub number: u64,
    /// The service, as the program has named it.
    pub service: SocketAddr,
}

/// How a connection stands, by the name of the daemon's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The far end has it.
    Connected,
    /// It has failed; the error's number.
    Failed(i32),
}

impl Connection {
    /// The name of the program's end.
    pub fn name(&self) -> NameText {
        self.written(format_args!("{}", self.service))
    }

    /// The name of the daemon's end.
    pub fn outcome(&self, outcome: Outcome) -> NameText {
        match outcome {
            Outcome::Connected => self.written(format_args!("{CONNECTED}")),
            Outcome::Failed(error) => self.written(format_args!("{ERROR}{error}")),
        }
    }

    fn written(&self, rest: fmt::Arguments<'_>) -> NameText {
        let mut name = NameText::new();
        let written = write!(name, "{PREFIX}{}-{} {rest}", self.process, self.number);
        // 15 bytes, numbers of 10 and 20 digits with two marks behind them, an address of 58 at most.
        written.expect("every name fits");
        name
    }

    /// The connection that a program's end is of; `None` if it is another socket's name.
    pub fn parse(name: &[u8]) -> Option<Self> {
        let (process, number, rest) = parts(name)?;
        Some(Self { process, number, service: rest.parse().ok()? })
    }

    /// The local port that the program is told: no socket of the host has it.
    pub fn local_port(&self) -> u16 {
        (self.number % u64::from(u16::MAX)) as u16 + 1
    }
}

impl Outcome {
    /// What the name of a daemon's end says; `None` if it is another socket's.
    pub fn parse(name: &[u8]) -> Option<Self> {
        let (_, _, rest) = parts(name)?;
        match rest.strip_prefix(ERROR) {
            Some(error) => Some(Self::Failed(error.parse().ok()?)),
            None => (rest == CONNECTED).then_some(Self::Connected),
        }
    }
}

fn parts(name: &[u8]) -> Option<(u32, u64, &str)> {
    let rest = core::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?;
    let (which, rest) = rest.split_once(' ')?;
    let (process, number) = which.split_once('-')?;
    Some((process.parse().ok()?, number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use core::net::IpAddr;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        /// Names say what they were made of, and one kind is not taken for the other.
        #[test]
        fn names_round_trip(process: u32, number: u64, ip: IpAddr, port: u16, error in 1..200) {
            let connection = Connection { process, number, service: SocketAddr::new(ip, port) };
            prop_assert_eq!(Connection::parse(connection.name().as_bytes()), Some(connection));
            prop_assert_eq!(Outcome::parse(connection.name().as_bytes()), None);
            prop_assert!(connection.local_port() > 0);
            for outcome in [Outcome::Connected, Outcome::Failed(error)] {
                let name = connection.outcome(outcome);
                prop_assert_eq!(Outcome::parse(name.as_bytes()), Some(outcome));
                prop_assert_eq!(Connection::parse(name.as_bytes()), None);
            }
        }

        #[test]
        fn no_name_panics(name: Vec<u8>) {
            let mut ours = PREFIX.as_bytes().to_vec();
            ours.extend(&name);
            for name in [name, ours] {
                let _ = (Connection::parse(&name), Outcome::parse(&name));
            }
        }
    }

    /// The longest name there can be.
    #[test]
    fn every_name_fits() {
        let address = SocketAddr::V6(core::net::SocketAddrV6::new([u16::MAX; 8].into(), u16::MAX, 0, u32::MAX));
        let connection = Connection { process: u32::MAX, number: u64::MAX, service: address };
        assert_eq!(Connection::parse(connection.name().as_bytes()), Some(connection));
    }
}
