//! All connections of one socket.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;

use pliant_proto::host::fair_rates::LinkReport;
use pliant_proto::time::{Instant, Span};

use super::config::Config;
use super::cookie::Cookies;
use super::datagram::{
    self, COOKIE_BYTES, Datagram, Frame, HelloHeader, MAX_NOTICE_BYTES, MAX_OPENING_BYTES, NONCE_BYTES, PACKET_MAGIC,
    RefusalCode, SEALED_HEADER_BYTES, Security, TAG_BYTES, TOKEN_BYTES,
};
use super::event::{Caller, Closed, ConnectError, Event, KeyChangeError};
use super::handshake::{Initiator, Responder};
use super::id::{ConnectionId, INDEX_BITS};
use super::initiations::Initiations;
use super::keys::Keys;
use super::noise::KEY_BYTES;
use super::peers::Peer;
use super::random::Random;
use super::rate_limiter::RateLimiter;
use super::refused::Refused;
use super::seal::OpenError;
use super::sources::{Sources, source_of};
use super::state::{
    CHALLENGE_INTERVAL, CLOSED_LIFETIME, CLOSED_SILENCES, Calling, Connection, ConnectionState, MAX_CLOSES, Move,
    Protection, UNASKED_CLOSE, Unconfirmed,
};
use crate::seam::{Mutant, is_mutant};

/// Most connections of one endpoint.
const MAX_SLOTS: usize = 1 << INDEX_BITS;
/// Most datagrams that wait to be sent. Further ones are dropped, because their receivers will ask again.
const MAX_WAITING: usize = 1024;
/// The same for answers to unproven senders, which take no room from established connections.
const MAX_WAITING_ANSWERS: usize = MAX_WAITING / 2;
/// Resets per second.
const RESETS_PER_SECOND: u32 = 100;

/// First byte of a Welcome's content.
const ACCEPTED: u8 = 0;
const REFUSED: u8 = 1;

/// Takes a caller and its first message, and returns the answer, or why it is refused.
pub type Accept<'a> = dyn FnMut(Caller<'_>, &[u8]) -> Result<Vec<u8>, String> + 'a;

/// A packet for a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Its connection.
    pub connection: ConnectionId,
    /// Its position in the datagram.
    pub packet: Range<usize>,
}

/// All connections of one socket, as a machine.
///
/// Call [`handle_datagram`](Self::handle_datagram) for every datagram and [`handle_timeout`](Self::handle_timeout) at
/// its deadline. After each call, use [`poll_event`](Self::poll_event) and [`poll_transmit`](Self::poll_transmit) until
/// both are empty, then [`poll_timeout`](Self::poll_timeout).
pub struct Endpoint {
    config: Config,
    random: Random,
    cookies: Cookies,
    reset_key: [u8; 32],
    slots: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
    handshakes: RateLimiter,
    /// The same for sources that have proven themselves, so that strangers leave them room.
    proven_handshakes: RateLimiter,
    resets: RateLimiter,
    sources: Sources,
    initiations: Initiations,
    /// The time of the last initiation by this side.
    initiated: u64,
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
    events: VecDeque<(ConnectionId, Event)>,
    /// Before this time no connection needs attention. It may be too early after something was heard.
    wake: Option<Instant>,
    refused: Refused,
}

impl Endpoint {
    /// An endpoint without connections. All its random numbers follow from `seed`, which must be random and secret.
    pub fn new(mut config: Config, seed: [u8; 32]) -> Self {
        config.max_connections = config.max_connections.min(MAX_SLOTS);
        let mut random = Random::from_seed(seed);
        let key = match &config.keys {
            Keys::Plain => [0; 32],
            Keys::Preshared(key) | Keys::Static { private: key, .. } => *key,
        };
        let host = if is_mutant(Mutant::ResetsAreShared) { [0; 32] } else { config.host };
        let reset_key = blake3::derive_key("pliant 3 reset", &[key, host].concat());
        Self {
            cookies: Cookies::new(random.array()),
            sources: Sources::new(random.array(), config.forged_per_second),
            initiations: Initiations::default(),
            initiated: 0,
            random,
            reset_key,
            slots: Vec::new(),
            free: Vec::new(),
            handshakes: RateLimiter::new(config.handshakes_per_second),
            proven_handshakes: RateLimiter::new(config.handshakes_per_second),
            resets: RateLimiter::new(RESETS_PER_SECOND),
            waiting: VecDeque::new(),
            events: VecDeque::new(),
            wake: None,
            refused: Refused::default(),
            config,
        }
    }

