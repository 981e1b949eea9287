//! One connection.

use std::net::SocketAddr;

use pliant_proto::time::{Instant, Span};

use super::Event;
use super::datagram::{self, COOKIE_BYTES, Frame, SEALED_HEADER_BYTES, TAG_BYTES, TOKEN_BYTES};
use super::handshake::{Call, Secrets};
use super::seal::{Opener, Sealer};

/// First time between two hellos; it doubles up to [`LONGEST_RESEND`].
const FIRST_RESEND: Span = Span::from_ms(250);
const LONGEST_RESEND: Span = Span::from_secs(2);
/// How long a peer that called may take to show that it has the keys.
pub(super) const UNCONFIRMED_LIFETIME: Span = Span::from_secs(5);
/// How long a closed connection is remembered.
pub(super) const CLOSED_LIFETIME: Span = Span::from_secs(1);
/// A connection closed in a silence of the peer's is remembered for so many times that silence, up to the idle timeout: a
/// timer that doubles may keep the peer silent for longer yet, and what it says then is to be answered by the close.
pub(super) const CLOSED_SILENCES: u64 = 4;
/// A peer that has not been heard since the handshake is asked for a sign of life this often.
const CONFIRM_INTERVAL: Span = Span::from_ms(200);
/// Signs of life asked for within the idle timeout.
const PINGS: u64 = 4;
/// Cookies that one call takes.
pub(super) const MAX_COOKIES: u8 = 8;
/// Times that a close is repeated to a peer that goes on.
pub(super) const MAX_CLOSES: u8 = 16;

/// A call that nobody has answered yet.
pub(super) struct Calling {
    pub(super) call: Call,
    pub(super) message: Vec<u8>,
    pub(super) cookie: [u8; COOKIE_BYTES],
    pub(super) cookies: u8,
    pub(super) resend_at: Instant,
    resend_after: Span,
    pub(super) until: Instant,
    /// What somebody said who may be anybody.
    pub(super) hint: Option<super::Closed>,
}

impl Calling {
    pub(super) fn new(now: Instant, call: Call, message: Vec<u8>, timeout: Span) -> Self {
        let cookie = [0; COOKIE_BYTES];
        let (resend_at, until) = (now.after(FIRST_RESEND), now.after(timeout));
        Self { call, message, cookie, cookies: 0, resend_at, resend_after: FIRST_RESEND, until, hint: None }
    }

    pub(super) fn back_off(&mut self, now: Instant) {
        self.resend_after = Span::from_ps((self.resend_after.as_ps() * 2).min(LONGEST_RESEND.as_ps()));
        self.resend_at = now.after(self.resend_after);
    }
}

/// A peer that has called and was answered, but may be a repetition of somebody's hello.
pub(super) struct Unconfirmed {
    pub(super) welcome: Vec<u8>,
    pub(super) hello: blake3::Hash,
    pub(super) opening: Vec<u8>,
    pub(super) until: Instant,
}

/// Where a connection stands.
pub(super) enum Phase {
    Calling(Box<Calling>),
    Unconfirmed(Box<Unconfirmed>),
    Open,
    /// Closed, and remembered for a while: by this side, which then repeats why, or by the peer.
    Closed {
        close: Option<Box<Frame>>,
        closes: u8,
        until: Instant,
    },
}

/// How its datagrams are protected.
pub(super) enum Protection {
    Plain,
    Sealed(Box<(Sealer, Opener)>),
}

impl Protection {
    pub(super) fn new(secrets: Option<Secrets>, calls: bool, packets_per_key: u64) -> Self {
        let Some(Secrets { from_initiator, from_responder }) = secrets else { return Self::Plain };
        let (ours, theirs) = if calls { (from_initiator, from_responder) } else { (from_responder, from_initiator) };
        Self::Sealed(Box::new((Sealer::new(ours, packets_per_key), Opener::new(theirs))))
    }
}

/// One connection.
pub(super) struct Connection {
    pub(super) id: u32,
    pub(super) remote: u32,
    pub(super) peer: SocketAddr,
    pub(super) phase: Phase,
    pub(super) protection: Protection,
    /// What proves that the peer has forgotten it.
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

    /// The next sign of life to ask for, unless something is heard before.
    fn ping_at(&self, idle_timeout: Span) -> Instant {
        if !self.heard {
            return self.last_pinged.after(CONFIRM_INTERVAL);
        }
        self.last_heard.max(self.last_pinged).after(Span::from_ps(idle_timeout.as_ps() / PINGS))
    }

    /// When it wants to be looked at.
    pub(super) fn deadline(&self, idle_timeout: Span) -> Instant {
        match &self.phase {
            Phase::Calling(calling) => calling.resend_at.min(calling.until),
            Phase::Unconfirmed(unconfirmed) => unconfirmed.until,
            Phase::Open => self.last_heard.after(idle_timeout).min(self.ping_at(idle_timeout)),
            Phase::Closed { until, .. } => *until,
        }
    }

    pub(super) fn wants_ping(&self, now: Instant, idle_timeout: Span) -> bool {
        now >= self.ping_at(idle_timeout)
    }

    /// The peer proved to hold the keys just now. The event that follows, if it had not before.
    pub(super) fn hear(&mut self, now: Instant) -> Option<Event> {
        self.last_heard = now;
        self.heard = true;
        let Phase::Unconfirmed(unconfirmed) = &mut self.phase else { return None };
        let opening = std::mem::take(&mut unconfirmed.opening);
        self.phase = Phase::Open;
        Some(Event::Accepted { from: self.peer, opening })
    }
}
