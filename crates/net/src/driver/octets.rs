//! Random octets of a flow.

use crate::connection::Random;

/// Octets drawn at a time.
const DRAWN: usize = 64;

/// Random octets, drawn many at a time.
pub(super) struct Octets {
    random: Random,
    drawn: [u8; DRAWN],
    used: usize,
}

impl Octets {
    /// `seed` is random and secret.
    pub(super) fn from_seed(seed: [u8; 32]) -> Self {
        Self { random: Random::from_seed(seed), drawn: [0; DRAWN], used: DRAWN }
    }

    #[inline]
    pub(super) fn next(&mut self) -> u8 {
        if self.used == DRAWN {
            self.random.fill(&mut self.drawn);
            self.used = 0;
        }
        self.used += 1;
        self.drawn[self.used - 1]
    }
}
