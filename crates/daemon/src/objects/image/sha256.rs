//! SHA-256, by which registries name content.

use std::fmt::Write;
use std::io;

use pliant_net::transfer::HeldFile;
use ring::digest::{Context, SHA256};

const PIECE_BYTES: usize = 256 << 10;

/// A hash in progress.
pub(in crate::objects) struct Sha256(Context);

impl Sha256 {
    /// The hash of some bytes, in hexadecimal digits.
    pub(in crate::objects) fn of(bytes: &[u8]) -> String {
        let mut hash = Self::begin();
        hash.0.update(bytes);
        hash.digits()
    }

    /// The hash of no bytes yet.
    pub(in crate::objects) fn begin() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Goes on with what is there of a file from an offset on, and returns where that ends.
    pub(in crate::objects) fn go_on(&mut self, file: &HeldFile, mut at: u64) -> io::Result<u64> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let read = file.read_at(at, &mut piece)?;
            if read == 0 {
                return Ok(at);
            }
            self.0.update(&piece[..read]);
            at += read as u64;
        }
    }

    /// The hash, in hexadecimal digits.
    pub(in crate::objects) fn digits(self) -> String {
        self.0.finish().as_ref().iter().fold(String::new(), |mut digits, byte| {
            let _ = write!(digits, "{byte:02x}");
            digits
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1.
    #[test]
    fn the_standards_example() {
        assert_eq!(Sha256::of(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
