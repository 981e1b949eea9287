//! The datagrams of connections, as bytes.
//!
//! ```text
//!  byte   0       1              2          3      4..8
//!         0x51    version|kind   security   zero   see below
//!
//!  Hello    4..8 initiator's connection  8..16 nonce  16..40 cookie             then the handshake's first message
//!           with no cookie yet (zeros): 24 zeros, so that the answer is shorter
//!  Cookie   4..8 initiator's connection  8..16 the hello's nonce  16..40 cookie
//!  Welcome  4..8 initiator's connection  8..12 responder's connection           then the handshake's second message
//!  Refusal  4..8 initiator's connection  8 why  9 the version that is spoken    then the hello's nonce (8 bytes), unless
//!           the hello is of another version
//!  Reset    4..8 the connection that is not known here  8..24 token
//!  Sealed   2 key epoch  4..8 receiver's connection  8..16 packet number        then ciphertext and tag (16 bytes)
//!  Control  4..8 receiver's connection                                          then a frame; plain connections only
//! ```
//!
//! A sealed datagram holds a packet ([`pliant_proto::wire`]) or a frame. A plain packet travels unchanged, with another
//! first byte. Numbers are in network byte order.

use std::ops::Range;

use pliant_proto::host::fair_rates::REPORT_BYTES;

/// First byte of every datagram of the connection layer.
pub(super) const MAGIC: u8 = 0x51;
/// First byte of packets, sealed or plain.
pub(super) const PACKET_MAGIC: u8 = 0x50;
/// Version of this layer, in the upper half of the second byte.
pub const VERSION: u8 = 3;

/// Most bytes that an opening or an answer carries.
pub const MAX_OPENING_BYTES: usize = 900;
/// Bytes of a hello's nonce.
pub(super) const NONCE_BYTES: usize = 8;

/// Bytes of a cookie.
pub(super) const COOKIE_BYTES: usize = 24;
/// Bytes of a token that proves a reset.
pub(super) const TOKEN_BYTES: usize = 16;
/// Bytes before what is sealed.
pub const SEALED_HEADER_BYTES: usize = 16;
/// Bytes of the authentication tag.
pub const TAG_BYTES: usize = 16;

const HEADER_BYTES: usize = 8;
const HELLO_HEADER_BYTES: usize = HEADER_BYTES + NONCE_BYTES + COOKIE_BYTES;
/// A hello without a valid cookie is answered only if at least this many bytes follow its header. The answer, a cookie,
/// is as long as the header, and an answer must be shorter than its question.
pub(super) const HELLO_PADDING_BYTES: usize = 24;
const WELCOME_HEADER_BYTES: usize = HEADER_BYTES + 4;
/// A reset and a refusal are no longer than the shortest datagram that they answer.
const RESET_BYTES: usize = HEADER_BYTES + TOKEN_BYTES;
const REFUSAL_BYTES: usize = HEADER_BYTES + 2 + NONCE_BYTES;
/// The form that every version understands: the refusal of a version.
const VERSION_REFUSAL_BYTES: usize = HEADER_BYTES + 2;

const KIND_HELLO: u8 = 0;
const KIND_COOKIE: u8 = 1;
const KIND_WELCOME: u8 = 2;
const KIND_REFUSAL: u8 = 3;
const KIND_RESET: u8 = 4;
const KIND_SEALED: u8 = 5;
const KIND_CONTROL: u8 = 6;

/// How a connection is protected. Both sides must have chosen the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Security {
    /// Without protection: for testbeds and loopback.
    Plain = 0,
    /// By a key that both sides hold.
    Preshared = 1,
    /// By a pair of keys per side, whose public halves the sides know of each other.
    Static = 2,
}

impl Security {
    fn from_octet(octet: u8) -> Option<Self> {
        [Self::Plain, Self::Preshared, Self::Static].into_iter().find(|security| *security as u8 == octet)
    }
}

/// Why a request for a connection was refused. It is not authenticated, so it is only a hint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RefusalCode {
    /// Another version is spoken.
    Version = 0,
    /// Another kind of protection is required.
    Security = 1,
    /// There is no room for another connection.
    Busy = 2,
}

