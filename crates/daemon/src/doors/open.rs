//! Streams to services.

use std::io;

use pliant_net::bundle::{BundleNode, BundleStream};
use tokio::io::AsyncReadExt;

use crate::config::NextHop;
use crate::header::{CONNECTED, Service};

/// A stream to a service, once the far end says that the connection stands.
pub(super) async fn open(node: &BundleNode, next_hop: &NextHop, service: &Service) -> io::Result<BundleStream> {
    let mut stream = node.open(next_hop.peer, &next_hop.class, service.text().into_bytes())?;
    let mut answer = [0];
    stream.read_exact(&mut answer).await?;
    if answer == [CONNECTED] { Ok(stream) } else { Err(io::ErrorKind::InvalidData.into()) }
}