    /// Calls `to` with `opening` as the first message.
    pub fn connect(&mut self, now: Instant, to: SocketAddr, opening: &[u8]) -> Result<ConnectionId, ConnectError> {
        if opening.len() > MAX_OPENING_BYTES {
            return Err(ConnectError::Opening);
        }
        let name = self.config.called.iter().find(|(address, _)| *address == to).map(|(_, name)| name.as_str());
        let identity = self.config.keys.called(name)?;
        let id = self.new_id().ok_or(ConnectError::Full)?;
        let (security, nonce) = (self.config.keys.security(), self.random.array());
        let hello = HelloHeader { security, initiator: id, nonce, cookie: [0; COOKIE_BYTES] };
        let Config { connect_timeout, busy_timeout, .. } = self.config;
        let calling = Calling::new(now, hello, opening, connect_timeout, busy_timeout);
        self.send(to, calling.datagram());
        self.wake_by(calling.resend_at.min(calling.until));
        self.put(Connection {
            id,
            remote: 0,
            peer: to,
            identity,
            calls: true,
            moving: None,
            challenged: None,
            state: ConnectionState::Calling(Box::new(calling)),
            protection: Protection::Plain,
            token: None,
            last_heard: now,
            last_pinged: now,
            heard: false,
        });
        Ok(ConnectionId(id))
    }

    /// Ends a connection and tells the peer. No further event of it follows.
    pub fn close(&mut self, now: Instant, connection: ConnectionId, code: u8, reason: &str) {
        let idle_timeout = self.config.idle_timeout;
        let Some(known) = self.get(connection.0) else { return };
        match known.state {
            ConnectionState::Open => {
                let frame = Frame::Close { code, reason: reason.to_owned() };
                let (peer, bytes) = (known.peer, known.frame(&frame));
                let silence = now.since(known.last_heard);
                let until = now.after(CLOSED_LIFETIME.max(silence.times(CLOSED_SILENCES).min(idle_timeout)));
                let again = (silence > UNASKED_CLOSE).then(|| (now.after(UNASKED_CLOSE), UNASKED_CLOSE));
                known.state = ConnectionState::Closed { close: Some(Box::new(frame)), closes: 0, again, until };
                self.send(peer, bytes);
                self.wake_for(connection.0);
            }
            ConnectionState::Calling(_) | ConnectionState::Unconfirmed(_) => self.remove(connection.0),
            ConnectionState::Closed { .. } => {}
        }
    }

    /// Uses these keys from now on. They must be of the same kind, with the same preshared or private key. Open
    /// connections continue, except those with peers that no longer have a line, and those of callers that have lost a
    /// right, which are closed with `code`. Such a caller can call again for what it may still do.
    pub fn set_keys(&mut self, now: Instant, keys: Keys, code: u8) -> Result<(), KeyChangeError> {
        self.config.keys.check_change(&keys)?;
        self.config.keys = keys;
        let keys = &self.config.keys;
        let is_told = |known: &Connection| matches!(known.state, ConnectionState::Open | ConnectionState::Calling(_));
        let revoked = |known: &Connection| {
            let peer = known.identity.as_deref()?;
            let why = match keys.peer(&peer.key) {
                None => Closed::Revoked,
                Some(now) if !known.calls && !now.rights.cover(&peer.rights) => Closed::Restricted,
                Some(_) => return None,
            };
            Some((ConnectionId(known.id), is_told(known), why))
        };
        let revoked: Vec<_> = self.slots.iter().flatten().filter_map(|known| revoked(known)).collect();
        for (connection, told, why) in revoked {
            let said =
                if why == Closed::Revoked { "the key is not taken any more" } else { "the key has fewer rights now" };
            self.close(now, connection, code, said);
            if told {
                self.events.push_back((connection, Event::Closed(why)));
            }
        }
        self.wake_by(now);
        Ok(())
    }

    /// Sets which peers are at which addresses ([`Config::called`]).
    pub fn set_called(&mut self, called: Vec<(SocketAddr, String)>) {
        self.config.called = called;
    }

    /// The peer of a connection, if keys identify it, with its present name and rights.
    pub fn identity(&self, connection: ConnectionId) -> Option<Arc<Peer>> {
        let identity = self.peek(connection.0)?.identity.as_ref()?;
        Some(self.config.keys.peer(&identity.key).unwrap_or(identity).clone())
    }

    /// Sends up to [`MAX_NOTICE_BYTES`] bytes on an open connection, besides its packets. They may be lost.
    pub fn notify(&mut self, connection: ConnectionId, content: &[u8]) {
        debug_assert!(content.len() <= MAX_NOTICE_BYTES, "notices are short");
        self.send_frame(connection, &Frame::Notice(content.to_vec()));
    }

    /// Tells the peer of an open connection which rate is fair on this host's link. The report may be lost.
    pub fn report_host(&mut self, connection: ConnectionId, report: LinkReport) {
        self.send_frame(connection, &Frame::HostReport(report.encode()));
    }

