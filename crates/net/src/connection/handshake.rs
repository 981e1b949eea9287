//! The handshake: two messages of the Noise framework (revision 34), by the `snow` library.
//!
//! | keys | pattern | what the first message proves |
//! |---|---|---|
//! | preshared | `NNpsk0` | its sender holds the key |
//! | static | `IK` | its sender knows the responder's public key and holds its own private key |
//!
//! Both give forward secrecy from the second message on, and neither tells anybody without the key anything but its
//! length. Plain connections exchange the same two messages in the clear.

use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random as NoiseRandom};
use snow::{Builder, HandshakeState};

use super::keys::{KEY_BYTES, Keys};
use super::random::Random;

const PATTERN_PRESHARED: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
const PATTERN_STATIC: &str = "Noise_IK_25519_ChaChaPoly_BLAKE2s";
/// Bytes that a message may have beside what it carries: an ephemeral key, a static one, three tags.
const MAX_OVERHEAD_BYTES: usize = 2 * KEY_BYTES + 3 * 16;

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

fn builder<'k>(pattern: &str, random: &mut Random) -> Builder<'k> {
    let resolver = Resolver { seed: random.array() };
    Builder::with_resolver(pattern.parse().expect("the pattern is known"), Box::new(resolver))
}

/// A new private key and its public half.
pub(super) fn key_pair(mut random: Random) -> ([u8; KEY_BYTES], [u8; KEY_BYTES]) {
    let pair = builder(PATTERN_STATIC, &mut random).generate_keypair().expect("the generator never fails");
    (pair.private.try_into().expect("32 bytes"), pair.public.try_into().expect("32 bytes"))
}

/// The secrets of both directions.
#[derive(Clone, Copy)]
pub(super) struct Secrets {
    pub(super) from_initiator: [u8; 32],
    pub(super) from_responder: [u8; 32],
}

/// What a handshake came to: what the peer's message carried, and secrets unless the connection is plain.
pub(super) struct Agreed {
    pub(super) message: Vec<u8>,
    pub(super) secrets: Option<Secrets>,
}

/// What both sides mix in: a message for one connection fits no other.
fn prologue(keys: &Keys, initiator: u32) -> Vec<u8> {
    [b"pliant 1".as_slice(), &[keys.security() as u8], &initiator.to_be_bytes()].concat()
}

fn noise(keys: &Keys, initiator: u32, calls: bool, random: &mut Random) -> Option<HandshakeState> {
    let prologue = prologue(keys, initiator);
    let state = match keys {
        Keys::Plain => return None,
        Keys::Preshared(key) => {
            let builder = builder(PATTERN_PRESHARED, random).psk(0, key).and_then(|b| b.prologue(&prologue));
            builder.and_then(|b| if calls { b.build_initiator() } else { b.build_responder() })
        }
        Keys::Static { private, peers } => {
            let builder = builder(PATTERN_STATIC, random).local_private_key(private);
            let builder = builder.and_then(|b| b.prologue(&prologue));
            builder.and_then(|b| {
                if calls { b.remote_public_key(&peers[0])?.build_initiator() } else { b.build_responder() }
            })
        }
    };
    Some(state.expect("the pattern has the keys it needs"))
}

fn secrets(state: &mut HandshakeState) -> Secrets {
    let (from_initiator, from_responder) = state.dangerously_get_raw_split();
    Secrets { from_initiator, from_responder }
}

/// The side that calls, waiting for the second message; `None` inside for a plain connection.
pub(super) struct Call(Option<Box<HandshakeState>>);

impl Call {
    /// Begins a handshake; returns the first message, which carries `opening`. Static keys need their one peer.
    pub(super) fn begin(keys: &Keys, initiator: u32, opening: &[u8], random: &mut Random) -> (Self, Vec<u8>) {
        let Some(mut state) = noise(keys, initiator, true, random) else { return (Self(None), opening.to_vec()) };
        let mut message = vec![0; opening.len() + MAX_OVERHEAD_BYTES];
        let length = state.write_message(opening, &mut message).expect("the message has room");
        message.truncate(length);
        (Self(Some(Box::new(state))), message)
    }

    /// Reads the second message; `None` if it is not the called side's. A failed attempt leaves the handshake as it was.
    pub(super) fn finish(&mut self, message: &[u8]) -> Option<Agreed> {
        let Some(state) = &mut self.0 else { return Some(Agreed { message: message.to_vec(), secrets: None }) };
        let mut content = vec![0; message.len()];
        let length = state.read_message(message, &mut content).ok()?;
        content.truncate(length);
        Some(Agreed { message: content, secrets: Some(secrets(state)) })
    }
}

