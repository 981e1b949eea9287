//! How an endpoint's connections begin, on both sides.

use std::net::SocketAddr;

use pliant_proto::time::Instant;

use super::{ACCEPTED, Accept, Endpoint, REFUSED};
use crate::connection::datagram::{self, COOKIE_BYTES, Frame, TOKEN_BYTES};
use crate::connection::handshake::Answer;
use crate::connection::open::{Calling, Connection, MAX_COOKIES, Phase, Protection, UNCONFIRMED_LIFETIME, Unconfirmed};
use crate::connection::{Closed, ConnectionId, Event, MAX_OPENING_BYTES, RefusalCode, Security};

/// A request for a connection.
pub(super) struct Hello {
    pub(super) from: SocketAddr,
    pub(super) security: Security,
    pub(super) initiator: u32,
    pub(super) cookie: [u8; COOKIE_BYTES],
}

impl Endpoint {
    pub(super) fn send_hello(&mut self, to: SocketAddr, id: u32, calling: &Calling) {
        let bytes = datagram::hello(self.config.keys.security(), id, &calling.cookie, &calling.message);
        self.send(to, bytes);
    }

    pub(super) fn handle_cookie(&mut self, now: Instant, from: SocketAddr, id: u32, cookie: [u8; COOKIE_BYTES]) {
        let Some(calling) = self.calling(from, id) else {
            self.refused.stray += 1;
            return;
        };
        if calling.cookies == MAX_COOKIES {
            self.refused.excessive += 1;
            return;
        }
        calling.cookies += 1;
        calling.cookie = cookie;
        calling.back_off(now);
        let Some(Connection { phase: Phase::Calling(calling), .. }) = self.peek(id) else { return };
        let bytes = datagram::hello(self.config.keys.security(), id, &calling.cookie, &calling.message);
        self.send(from, bytes);
    }

    pub(super) fn handle_welcome(
        &mut self,
        now: Instant,
        from: SocketAddr,
        (id, responder): (u32, u32),
        message: &[u8],
    ) {
        let Some(calling) = self.calling(from, id) else {
            self.refused.stray += 1;
            return;
        };
        let Some(agreed) = calling.call.finish(message) else {
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
                known.phase = Phase::Open;
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

    pub(super) fn handle_hello(&mut self, now: Instant, hello: &Hello, message: &[u8], accept: &mut Accept<'_>) {
        let Hello { from, security, initiator, ref cookie } = *hello;
        if !self.config.accepts {
            self.refused.stray += 1;
            return;
        }
        if !self.cookies.is_good(now, from, initiator, cookie) {
            self.refused.unproven += 1;
            let cookie = self.cookies.make(now, from, initiator);
            self.send(from, datagram::cookie(initiator, &cookie));
            return;
        }
        if security != self.config.keys.security() {
            self.refused.forged += 1;
            self.send(from, datagram::refusal(initiator, RefusalCode::Security));
            return;
        }
        let hash = blake3::hash(message);
        if let Some(known) = self.places.iter().flatten().find(|c| c.peer == from && c.remote == initiator) {
            match &known.phase {
                Phase::Unconfirmed(unconfirmed) if unconfirmed.hello == hash => {
                    let welcome = unconfirmed.welcome.clone();
                    self.send(from, welcome);
                }
                _ => self.refused.replayed += 1,
            }
            return;
        }
        if !self.handshakes.take(now) {
            self.refused.excessive += 1;
            return;
        }
        let Some(answer) = Answer::begin(&self.config.keys, initiator, message, &mut self.random) else {
            self.refused.forged += 1;
            return;
        };
        let reply = accept(from, &answer.opening);
        let refuse = |answer: Answer, why: &str| {
            let (message, _) = answer.finish(&[&[REFUSED], why.as_bytes()].concat());
            datagram::welcome(initiator, 0, &message)
        };
        let reply = match reply {
            Ok(reply) => reply,
            Err(why) => {
                let welcome = refuse(answer, crate::cut(&why, MAX_OPENING_BYTES));
                self.send(from, welcome);
                return;
            }
        };
        let of_peer = self.places.iter().flatten().filter(|known| known.peer.ip() == from.ip()).count();
        self.make_room();
        let id = if of_peer < self.config.max_per_peer { self.new_id() } else { None };
        let Some(id) = id else {
            self.refused.excessive += 1;
            self.send(from, datagram::refusal(initiator, RefusalCode::Busy));
            return;
        };
        let opening = answer.opening.clone();
        let token = self.token(from, id);
        let (message, secrets) = answer.finish(&[&[ACCEPTED], &token[..], &reply].concat());
        let welcome = datagram::welcome(initiator, id, &message);
        self.send(from, welcome.clone());
        let until = now.after(UNCONFIRMED_LIFETIME);
        self.wake_by(until);
        self.put(Connection {
            id,
            remote: initiator,
            peer: from,
            phase: Phase::Unconfirmed(Box::new(Unconfirmed { welcome, hello: hash, opening, until })),
            protection: Protection::new(secrets, false, self.config.packets_per_key),
            token: None,
            last_heard: now,
            last_pinged: now,
            heard: false,
        });
    }

    /// Forgets the oldest unconfirmed connection if there are too many.
    fn make_room(&mut self) {
        let unconfirmed = |known: &&Connection| matches!(known.phase, Phase::Unconfirmed(_));
        let count = self.places.iter().flatten().map(Box::as_ref).filter(unconfirmed).count();
        if count >= self.config.max_unconfirmed || self.is_full() {
            let oldest =
                self.places.iter().flatten().map(Box::as_ref).filter(unconfirmed).min_by_key(|known| known.last_heard);
            if let Some(id) = oldest.map(|known| known.id) {
                self.refused.excessive += 1;
                self.remove(id);
            }
        }
    }
}
