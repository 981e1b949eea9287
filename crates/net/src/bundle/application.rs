//! What the driver of a node's socket calls for each connection.

use std::io;
use std::sync::Arc;

use pliant_proto::packet::ByteRange;
use pliant_proto::transport::any::{AnyRequest, AnyTransport};
use pliant_proto::transport::{Event as TransportEvent, Statistics};

use super::shared::{SharedBundle, SharedBundles};
use crate::api::buffers::BufferedApplication;
use crate::driver::{Application, Driver, PayloadLocation, Session};

/// The driver of a socket with bundles on it.
pub(crate) type BundleDriver = Driver<AnyTransport, NodeApplication>;
/// One of its sessions.
pub(crate) type BundleSession = Session<AnyTransport, NodeApplication>;

/// A bundle's end of its connection.
pub(crate) struct BundleApplication {
    pub(crate) bundle: Arc<SharedBundle>,
    pub(crate) bundles: Arc<SharedBundles>,
}

impl BundleApplication {
    /// Notes what the transports have counted, and frames what there is to send. Returns the bytes that are new to the
    /// transport, and whether the bundle is over: it was retired or abandoned, and the peer has all that was said.
    pub(crate) fn produce(&self, sender: Statistics, receiver: Statistics) -> (u64, bool) {
        let mut state = self.bundle.lock();
        (state.sender, state.receiver) = (sender, receiver);
        let bytes = state.multiplexer.produce();
        let over = state.retired && state.multiplexer.is_over() || state.abandoned && state.multiplexer.has_said_all();
        self.bundle.handle_events(state, &self.bundles);
        (bytes, over)
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
        self.bundle.handle_events(state, &self.bundles);
        received.map_err(io::Error::other)
    }

    fn event(&mut self, event: TransportEvent<AnyRequest>) -> io::Result<()> {
        if let TransportEvent::Release(ByteRange { end, .. }) = event {
            let mut state = self.bundle.lock();
            state.multiplexer.release(end);
            self.bundle.handle_events(state, &self.bundles);
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
