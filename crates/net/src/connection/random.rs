//! Random numbers for keys and connection numbers.
//!
//! A machine has no entropy of its own. The driver seeds it from the operating system, a test with any value.

/// A generator whose past cannot be derived from its state, because every draw replaces the key (BLAKE3 in keyed,
/// extendable-output mode).
pub(crate) struct Random {
    key: [u8; blake3::KEY_LEN],
}

impl Random {
    pub(crate) fn from_seed(seed: [u8; 32]) -> Self {
        Self { key: seed }
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        let mut output = blake3::Hasher::new_keyed(&self.key).finalize_xof();
        output.fill(&mut self.key);
        output.fill(bytes);
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }
}

impl snow::types::Random for Random {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), snow::Error> {
        self.fill(bytes);
        Ok(())
    }
}
