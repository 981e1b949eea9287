//! Responses of the door: texts, and files while they arrive.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use pliant_net::transfer::{HeldFile, Offered};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tokio::time::timeout;

use super::asker::Asker;
use super::image::{FALSE_CONTENT, Verification};
use super::range::{Asked, asked};
use super::{NoFile, Objects, why};

/// What a program hears for which there is no place.
pub(super) const TOO_MANY: &str = "too many files are fetched already, by all users of this host or by this one";

/// Bytes read at once, and most pieces of them that wait for a program.
const PIECE_BYTES: usize = 256 << 10;
const PIECES: usize = 4;
/// Bytes read at once while all responses together have as many pieces as they may.
const SMALL_PIECE_BYTES: usize = 4 << 10;
/// How long the status waits for the first piece: a program may take a longer silence for a server that is gone.
const FIRST_PIECE_PATIENCE: Duration = Duration::from_secs(5);
/// Most pieces of all responses: 256 MiB. A program that reads nothing keeps its own.
const ALL_PIECES: usize = 1024;

/// How many pieces of full size may still be read.
static LARGE_PIECES: Semaphore = Semaphore::const_new(ALL_PIECES);

/// A piece of a file, which counts until a program has it.
struct Piece {
    content: Vec<u8>,
    _counted: Option<SemaphorePermit<'static>>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}

/// A line of text.
pub(super) fn text(status: StatusCode, text: String) -> Response<FileBody> {
    let mut response = full(text.into(), "text/plain; charset=utf-8", false);
    *response.status_mut() = status;
    response
}

/// A complete response with this media type.
pub(super) fn full(content: Bytes, kind: &str, head_only: bool) -> Response<FileBody> {
    let length = content.len() as u64;
    let mut response = Response::new(if head_only { FileBody::Head(length) } else { FileBody::Text(Some(content)) });
    let kind = HeaderValue::from_str(kind).expect("a header may say it");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    response
}

/// Whether a header with tags names this one. A weak tag of the same content is enough.
fn names(headers: &HeaderMap, header: HeaderName, tag: &str) -> bool {
    let said = headers.get_all(header).iter().filter_map(|value| value.to_str().ok());
    said.flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|said| said == "*" || said.trim_start_matches("W/") == tag)
}

/// Answers with a file, or the requested part of it, once the first bytes are here or have not come for a while: what fails later
/// can only be cut off. The end of a file under verification is given if that finds it right.
pub(super) async fn give(
    objects: &Arc<Objects>,
    file: Arc<HeldFile>,
    verification: Option<Verification>,
    headers: &HeaderMap,
    asker: &Asker,
) -> Result<Response<FileBody>, NoFile> {
    let (mut response, part) = head(file.offered(), headers);
    if let Some(part) = part.filter(|part| !part.is_empty()) {
        let fetch = objects.fetch_of(&file);
        let is_false = || verification.as_ref().is_some_and(|right| *right.borrow() == Some(false));
        let body = |file| FileBody::of(file, part.clone(), verification.clone());
        let ahead = match objects.ahead(&file, part.clone(), asker).await {
            Some(from) => body(from).begun().await.ok(),
            None => None,
        };
        let begun = match ahead {
            Some(body) => Ok(body),
            None => body(file.clone()).begun().await,
        };
        *response.body_mut() = match begun {
            Ok(body) => body,
            Err(error) => {
                // An offered folder may have changed since it was read.
                let may_help = file.is_whole() && !is_false();
                let again = if may_help { objects.open_again(&file, asker).await } else { None };
                match again {
                    Some(again) => body(again),
                    None => return Err(why(fetch, &error).await),
                }
            }
        };
    }
    Ok(response)
}

/// The response for a file without its content, and the bytes that it announces.
pub(super) fn head(file: &Offered, headers: &HeaderMap) -> (Response<FileBody>, Option<Range<u64>>) {
    let (bytes, tag) = (file.bytes, format!("\"{}\"", file.hash));
    let value = |text: &str| HeaderValue::from_str(text).expect("digits and hexadecimal digits");
    let common = |response: &mut Response<FileBody>| {
        response.headers_mut().insert(header::ETAG, value(&tag));
        response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    };
    if names(headers, header::IF_NONE_MATCH, &tag) {
        let mut response = Response::new(FileBody::Text(None));
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        common(&mut response);
        return (response, None);
    }
    // A range of another version of it is not wanted, but all of this one.
    let same = !headers.contains_key(header::IF_RANGE) || names(headers, header::IF_RANGE, &tag);
    let range = headers.get(header::RANGE).and_then(|range| range.to_str().ok()).filter(|_| same);
    let range = range.map_or(Asked::All, |range| asked(range, bytes));
    let (status, part) = match range {
        Asked::All => (StatusCode::OK, 0..bytes),
        Asked::Part(part) => (StatusCode::PARTIAL_CONTENT, part),
        Asked::NotThere => {
            let mut response = text(StatusCode::RANGE_NOT_SATISFIABLE, "no such bytes\n".to_owned());
            response.headers_mut().insert(header::CONTENT_RANGE, value(&format!("bytes */{bytes}")));
            common(&mut response);
            return (response, None);
        }
    };
    let content_range = format!("bytes {}-{}/{bytes}", part.start, part.end.saturating_sub(1));
    let length = part.end - part.start;
    let mut response = Response::new(FileBody::Head(length));
    *response.status_mut() = status;
    if status == StatusCode::PARTIAL_CONTENT {
        response.headers_mut().insert(header::CONTENT_RANGE, value(&content_range));
    }
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    common(&mut response);
    (response, Some(part))
}

