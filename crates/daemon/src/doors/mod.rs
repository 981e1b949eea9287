//! Where connections of programs come in.

pub(crate) mod forward;
pub(crate) mod proxy;

use std::io;
use std::sync::Arc;

use pliant_net::bundle::{BundleNode, BundleStream};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

use crate::config::Way;
use crate::header::{CONNECTED, Service};

/// A stream to a service, once the far end says that the connection stands.
async fn open(node: &BundleNode, way: &Way, service: &Service) -> io::Result<BundleStream> {
    let mut stream = node.open(way.peer, &way.class, service.text().into_bytes())?;
    let mut answer = [0];
    stream.read_exact(&mut answer).await?;
    if answer == [CONNECTED] { Ok(stream) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Accepts connections for ever and gives each to `serve`, in a task of its own.
async fn accept_all<F>(listener: TcpListener, node: Arc<BundleNode>, serve: impl Fn(Arc<BundleNode>, TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        match listener.accept().await {
            Ok((tcp, _)) => drop(tokio::spawn(serve(node.clone(), tcp))),
            // Out of descriptors, or a connection that was gone at once: the next may work.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
}
