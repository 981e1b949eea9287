//! The handshake: two messages of the Noise framework (revision 34), by the `snow` library.
//!
//! | keys | pattern | what the first message proves |
//! |---|---|---|
//! | preshared | `NNpsk0` | its sender holds the key |
//! | static | `IK` | its sender knows the responder's public key and holds its own private key |
//!
//! Both give forward secrecy from the second message on. Without the key, nobody learns more from them than their
//! length. Plain connections exchange the same two messages in the clear.
//!
//! The hello's header with its cookie is the handshake's prologue. So a recorded first message is valid only for one
//! address, one endpoint and the ten seconds of its cookie. The message carries the time when it was made, which orders
//! initiations (as in WireGuard, section 5.1 of its paper), then the opening's length in two bytes, and the opening.
//! Zeros follow a short opening, so that a hello is always longer than a cookie.

use std::sync::Arc;

use snow::HandshakeState;

use super::datagram::{HELLO_PADDING_BYTES, HelloHeader};
use super::keys::Keys;
use super::noise::{KEY_BYTES, PATTERN_PRESHARED, PATTERN_STATIC, builder};
use super::peers::Peer;
use super::random::Random;
use crate::seam::{Mutant, is_mutant};

/// Most bytes that a message has besides its content: an ephemeral key, a static one, three tags.
const MAX_OVERHEAD_BYTES: usize = 2 * KEY_BYTES + 3 * 16;

/// The secrets of both directions.
#[derive(Clone, Copy)]
pub(super) struct Secrets {
    pub(super) from_initiator: [u8; 32],
    pub(super) from_responder: [u8; 32],
}

/// The result of a handshake: the content of the peer's message, and secrets unless the connection is plain.
pub(super) struct Agreed {
    pub(super) message: Vec<u8>,
    pub(super) secrets: Option<Secrets>,
}

/// Bytes of the time in a first message.
const TIMESTAMP_BYTES: usize = 8;

/// Data that both sides mix in, so that a message fits only its hello.
fn prologue(hello: &HelloHeader) -> Vec<u8> {
    if is_mutant(Mutant::HellosAreUnbound) {
        return Vec::new();
    }
    [b"pliant 3".as_slice(), &hello.encode()].concat()
}

/// Which side this is.
#[derive(Clone, Copy)]
enum Side<'p> {
    /// Calls. Under static keys it calls this peer.
    Calls(Option<&'p Peer>),
    IsCalled,
}

fn noise(keys: &Keys, hello: &HelloHeader, side: Side<'_>, random: &mut Random) -> Option<HandshakeState> {
    let prologue = prologue(hello);
    let state = match keys {
        Keys::Plain => return None,
        Keys::Preshared(key) => {
            let builder = builder(PATTERN_PRESHARED, random).psk(0, key).and_then(|b| b.prologue(&prologue));
            builder.and_then(|b| match side {
                Side::Calls(_) => b.build_initiator(),
                Side::IsCalled => b.build_responder(),
            })
        }
        Keys::Static { private, .. } => {
            let builder = builder(PATTERN_STATIC, random).local_private_key(private);
            let builder = builder.and_then(|b| b.prologue(&prologue));
            builder.and_then(|b| match side {
                Side::Calls(peer) => {
                    b.remote_public_key(&peer.expect("a call under static keys is to a peer").key)?.build_initiator()
                }
                Side::IsCalled => b.build_responder(),
            })
        }
    };
    Some(state.expect("the pattern has the keys it needs"))
}

fn secrets(state: &mut HandshakeState) -> Secrets {
    let (from_initiator, from_responder) = state.dangerously_get_raw_split();
    Secrets { from_initiator, from_responder }
}

/// The calling side, waiting for the second message; `None` inside for a plain connection.
pub(super) struct Initiator(Option<Box<HandshakeState>>);

impl Initiator {
    /// Begins a handshake. Returns the first message, which carries `opening` and the time `timestamp` in nanoseconds
    /// since 1970. Under static keys it calls `peer`.
    pub(super) fn begin(
        keys: &Keys,
        peer: Option<&Peer>,
        hello: &HelloHeader,
        timestamp: u64,
        opening: &[u8],
        random: &mut Random,
    ) -> (Self, Vec<u8>) {
        let length = u16::try_from(opening.len()).expect("an opening is short");
        let mut content = [&timestamp.to_be_bytes()[..], &length.to_be_bytes(), opening].concat();
        content.resize(content.len().max(HELLO_PADDING_BYTES), 0);
        let Some(mut state) = noise(keys, hello, Side::Calls(peer), random) else { return (Self(None), content) };
        let mut message = vec![0; content.len() + MAX_OVERHEAD_BYTES];
        let length = state.write_message(&content, &mut message).expect("the message has room");
        message.truncate(length);
        (Self(Some(Box::new(state))), message)
    }