    /// Asks the peer of an open connection for a sign of life. From this the peer learns this side's address.
    pub fn ping(&mut self, connection: ConnectionId) {
        self.send_frame(connection, &Frame::Ping);
    }

    /// Sends a message on a connection if it is open.
    fn send_frame(&mut self, connection: ConnectionId, frame: &Frame) {
        let Some(known) = self.get(connection.0).filter(|known| matches!(known.state, ConnectionState::Open)) else {
            return;
        };
        let (peer, bytes) = (known.peer, known.frame(frame));
        self.send(peer, bytes);
    }

    /// Bytes that [`seal`](Self::seal) needs before and after a packet.
    pub fn overhead(&self) -> (usize, usize) {
        if self.config.keys.security() == Security::Plain { (0, 0) } else { (SEALED_HEADER_BYTES, TAG_BYTES) }
    }

    /// Seals `datagram` in place: a packet with room before and after it as given by [`overhead`](Self::overhead).
    /// False if the connection is not open; then there is nothing to send.
    #[inline]
    pub fn seal(&mut self, connection: ConnectionId, datagram: &mut [u8]) -> bool {
        let Some(known) = self.get(connection.0) else { return false };
        if !matches!(known.state, ConnectionState::Open) {
            return false;
        }
        if let Protection::Sealed(seal) = &mut known.protection {
            seal.0.seal(known.remote, datagram);
        }
        true
    }

    /// Random and secret bytes, for keeping a secret from a peer.
    pub(crate) fn draw_seed(&mut self) -> [u8; 32] {
        self.random.array()
    }

    /// The peer's number of an open connection, to which its packets are addressed.
    pub fn remote(&self, connection: ConnectionId) -> Option<u32> {
        self.peek(connection.0).map(|known| known.remote)
    }

    /// The peer's address.
    pub fn peer(&self, connection: ConnectionId) -> Option<SocketAddr> {
        self.peek(connection.0).map(|known| known.peer)
    }

    /// Time since the peer was last heard.
    pub fn silence(&self, now: Instant, connection: ConnectionId) -> Option<Span> {
        self.peek(connection.0).map(|known| now.since(known.last_heard))
    }

    /// Number of remembered connections.
    pub fn connections(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Counts of refused datagrams.
    pub fn refused(&self) -> Refused {
        self.refused
    }

    /// Counts a useless packet of a plain connection.
    pub fn count_refused(&mut self, count: impl FnOnce(&mut Refused)) {
        count(&mut self.refused);
    }

    /// Handles a datagram, which is opened in place. If it is a packet, returns it; poll the events first.
    ///
    /// `accept` is called with callers and their first messages, possibly more than once for the same one. It returns
    /// the answer, or why the caller is refused.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        bytes: &mut [u8],
        accept: &mut Accept<'_>,
    ) -> Option<Arrival> {
        if bytes.first() == Some(&PACKET_MAGIC) {
            return self.handle_plain_packet(now, from, bytes);
        }
        let Some(datagram) = datagram::decode(bytes) else {
            self.refused.malformed += 1;
            return None;
        };
        match datagram {
            Datagram::Sealed { epoch, connection, number } => {
                return self.handle_sealed(now, from, (epoch, connection, number), bytes);
            }
            Datagram::Control { connection, frame } => {
                if self.hear_plain(now, from, connection, bytes.len()) {
                    self.handle_frame(now, from, connection, &bytes[frame]);
                }
            }
            Datagram::Hello { security, initiator, nonce, cookie, message } => {
                let hello = HelloHeader { security, initiator, nonce, cookie };
                self.handle_hello(now, from, &hello, &bytes[message], accept);
            }
            Datagram::Cookie { initiator, nonce, cookie } => self.handle_cookie(now, from, initiator, (nonce, cookie)),
            Datagram::Welcome { initiator, responder, message } => {
                self.handle_welcome(now, from, (initiator, responder), &bytes[message]);
            }
            Datagram::Refusal { initiator, code, version, nonce } => {
                self.handle_refusal(now, from, initiator, (code, version, nonce));
            }
            Datagram::Reset { connection, token } => self.handle_reset(now, from, connection, &token),
            Datagram::OtherVersion { initiator, .. } => {
                self.refused.unproven += 1;
                if self.config.accepts {
                    self.answer(from, datagram::refusal_of_version(initiator));
                }
            }
        }
        None
    }

    /// The time of the next initiation, in nanoseconds: later than all before.
    fn timestamp(&mut self, now: Instant) -> u64 {
        let time = self.config.unix_ns.saturating_add(now.as_ps() / 1000);
        self.initiated = time.max(self.initiated + 1);
        self.initiated
    }

