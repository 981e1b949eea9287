//! What the driver of a node's socket calls for each connection.

use std::io;
use std::sync::Arc;

use pliant_proto::packet::ByteRange;
use pliant_proto::time::Instant;
use pliant_proto::transport::any::{AnyAnswer, AnyRequest, AnyTransport};
use pliant_proto::transport::{Command, Event as TransportEvent, Statistics};

use super::shared::{SharedBundle, SharedBundles};
use crate::api::buffers::BufferedApplication;
use crate::connection::ConnectionId;
use crate::driver::{Application, Driver, PayloadLocation, Session};

/// The driver of a socket with bundles on it.
pub(crate) type BundleDriver = Driver<AnyTransport, NodeApplication>;
/// One of its sessions.
pub(crate) type BundleSession = Session<AnyTransport, NodeApplication>;

/// Takes whom a connection was called for, if the call is in the list.
pub(crate) fn take_called<T>(calling: &mut Vec<(ConnectionId, T)>, connection: ConnectionId) -> Option<T> {
    let at = calling.iter().position(|(called, _)| *called == connection)?;
    Some(calling.swap_remove(at).1)
}

/// Gives transports what their bundles have to say, and `note`s what those of other flows have counted. Returns the
/// connections of bundles that are over.
pub(crate) fn produce_all(
    driver: &mut BundleDriver,
    note: impl Fn(&BufferedApplication, Statistics),
) -> Vec<(ConnectionId, Arc<SharedBundle>)> {
    let mut over = Vec::new();
    let here: Vec<ConnectionId> = driver.connections().collect();
    let now = driver.now();
    for connection in here {
        let Some(session) = driver.session(connection) else { continue };
        match &session.application {
            NodeApplication::Bundle(application) => {
                let (commands, is_over) = application.produce(session, now);
                if is_over {
                    over.push((connection, application.bundle.clone()));
                }
                for command in commands.into_iter().flatten() {
                    driver.command(connection, command);
                }
            }
            NodeApplication::Buffered(application) => note(application, session.sender_statistics()),
        }
    }
    over
}

/// A bundle's end of its connection.
pub(crate) struct BundleApplication {
    pub(crate) bundle: Arc<SharedBundle>,
    pub(crate) bundles: Arc<SharedBundles>,
}

impl BundleApplication {
    /// Notes what the transports have counted, and frames what there is to send. Returns what the transport is to be told,
    /// and whether the bundle is over: it was retired or abandoned, and the peer has all that was said.
    fn produce(&self, session: &BundleSession, now: Instant) -> ([Option<Command<AnyAnswer>>; 3], bool) {
        let mut state = self.bundle.lock();
        (state.sender, state.receiver) = (session.sender_statistics(), session.receiver_statistics());
        state.address = session.peer();
        if let Some(sender) = session.sender() {
            state.path.note(sender);
        }
        let bytes = state.multiplexer.produce();
        let sent_bytes = state.multiplexer.counts().sent_bytes;
        let unframed = state.announced.map(|written| written.saturating_sub(sent_bytes));
        state.announced.take_if(|_| unframed == Some(0));
        let commands = [
            unframed.map(|bytes| Command::SetSize(state.multiplexer.framed_end() + bytes)),
            state.deadline.take_command(now),
            (bytes > 0).then_some(Command::Send { bytes }),
        ];
        let over = state.retired && state.multiplexer.is_over() || state.abandoned && state.multiplexer.has_said_all();
        self.bundle.handle_events(state, &self.bundles);
        (commands, over)
    }
}

impl Application for BundleApplication {
    fn read(&mut self, location: PayloadLocation, payload: &mut [u8]) -> io::Result<()> {
        let PayloadLocation::Stream(offset) = location else { unreachable!("bundles are streams") };
        self.bundle.lock().multiplexer.read_sent(offset, payload);
        Ok(())
    }

    fn write(&mut self, location: PayloadLocation, payload: &[u8]) -> io::Result<()> {
        let PayloadLocation::Stream(offset) = location else { return Ok(()) };
        let mut state = self.bundle.lock();
        let received = state.multiplexer.receive(offset, payload);
        let exceeded = state.multiplexer.exceeded();
        self.bundle.handle_events(state, &self.bundles);
        if let Some(most) = exceeded {
            self.bundles.make_room(&self.bundle, most);
        }
        received.map_err(io::Error::other)
    }

    fn event(&mut self, event: TransportEvent<AnyRequest>) -> io::Result<()> {
        match event {
            TransportEvent::Release(ByteRange { end, .. }) => {
                let mut state = self.bundle.lock();
                state.multiplexer.release(end);
                self.bundle.handle_events(state, &self.bundles);
            }
            TransportEvent::WillBeLate { expected } => self.bundle.lock().deadline.note_late(expected),
            _ => {}
        }
        Ok(())
    }
}

/// A connection of a node.
pub(crate) enum NodeApplication {
    /// A bundle.
    Bundle(BundleApplication),
    /// A flow whose bytes or messages go through buffers.
    Buffered(BufferedApplication),
}

impl NodeApplication {
    pub(crate) fn bundle(&self) -> Option<&Arc<SharedBundle>> {
        match self {
            Self::Bundle(application) => Some(&application.bundle),
            Self::Buffered(_) => None,
        }
    }
}

impl Application for NodeApplication {
    fn read(&mut self, location: PayloadLocation, payload: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Bundle(application) => application.read(location, payload),
            Self::Buffered(application) => application.read(location, payload),
        }
    }

    fn write(&mut self, location: PayloadLocation, payload: &[u8]) -> io::Result<()> {
        match self {
            Self::Bundle(application) => application.write(location, payload),
            Self::Buffered(application) => application.write(location, payload),
        }
    }

    fn event(&mut self, event: TransportEvent<AnyRequest>) -> io::Result<()> {
        match self {
            Self::Bundle(application) => application.event(event),
            Self::Buffered(application) => application.event(event),
        }
    }
}
