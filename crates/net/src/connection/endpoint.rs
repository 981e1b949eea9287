//! All connections of one socket.

mod handshakes;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;

use pliant_proto::time::{Instant, Span};

use handshakes::Hello;

use super::allowance::Allowance;
use super::cookie::Cookies;
use super::datagram::{self, Datagram, Frame, PACKET_MAGIC, TOKEN_BYTES};
use super::handshake::Call;
use super::open::{CLOSED_LIFETIME, CLOSED_SILENCES, Calling, Connection, MAX_CLOSES, Phase, Protection};
use super::random::Random;
use super::seal::OpenError;
use super::{
    Closed, Config, ConnectError, ConnectionId, Event, Keys, MAX_NOTICE_BYTES, MAX_OPENING_BYTES, PLACE_BITS,
    RefusalCode, Refused, SEALED_HEADER_BYTES, Security, TAG_BYTES,
};

/// Most connections of one endpoint.
const MAX_PLACES: usize = 1 << PLACE_BITS;
/// Datagrams that wait to be sent; answers beyond are dropped, for whoever needs one will ask again.
const MAX_WAITING: usize = 1024;
/// Resets per second.
const RESETS_PER_SECOND: u32 = 100;

/// First octet of what a Welcome carries.
const ACCEPTED: u8 = 0;
const REFUSED: u8 = 1;

/// Who is told of a caller's address and what it says first, and returns what to answer, or why not.
pub type Accept<'a> = dyn FnMut(SocketAddr, &[u8]) -> Result<Vec<u8>, String> + 'a;

/// A packet for a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Whose.
    pub connection: ConnectionId,
    /// Where it lies in the datagram.
    pub packet: Range<usize>,
}

/// All connections of one socket, as a machine.
///
/// Give it every datagram ([`handle_datagram`](Self::handle_datagram)) and its deadline
/// ([`handle_timeout`](Self::handle_timeout)); after each, [`poll_event`](Self::poll_event) and
/// [`poll_transmit`](Self::poll_transmit) until both are empty, then [`poll_timeout`](Self::poll_timeout).
pub struct Endpoint {
    config: Config,
    random: Random,
    cookies: Cookies,
    reset_key: [u8; 32],
    places: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
    handshakes: Allowance,
    resets: Allowance,
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
    events: VecDeque<(ConnectionId, Event)>,
    /// No connection wants to be looked at before; earlier than need be after something was heard.
    wake: Option<Instant>,
    refused: Refused,
}

impl Endpoint {
    /// An endpoint without connections; all its random numbers follow from `seed`, which must be random and secret.
    pub fn new(mut config: Config, seed: [u8; 32]) -> Self {
        config.max_connections = config.max_connections.min(MAX_PLACES);
        let mut random = Random::from_seed(seed);
        let reset_key = match &config.keys {
            Keys::Plain => [0; 32],
            Keys::Preshared(key) | Keys::Static { private: key, .. } => blake3::derive_key("pliant 1 reset", key),
        };
        Self {
            cookies: Cookies::new(random.array()),
            random,
            reset_key,
            places: Vec::new(),
            free: Vec::new(),
            handshakes: Allowance::new(config.handshakes_per_second),
            resets: Allowance::new(RESETS_PER_SECOND),
            waiting: VecDeque::new(),
            events: VecDeque::new(),
            wake: None,
            refused: Refused::default(),
            config,
        }
    }

    /// Calls `to` and says `opening` first.
    pub fn connect(&mut self, now: Instant, to: SocketAddr, opening: &[u8]) -> Result<ConnectionId, ConnectError> {
        if opening.len() > MAX_OPENING_BYTES {
            return Err(ConnectError::Opening);
        }
        if matches!(&self.config.keys, Keys::Static { peers, .. } if peers.len() != 1) {
            return Err(ConnectError::ManyPeers);
        }
        let id = self.new_id().ok_or(ConnectError::Full)?;
        let (call, message) = Call::begin(&self.config.keys, id, opening, &mut self.random);
        let calling = Calling::new(now, call, message, self.config.connect_timeout);
        self.send_hello(to, id, &calling);
        self.wake_by(calling.resend_at.min(calling.until));
        self.put(Connection {
            id,
            remote: 0,
            peer: to,
            phase: Phase::Calling(Box::new(calling)),
            protection: Protection::Plain,
            token: None,
            last_heard: now,
            last_pinged: now,
            heard: false,
        });
        Ok(ConnectionId(id))
    }