    /// Begins the handshake, or begins it again. The message is sent with the cookie.
    fn handle_cookie(
        &mut self,
        now: Instant,
        from: SocketAddr,
        id: u32,
        (nonce, cookie): ([u8; NONCE_BYTES], [u8; COOKIE_BYTES]),
    ) {
        let timestamp = self.timestamp(now);
        let next_nonce = self.random.array();
        let place = self.slots.get_mut(ConnectionId(id).index()).and_then(Option::as_deref_mut);
        let (calling, called) = match place {
            Some(Connection { id: known, peer, identity, state: ConnectionState::Calling(calling), .. })
                if *known == id && *peer == from && calling.hello.nonce == nonce =>
            {
                (calling, identity.as_deref())
            }
            // Nobody asked, or it was answered already.
            _ => {
                self.refused.stray += 1;
                return;
            }
        };
        if !calling.take_cookie(now) {
            self.refused.excessive += 1;
            return;
        }
        // Whoever gives a cookie speaks this version.
        calling.hint = None;
        calling.hello = HelloHeader { nonce: next_nonce, cookie, ..calling.hello };
        let (keys, random) = (&self.config.keys, &mut self.random);
        let begun = Initiator::begin(keys, called, &calling.hello, timestamp, &calling.opening, random);
        calling.begun = Some(begun);
        calling.back_off(now);
        let bytes = calling.datagram();
        self.send(from, bytes);
    }

    fn handle_refusal(
        &mut self,
        now: Instant,
        from: SocketAddr,
        id: u32,
        (code, version, nonce): (RefusalCode, u8, Option<[u8; NONCE_BYTES]>),
    ) {
        let (next_nonce, [random]) = (self.random.array(), self.random.array());
        let Some(calling) =
            self.calling(from, id).filter(|calling| nonce.is_none_or(|nonce| calling.hello.nonce == nonce))
        else {
            self.refused.stray += 1;
            return;
        };
        match code {
            RefusalCode::Version => calling.hint = Some(Closed::Version(version)),
            RefusalCode::Security => calling.hint = Some(Closed::Security),
            RefusalCode::Busy => calling.wait_for_room(now, next_nonce, random),
        }
    }

    fn handle_welcome(&mut self, now: Instant, from: SocketAddr, (id, responder): (u32, u32), message: &[u8]) {
        let Some(calling) = self.calling(from, id) else {
            self.refused.stray += 1;
            return;
        };
        let Some(agreed) = calling.begun.as_mut().and_then(|(call, _)| call.finish(message)) else {
            self.refused.forged += 1;
            return;
        };
        match agreed.message.split_first() {
            Some((&REFUSED, reason)) => {
                let reason = String::from_utf8_lossy(reason).into_owned();
                self.end(now, id, Closed::Refused(reason));
            }
            Some((&ACCEPTED, rest)) if rest.len() >= TOKEN_BYTES => {
                let (token, answer) = rest.split_at(TOKEN_BYTES);
                let packets_per_key = self.config.packets_per_key;
                let Some(known) = self.get(id) else { return };
                known.remote = responder;
                known.token = token.try_into().ok();
                known.protection = Protection::new(agreed.secrets, true, packets_per_key);
                known.state = ConnectionState::Open;
                (known.last_heard, known.last_pinged) = (now, now);
                // This shows the responder that the caller has the keys.
                let ping = known.frame(&Frame::Ping);
                self.events.push_back((ConnectionId(id), Event::Connected { answer: answer.to_vec() }));
                self.send(from, ping);
                self.wake_for(id);
            }
            _ => self.refused.malformed += 1,
        }
    }

