//! What changes bytes that a relay carries.

use std::io;

/// Changes bytes on their way between a socket and a stream.
///
/// The node's thread calls it: it must not wait, nor use the stream that it is about. An error ends both sides.
pub trait ChangeBytes: Send {
    /// Appends to `output` what goes into the stream for a piece that came from the socket; an empty one is the end, to which
    /// nothing is appended.
    fn take_from_socket(&mut self, piece: &[u8], output: &mut Vec<u8>) -> io::Result<()>;
    /// Appends to `output` what goes to the socket for a piece that came from the stream; an empty one is the end, to which
    /// nothing is appended.
    fn take_from_stream(&mut self, piece: &[u8], output: &mut Vec<u8>) -> io::Result<()>;
    /// So many bytes that come next from the stream go to the socket as they are, and are not shown.
    fn passing(&self) -> usize;
    /// So many of them have gone.
    fn pass(&mut self, count: usize);
}
