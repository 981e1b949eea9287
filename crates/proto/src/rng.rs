//! Named random streams.
//!
//! Every component draws from a stream of its own, made from the run's one seed and the component's name, so adding a
//! component shifts no other component's numbers. Machines never draw; drivers and workloads do.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What FNV-1a of no bytes is.
pub const FNV1A_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a of 64 bits (Fowler, Noll, Vo): a hash for names, not against an adversary.
pub const fn fnv1a(bytes: &[u8]) -> u64 {
    fnv1a_from(FNV1A_BASIS, bytes)
}

/// The same of bytes that follow others, whose hash is `hash`.
pub const fn fnv1a_from(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut index = 0;
    while index < bytes.len() {
        hash = (hash ^ bytes[index] as u64).wrapping_mul(0x0100_0000_01b3);
        index += 1;
    }
    hash
}

/// A stream of random numbers (xoshiro256++), the same on every machine.
#[derive(Clone, Debug)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream of the component `name` under `seed`.
    pub fn named(seed: u64, name: &str) -> Self {
        // FNV-1a spreads the name; the generator's own seeding (SplitMix64) spreads the sum.
        Self(Xoshiro256PlusPlus::seed_from_u64(seed ^ fnv1a(name.as_bytes()).rotate_left(32)))
    }

    /// 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `[0, 1)`, a multiple of 2⁻⁵³.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..bound` without bias (Lemire's method); `bound` must not be zero.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "nothing lies below zero");
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }

    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log1p(-self.unit())
    }

    /// Shuffles in place (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The authors' test vectors.
    #[test]
    fn fnv1a_gives_the_published_values() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn names_give_independent_reproducible_streams() {
        let (mut a, mut b) = (Stream::named(1, "poisson"), Stream::named(1, "poisson"));
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        let (mut c, mut d) = (Stream::named(1, "incast"), Stream::named(2, "poisson"));
        assert!((0..100).all(|_| a.next_u64() != c.next_u64()));
        assert!((0..100).all(|_| b.next_u64() != d.next_u64()));
    }

    #[test]
    fn moments_are_right() {
        let mut stream = Stream::named(7, "moments");
        let n = 200_000;
        let mean = |f: &mut dyn FnMut() -> f64| (0..n).map(|_| f()).sum::<f64>() / f64::from(n);
        assert!((mean(&mut || stream.unit()) - 0.5).abs() < 0.003);
        assert!((mean(&mut || stream.exponential(2.0)) - 2.0).abs() < 0.02);
        assert!((mean(&mut || stream.below(7) as f64) - 3.0).abs() < 0.02);
    }
}