    fn handle_hello(
        &mut self,
        now: Instant,
        from: SocketAddr,
        hello: &HelloHeader,
        message: &[u8],
        accept: &mut Accept<'_>,
    ) {
        let HelloHeader { security, initiator, nonce, ref cookie } = *hello;
        if !self.config.accepts {
            self.refused.stray += 1;
            return;
        }
        if !self.cookies.is_good(now, from, initiator, cookie) {
            self.refused.unproven += 1;
            if message.len() >= datagram::HELLO_PADDING_BYTES {
                self.give_cookie(now, from, hello);
            }
            return;
        }
        if security != self.config.keys.security() {
            self.refused.forged += 1;
            self.answer(from, datagram::refusal(initiator, RefusalCode::Security, nonce));
            return;
        }
        let hash = blake3::hash(message);
        let known = self.slots.iter().flatten().find(|known| known.peer == from && known.remote == initiator);
        let earlier = match known.map(|known| (known.id, &known.state)) {
            None => None,
            Some((_, ConnectionState::Unconfirmed(unconfirmed))) if unconfirmed.hello == hash => {
                let welcome = unconfirmed.welcome.clone();
                self.send(from, welcome);
                return;
            }
            // The caller has begun anew, if it is the caller.
            Some((id, ConnectionState::Unconfirmed(_))) => Some(id),
            Some(_) => {
                self.refused.replayed += 1;
                return;
            }
        };
        if !self.may_try(now, from) {
            self.refused.excessive += 1;
            return;
        }
        let Some(answer) = Responder::begin(&self.config.keys, hello, message, &mut self.random) else {
            self.refused.forged += 1;
            self.sources.charge(now, from.ip());
            return;
        };
        let caller = answer.caller.clone();
        let identity = caller.as_ref().map_or([0; KEY_BYTES], |peer| peer.key);
        let is_new = self.initiations.take(now, (identity, from), answer.timestamp);
        if !is_new && !is_mutant(Mutant::HellosAreUnbound) {
            self.refused.replayed += 1;
            // An honest caller whose hello was overtaken by a later one of its own begins anew.
            self.give_cookie(now, from, hello);
            return;
        }
        let reply = match accept(Caller { from, peer: caller.as_deref() }, &answer.opening) {
            Ok(reply) => reply,
            Err(why) => {
                let why = crate::text::truncated(&why, MAX_OPENING_BYTES);
                let (message, _) = answer.finish(&[&[REFUSED], why.as_bytes()].concat());
                self.send(from, datagram::welcome(initiator, 0, &message));
                return;
            }
        };
        if let Some(earlier) = earlier {
            self.remove(earlier);
        }
        let id = if self.make_room(from, caller.as_deref()) { self.new_id() } else { None };
        let Some(id) = id else {
            self.refused.excessive += 1;
            self.answer(from, datagram::refusal(initiator, RefusalCode::Busy, nonce));
            return;
        };
        let opening = answer.opening.clone();
        let token = self.token(from, id);
        let (message, secrets) = answer.finish(&[&[ACCEPTED], &token[..], &reply].concat());
        let welcome = datagram::welcome(initiator, id, &message);
        self.send(from, welcome.clone());
        // A welcomed caller asks for signs of life for as long. If it were forgotten before, and had a new address, it would not
        // believe the reset, whose token is for the old one.
        let until = now.after(self.config.idle_timeout);
        self.wake_by(until);
        self.put(Connection {
            id,
            remote: initiator,
            peer: from,
            identity: caller,
            calls: false,
            moving: None,
            challenged: None,
            state: ConnectionState::Unconfirmed(Box::new(Unconfirmed { welcome, hello: hash, opening, until })),
            protection: Protection::new(secrets, false, self.config.packets_per_key),
            token: None,
            last_heard: now,
            last_pinged: now,
            heard: false,
        });
    }

    fn give_cookie(&mut self, now: Instant, to: SocketAddr, hello: &HelloHeader) {
        let cookie = self.cookies.make(now, to, hello.initiator);
        self.answer(to, datagram::cookie(hello.initiator, hello.nonce, &cookie));
    }

    /// Whether a handshake of `from` is processed. Strangers together, and each source that fails, spend budgets.
    fn may_try(&mut self, now: Instant, from: SocketAddr) -> bool {
        let proven = self.sources.is_proven(from.ip());
        self.sources.may_fail(now, from.ip())
            && (proven && self.proven_handshakes.take(now) || self.handshakes.take(now))
    }

    /// Whether there is room for an unconfirmed connection with `from`. Another one may be forgotten for it. A caller with
    /// a key of its own has one share, however many addresses it calls from.
    fn make_room(&mut self, from: SocketAddr, caller: Option<&Peer>) -> bool {
        let Config { max_per_peer, max_unconfirmed, max_unconfirmed_per_address, .. } = self.config;
        let source = source_of(from.ip());
        let has_its_key = |known: &Connection| {
            caller.zip(known.identity.as_deref()).is_some_and(|(caller, peer)| peer.key == caller.key)
        };
        let (mut of_source, mut of_caller, mut unconfirmed) = (0, 0, Vec::new());
        for known in self.slots.iter().flatten() {
            let other = source_of(known.peer.ip());
            of_source += usize::from(other == source);
            of_caller += usize::from(!known.calls && has_its_key(known));
            if matches!(known.state, ConnectionState::Unconfirmed(_)) {
                unconfirmed.push((other, known.last_heard, known.id));
            }
        }
        let held_by = |who| unconfirmed.iter().filter(|(other, ..)| *other == who).count();
        if of_source.max(of_caller) >= max_per_peer || held_by(source) >= max_unconfirmed_per_address {
            return false;
        }
        let is_stranger = |(other, ..): &&(IpAddr, Instant, u32)| !self.sources.is_proven(*other);
        let strangers = unconfirmed.iter().filter(is_stranger).count();
        let crowded = !self.sources.is_proven(source) && strangers >= max_unconfirmed.div_ceil(2);
        if crowded || unconfirmed.len() >= max_unconfirmed || self.is_full() {
            // Strangers first, of them whoever holds most, and of theirs the oldest.
            let rank = |(other, heard, _): &&(IpAddr, Instant, u32)| {
                (!self.sources.is_proven(*other), held_by(*other), std::cmp::Reverse(*heard))
            };
            let candidates = unconfirmed.iter().filter(|entry| !crowded || is_stranger(entry));
            let Some(&(.., last)) = candidates.max_by_key(rank) else { return false };
            self.refused.excessive += 1;
            self.remove(last);
        }
        true
    }

