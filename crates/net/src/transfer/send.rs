//! The sending side of a transfer.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pliant_proto::congestion::CongestionControl;
use pliant_proto::contract::Contract;
use pliant_proto::time::Instant;
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::{Statistics, Transport};

use super::outgoing::Outgoing;
use super::{
    Announcement, CODE_DONE, CODE_FAILED, CODE_INTERRUPTED, NAP, PROGRESS_INTERVAL, Progress, Settings, Source,
    TransferError,
};
use crate::clock::realtime_ns;
use crate::connection::{Closed, ConnectionId, Event, Refused, SEALED_HEADER_BYTES, Security, TAG_BYTES};
use crate::driver::{Application, Clock, Driver, Link, Service};
use crate::flow::{Answer, Family, FlowError, Opening, Path};

/// How long a loop sleeps at most while content may come from a reader.
const READER_NAP: Duration = Duration::from_millis(2);

/// What was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Bytes of the content.
    pub bytes: u64,
    /// From the request to the last acknowledgement.
    pub elapsed: Duration,
    /// BLAKE3 hash of the content, if it was sent whole.
    pub hash: Option<blake3::Hash>,
    /// How it was carried.
    pub family: Family,
    /// Congestion window at the end in bytes, of those transports that have one.
    pub window_bytes: Option<u64>,
    /// The transport's counts.
    pub statistics: Statistics,
    /// Datagrams that were not passed to the transport.
    pub refused: Refused,
    /// How far the receiver's clock is ahead of this host's.
    pub clock_offset: ClockOffset,
}

/// How far another host's clock is ahead, measured by one handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClockOffset {
    /// The best guess, in nanoseconds.
    pub ns: i64,
    /// It is off by no more than this, in nanoseconds.
    pub uncertainty_ns: u64,
}

impl ClockOffset {
    /// The answer, at `theirs`, lies between `asked` and `answered` on this host's clock.
    fn between(asked: u64, theirs: u64, answered: u64) -> Self {
        let middle = asked.midpoint(answered);
        let uncertainty_ns = answered.saturating_sub(asked).div_ceil(2);
        Self { ns: theirs.wrapping_sub(middle) as i64, uncertainty_ns }
    }
}

/// Sends `source` to the receiver at `to`. Returns when all of it is acknowledged.
pub fn send(
    source: Source,
    to: SocketAddr,
    settings: &Settings,
    interrupted: &AtomicBool,
    mut progress: impl FnMut(Progress),
) -> Result<Sent, TransferError> {
    settings.check(to)?;
    let socket_error = |error| TransferError::Socket { address: to, error };
    let mut driver = calling::<Outgoing>(settings, to)?;
    let announcement = announce(&source, settings, to)?;
    let opening = Opening { offers: settings.flow.offers(), mtu: settings.flow.mtu, content: announcement.encode() };
    let asked = realtime_ns();
    let connection = driver.connect(to, &opening.encode()).map_err(TransferError::Connect)?;
    let total_bytes = source.bytes();
    let mut sender = Sender {
        settings,
        clock: driver.clock(),
        peer: to,
        asked,
        waiting: Some(Outgoing::new(source, announcement)),
        agreed: None,
        over: None,
        failed: None,
    };
    let mut told_at = driver.now();
    let link = loop {
        let nap = if total_bytes.is_none() { READER_NAP } else { NAP };
        driver.turn(&mut sender, nap).map_err(socket_error)?;
        if let Some(error) = sender.failed.take() {
            driver.close(connection, CODE_FAILED, "it cannot go on").map_err(socket_error)?;
            return Err(error);
        }
        match sender.over.take() {
            Some((Some(link), why)) if has_everything(&link, &why) => break link,
            Some((link, why)) => return Err(sender_error(to, link, why)),
            None => {}
        }
        if interrupted.load(Ordering::Relaxed) {
            driver.close(connection, CODE_INTERRUPTED, "interrupted").map_err(socket_error)?;
            return Err(TransferError::Interrupted);
        }
        let now = driver.now();
        let Some(outgoing) = driver.application(connection) else { continue };
        if outgoing.finished {
            break driver.close(connection, CODE_DONE, "").map_err(socket_error)?.expect("it stood until now");
        }
        match outgoing.commands(now) {
            Ok(commands) => commands.into_iter().for_each(|command| driver.command(connection, command)),
            Err(error) => {
                let path = outgoing.path.clone();
                driver.close(connection, CODE_FAILED, "its source failed").map_err(socket_error)?;
                return Err(TransferError::File { path, error });
            }
        }
        let Some(outgoing) = driver.application(connection) else { continue };
        let done_bytes = outgoing.released;
        if now.since(told_at) >= PROGRESS_INTERVAL {
            told_at = now;
            progress(Progress { done_bytes, total_bytes });
        }
    };
    let elapsed = Duration::from_nanos(driver.clock().now().as_ps() / 1000);
    let refused = driver.refused();
    let (family, clock_offset) = sender.agreed.expect("it was agreed when the connection stood");
    Ok(Sent {
        bytes: link.application.bytes(),
        elapsed,
        hash: link.application.hash(),
        family,
        window_bytes: match link.sender() {
            Some(AnyTransport::TcpSender(sender)) => Some(sender.controller().window()),
            _ => None,
        },
        statistics: link.sender_statistics(),
        refused,
        clock_offset,
    })
}

