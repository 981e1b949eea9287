//! Streams to services.

use std::io;

use pliant_net::bundle::{BundleNode, BundleStream};
use tokio::io::AsyncReadExt;

use crate::config::NextHop;
use crate::header::{CONNECTED, Service, StreamHeader};

/// A stream to a service, once the far end says that the connection stands.
pub(super) async fn open(node: &BundleNode, next_hop: &NextHop, service: &Service) -> io::Result<BundleStream> {
    open_with(node, next_hop, &StreamHeader { service: service.clone(), lossy: None }).await
}

/// The same with all that a header can say.
pub(super) async fn open_with(
    node: &BundleNode,
    next_hop: &NextHop,
    header: &StreamHeader,
) -> io::Result<BundleStream> {
    let mut stream = node.open(next_hop.peer, &next_hop.class, header.text().into_bytes())?;
    let mut answer = [0];
    stream.read_exact(&mut answer).await?;
    if answer == [CONNECTED] { Ok(stream) } else { Err(io::ErrorKind::InvalidData.into()) }
}
