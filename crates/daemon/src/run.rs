//! A daemon at work.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use pliant_net::bundle::{AcceptedStreams, BundleNode, BundleReport};
use pliant_net::transfer::Settings;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::config::Config;
use crate::doors::{forward, proxy};
use crate::exit;

/// Why a daemon does not start.
#[derive(Debug, Error)]
#[error("{address}: {error}")]
pub struct DaemonError {
    /// Where it was to listen.
    pub address: SocketAddr,
    /// Why it cannot.
    pub error: io::Error,
}

/// A daemon whose sockets are open.
pub struct Daemon {
    node: Arc<BundleNode>,
    doors: Vec<SocketAddr>,
    tasks: JoinSet<()>,
}

impl Daemon {
    /// Opens all sockets and begins to serve. It ends when it is dropped, and with it all connections.
    pub async fn start(config: Config) -> Result<Self, DaemonError> {
        let Config { listen, keys, classes, forwards, proxy, allow } = config;
        let at = |address| move |error| DaemonError { address, error };
        let settings = Settings { keys, ..Settings::default() };
        let (node, streams) = BundleNode::bind(listen, settings, classes).map_err(at(listen))?;
        let node = Arc::new(node);
        let (mut doors, mut tasks) = (Vec::new(), JoinSet::new());
        for forward in forwards {
            let listener = TcpListener::bind(forward.listen).await.map_err(at(forward.listen))?;
            doors.push(listener.local_addr().map_err(at(forward.listen))?);
            tasks.spawn(forward::serve(listener, node.clone(), forward));
        }
        if let Some(proxy) = proxy {
            let listener = TcpListener::bind(proxy.listen).await.map_err(at(proxy.listen))?;
            doors.push(listener.local_addr().map_err(at(proxy.listen))?);
            tasks.spawn(proxy::serve(listener, node.clone(), proxy));
        }
        tasks.spawn(serve_exit(streams, allow.into()));
        Ok(Self { node, doors, tasks })
    }

    /// The UDP socket's address.
    pub fn address(&self) -> SocketAddr {
        self.node.local_address()
    }

    /// Where its doors listen, in the order of the configuration, the proxy last.
    pub fn doors(&self) -> &[SocketAddr] {
        &self.doors
    }

    /// How its bundles stand.
    pub fn reports(&self) -> Vec<BundleReport> {
        self.node.reports()
    }

    /// Serves for ever.
    pub async fn run(mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            // No task ends by itself; one that has panicked has said why.
            drop(ended);
        }
    }
}

/// Connects what peers open to services.
async fn serve_exit(mut streams: AcceptedStreams, allow: Arc<[crate::rules::ServiceRule]>) {
    loop {
        let accepted = streams.next().await;
        let allow = allow.clone();
        tokio::spawn(async move { exit::serve(accepted, &allow).await });
    }
}
