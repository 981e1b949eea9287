//! One connection.

use std::net::SocketAddr;
use std::sync::Arc;

use pliant_proto::time::{Instant, Span};

use super::datagram::{
    self, CHALLENGE_BYTES, COOKIE_BYTES, Frame, HelloHeader, NONCE_BYTES, SEALED_HEADER_BYTES, TAG_BYTES, TOKEN_BYTES,
};
use super::event::{Closed, Event};
use super::handshake::{Initiator, Secrets};
use super::peers::Peer;
use super::seal::{OpeningKeys, SealingKeys};

/// First time between two hellos; it doubles up to [`LONGEST_RESEND`].
const FIRST_RESEND: Span = Span::from_ms(250);
const LONGEST_RESEND: Span = Span::from_secs(2);
/// Longest time between two hellos to a peer without room.
const LONGEST_BUSY: Span = Span::from_secs(4);
/// How long a closed connection is remembered.
pub(super) const CLOSED_LIFETIME: Span = Span::from_secs(1);
/// A connection that was closed while the peer was silent is remembered for this many times that silence, up to the
/// idle timeout. A doubling timer may keep the peer silent for longer still, and its next datagram must be answered by
/// the close.
pub(super) const CLOSED_SILENCES: u64 = 4;
/// A close to a peer that was silent for longer than this is repeated unasked, first after this long, then at doubling
/// intervals while the connection is remembered. If this side moves meanwhile, what the peer sends does not reach it, and
/// the peer learns the new address only from what it hears.
pub(super) const UNASKED_CLOSE: Span = Span::from_secs(1);
/// Interval in which a peer that was not heard since the handshake is asked for a sign of life.
const CONFIRM_INTERVAL: Span = Span::from_ms(200);
/// Requests for a sign of life within the idle timeout.
const PINGS: u64 = 4;
/// Shortest time between two questions whether the peer has moved.
pub(super) const CHALLENGE_INTERVAL: Span = Span::from_ms(200);
/// Cookies that one call accepts in quick succession. After these it accepts one at a time: an attacker that repeats
/// its hellos may have used them up, and each is valid for only ten seconds.
const MAX_COOKIES: u8 = 8;
/// Shortest time between two of the later ones.
const COOKIE_INTERVAL: Span = Span::from_ms(500);
/// How often a close is repeated to a peer that continues.
pub(super) const MAX_CLOSES: u8 = 16;

/// A call that nobody has answered yet.
pub(super) struct Calling {
    /// The first message.
    pub(super) opening: Vec<u8>,
    pub(super) hello: HelloHeader,
    /// The handshake, once there is a cookie, and its first message.
    pub(super) begun: Option<(Initiator, Vec<u8>)>,
    pub(super) cookies: u8,
    /// When the last cookie was accepted.
    cookie_at: Instant,
    pub(super) resend_at: Instant,
    resend_after: Span,
    pub(super) until: Instant,
    /// An unauthenticated hint from anybody.
    pub(super) hint: Option<Closed>,
    /// The peer had no room when it last answered.
    pub(super) busy: bool,
    /// How long a peer without room is called.
    busy_until: Instant,
}

impl Calling {
    pub(super) fn new(now: Instant, hello: HelloHeader, opening: &[u8], timeout: Span, busy_timeout: Span) -> Self {
        Self {
            opening: opening.to_vec(),
            hello,
            begun: None,
            cookies: 0,
            cookie_at: now,
            resend_at: now.after(FIRST_RESEND),
            resend_after: FIRST_RESEND,
            until: now.after(timeout),
            hint: None,
            busy: false,
            busy_until: now.after(busy_timeout.max(timeout)),
        }
    }

    /// Whether another cookie is accepted now.
    pub(super) fn take_cookie(&mut self, now: Instant) -> bool {
        let takes = self.cookies < MAX_COOKIES || now.since(self.cookie_at) >= COOKIE_INTERVAL;
        if takes {
            self.cookies = (self.cookies + 1).min(MAX_COOKIES);
            self.cookie_at = now;
        }
        takes
    }

    pub(super) fn back_off(&mut self, now: Instant) {
        let longest = if self.busy { LONGEST_BUSY } else { LONGEST_RESEND };
        self.resend_after = Span::from_ps((self.resend_after.as_ps() * 2).min(longest.as_ps()));
        self.resend_at = now.after(self.resend_after);
    }

    /// The peer has no room. It is called again later, by a hello with `nonce`. `random` spreads callers that wait for
    /// the same peer.
    pub(super) fn wait_for_room(&mut self, now: Instant, nonce: [u8; NONCE_BYTES], random: u8) {
        self.busy = true;
        self.back_off(now);
        let part = self.resend_after.as_ps() / 256;
        self.resend_at = now.after(Span::from_ps(self.resend_after.as_ps() / 2 + part * u64::from(random)));
        self.until = self.busy_until;
        self.hello = HelloHeader { nonce, cookie: [0; COOKIE_BYTES], ..self.hello };
        (self.begun, self.cookies) = (None, 0);
    }

