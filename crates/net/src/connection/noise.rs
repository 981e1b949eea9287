//! The `snow` library with this machine's random numbers, and the handshake patterns in use.

use snow::Builder;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random as NoiseRandom};

use super::random::Random;

/// Bytes of every key.
pub const KEY_BYTES: usize = 32;

pub(super) const PATTERN_PRESHARED: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
pub(super) const PATTERN_STATIC: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";

/// The library's primitives with this machine's random numbers.
struct Resolver {
    seed: [u8; 32],
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn NoiseRandom>> {
        Some(Box::new(Random::from_seed(self.seed)))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

pub(super) fn builder<'k>(pattern: &str, random: &mut Random) -> Builder<'k> {
    let resolver = Resolver { seed: random.array() };
    Builder::with_resolver(pattern.parse().expect("the pattern is known"), Box::new(resolver))
}

/// A new private key and its public half.
pub(super) fn key_pair(mut random: Random) -> ([u8; KEY_BYTES], [u8; KEY_BYTES]) {
    let pair = builder(PATTERN_STATIC, &mut random).generate_keypair().expect("the generator never fails");
    (pair.private.try_into().expect("32 bytes"), pair.public.try_into().expect("32 bytes"))
}
