//! Who asks for files: the user of a program at the door.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::{Mutex, OnceCell};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::users::{Connections, Origin};

/// The kernel's table of connections, as it was read last, and when that began.
#[derive(Default)]
pub(super) struct LastTable(Mutex<Option<(Instant, Arc<Connections>)>>);

/// A program's connection to the door.
pub(super) struct Asker {
    from: Option<SocketAddr>,
    door: u16,
    accepted: Instant,
    origin: OnceCell<Origin>,
}

impl Asker {
    pub(super) fn of(tcp: &TcpStream) -> Self {
        let door = tcp.local_addr().map_or(0, |local| local.port());
        Self { from: tcp.peer_addr().ok(), door, accepted: Instant::now(), origin: OnceCell::new() }
    }

    /// Whose program it is. The kernel is asked once for a connection, and only for one that makes a fetch necessary; all that
    /// were there when the table was read share it.
    pub(super) async fn origin(&self, last: &LastTable) -> Origin {
        let read = || async {
            let mut last = last.0.lock().await;
            let fresh = last.as_ref().filter(|(read, _)| *read > self.accepted).map(|(_, table)| table.clone());
            let table = if fresh.is_some() {
                fresh
            } else {
                let (now, door) = (Instant::now(), self.door);
                let read = spawn_blocking(move || Connections::read(door)).await;
                let table = read.ok().and_then(Result::ok).map(Arc::new);
                *last = table.clone().map(|table| (now, table));
                table
            };
            // Programs that the kernel does not tell apart are one.
            let nobody = Origin::Host(std::net::Ipv4Addr::LOCALHOST.into());
            table.zip(self.from).map_or(nobody, |(table, from)| table.origin(from))
        };
        *self.origin.get_or_init(read).await
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// A connection is of the user who runs this, also one that came after the table was read.
    #[tokio::test]
    async fn the_user_of_a_connection_is_known() {
        let last = LastTable::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = listener.local_addr().unwrap();
        let own = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
        for _ in 0..2 {
            let (program, accepted) = tokio::join!(TcpStream::connect(door), listener.accept());
            let asker = Asker::of(&accepted.unwrap().0);
            assert_eq!(asker.origin(&last).await, Origin::User(own));
            drop(program);
            assert_eq!(asker.origin(&last).await, Origin::User(own), "asked once");
        }
    }
}