    /// Ends a connection and tells the peer. Nothing more is said of it.
    pub fn close(&mut self, now: Instant, connection: ConnectionId, code: u8, reason: &str) {
        let idle_timeout = self.config.idle_timeout;
        let Some(known) = self.get(connection.0) else { return };
        match known.phase {
            Phase::Open => {
                let frame = Frame::Close { code, reason: reason.to_owned() };
                let (peer, bytes) = (known.peer, known.frame(&frame));
                let silence = now.since(known.last_heard);
                let until = now.after(CLOSED_LIFETIME.max(silence.times(CLOSED_SILENCES).min(idle_timeout)));
                known.phase = Phase::Closed { close: Some(Box::new(frame)), closes: 0, until };
                self.send(peer, bytes);
                self.wake_by(until);
            }
            Phase::Calling(_) | Phase::Unconfirmed(_) => self.remove(connection.0),
            Phase::Closed { .. } => {}
        }
    }

    /// Says up to [`MAX_NOTICE_BYTES`] bytes beside the packets of an open connection, which may be lost.
    pub fn notify(&mut self, connection: ConnectionId, content: &[u8]) {
        debug_assert!(content.len() <= MAX_NOTICE_BYTES, "notices are short");
        let Some(known) = self.get(connection.0).filter(|known| matches!(known.phase, Phase::Open)) else { return };
        let (peer, bytes) = (known.peer, known.frame(&Frame::Notice(content.to_vec())));
        self.send(peer, bytes);
    }

    /// Bytes that [`seal`](Self::seal) needs before and behind a packet.
    pub fn overhead(&self) -> (usize, usize) {
        if self.config.keys.security() == Security::Plain { (0, 0) } else { (SEALED_HEADER_BYTES, TAG_BYTES) }
    }

    /// Seals `datagram` in place: a packet with room before and behind as [`overhead`](Self::overhead) says.
    /// False if the connection is not open: then there is nothing to send.
    #[inline]
    pub fn seal(&mut self, connection: ConnectionId, datagram: &mut [u8]) -> bool {
        let Some(known) = self.get(connection.0) else { return false };
        if !matches!(known.phase, Phase::Open) {
            return false;
        }
        if let Protection::Sealed(seal) = &mut known.protection {
            seal.0.seal(known.remote, datagram);
        }
        true
    }

    /// The peer's number of an open connection, which its packets are addressed to.
    pub fn remote(&self, connection: ConnectionId) -> Option<u32> {
        self.peek(connection.0).map(|known| known.remote)
    }

    /// The peer's address.
    pub fn peer(&self, connection: ConnectionId) -> Option<SocketAddr> {
        self.peek(connection.0).map(|known| known.peer)
    }

    /// Time since the peer was heard last.
    pub fn silence(&self, now: Instant, connection: ConnectionId) -> Option<Span> {
        self.peek(connection.0).map(|known| now.since(known.last_heard))
    }