/// The body of a response.
pub(super) enum FileBody {
    Text(Option<Bytes>),
    /// Nothing, for a file of this many bytes.
    Head(u64),
    /// Pieces of a file.
    Pieces {
        /// The first, until it is sent.
        first: Option<Bytes>,
        others: mpsc::Receiver<io::Result<Bytes>>,
        /// Bytes that are left.
        left: u64,
    },
}

impl FileBody {
    /// A part of a file, as it arrives; its end once it is verified, if it is to be.
    fn of(file: Arc<HeldFile>, part: Range<u64>, verification: Option<Verification>) -> Self {
        let (pieces, receiver) = mpsc::channel(PIECES);
        let length = part.end - part.start;
        tokio::spawn(read(file, part, verification, pieces));
        Self::Pieces { first: None, others: receiver, left: length }
    }

    /// Waits a while for its first piece, or for why there is none.
    async fn begun(mut self) -> io::Result<Self> {
        if let Self::Pieces { first, others, .. } = &mut self
            && let Ok(piece) = timeout(FIRST_PIECE_PATIENCE, others.recv()).await
        {
            *first = piece.transpose()?;
        }
        Ok(self)
    }
}

/// Reads a part of a file as it arrives, until nobody listens any more.
async fn read(
    file: Arc<HeldFile>,
    part: Range<u64>,
    mut verification: Option<Verification>,
    pieces: mpsc::Sender<io::Result<Bytes>>,
) {
    let mut coming = file.follow();
    let mut offset = part.start;
    while offset < part.end {
        let over = coming.borrow_and_update().over;
        if file.bytes_there() <= offset {
            let changed = async { !over && coming.changed().await.is_ok() };
            let more = tokio::select! { more = changed => more, () = pieces.closed() => return };
            if !more {
                let why = io::Error::other("the rest of it cannot be fetched");
                let _ = pieces.send(Err(why)).await;
                return;
            }
            continue;
        }
        let counted = LARGE_PIECES.try_acquire().ok();
        let most = if counted.is_some() { PIECE_BYTES } else { SMALL_PIECE_BYTES };
        let length = (part.end - offset).min(most as u64) as usize;
        if let Some(verification) = &mut verification
            && offset + length as u64 == file.offered().bytes
        {
            let right = tokio::select! {
                right = verification.wait_for(Option::is_some) => right.is_ok_and(|right| *right == Some(true)),
                () = pieces.closed() => return,
            };
            if !right {
                let _ = pieces.send(Err(io::Error::other(FALSE_CONTENT))).await;
                return;
            }
        }
        let reading = file.clone();
        let piece = tokio::task::spawn_blocking(move || {
            let mut content = vec![0; length];
            let read = reading.read_at(offset, &mut content)?;
            content.truncate(read);
            Ok(Bytes::from_owner(Piece { content, _counted: counted }))
        });
        let piece = piece.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        let (read, failed) = (piece.as_ref().map_or(0, Bytes::len), piece.is_err());
        if pieces.send(piece).await.is_err() || failed {
            return;
        }
        offset += read as u64;
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Head(_) => Poll::Ready(None),
            Self::Pieces { first, others, left } => {
                let piece = match first.take() {
                    Some(first) => Some(Ok(first)),
                    None => ready!(others.poll_recv(context)),
                };
                Poll::Ready(piece.map(|piece| {
                    piece.map(|piece| {
                        *left -= piece.len() as u64;
                        Frame::data(piece)
                    })
                }))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Text(text) => text.as_ref().map_or(0, Bytes::len) as u64,
            Self::Head(length) | Self::Pieces { left: length, .. } => *length,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use pliant_net::transfer::OfferedFiles;

    use super::*;

    /// While others hold all pieces that there may be, a response goes on in small ones: nobody can keep a program from its
    /// file, nor fill the memory.
    #[tokio::test]
    async fn pieces_of_all_responses_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let content: Vec<u8> = (0..3 * PIECE_BYTES).map(|byte| (byte / 7) as u8).collect();
        std::fs::write(folder.path().join("file"), &content).unwrap();
        let files = OfferedFiles::new();
        files.add(&folder.path().join("file")).unwrap();
        let file = files.list().remove(0);
        let read = async || {
            let mut body = FileBody::of(file.clone(), 0..content.len() as u64, None);
            let (mut all, mut most) = (Vec::new(), 0);
            while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
                let piece = frame.unwrap().into_data().unwrap();
                most = most.max(piece.len());
                all.extend_from_slice(&piece);
            }
            assert!(all == content);
            most
        };
        assert_eq!(read().await, PIECE_BYTES);
        let held = LARGE_PIECES.acquire_many(ALL_PIECES as u32).await.unwrap();
        assert_eq!(read().await, SMALL_PIECE_BYTES);
        drop(held);
        assert_eq!(read().await, PIECE_BYTES);
    }

    /// Tags are compared as RFC 9110, section 13.1.2, says: any of a list, weak or not, or all.
    #[test]
    fn tags_are_found_in_lists() {
        for (said, expected) in
            [("\"a\"", true), ("W/\"a\"", true), ("\"b\", \"a\"", true), ("*", true), ("\"b\"", false), ("a", false)]
        {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(said).unwrap());
            assert_eq!(names(&headers, header::IF_NONE_MATCH, "\"a\""), expected, "{said}");
        }
        assert!(!names(&HeaderMap::new(), header::IF_NONE_MATCH, "\"a\""));
    }
}
