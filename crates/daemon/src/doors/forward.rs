//! A door to one service.

use pliant_net::bundle::BundleNode;
use tokio::net::TcpStream;

use super::open::open;
use crate::config::NextHop;
use crate::header::Service;
use crate::relay::{relay, reset};
use crate::shared::OpenDoor;

/// Serves a connection.
pub(super) async fn serve(tcp: TcpStream, node: &BundleNode, next_hop: &NextHop, target: &Service, door: &OpenDoor) {
    match open(node, next_hop, target).await {
        Ok(stream) => relay(tcp, stream).await,
        Err(error) => {
            // As a service would that is not there; the connection stands already.
            reset(&tcp);
            door.tell(&error.to_string());
        }
    }
}
