//! The doors for connections of programs.

mod accept;
mod apart;
pub(crate) mod brokers;
mod by_topic;
mod forward;
mod kafka;
mod metrics;
mod open;
pub(crate) mod preload;
pub(crate) mod proxy;
mod silence;

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};

use crate::config::DoorKind;
use crate::control::Status;
use crate::shared::{OpenDoor, Shared};

/// Accepts connections without end, each in its own task.
pub(crate) async fn serve(listener: TcpListener, open: Arc<OpenDoor>, shared: Arc<Shared>) {
    let serve = {
        let (open, shared) = (open.clone(), shared.clone());
        move |tcp| serve_one(tcp, open.clone(), shared.clone())
    };
    accept::accept(listener, open, shared, serve).await;
}

async fn serve_one(tcp: TcpStream, open: Arc<OpenDoor>, shared: Arc<Shared>) {
    match &open.door().kind {
        DoorKind::Forward { next_hop, target } => forward::serve(tcp, &shared.node, next_hop, target, &open).await,
        DoorKind::Kafka(cluster) => {
            kafka::serve(tcp, cluster, None, &open, &shared).await;
        }
        DoorKind::Metrics => metrics::serve(tcp, || Status::of(&shared)).await,
        DoorKind::Objects => crate::objects::door::serve(tcp, shared.objects.clone()).await,
        DoorKind::Proxy { routes, classes } => proxy::serve(tcp, &shared.node, routes, classes, &open).await,
    }
}
