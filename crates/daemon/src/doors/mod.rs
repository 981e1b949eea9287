//! Where connections of programs come in.

mod forward;
mod proxy;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pliant_net::bundle::{BundleNode, BundleStream};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use crate::config::{DoorKind, Way};
use crate::header::{CONNECTED, Service};
use crate::shared::{OpenDoor, Shared};

/// A stream to a service, once the far end says that the connection stands.
async fn open(node: &BundleNode, way: &Way, service: &Service) -> io::Result<BundleStream> {
    let mut stream = node.open(way.peer, &way.class, service.text().into_bytes())?;
    let mut answer = [0];
    stream.read_exact(&mut answer).await?;
    if answer == [CONNECTED] { Ok(stream) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Accepts connections for ever, each in a task of its own.
pub(crate) async fn serve(listener: TcpListener, open: Arc<OpenDoor>, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((tcp, _)) => {
                open.accepted.fetch_add(1, Ordering::Relaxed);
                drop(tokio::spawn(serve_one(tcp, open.clone(), shared.clone())));
            }
            // Out of descriptors, or a connection that was gone at once: the next may work.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
}

async fn serve_one(tcp: TcpStream, open: Arc<OpenDoor>, shared: Arc<Shared>) {
    let _counted = shared.count_connection();
    match &open.door().kind {
        DoorKind::Forward { way, target } => forward::serve(tcp, &shared.node, way, target).await,
        DoorKind::Proxy { routes } => proxy::serve(tcp, &shared.node, routes).await,
    }
}
