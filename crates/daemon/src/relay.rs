//! Carries bytes between a TCP connection and a stream of a bundle.

use std::io;

use pliant_kafka::Refusal;
use pliant_net::bundle::BundleStream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, sleep_until};

/// Bytes copied at once.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// Carries bytes in both directions until both sides have ended. An error on one side resets the other.
pub(crate) async fn relay(tcp: TcpStream, stream: BundleStream) {
    // Small writes go at once; what waits meanwhile goes with them.
    let _ = tcp.set_nodelay(true);
    if let Ok(tcp) = tcp.into_std() {
        // What ended a side with an error has reset the other.
        let _ = stream.carry(tcp.into()).await;
    }
}

/// Observes how a path takes what is written to it.
pub(crate) trait Watch {
    /// Waits until so many bytes may be taken that were read. Whoever has the turn holds it meanwhile.
    fn turn(&mut self, bytes: usize) -> impl Future<Output = Option<SemaphorePermit<'_>>> + Send;
    /// This many bytes were written, from `begun` until now. Returns when to look again, if at all.
    fn sent(&mut self, bytes: usize, begun: Instant) -> Option<Instant>;
    /// It is time to look again.
    fn look(&mut self);
}

/// No observation.
impl Watch for () {
    async fn turn(&mut self, _: usize) -> Option<SemaphorePermit<'_>> {
        None
    }

    fn sent(&mut self, _: usize, _: Instant) -> Option<Instant> {
        None
    }

    fn look(&mut self) {}
}

/// Reads a piece. `look` is called meanwhile once that is `due`.
pub(crate) async fn read_or_look(
    from: &mut (impl AsyncRead + Unpin),
    piece: &mut [u8],
    due: &mut Option<Instant>,
    mut look: impl FnMut(),
) -> io::Result<usize> {
    loop {
        tokio::select! {
            count = from.read(piece) => return count,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                look();
                *due = None;
            }
        }
    }
}

/// Carries one direction of a client's connection with a broker until it ends. `take` appends the replacement of a
/// piece, and gets the end as an empty piece. Its refusal is an error of the kind [`io::ErrorKind::InvalidData`].
pub(crate) async fn carry_frames(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut take: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), Refusal>,
    mut watch: impl Watch,
) -> io::Result<()> {
    let (mut piece, mut output) = (vec![0; PIECE_BYTES], Vec::new());
    let mut due = None;
    loop {
        let count = read_or_look(from, &mut piece, &mut due, || watch.look()).await?;
        let turn = watch.turn(count).await;
        take(&piece[..count], &mut output).map_err(|refusal| io::Error::new(io::ErrorKind::InvalidData, refusal))?;
        drop(turn);
        if count == 0 {
            return to.shutdown().await;
        }
        if output.is_empty() {
            continue;
        }
        let begun = Instant::now();
        to.write_all(&output).await?;
        due = watch.sent(output.len(), begun).or(due);
        output.clear();
        // A large frame is the exception.
        output.shrink_to(2 * PIECE_BYTES);
    }
}

/// Makes the connection reset when it is dropped.
pub(crate) fn reset(tcp: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(tcp, Some(std::time::Duration::ZERO));
}