/// A datagram of the connection layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Datagram {
    /// Asks for a connection.
    Hello {
        /// The requested protection.
        security: Security,
        /// The initiator's connection.
        initiator: u32,
        /// Number that the answer must repeat.
        nonce: [u8; NONCE_BYTES],
        /// The cookie that it was given, or zeros.
        cookie: [u8; COOKIE_BYTES],
        /// Position of the handshake's first message.
        message: Range<usize>,
    },
    /// Asks for another hello with this cookie.
    Cookie {
        /// The initiator's connection.
        initiator: u32,
        /// The nonce of the hello that it answers.
        nonce: [u8; NONCE_BYTES],
        /// The cookie.
        cookie: [u8; COOKIE_BYTES],
    },
    /// Grants a connection.
    Welcome {
        /// The initiator's connection.
        initiator: u32,
        /// The responder's connection.
        responder: u32,
        /// Position of the handshake's second message.
        message: Range<usize>,
    },
    /// Refuses a connection.
    Refusal {
        /// The initiator's connection.
        initiator: u32,
        /// Why.
        code: RefusalCode,
        /// The version that is spoken.
        version: u8,
        /// The nonce of the hello that it answers; `None` if the hello had another version.
        nonce: Option<[u8; NONCE_BYTES]>,
    },
    /// The connection is unknown, or no longer known.
    Reset {
        /// Which.
        connection: u32,
        /// The proof.
        token: [u8; TOKEN_BYTES],
    },
    /// A sealed packet or frame.
    Sealed {
        /// Key epoch, modulo 256.
        epoch: u8,
        /// The receiver's connection.
        connection: u32,
        /// Packet number.
        number: u64,
    },
    /// A frame of a plain connection.
    Control {
        /// The receiver's connection.
        connection: u32,
        /// Position of the frame.
        frame: Range<usize>,
    },
    /// A hello of another version, which is otherwise not understood.
    OtherVersion {
        /// Which.
        version: u8,
        /// The initiator's connection.
        initiator: u32,
    },
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// Reads a datagram that is not a packet; `None` if it is malformed.
pub fn decode(bytes: &[u8]) -> Option<Datagram> {
    let [magic, version_and_kind, security, zero, ..] = *bytes else { return None };
    let id = u32::from_be_bytes(array(bytes, 4)?);
    if magic != MAGIC || zero != 0 {
        return None;
    }
    let kind = version_and_kind & 0xf;
    if version_and_kind >> 4 != VERSION {
        // What a refusal says must be understood by every version.
        let refuses = bytes.len() == VERSION_REFUSAL_BYTES && bytes[HEADER_BYTES] == RefusalCode::Version as u8;
        if kind == KIND_REFUSAL && refuses {
            let version = version_and_kind >> 4;
            return Some(Datagram::Refusal { initiator: id, code: RefusalCode::Version, version, nonce: None });
        }
        // Answered only where it cannot start a dialogue of two answers, and by less than was asked.
        let is_hello = kind == KIND_HELLO && bytes.len() > VERSION_REFUSAL_BYTES;
        return is_hello.then_some(Datagram::OtherVersion { version: version_and_kind >> 4, initiator: id });
    }
    let rest = |from: usize| (bytes.len() >= from).then_some(from..bytes.len());
    let exactly = |length: usize| (bytes.len() == length && security == 0).then_some(());
    match kind {
        KIND_HELLO => Some(Datagram::Hello {
            security: Security::from_octet(security)?,
            initiator: id,
            nonce: array(bytes, HEADER_BYTES)?,
            cookie: array(bytes, HEADER_BYTES + NONCE_BYTES)?,
            message: rest(HELLO_HEADER_BYTES)?,
        }),
        KIND_COOKIE => {
            exactly(HELLO_HEADER_BYTES)?;
            let (nonce, cookie) = (array(bytes, HEADER_BYTES)?, array(bytes, HEADER_BYTES + NONCE_BYTES)?);
            Some(Datagram::Cookie { initiator: id, nonce, cookie })
        }
        KIND_WELCOME if security == 0 => Some(Datagram::Welcome {
            initiator: id,
            responder: u32::from_be_bytes(array(bytes, HEADER_BYTES)?),
            message: rest(WELCOME_HEADER_BYTES)?,
        }),
        KIND_REFUSAL => {
            exactly(REFUSAL_BYTES)?;
            let codes = [RefusalCode::Security, RefusalCode::Busy];
            let code = codes.into_iter().find(|code| *code as u8 == bytes[HEADER_BYTES])?;
            let nonce = Some(array(bytes, VERSION_REFUSAL_BYTES)?);
            Some(Datagram::Refusal { initiator: id, code, version: bytes[HEADER_BYTES + 1], nonce })
        }
        KIND_RESET => {
            exactly(RESET_BYTES)?;
            Some(Datagram::Reset { connection: id, token: array(bytes, HEADER_BYTES)? })
        }
        KIND_SEALED => {
            let number = u64::from_be_bytes(array(bytes, HEADER_BYTES)?);
            let sealed = bytes.len() > SEALED_HEADER_BYTES + TAG_BYTES;
            sealed.then_some(Datagram::Sealed { epoch: security, connection: id, number })
        }
        KIND_CONTROL if security == 0 && bytes.len() > HEADER_BYTES => {
            Some(Datagram::Control { connection: id, frame: rest(HEADER_BYTES)? })
        }
        _ => None,
    }
}