    /// The present hello.
    pub(super) fn datagram(&self) -> Vec<u8> {
        match &self.begun {
            None => datagram::first_hello(&self.hello),
            Some((_, message)) => datagram::hello(&self.hello, message),
        }
    }
}

/// A peer that has called and was answered. The call may be a repetition of another host's hello.
pub(super) struct Unconfirmed {
    pub(super) welcome: Vec<u8>,
    pub(super) hello: blake3::Hash,
    pub(super) opening: Vec<u8>,
    pub(super) until: Instant,
}

/// The state of a connection.
pub(super) enum ConnectionState {
    Calling(Box<Calling>),
    Unconfirmed(Box<Unconfirmed>),
    Open,
    /// Closed and remembered for a while: by this side, which then repeats the reason, or by the peer.
    Closed {
        close: Option<Box<Frame>>,
        closes: u8,
        /// When this side repeats it unasked, if it does, and how long after the last time.
        again: Option<(Instant, Span)>,
        until: Instant,
    },
}

/// How its datagrams are protected.
pub(super) enum Protection {
    Plain,
    Sealed(Box<(SealingKeys, OpeningKeys)>),
}

impl Protection {
    pub(super) fn new(secrets: Option<Secrets>, calls: bool, packets_per_key: u64) -> Self {
        let Some(Secrets { from_initiator, from_responder }) = secrets else { return Self::Plain };
        let (ours, theirs) = if calls { (from_initiator, from_responder) } else { (from_responder, from_initiator) };
        Self::Sealed(Box::new((SealingKeys::new(ours, packets_per_key), OpeningKeys::new(theirs))))
    }
}

/// The peer was heard from an unproven address (RFC 9000 section 9.3).
pub(super) struct Move {
    pub(super) to: SocketAddr,
    pub(super) challenge: [u8; CHALLENGE_BYTES],
    pub(super) challenged_at: Instant,
}

/// One connection.
pub(super) struct Connection {
    pub(super) id: u32,
    pub(super) remote: u32,
    pub(super) peer: SocketAddr,
    /// Who the peer is, if keys identify it.
    pub(super) identity: Option<Arc<Peer>>,
    /// Whether this side called.
    pub(super) calls: bool,
    pub(super) moving: Option<Box<Move>>,
    /// The peer's last question whether this side is where it was heard.
    pub(super) challenged: Option<[u8; CHALLENGE_BYTES]>,
    pub(super) state: ConnectionState,
    pub(super) protection: Protection,
    /// Proof that the peer has forgotten the connection.
    pub(super) token: Option<[u8; TOKEN_BYTES]>,
    pub(super) last_heard: Instant,
    pub(super) last_pinged: Instant,
    /// Whether something was heard since the handshake.
    pub(super) heard: bool,
}

impl Connection {
    /// A datagram with a frame.
    pub(super) fn frame(&mut self, frame: &Frame) -> Vec<u8> {
        let content = frame.encode();
        match &mut self.protection {
            Protection::Plain => datagram::control(self.remote, &content),
            Protection::Sealed(seal) => {
                let mut bytes = [&[0; SEALED_HEADER_BYTES], &content[..], &[0; TAG_BYTES]].concat();
                seal.0.seal(self.remote, &mut bytes);
                bytes
            }
        }
    }

    /// When the next sign of life is requested, unless something is heard before.
    fn ping_at(&self, idle_timeout: Span) -> Instant {
        if !self.heard {
            return self.last_pinged.after(CONFIRM_INTERVAL);
        }
        self.last_heard.max(self.last_pinged).after(Span::from_ps(idle_timeout.as_ps() / PINGS))
    }

    /// When it needs attention.
    pub(super) fn deadline(&self, idle_timeout: Span) -> Instant {
        match &self.state {
            ConnectionState::Calling(calling) => calling.resend_at.min(calling.until),
            ConnectionState::Unconfirmed(unconfirmed) => unconfirmed.until,
            ConnectionState::Open => self.last_heard.after(idle_timeout).min(self.ping_at(idle_timeout)),
            ConnectionState::Closed { again, until, .. } => again.map_or(*until, |(at, _)| at.min(*until)),
        }
    }

    pub(super) fn wants_ping(&self, now: Instant, idle_timeout: Span) -> bool {
        now >= self.ping_at(idle_timeout)
    }

    /// The peer has just proven that it holds the keys. Returns the event that follows if it had not done so before.
    pub(super) fn hear(&mut self, now: Instant) -> Option<Event> {
        self.last_heard = now;
        self.heard = true;
        let ConnectionState::Unconfirmed(unconfirmed) = &mut self.state else { return None };
        let opening = std::mem::take(&mut unconfirmed.opening);
        self.state = ConnectionState::Open;
        Some(Event::Accepted { from: self.peer, caller: self.identity.clone(), opening })
    }
}
