//! Bytes between a TCP connection and a stream of a bundle.

use pliant_net::bundle::BundleStream;
use tokio::net::TcpStream;

/// Carries bytes both ways until both sides have ended, each in its own time. What ends one side with an error resets the
/// other.
pub(crate) async fn relay(tcp: TcpStream, stream: BundleStream) {
    // Small writes go at once; what waits meanwhile goes with them.
    let _ = tcp.set_nodelay(true);
    if let Ok(tcp) = tcp.into_std() {
        // What ended a side with an error has reset the other.
        let _ = stream.carry(tcp.into()).await;
    }
}

/// Lets the connection be reset when it is dropped.
pub(crate) fn reset(tcp: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(tcp, Some(std::time::Duration::ZERO));
}