fn header(kind: u8, octet: u8, id: u32) -> [u8; HEADER_BYTES] {
    let [a, b, c, d] = id.to_be_bytes();
    [MAGIC, VERSION << 4 | kind, octet, 0, a, b, c, d]
}

/// The fields of a hello before the handshake's message. The message fits no other hello.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HelloHeader {
    pub(super) security: Security,
    pub(super) initiator: u32,
    pub(super) nonce: [u8; NONCE_BYTES],
    pub(super) cookie: [u8; COOKIE_BYTES],
}

impl HelloHeader {
    pub(super) fn encode(&self) -> [u8; HELLO_HEADER_BYTES] {
        let mut bytes = [0; HELLO_HEADER_BYTES];
        let (first, rest) = bytes.split_at_mut(HEADER_BYTES);
        first.copy_from_slice(&header(KIND_HELLO, self.security as u8, self.initiator));
        rest[..NONCE_BYTES].copy_from_slice(&self.nonce);
        rest[NONCE_BYTES..].copy_from_slice(&self.cookie);
        bytes
    }
}

pub(super) fn hello(header: &HelloHeader, message: &[u8]) -> Vec<u8> {
    [&header.encode()[..], message].concat()
}

/// The first hello, which has neither cookie nor message.
pub(super) fn first_hello(header: &HelloHeader) -> Vec<u8> {
    hello(header, &[0; HELLO_PADDING_BYTES])
}

pub(super) fn cookie(initiator: u32, nonce: [u8; NONCE_BYTES], cookie: &[u8; COOKIE_BYTES]) -> Vec<u8> {
    [&header(KIND_COOKIE, 0, initiator)[..], &nonce, cookie].concat()
}

pub(super) fn welcome(initiator: u32, responder: u32, message: &[u8]) -> Vec<u8> {
    [&header(KIND_WELCOME, 0, initiator)[..], &responder.to_be_bytes(), message].concat()
}

pub(super) fn refusal(initiator: u32, code: RefusalCode, nonce: [u8; NONCE_BYTES]) -> Vec<u8> {
    [&header(KIND_REFUSAL, 0, initiator)[..], &[code as u8, VERSION], &nonce].concat()
}

/// Refuses a hello of another version, whose nonce is not known.
pub(super) fn refusal_of_version(initiator: u32) -> Vec<u8> {
    [&header(KIND_REFUSAL, 0, initiator)[..], &[RefusalCode::Version as u8, VERSION]].concat()
}

