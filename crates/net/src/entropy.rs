//! Randomness from the operating system, and what tells this host from others.

use std::io;
use std::net::SocketAddr;

use ring::rand::{SecureRandom, SystemRandom};

/// Thirty-two random bytes: a seed of an endpoint, or of a key.
pub fn seed() -> io::Result<[u8; 32]> {
    #[cfg(test)]
    if let Some(simulated) = crate::world::here::seed() {
        return Ok(simulated);
    }
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(bytes)
}

/// What tells a socket bound to `address` from all others, on this host and on others: the same whenever it is asked until
/// the system is started anew. It is no secret.
pub fn host(address: SocketAddr) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("pliant 3 host");
    // Random at each start of the system; containers share it, and so have their names beside it.
    for file in ["/proc/sys/kernel/random/boot_id", "/etc/machine-id", "/proc/sys/kernel/hostname"] {
        let content = std::fs::read(file).unwrap_or_default();
        hasher.update(&(content.len() as u64).to_be_bytes()).update(&content);
    }
    *hasher.update(address.to_string().as_bytes()).finalize().as_bytes()
}
