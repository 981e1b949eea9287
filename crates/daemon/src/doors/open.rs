//! Streams to services.

use std::io;

use pliant_net::bundle::{BundleNode, BundleStream, MessageToken};

use crate::config::NextHop;
use crate::header::{Service, StreamHeader, read_connected};

/// A stream to a service, once the far end says that the connection stands.
pub(super) async fn open(node: &BundleNode, next_hop: &NextHop, service: &Service) -> io::Result<BundleStream> {
    let header = StreamHeader { service: service.clone(), lossy: None };
    let (stream, token) = open_with(node, next_hop, &header).await?;
    if token.is_none() { Ok(stream) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// The same with all that a header can say. The token is there if records travel apart from the stream.
pub(super) async fn open_with(
    node: &BundleNode,
    next_hop: &NextHop,
    header: &StreamHeader,
) -> io::Result<(BundleStream, Option<MessageToken>)> {
    let mut stream = node.open(next_hop.peer, &next_hop.class, header.text().into_bytes())?;
    let token = read_connected(&mut stream).await?;
    Ok((stream, token))
}