    /// Reads the second message; `None` if it is not from the called side. A failed attempt does not change the
    /// handshake.
    pub(super) fn finish(&mut self, message: &[u8]) -> Option<Agreed> {
        let Some(state) = &mut self.0 else { return Some(Agreed { message: message.to_vec(), secrets: None }) };
        let mut content = vec![0; message.len()];
        let length = state.read_message(message, &mut content).ok()?;
        content.truncate(length);
        Some(Agreed { message: content, secrets: Some(secrets(state)) })
    }
}

/// The called side, after the first message.
pub(super) struct Responder {
    state: Option<Box<HandshakeState>>,
    /// The caller; `None` if keys do not identify callers.
    pub(super) caller: Option<Arc<Peer>>,
    /// When the caller made the message, by its clock, in nanoseconds since 1970.
    pub(super) timestamp: u64,
    /// Content of the first message.
    pub(super) opening: Vec<u8>,
}

impl Responder {
    /// Reads a first message; `None` if its sender does not prove to hold a key.
    pub(super) fn begin(keys: &Keys, hello: &HelloHeader, message: &[u8], random: &mut Random) -> Option<Self> {
        let mut caller = None;
        let mut state = noise(keys, hello, Side::IsCalled, random);
        let mut content = message.to_vec();
        if let Some(state) = &mut state {
            let length = state.read_message(message, &mut content).ok()?;
            content.truncate(length);
            if let Keys::Static { .. } = keys {
                caller = Some(keys.peer(state.get_remote_static()?)?.clone());
            }
        }
        let (timestamp, rest) = content.split_first_chunk::<TIMESTAMP_BYTES>()?;
        let (length, rest) = rest.split_first_chunk()?;
        let opening = rest.get(..usize::from(u16::from_be_bytes(*length)))?.to_vec();
        Some(Self { state: state.map(Box::new), caller, timestamp: u64::from_be_bytes(*timestamp), opening })
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
    use super::super::noise::key_pair;
    use super::*;

    fn random(seed: u8) -> Random {
        Random::from_seed([seed; 32])
    }

    fn hello(keys: &Keys, initiator: u32) -> HelloHeader {
        HelloHeader { security: keys.security(), initiator, nonce: [1; 8], cookie: [2; 24] }
    }

    fn begin(keys: &Keys, opening: &[u8], seed: u8) -> (Initiator, Vec<u8>) {
        let called = keys.called(None).unwrap();
        Initiator::begin(keys, called.as_deref(), &hello(keys, 7), 99, opening, &mut random(seed))
    }

    fn static_keys() -> (Keys, Keys) {
        let (a, b) = (key_pair(random(1)), key_pair(random(2)));
        let of = |private, key| Keys::Static { private, peers: vec![Arc::new(Peer::parse(key, &[]).unwrap())] };
        (of(a.0, b.1), of(b.0, a.1))
    }

    /// Under each kind of key both sides read what the other said and hold the same secrets, one per direction, new ones
    /// in each handshake.
    #[test]
    fn both_sides_agree() {
        let preshared = Keys::Preshared([9; 32]);
        for (caller, called) in [(preshared.clone(), preshared), static_keys(), (Keys::Plain, Keys::Plain)] {
            let mut seen = Vec::new();
            for seed in [3, 4] {
                let (mut call, first) = begin(&caller, b"opening", seed);
                let answer = Responder::begin(&called, &hello(&called, 7), &first, &mut random(seed + 10)).unwrap();
                assert_eq!((&answer.opening[..], answer.timestamp), (&b"opening"[..], 99));
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
            let (_, first) = begin(&theirs, b"x", 3);
            assert!(Responder::begin(&ours, &hello(&ours, 7), &first, &mut random(4)).is_none());
        }
        for (caller, called) in [(Keys::Preshared([9; 32]), Keys::Preshared([9; 32])), (caller, called)] {
            let (mut call, first) = begin(&caller, b"x", 3);
            let own = hello(&called, 7);
            for (other, what) in [
                (HelloHeader { initiator: 8, ..own }, "another connection"),
                (HelloHeader { cookie: [3; 24], ..own }, "another cookie"),
                (HelloHeader { nonce: [3; 8], ..own }, "another nonce"),
            ] {
                assert!(Responder::begin(&called, &other, &first, &mut random(4)).is_none(), "{what}");
            }
            for byte in 0..first.len() {
                let mut changed = first.clone();
                changed[byte] ^= 0x40;
                assert!(
                    Responder::begin(&called, &own, &changed, &mut random(4)).is_none(),
                    "byte {byte} of the first"
                );
            }
            let (second, _) = Responder::begin(&called, &own, &first, &mut random(4)).unwrap().finish(b"y");
            for byte in 0..second.len() {
                let mut changed = second.clone();
                changed[byte] ^= 0x40;
                assert!(call.finish(&changed).is_none(), "byte {byte} of the second");
            }
            assert!(call.finish(&second).is_some(), "failed attempts change nothing");
        }
    }
}