/// What the receiver is told of `source`.
fn announce(source: &Source, settings: &Settings, to: SocketAddr) -> Result<Announcement, TransferError> {
    let Contract { min_delivery, .. } = settings.flow.contract;
    let messages = settings.flow.transport.family() == Family::Atp;
    let refuse = |why: &str| {
        let path = source.path.clone();
        Err(TransferError::File { path, error: std::io::Error::new(std::io::ErrorKind::InvalidInput, why) })
    };
    let partial = messages || min_delivery < 1.0;
    if partial && source.bytes().is_none() {
        return refuse("a stream of unknown length cannot arrive in part, nor as messages");
    }
    if partial && source.kind == super::Kind::Directory {
        return refuse("a directory cannot arrive in part, nor as messages");
    }
    let payload = path_to(to, settings).payload(settings.flow.mtu);
    let message_bytes = messages.then(|| settings.flow.message_bytes.unwrap_or(u32::from(payload)).max(1));
    let (name, kind, size) = (source.name.clone(), source.kind, source.bytes());
    let hashed = messages && min_delivery >= 1.0 && kind != super::Kind::Test;
    let announcement = Announcement { kind, name, size, partial, hashed, min_delivery, message_bytes };
    if announcement.has_too_many_messages() {
        return refuse("that is more than 67108864 messages: make them larger, `--message-bytes`");
    }
    Ok(announcement)
}

/// A driver from which `peer` can be called.
pub(super) fn calling<A: Application>(
    settings: &Settings,
    peer: SocketAddr,
) -> Result<Driver<AnyTransport, A>, TransferError> {
    let address = settings.bind.unwrap_or_else(|| local_to(peer));
    if address.is_ipv4() != peer.is_ipv4() {
        let error = io::Error::new(io::ErrorKind::InvalidInput, format!("from here {peer} cannot be called"));
        return Err(TransferError::Socket { address, error });
    }
    let driver = settings.driver(address, false).map_err(|error| TransferError::Socket { address, error })?;
    Ok(driver.0)
}

/// Any free port from which `peer` can be called.
fn local_to(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(ip) if ip.ip().is_loopback() => ([127, 0, 0, 1], 0).into(),
        SocketAddr::V6(ip) if ip.ip().is_loopback() => ([0u16, 0, 0, 0, 0, 0, 0, 1], 0).into(),
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    }
}

/// What lies between this host and `peer`.
pub(crate) fn path_to(peer: SocketAddr, settings: &Settings) -> Path {
    let sealed = settings.keys.security() != Security::Plain;
    Path::to(peer, if sealed { SEALED_HEADER_BYTES + TAG_BYTES } else { 0 })
}

/// Whether a receiver that ended the connection did so because it has everything: it hears nothing more when its
/// acknowledgements are lost.
fn has_everything(link: &Link<AnyTransport, Outgoing>, why: &Closed) -> bool {
    matches!(why, Closed::ByPeer { code: CODE_DONE, .. }) && link.application.is_given()
}

fn sender_error(to: SocketAddr, link: Option<Link<AnyTransport, Outgoing>>, why: Closed) -> TransferError {
    match (link, why) {
        (Some(link), Closed::Failed(error)) if link.application.content_failed => {
            TransferError::File { path: link.application.path, error: std::io::Error::other(error) }
        }
        (_, why) => TransferError::ended(to, why),
    }
}

struct Sender<'s> {
    settings: &'s Settings,
    clock: Clock,
    peer: SocketAddr,
    asked: u64,
    waiting: Option<Outgoing>,
    agreed: Option<(Family, ClockOffset)>,
    over: Option<(Option<Link<AnyTransport, Outgoing>>, Closed)>,
    failed: Option<TransferError>,
}

impl Sender<'_> {
    fn make(&self, family: Family, outgoing: &Outgoing) -> Result<AnyTransport, FlowError> {
        let flow = &self.settings.flow;
        let size = outgoing.announcement().size;
        flow.sender(family, path_to(self.peer, self.settings), size, self.clock.phase_ps(flow.reflex_cycle()))
    }
}

impl Service<AnyTransport, Outgoing> for Sender<'_> {
    fn answer(&mut self, _: SocketAddr, _: &[u8]) -> Result<Vec<u8>, String> {
        Err("this side sends".into())
    }

    fn open(&mut self, now: Instant, _: ConnectionId, event: Event) -> Option<Link<AnyTransport, Outgoing>> {
        let Event::Connected { answer } = event else { return None };
        let mut outgoing = self.waiting.take()?;
        let offered = |answer: &Answer| self.settings.flow.offers().contains(&answer.family);
        let Some(answer) = Answer::decode(&answer).filter(offered) else {
            let why = "it does not answer as a receiver does";
            self.failed = Some(TransferError::NotATransfer { address: self.peer, why });
            return None;
        };
        self.agreed = Some((answer.family, ClockOffset::between(self.asked, answer.unix_ns, realtime_ns())));
        let mut transport = match self.make(answer.family, &outgoing) {
            Ok(transport) => transport,
            Err(error) => {
                self.failed = Some(TransferError::Flow(error));
                return None;
            }
        };
        for command in outgoing.commands(now).unwrap_or_default() {
            transport.handle_command(now, command);
        }
        Some(Link::new(outgoing).sending(transport, self.settings.flow.rate_cap))
    }

    fn closed(&mut self, _: ConnectionId, link: Option<Link<AnyTransport, Outgoing>>, why: Closed) {
        self.over = Some((link, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asked at 100, answered at 140, and the other clock said 1120 in between: it is ahead by 1000, give or take 20.
    #[test]
    fn clock_offsets_lie_between() {
        assert_eq!(ClockOffset::between(100, 1120, 140), ClockOffset { ns: 1000, uncertainty_ns: 20 });
        assert_eq!(ClockOffset::between(1100, 120, 1140), ClockOffset { ns: -1000, uncertainty_ns: 20 });
    }
}
