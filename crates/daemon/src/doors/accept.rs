//! Accepts and counts connections.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::net::{TcpListener, TcpStream};

use crate::relay::reset;
use crate::shared::{OpenDoor, Shared};
use crate::users::connections_like;

/// Accepts connections of a door without end, and passes each to `serve` in its own task.
pub(super) async fn accept<F>(
    listener: TcpListener,
    open: Arc<OpenDoor>,
    shared: Arc<Shared>,
    serve: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let port = listener.local_addr().map_or(0, |local| local.port());
    loop {
        match listener.accept().await {
            Ok((tcp, from)) => {
                open.accepted.fetch_add(1, Ordering::Relaxed);
                let here = open.connections.fetch_add(1, Ordering::Relaxed) + 1;
                let most = shared.exit().limits.user_connections;
                // Nobody can have more than all have: the kernel is asked only beyond that.
                if here > most && connections_like(from, port).is_ok_and(|count| count > most) {
                    open.connections.fetch_sub(1, Ordering::Relaxed);
                    reset(&tcp);
                    continue;
                }
                let (counted, open, served) = (shared.count_connection(), open.clone(), serve(tcp));
                drop(tokio::spawn(async move {
                    served.await;
                    open.connections.fetch_sub(1, Ordering::Relaxed);
                    drop(counted);
                }));
            }
            // Out of descriptors, or a connection that was gone at once: the next may work.
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
}
