//! Where connections of programs come in.

mod forward;
mod open;
mod proxy;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::net::{TcpListener, TcpStream};

use crate::config::DoorKind;
use crate::relay::reset;
use crate::shared::{OpenDoor, Shared};
use crate::users::connections_like;

/// Accepts connections for ever, each in a task of its own.
pub(crate) async fn serve(listener: TcpListener, open: Arc<OpenDoor>, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((tcp, from)) => {
                open.accepted.fetch_add(1, Ordering::Relaxed);
                let here = open.connections.fetch_add(1, Ordering::Relaxed) + 1;
                let most = shared.exit().limits.user_connections;
                // Nobody can have more than all have: the kernel is asked only beyond that.
                if here > most && connections_like(from, open.local.port()).is_ok_and(|count| count > most) {
                    open.connections.fetch_sub(1, Ordering::Relaxed);
                    reset(&tcp);
                    continue;
                }
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
        DoorKind::Forward { next_hop, target } => forward::serve(tcp, &shared.node, next_hop, target).await,
        DoorKind::Proxy { routes } => proxy::serve(tcp, &shared.node, routes).await,
    }
    open.connections.fetch_sub(1, Ordering::Relaxed);
}