    fn handle_plain_packet(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) -> Option<Arrival> {
        let Some(to) = bytes.get(4..8) else {
            self.refused.malformed += 1;
            return None;
        };
        // A packet's address is the connection, the flow (1 bit) and the side (1 bit).
        let connection = u32::from_be_bytes(to.try_into().expect("four bytes")) >> 2;
        let heard = self.hear_plain(now, from, connection, bytes.len());
        let open = heard && self.get(connection).is_some_and(|known| matches!(known.state, ConnectionState::Open));
        open.then_some(Arrival { connection: ConnectionId(connection), packet: 0..bytes.len() })
    }

    /// Whether the plain datagram belongs to this connection and its peer.
    fn hear_plain(&mut self, now: Instant, from: SocketAddr, connection: u32, length: usize) -> bool {
        let Some(known) = self.get(connection) else {
            self.refused.stray += 1;
            self.answer_unknown(now, from, connection, length);
            return false;
        };
        let plain =
            matches!(known.protection, Protection::Plain) && !matches!(known.state, ConnectionState::Calling(_));
        if known.peer != from || !plain {
            self.refused.stray += 1;
            return false;
        }
        let event = known.hear(now);
        self.after_hearing(connection, event);
        true
    }

    fn handle_sealed(
        &mut self,
        now: Instant,
        from: SocketAddr,
        (epoch, connection, number): (u8, u32, u64),
        bytes: &mut [u8],
    ) -> Option<Arrival> {
        let Some(known) = self.get(connection) else {
            self.refused.stray += 1;
            self.answer_unknown(now, from, connection, bytes.len());
            return None;
        };
        let elsewhere = known.peer != from;
        let closed = matches!(known.state, ConnectionState::Closed { close: Some(_), .. });
        // A caller may move before its connection counts, too.
        if elsewhere && is_mutant(Mutant::AddressesAreFixed) {
            return None;
        }
        if elsewhere && matches!(known.state, ConnectionState::Calling(_) | ConnectionState::Closed { close: None, .. })
        {
            self.refused.stray += 1;
            return None;
        }
        let opened = match &mut known.protection {
            Protection::Plain => Err(OpenError::Forged),
            Protection::Sealed(seal) => seal
                .1
                .open(epoch, number, bytes)
                .map(|()| (elsewhere || known.moving.is_some()) && seal.1.is_newest(number)),
        };
        match opened {
            Err(OpenError::Forged) => self.refused.forged += 1,
            Err(OpenError::Replayed) => self.refused.replayed += 1,
            Ok(moves) if elsewhere && closed => {
                if moves {
                    self.close_again(connection, from, bytes.len());
                }
            }
            Ok(moves) => {
                if moves {
                    self.hear_from(now, from, connection);
                }
                let known = self.get(connection)?;
                let event = known.hear(now);
                let open = matches!(known.state, ConnectionState::Open);
                if event.is_some() || !open {
                    self.after_hearing(connection, event);
                }
                let packet = SEALED_HEADER_BYTES..bytes.len() - TAG_BYTES;
                if bytes[SEALED_HEADER_BYTES] != PACKET_MAGIC {
                    self.handle_frame(now, from, connection, &bytes[packet]);
                } else if open {
                    return Some(Arrival { connection: ConnectionId(connection), packet });
                }
            }
        }
        None
    }

    /// Reports a new connection to the application, and repeats a close to a peer that continues after it.
    fn after_hearing(&mut self, connection: u32, event: Option<Event>) {
        let Some(known) = self.get(connection) else { return };
        if let Some(event) = event {
            let (address, heard) = (known.peer.ip(), known.last_heard);
            self.sources.prove(heard, address);
            self.events.push_back((ConnectionId(connection), event));
            // An open connection needs attention before an unconfirmed one is forgotten.
            self.wake_for(connection);
        }
        let Some(known) = self.get(connection) else { return };
        let peer = known.peer;
        self.close_again(connection, peer, usize::MAX);
    }

