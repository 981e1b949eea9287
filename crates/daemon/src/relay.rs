//! Bytes between a TCP connection and a stream of a bundle.

use std::io;

use pliant_net::bundle::BundleStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::net::TcpStream;

/// Bytes that are copied at once.
const PIECE_BYTES: usize = 64 << 10;

/// Carries bytes both ways until both sides have ended, each in its own time. What ends one side with an error resets the
/// other.
pub(crate) async fn relay(tcp: TcpStream, stream: BundleStream) {
    // Small writes go at once; what waits meanwhile goes with them.
    let _ = tcp.set_nodelay(true);
    let (mut from_tcp, mut to_tcp) = tcp.into_split();
    let (mut from_stream, mut to_stream) = split(stream);
    let out = async {
        copy(&mut from_tcp, &mut to_stream).await?;
        to_stream.shutdown().await
    };
    let back = async {
        copy(&mut from_stream, &mut to_tcp).await?;
        to_tcp.shutdown().await
    };
    if tokio::try_join!(out, back).is_err() {
        // The stream is reset when it is dropped; so is the connection, instead of an end that none was.
        let tcp = from_tcp.reunite(to_tcp).expect("they are halves of one");
        reset(&tcp);
    }
}

/// Lets the connection be reset when it is dropped.
pub(crate) fn reset(tcp: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(tcp, Some(std::time::Duration::ZERO));
}

async fn copy(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
) -> io::Result<()> {
    // Small at first: most connections are idle.
    let mut piece = vec![0; 4 << 10];
    loop {
        let count = from.read(&mut piece).await?;
        if count == 0 {
            return Ok(());
        }
        to.write_all(&piece[..count]).await?;
        if count == piece.len() && count < PIECE_BYTES {
            piece.resize(PIECE_BYTES, 0);
        }
    }
}