pub(super) fn reset(connection: u32, token: &[u8; TOKEN_BYTES]) -> Vec<u8> {
    [&header(KIND_RESET, 0, connection)[..], token].concat()
}

pub(super) fn sealed_header(epoch: u8, connection: u32, number: u64) -> [u8; SEALED_HEADER_BYTES] {
    let mut bytes = [0; SEALED_HEADER_BYTES];
    bytes[..HEADER_BYTES].copy_from_slice(&header(KIND_SEALED, epoch, connection));
    bytes[HEADER_BYTES..].copy_from_slice(&number.to_be_bytes());
    bytes
}

pub(super) fn control(connection: u32, frame: &[u8]) -> Vec<u8> {
    [&header(KIND_CONTROL, 0, connection)[..], frame].concat()
}

/// Bytes that prove that a peer can receive at an address.
pub(super) const CHALLENGE_BYTES: usize = 8;
/// Longest reason that a [`Frame::Close`] gives, in bytes.
pub(super) const MAX_REASON_BYTES: usize = 200;
/// Longest notice, in bytes.
pub const MAX_NOTICE_BYTES: usize = 200;

/// Messages of a connection other than packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Frame {
    /// Asks for an answer.
    Ping,
    /// The answer.
    Pong,
    /// Ends the connection.
    Close {
        /// 0 for a normal end.
        code: u8,
        /// In words.
        reason: String,
    },
    /// A few bytes of the application. They may be lost, overtaken, or, on plain connections, repeated.
    Notice(Vec<u8>),
    /// Must be answered from where it arrives (RFC 9000 section 8.2).
    PathChallenge {
        /// Bytes that the answer repeats.
        challenge: [u8; CHALLENGE_BYTES],
        /// The peer was known at the address of another host before, not only at another port.
        other_host: bool,
    },
    /// The answer, which repeats the bytes.
    PathResponse([u8; CHALLENGE_BYTES]),
    /// Which rate is fair on the link of the sending host. It may be lost, or overtaken.
    HostReport([u8; REPORT_BYTES]),
}

impl Frame {
    const PING: u8 = 1;
    const PONG: u8 = 2;
    const CLOSE: u8 = 3;
    const NOTICE: u8 = 4;
    const PATH_CHALLENGE: u8 = 5;
    const PATH_RESPONSE: u8 = 6;
    const HOST_REPORT: u8 = 7;

    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Ping => vec![Self::PING],
            Self::Pong => vec![Self::PONG],
            Self::Close { code, reason } => {
                [&[Self::CLOSE, *code], crate::text::truncated(reason, MAX_REASON_BYTES).as_bytes()].concat()
            }
            Self::Notice(content) => [&[Self::NOTICE], &content[..]].concat(),
            Self::PathChallenge { challenge, other_host } => {
                [&[Self::PATH_CHALLENGE], &challenge[..], &[u8::from(*other_host)]].concat()
            }
            Self::PathResponse(challenge) => [&[Self::PATH_RESPONSE], &challenge[..]].concat(),
            Self::HostReport(report) => [&[Self::HOST_REPORT], &report[..]].concat(),
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        match *bytes {
            [Self::PING] => Some(Self::Ping),
            [Self::PONG] => Some(Self::Pong),
            [Self::CLOSE, code, ref reason @ ..] if reason.len() <= MAX_REASON_BYTES => {
                Some(Self::Close { code, reason: str::from_utf8(reason).ok()?.to_owned() })
            }
            [Self::NOTICE, ref content @ ..] if content.len() <= MAX_NOTICE_BYTES => {
                Some(Self::Notice(content.to_vec()))
            }
            [Self::PATH_CHALLENGE, ref challenge @ .., other_host @ (0 | 1)] => {
                Some(Self::PathChallenge { challenge: challenge.try_into().ok()?, other_host: other_host == 1 })
            }
            [Self::PATH_RESPONSE, ref challenge @ ..] => Some(Self::PathResponse(challenge.try_into().ok()?)),
            [Self::HOST_REPORT, ref report @ ..] => Some(Self::HostReport(report.try_into().ok()?)),
            _ => None,
        }
    }
}