    /// Connections it remembers.
    pub fn connections(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// What was refused.
    pub fn refused(&self) -> Refused {
        self.refused
    }

    /// A packet of a plain connection turned out to be of no use.
    pub fn count_refused(&mut self, count: impl FnOnce(&mut Refused)) {
        count(&mut self.refused);
    }

    /// Handles a datagram, which is opened in place. Returns the packet in it if it is one; poll the events first.
    ///
    /// `accept` hears of callers with their openings, possibly more than once of the same, and returns what to answer,
    /// or why not.
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
                    self.handle_frame(now, connection, &bytes[frame]);
                }
            }
            Datagram::Hello { security, initiator, cookie, message } => {
                let hello = Hello { from, security, initiator, cookie };
                self.handle_hello(now, &hello, &bytes[message], accept);
            }
            Datagram::Cookie { initiator, cookie } => self.handle_cookie(now, from, initiator, cookie),
            Datagram::Welcome { initiator, responder, message } => {
                self.handle_welcome(now, from, (initiator, responder), &bytes[message]);
            }
            Datagram::Refusal { initiator, code, version } => {
                let hint = match code {
                    RefusalCode::Version => Closed::Version(version),
                    RefusalCode::Security => Closed::Security,
                    RefusalCode::Busy => Closed::Busy,
                };
                match self.calling(from, initiator) {
                    Some(calling) => calling.hint = Some(hint),
                    None => self.refused.stray += 1,
                }
            }
            Datagram::Reset { connection, token } => self.handle_reset(now, from, connection, &token),
            Datagram::OtherVersion { initiator, .. } => {
                self.refused.unproven += 1;
                if self.config.accepts {
                    self.send(from, datagram::refusal(initiator, RefusalCode::Version));
                }
            }
        }
        None
    }

    fn handle_plain_packet(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) -> Option<Arrival> {
        let Some(to) = bytes.get(4..8) else {
            self.refused.malformed += 1;
            return None;
        };
        // A packet's address is the connection, the flow (1 bit) and the side (1 bit).
        let connection = u32::from_be_bytes(to.try_into().expect("four bytes")) >> 2;
        let heard = self.hear_plain(now, from, connection, bytes.len());
        let open = heard && self.get(connection).is_some_and(|known| matches!(known.phase, Phase::Open));
        open.then_some(Arrival { connection: ConnectionId(connection), packet: 0..bytes.len() })
    }

    /// Whether the plain datagram is of this connection and its peer.
    fn hear_plain(&mut self, now: Instant, from: SocketAddr, connection: u32, length: usize) -> bool {
        let Some(known) = self.get(connection) else {
            self.refused.stray += 1;
            self.answer_unknown(now, from, connection, length);
            return false;
        };
        let plain = matches!(known.protection, Protection::Plain) && !matches!(known.phase, Phase::Calling(_));
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
        if known.peer != from {
            self.refused.stray += 1;
            return None;
        }
        let opened = match &mut known.protection {
            Protection::Plain => Err(OpenError::Forged),
            Protection::Sealed(seal) => seal.1.open(epoch, number, bytes),
        };
        match opened {
            Err(OpenError::Forged) => self.refused.forged += 1,
            Err(OpenError::Replayed) => self.refused.replayed += 1,
            Ok(()) => {
                let event = known.hear(now);
                let open = matches!(known.phase, Phase::Open);
                if event.is_some() || !open {
                    self.after_hearing(connection, event);
                }
                let packet = SEALED_HEADER_BYTES..bytes.len() - TAG_BYTES;
                if bytes[SEALED_HEADER_BYTES] != PACKET_MAGIC {
                    self.handle_frame(now, connection, &bytes[packet]);
                } else if open {
                    return Some(Arrival { connection: ConnectionId(connection), packet });
                }
            }
        }
        None
    }

    /// Tells the application of a new connection, and a peer that goes on after a close of the close.
    fn after_hearing(&mut self, connection: u32, event: Option<Event>) {
        if let Some(event) = event {
            self.events.push_back((ConnectionId(connection), event));
        }
        let Some(known) = self.get(connection) else { return };
        if let Phase::Closed { close: Some(close), closes, .. } = &mut known.phase
            && *closes < MAX_CLOSES
        {
            *closes += 1;
            let frame = (**close).clone();
            let (peer, bytes) = (known.peer, known.frame(&frame));
            self.send(peer, bytes);
        }
    }

    fn handle_frame(&mut self, now: Instant, connection: u32, bytes: &[u8]) {
        let Some(frame) = Frame::decode(bytes) else {
            self.refused.malformed += 1;
            return;
        };
        let Some(known) = self.get(connection) else { return };
        match (frame, &known.phase) {
            (Frame::Ping, Phase::Open) => {
                let (peer, bytes) = (known.peer, known.frame(&Frame::Pong));
                self.send(peer, bytes);
            }
            (Frame::Close { code, reason }, Phase::Open) => {
                self.end(now, connection, Closed::ByPeer { code, reason });
            }
            (Frame::Notice(content), Phase::Open) => {
                self.events.push_back((ConnectionId(connection), Event::Notice(content)));
            }
            (Frame::Close { .. }, Phase::Closed { .. }) => self.remove(connection),
            _ => {}
        }
    }

    /// A datagram of a connection that is not known: perhaps this side was restarted. The answer is shorter.
    fn answer_unknown(&mut self, now: Instant, from: SocketAddr, connection: u32, length: usize) {
        let token = self.token(from, connection);
        let bytes = datagram::reset(connection, &token);
        if self.config.accepts && length > bytes.len() && self.resets.take(now) {
            self.send(from, bytes);
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
        let mut known = self.places.iter().flatten();
        let open =
            known.find(|known| known.peer == from && known.remote == connection && matches!(known.phase, Phase::Open));
        match open.map(|known| (known.id, known.token == Some(*token))) {
            None => self.refused.stray += 1,
            Some((_, false)) => self.refused.forged += 1,
            Some((id, true)) => self.end(now, id, Closed::Reset),
        }
    }

    /// Looks after connections whose time has come. Called early it does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.wake.is_none_or(|wake| wake > now) {
            return;
        }
        self.wake = None;
        for place in 0..self.places.len() {
            let Some(known) = &self.places[place] else { continue };
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
        match &mut known.phase {
            Phase::Calling(calling) => {
                let end = match (calling.hint.take(), calling.until <= now) {
                    (Some(hint), _) => Some(hint),
                    (None, true) if calling.cookies > 0 => Some(Closed::WrongKey),
                    (None, true) => Some(Closed::NoAnswer(connect_timeout)),
                    (None, false) => None,
                };
                let Some(why) = end else {
                    calling.back_off(now);
                    let (peer, cookie, message) = (known.peer, calling.cookie, calling.message.clone());
                    self.send(peer, datagram::hello(self.config.keys.security(), id, &cookie, &message));
                    return;
                };
                self.events.push_back((ConnectionId(id), Event::Closed(why)));
                self.remove(id);
            }
            Phase::Open if now.since(known.last_heard) >= idle_timeout => {
                self.end(now, id, Closed::Silent(idle_timeout));
            }
            Phase::Open => {
                if known.wants_ping(now, idle_timeout) {
                    known.last_pinged = now;
                    let (peer, bytes) = (known.peer, known.frame(&Frame::Ping));
                    self.send(peer, bytes);
                }
            }
            Phase::Unconfirmed(_) | Phase::Closed { .. } => self.remove(id),
        }
    }

    /// The next datagram to send, and to whom.
    pub fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.waiting.pop_front()
    }

    /// What happened next.
    pub fn poll_event(&mut self) -> Option<(ConnectionId, Event)> {
        self.events.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.wake
    }

    /// Ends a connection that the peer has ended, or that is no more, and remembers it for a while.
    fn end(&mut self, now: Instant, id: u32, why: Closed) {
        let Some(known) = self.get(id) else { return };
        let until = now.after(CLOSED_LIFETIME);
        known.phase = Phase::Closed { close: None, closes: 0, until };
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

    fn calling(&mut self, from: SocketAddr, id: u32) -> Option<&mut Calling> {
        match self.get(id) {
            Some(Connection { phase: Phase::Calling(calling), peer, .. }) if *peer == from => Some(calling),
            _ => None,
        }
    }

    #[inline]
    fn get(&mut self, id: u32) -> Option<&mut Connection> {
        self.places.get_mut(ConnectionId(id).place())?.as_deref_mut().filter(|known| known.id == id)
    }

    fn peek(&self, id: u32) -> Option<&Connection> {
        self.places.get(ConnectionId(id).place())?.as_deref().filter(|known| known.id == id)
    }

    fn is_full(&self) -> bool {
        self.connections() >= self.config.max_connections
    }

    /// A number for a new connection; `None` if there is no room.
    fn new_id(&mut self) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        let random = u32::from_be_bytes(self.random.array()) % ((1 << (ConnectionId::BITS - PLACE_BITS)) - 1) + 1;
        Some(random << PLACE_BITS | place)
    }

    fn put(&mut self, connection: Connection) {
        let place = ConnectionId(connection.id).place();
        self.places[place] = Some(Box::new(connection));
    }

    fn remove(&mut self, id: u32) {
        let place = ConnectionId(id).place();
        if self.peek(id).is_some() {
            self.places[place] = None;
            self.free.push(place as u32);
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
