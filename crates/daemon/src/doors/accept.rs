//! Accepts and counts connections.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_blocking;

use crate::relay::reset;
use crate::shared::{OpenDoor, Shared};
use crate::users::Connections;

/// Most connections that are decided on together.
const MAX_TOGETHER: usize = 1024;

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
        let Ok(first) = listener.accept().await else {
            // Out of descriptors, or a connection that was gone at once: the next may work.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let most = shared.most(shared.exit().limits.user_connections);
        // Nobody can have more than all have: the kernel is asked only beyond that.
        let together = if open.connections.load(Ordering::Relaxed) < most {
            vec![(first, false)]
        } else {
            decided(first, &listener, port, most).await
        };
        for ((tcp, _), is_too_many) in together {
            open.accepted.fetch_add(1, Ordering::Relaxed);
            if is_too_many {
                reset(&tcp);
                continue;
            }
            open.connections.fetch_add(1, Ordering::Relaxed);
            let (counted, open, served) = (shared.count_connection(), open.clone(), serve(tcp));
            drop(tokio::spawn(async move {
                served.await;
                open.connections.fetch_sub(1, Ordering::Relaxed);
                drop(counted);
            }));
        }
    }
}

type Accepted = (TcpStream, SocketAddr);

/// A connection, and those that wait behind it, each with whether its origin has too many. The kernel's table is read once
/// for all: one user who comes again and again does not keep others waiting for it.
async fn decided(first: Accepted, listener: &TcpListener, port: u16, most: usize) -> Vec<(Accepted, bool)> {
    let mut together = vec![first];
    while together.len() < MAX_TOGETHER {
        let waiting = poll_fn(|context| Poll::Ready(listener.poll_accept(context))).await;
        let Poll::Ready(Ok(next)) = waiting else { break };
        together.push(next);
    }
    let from: Vec<SocketAddr> = together.iter().map(|(_, from)| *from).collect();
    let none = vec![false; from.len()];
    let read = spawn_blocking(move || Connections::read(port).map(|all| all.are_too_many(&from, most))).await;
    let are_too_many = read.ok().and_then(Result::ok).unwrap_or(none);
    together.into_iter().zip(are_too_many).collect()
}