    /// Repeats the close to a peer that continues after it, of whom `heard` bytes came from there. A peer may have
    /// moved meanwhile. Then at most three times the received bytes are sent to an address from which nobody has
    /// answered, if necessary without the reason.
    fn close_again(&mut self, connection: u32, to: SocketAddr, heard: usize) {
        let Some(known) = self.get(connection) else { return };
        if let ConnectionState::Closed { close: Some(close), closes, .. } = &mut known.state
            && *closes < MAX_CLOSES
        {
            *closes += 1;
            let frame = (**close).clone();
            let mut bytes = known.frame(&frame);
            if let Frame::Close { code, .. } = frame
                && bytes.len() > heard.saturating_mul(3)
            {
                bytes = known.frame(&Frame::Close { code, reason: String::new() });
            }
            self.send(to, bytes);
        }
    }

    /// The newest datagram of a connection came from here. If the peer is thought to be elsewhere, it is asked whether
    /// it has moved. Until it has answered from here nothing else is sent here, and that is less than three times the
    /// received bytes.
    #[cold]
    fn hear_from(&mut self, now: Instant, from: SocketAddr, connection: u32) {
        let challenge = self.random.array();
        let Some(known) = self.get(connection) else { return };
        if known.peer == from {
            known.moving = None;
            return;
        }
        let challenge = match &known.moving {
            Some(moving) if now.since(moving.challenged_at) < CHALLENGE_INTERVAL => return,
            Some(moving) if moving.to == from => moving.challenge,
            _ => challenge,
        };
        known.moving = Some(Box::new(Move { to: from, challenge, challenged_at: now }));
        let bytes = known.frame(&Frame::PathChallenge { challenge, other_host: known.peer.ip() != from.ip() });
        self.answer(from, bytes);
    }

    fn handle_frame(&mut self, now: Instant, from: SocketAddr, connection: u32, bytes: &[u8]) {
        let Some(frame) = Frame::decode(bytes) else {
            self.refused.malformed += 1;
            return;
        };
        let Some(known) = self.get(connection) else { return };
        match (frame, &known.state) {
            (Frame::Ping, ConnectionState::Open) => {
                let (peer, bytes) = (known.peer, known.frame(&Frame::Pong));
                self.send(peer, bytes);
            }
            (Frame::Close { code, reason }, ConnectionState::Open) => {
                self.end(now, connection, Closed::ByPeer { code, reason });
            }
            (Frame::Notice(content), ConnectionState::Open) => {
                self.events.push_back((ConnectionId(connection), Event::Notice(content)));
            }
            (Frame::HostReport(report), ConnectionState::Open) => {
                self.events.push_back((ConnectionId(connection), Event::HostReport(report)));
            }
            (Frame::PathChallenge { challenge, other_host }, ConnectionState::Open) => {
                let is_new = known.challenged.replace(challenge) != Some(challenge);
                if is_new && other_host {
                    self.events.push_back((ConnectionId(connection), Event::OwnMove));
                }
                let Some(known) = self.get(connection) else { return };
                let (peer, bytes) = (known.peer, known.frame(&Frame::PathResponse(challenge)));
                self.send(peer, bytes);
            }
            (Frame::PathResponse(challenge), ConnectionState::Open) => {
                let moves = known.moving.take_if(|moving| moving.to == from && moving.challenge == challenge);
                if moves.is_some() {
                    known.peer = from;
                    self.sources.prove(now, from.ip());
                    self.events.push_back((ConnectionId(connection), Event::Moved { to: from }));
                }
            }
            (Frame::Close { .. }, ConnectionState::Closed { .. }) => self.remove(connection),
            _ => {}
        }
    }

    /// A datagram of an unknown connection: perhaps this side was restarted. The answer is shorter.
    fn answer_unknown(&mut self, now: Instant, from: SocketAddr, connection: u32, length: usize) {
        let token = self.token(from, connection);
        let bytes = datagram::reset(connection, &token);
        if self.config.accepts && length > bytes.len() && self.resets.take(now) {
            self.answer(from, bytes);
        }
    }

    fn token(&self, peer: SocketAddr, connection: u32) -> [u8; TOKEN_BYTES] {
        let mut hasher = blake3::Hasher::new_keyed(&self.reset_key);
        hasher.update(peer.to_string().as_bytes()).update(&connection.to_be_bytes());
        let mut token = [0; TOKEN_BYTES];
        token.copy_from_slice(&hasher.finalize().as_bytes()[..TOKEN_BYTES]);
        token
    }

    fn handle_reset(&mut self, now: Instant, from: SocketAddr, connection: u32, token: &[u8; TOKEN_BYTES]) {
        let mut known = self.slots.iter().flatten();
        let open = known.find(|known| {
            known.peer == from && known.remote == connection && matches!(known.state, ConnectionState::Open)
        });
        match open.map(|known| (known.id, known.token == Some(*token))) {
            None => self.refused.stray += 1,
            Some((_, false)) => self.refused.forged += 1,
            Some((id, true)) => self.end(now, id, Closed::Reset),
        }
    }

