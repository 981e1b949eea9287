//! Streams to services.

use std::io;
use std::net::SocketAddr;

use pliant_net::bundle::{BundleNode, BundleStream, MessageToken};
use pliant_net::connection::Closed;
use thiserror::Error;

use crate::config::NextHop;
use crate::header::{Service, StreamHeader, read_connected};

/// Why there is no stream to a service.
#[derive(Debug, Error)]
pub(super) enum OpenError {
    /// The far daemon does not answer.
    #[error("the daemon {to} at {peer}: {why}{}", silence(why))]
    Silent { to: String, peer: SocketAddr, why: Closed },
    /// The far daemon takes no connection.
    #[error("the daemon {to} at {peer}: {why}")]
    Peer { to: String, peer: SocketAddr, why: Closed },
    /// The far daemon's exit does not connect it.
    #[error("{service}: {error}")]
    Service { service: String, error: io::Error },
}

impl OpenError {
    pub(super) fn new(next_hop: &NextHop, service: &Service, error: io::Error) -> Self {
        let (to, peer) = (next_hop.to.clone(), next_hop.peer);
        match error.downcast() {
            Ok(why @ (Closed::NoAnswer(_) | Closed::WrongKey | Closed::Silent(_))) => Self::Silent { to, peer, why },
            Ok(why) => Self::Peer { to, peer, why },
            Err(error) => Self::Service { service: service.text(), error },
        }
    }

    /// What the exit says of the service, if it says that.
    pub(super) fn says(&self, kind: io::ErrorKind) -> bool {
        matches!(self, Self::Service { error, .. } if error.kind() == kind)
    }
}

/// What silence can mean: a daemon does not answer to a key that it does not know.
fn silence(why: &Closed) -> &'static str {
    if matches!(why, Closed::NoAnswer(_)) { "; it does not run, or does not know this key" } else { "" }
}

/// A stream to a service, once the far end says that the connection stands.
pub(super) async fn open(node: &BundleNode, next_hop: &NextHop, service: &Service) -> Result<BundleStream, OpenError> {
    let header = StreamHeader { service: service.clone(), lossy: None };
    let (stream, token) = open_with(node, next_hop, &header).await?;
    let unasked = || OpenError::new(next_hop, service, io::ErrorKind::InvalidData.into());
    if token.is_none() { Ok(stream) } else { Err(unasked()) }
}

/// The same with all that a header can say. The token is there if records travel apart from the stream.
pub(super) async fn open_with(
    node: &BundleNode,
    next_hop: &NextHop,
    header: &StreamHeader,
) -> Result<(BundleStream, Option<MessageToken>), OpenError> {
    let open = async || {
        let opened = async {
            let mut stream = node.open(next_hop.peer, &next_hop.class, header.text().into_bytes())?;
            let token = read_connected(&mut stream).await?;
            Ok((stream, token))
        };
        opened.await.map_err(|error| OpenError::new(next_hop, &header.service, error))
    };
    match open().await {
        // It is there, and does not know the bundle. No byte of a program goes out before it has connected the stream, so that
        // none can arrive twice.
        Err(OpenError::Peer { why: Closed::Reset, .. }) => open().await,
        opened => opened,
    }
}
