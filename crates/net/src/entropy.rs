//! Randomness from the operating system.

use std::io;

use ring::rand::{SecureRandom, SystemRandom};

/// Thirty-two random bytes: a seed of an endpoint, or of a key.
pub fn seed() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(bytes)
}