/// The side that is called, after the first message.
pub(super) struct Answer {
    state: Option<Box<HandshakeState>>,
    /// What the first message carried.
    pub(super) opening: Vec<u8>,
}

impl Answer {
    /// Reads a first message; `None` if its sender does not prove to be one of those with a key.
    pub(super) fn begin(keys: &Keys, initiator: u32, message: &[u8], random: &mut Random) -> Option<Self> {
        let Some(mut state) = noise(keys, initiator, false, random) else {
            return Some(Self { state: None, opening: message.to_vec() });
        };
        let mut opening = vec![0; message.len()];
        let length = state.read_message(message, &mut opening).ok()?;
        opening.truncate(length);
        if let Keys::Static { peers, .. } = keys {
            let peer = state.get_remote_static()?;
            peers.iter().find(|known| known.as_slice() == peer)?;
        }
        Some(Self { state: Some(Box::new(state)), opening })
    }

    /// The second message, which carries `answer`, and the secrets.
    pub(super) fn finish(self, answer: &[u8]) -> (Vec<u8>, Option<Secrets>) {
        let Some(mut state) = self.state else { return (answer.to_vec(), None) };
        let mut message = vec![0; answer.len() + MAX_OVERHEAD_BYTES];
        let length = state.write_message(answer, &mut message).expect("the message has room");
        message.truncate(length);
        (message, Some(secrets(&mut state)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: u8) -> Random {
        Random::from_seed([seed; 32])
    }

    fn static_keys() -> (Keys, Keys) {
        let (a, b) = (key_pair(random(1)), key_pair(random(2)));
        (Keys::Static { private: a.0, peers: vec![b.1] }, Keys::Static { private: b.0, peers: vec![a.1] })
    }

    /// Under each kind of key both sides read what the other said and hold the same secrets, one per direction, new ones
    /// in each handshake.
    #[test]
    fn both_sides_agree() {
        let preshared = Keys::Preshared([9; 32]);
        for (caller, called) in [(preshared.clone(), preshared), static_keys(), (Keys::Plain, Keys::Plain)] {
            let mut seen = Vec::new();
            for seed in [3, 4] {
                let (mut call, first) = Call::begin(&caller, 7, b"opening", &mut random(seed));
                let answer = Answer::begin(&called, 7, &first, &mut random(seed + 10)).unwrap();
                assert_eq!(answer.opening, b"opening");
                let (second, theirs) = answer.finish(b"answer");
                let agreed = call.finish(&second).unwrap();
                assert_eq!(agreed.message, b"answer");
                assert_eq!(agreed.secrets.is_some(), caller != Keys::Plain);
                if let (Some(ours), Some(theirs)) = (agreed.secrets, theirs) {
                    assert_eq!(ours.from_initiator, theirs.from_initiator);
                    assert_eq!(ours.from_responder, theirs.from_responder);
                    seen.extend([ours.from_initiator, ours.from_responder]);
                }
            }
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), if caller == Keys::Plain { 0 } else { 4 });
        }
    }

    /// Another key, another connection, another side's public key, or a changed bit: no handshake.
    #[test]
    fn nobody_else_is_answered() {
        let (caller, called) = static_keys();
        let stranger = key_pair(random(5));
        let Keys::Static { peers, .. } = &caller else { unreachable!() };
        let intruder = Keys::Static { private: stranger.0, peers: peers.clone() };
        for (theirs, ours) in [(Keys::Preshared([8; 32]), Keys::Preshared([9; 32])), (intruder, called.clone())] {
            let (_, first) = Call::begin(&theirs, 7, b"x", &mut random(3));
            assert!(Answer::begin(&ours, 7, &first, &mut random(4)).is_none());
        }
        for (caller, called) in [(Keys::Preshared([9; 32]), Keys::Preshared([9; 32])), (caller, called)] {
            let (mut call, first) = Call::begin(&caller, 7, b"x", &mut random(3));
            assert!(Answer::begin(&called, 8, &first, &mut random(4)).is_none(), "another connection");
            for byte in 0..first.len() {
                let mut changed = first.clone();
                changed[byte] ^= 0x40;
                assert!(Answer::begin(&called, 7, &changed, &mut random(4)).is_none(), "byte {byte} of the first");
            }
            let (second, _) = Answer::begin(&called, 7, &first, &mut random(4)).unwrap().finish(b"y");
            for byte in 0..second.len() {
                let mut changed = second.clone();
                changed[byte] ^= 0x40;
                assert!(call.finish(&changed).is_none(), "byte {byte} of the second");
            }
            assert!(call.finish(&second).is_some(), "failed attempts change nothing");
        }
    }
}