    /// Handles connections whose time has come. An early call does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.wake.is_none_or(|wake| wake > now) {
            return;
        }
        self.wake = None;
        for index in 0..self.slots.len() {
            let Some(known) = &self.slots[index] else { continue };
            let id = known.id;
            if known.deadline(self.config.idle_timeout) <= now {
                self.handle_deadline(now, id);
            }
            self.wake_for(id);
        }
    }

    fn handle_deadline(&mut self, now: Instant, id: u32) {
        let Config { idle_timeout, connect_timeout, .. } = self.config;
        let Some(known) = self.get(id) else { return };
        match &mut known.state {
            ConnectionState::Calling(calling) => {
                let end = match (calling.hint.take(), calling.until <= now) {
                    (Some(hint), _) => Some(hint),
                    (None, true) if calling.busy => Some(Closed::Busy),
                    (None, true) if calling.cookies > 0 => Some(Closed::WrongKey),
                    (None, true) => Some(Closed::NoAnswer(connect_timeout)),
                    (None, false) => None,
                };
                let Some(why) = end else {
                    calling.back_off(now);
                    let (peer, bytes) = (known.peer, calling.datagram());
                    self.send(peer, bytes);
                    return;
                };
                self.events.push_back((ConnectionId(id), Event::Closed(why)));
                self.remove(id);
            }
            ConnectionState::Open if now.since(known.last_heard) >= idle_timeout => {
                self.end(now, id, Closed::Silent(idle_timeout));
            }
            ConnectionState::Open => {
                if known.wants_ping(now, idle_timeout) {
                    known.last_pinged = now;
                    let (peer, bytes) = (known.peer, known.frame(&Frame::Ping));
                    self.send(peer, bytes);
                }
            }
            ConnectionState::Closed { again, until, .. } if now < *until => {
                *again = again.map(|(_, waited)| (now.after(waited.times(2)), waited.times(2)));
                let peer = known.peer;
                self.close_again(id, peer, usize::MAX);
            }
            ConnectionState::Unconfirmed(_) | ConnectionState::Closed { .. } => self.remove(id),
        }
    }

    /// The next datagram to send, and its address.
    pub fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.waiting.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<(ConnectionId, Event)> {
        self.events.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.wake
    }

    /// Ends a connection that the peer has ended, or that no longer exists, and remembers it for a while.
    fn end(&mut self, now: Instant, id: u32, why: Closed) {
        let Some(known) = self.get(id) else { return };
        let until = now.after(CLOSED_LIFETIME);
        known.state = ConnectionState::Closed { close: None, closes: 0, again: None, until };
        self.events.push_back((ConnectionId(id), Event::Closed(why)));
        self.wake_by(until);
    }

    fn send(&mut self, to: SocketAddr, bytes: Vec<u8>) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push_back((to, bytes));
        } else {
            self.refused.excessive += 1;
        }
    }

    /// Answers an unproven sender.
    fn answer(&mut self, to: SocketAddr, bytes: Vec<u8>) {
        if self.waiting.len() < MAX_WAITING_ANSWERS {
            self.waiting.push_back((to, bytes));
        } else {
            self.refused.excessive += 1;
        }
    }

    fn calling(&mut self, from: SocketAddr, id: u32) -> Option<&mut Calling> {
        match self.get(id) {
            Some(Connection { state: ConnectionState::Calling(calling), peer, .. }) if *peer == from => Some(calling),
            _ => None,
        }
    }

    #[inline]
    fn get(&mut self, id: u32) -> Option<&mut Connection> {
        self.slots.get_mut(ConnectionId(id).index())?.as_deref_mut().filter(|known| known.id == id)
    }

    fn peek(&self, id: u32) -> Option<&Connection> {
        self.slots.get(ConnectionId(id).index())?.as_deref().filter(|known| known.id == id)
    }

    fn is_full(&self) -> bool {
        self.connections() >= self.config.max_connections
    }

    /// A number for a new connection; `None` if there is no room.
    fn new_id(&mut self) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        let random = u32::from_be_bytes(self.random.array()) % ((1 << (ConnectionId::BITS - INDEX_BITS)) - 1) + 1;
        Some(random << INDEX_BITS | index)
    }

    fn put(&mut self, connection: Connection) {
        let index = ConnectionId(connection.id).index();
        self.slots[index] = Some(Box::new(connection));
    }

    fn remove(&mut self, id: u32) {
        let index = ConnectionId(id).index();
        if self.peek(id).is_some() {
            self.slots[index] = None;
            self.free.push(index as u32);
        }
    }

    fn wake_for(&mut self, id: u32) {
        let deadline = self.peek(id).map(|known| known.deadline(self.config.idle_timeout));
        if let Some(at) = deadline {
            self.wake_by(at);
        }
    }

    fn wake_by(&mut self, at: Instant) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }
}
