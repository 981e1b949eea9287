//! The head of an HTTP/1.1 request (RFC 9112), as far as the daemon needs it.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// Most bytes of a request's head.
const MAX_HEAD_BYTES: u64 = 16 << 10;

/// What a request is for.
pub(crate) struct RequestLine {
    pub(crate) method: String,
    pub(crate) target: String,
}

/// Reads a request's head to its end. Of its fields nothing is kept.
///
/// # Errors
///
/// If the connection ends early, the head is too long, or is none of HTTP/1.
pub(crate) async fn read_head(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<RequestLine> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut left = MAX_HEAD_BYTES;
    let mut first = String::new();
    loop {
        let mut line = Vec::new();
        let count = (&mut *from).take(left).read_until(b'\n', &mut line).await? as u64;
        left -= count;
        let line = str::from_utf8(&line).map_err(|_| invalid())?;
        if !line.ends_with('\n') {
            return Err(invalid());
        }
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            break;
        }
        if first.is_empty() {
            line.clone_into(&mut first);
        }
    }
    let mut words = first.split(' ');
    let (method, target, version) = (words.next(), words.next().unwrap_or(""), words.next().unwrap_or(""));
    if !version.starts_with("HTTP/1.") {
        return Err(invalid());
    }
    Ok(RequestLine { method: method.unwrap_or_default().to_owned(), target: target.to_owned() })
}
