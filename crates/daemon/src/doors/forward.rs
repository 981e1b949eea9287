//! A door to one service: whoever connects is connected to it.

use std::sync::Arc;

use pliant_net::bundle::BundleNode;
use tokio::net::TcpListener;

use super::{accept_all, open};
use crate::config::Forward;
use crate::relay::{relay, reset};

/// Serves a door for ever.
pub(crate) async fn serve(listener: TcpListener, node: Arc<BundleNode>, forward: Forward) {
    let forward = Arc::new(forward);
    accept_all(listener, node, move |node, tcp| {
        let forward = forward.clone();
        async move {
            match open(&node, &forward.way, &forward.target).await {
                Ok(stream) => relay(tcp, stream).await,
                // As a service would that is not there; the connection stands already.
                Err(_) => reset(&tcp),
            }
        }
    })
    .await;
}
