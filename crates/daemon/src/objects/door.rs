//! A door for programs that speak HTTP: `GET` and `HEAD` of `/objects/NAME` and `/objects/HASH`, and a list at `/objects/`.
//!
//! A file's `ETag` is its BLAKE3 hash. One range of bytes is given; several are answered by all of it. A body begins as soon
//! as its first block is verified, and goes on as the others are; it is cut off if they cannot be fetched. Images are at [`/v2/`](registry).

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use pliant_net::transfer::{FileSelector, HeldFile};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::name::{self, AskedPath, encoded};
use super::range::{Asked, asked};
use super::{NoFile, Objects, registry};

/// Bytes that are read at once, and pieces of them that wait for a program.
const PIECE_BYTES: usize = 256 << 10;
const PIECES: usize = 4;
/// Most bytes of a request's head.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Serves a connection. A program that breaks off, or breaks the protocol, ends its connection alone.
pub(crate) async fn serve(tcp: TcpStream, objects: Option<Arc<Objects>>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let objects = objects.clone();
        async move { Ok::<_, Infallible>(answer(&request, objects).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).max_buf_size(MAX_HEAD_BYTES).half_close(true);
    let _ = http.serve_connection(TokioIo::new(tcp), answer).await;
}

async fn answer(request: &Request<Incoming>, objects: Option<Arc<Objects>>) -> Response<FileBody> {
    if !is_asked_as_this_host(request.headers()) {
        let why = "this door is for programs of this host: ask it as localhost or by its address\n";
        return text(StatusCode::MISDIRECTED_REQUEST, why.to_owned());
    }
    let head_only = match *request.method() {
        Method::GET => false,
        Method::HEAD => true,
        _ if request.uri().path().starts_with(registry::FOLDER) => return registry::refuse_change(),
        _ => {
            let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD only\n".to_owned());
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
    };
    let Some(objects) = objects else {
        return text(StatusCode::NOT_FOUND, "this daemon has no [objects]\n".to_owned());
    };
    if let Some(path) = request.uri().path().strip_prefix(registry::FOLDER) {
        return registry::answer(path, request.uri().query(), request.headers(), head_only, &objects).await;
    }
    match name::read(request.uri().path()) {
        None => text(StatusCode::NOT_FOUND, format!("files are at {}NAME and {0}HASH\n", name::FOLDER)),
        Some(AskedPath::List) => list(&objects),
        Some(AskedPath::File(file)) => match objects.open(&file).await {
            Ok(found) => give(found, request.headers(), head_only),
            Err(why) => refuse(&file, why),
        },
    }
}

/// Whether the request names this host. A page from elsewhere whose host's name leads to a loopback address (DNS rebinding)
/// makes a browser name that.
fn is_asked_as_this_host(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST) else { return true };
    let named = host.to_str().ok().and_then(|host| host.parse::<Uri>().ok());
    named.as_ref().and_then(Uri::host).is_some_and(|host| {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    })
}

/// The files that are here, as links.
fn list(objects: &Objects) -> Response<FileBody> {
    let mut names: Vec<String> = objects.files.list().iter().map(|file| file.offered().name.clone()).collect();
    // What the names of images stand for may have slashes in its name.
    names.retain(|name| !name.contains('/'));
    names.sort_unstable();
    names.dedup();
    let escape = |name: &str| name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let link = |name: &String| format!("<a href=\"{}\">{}</a>\n", encoded(name), escape(name));
    let page = format!(
        "<!DOCTYPE html>\n<title>objects</title>\n<pre>\n{}</pre>\n",
        names.iter().map(link).collect::<String>()
    );
    let mut response = text(StatusCode::OK, page);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response
}

fn refuse(file: &FileSelector, why: NoFile) -> Response<FileBody> {
    let (status, why) = match why {
        NoFile::Unknown(why) => (StatusCode::NOT_FOUND, why),
        NoFile::Failed(why) => (StatusCode::BAD_GATEWAY, why),
        NoFile::TooLarge(why) => (StatusCode::INSUFFICIENT_STORAGE, format!("it does not fit into the cache: {why}")),
        NoFile::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too many files are fetched already".to_owned()),
    };
    let what = match file {
        FileSelector::Hash(hash) => hash.to_string(),
        FileSelector::Name(name) => name.clone(),
        FileSelector::Only => String::new(),
    };
    text(status, format!("{what}: {why}\n"))
}

fn text(status: StatusCode, text: String) -> Response<FileBody> {
    let mut response = full(text.into(), "text/plain; charset=utf-8", false);
    *response.status_mut() = status;
    response
}

/// A response that is at hand, of a kind that a header may say.
pub(super) fn full(content: Bytes, kind: &str, head_only: bool) -> Response<FileBody> {
    let length = content.len() as u64;
    let mut response = Response::new(if head_only { FileBody::Head(length) } else { FileBody::Text(Some(content)) });
    let kind = HeaderValue::from_str(kind).expect("a header may say it");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    response
}

/// Whether a header with tags names this one. A weak tag of the same content will do.
fn names(headers: &HeaderMap, header: HeaderName, tag: &str) -> bool {
    let said = headers.get_all(header).iter().filter_map(|value| value.to_str().ok());
    said.flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|said| said == "*" || said.trim_start_matches("W/") == tag)
}

/// Answers with a file, or what of it is asked for.
pub(super) fn give(file: Arc<HeldFile>, headers: &HeaderMap, head_only: bool) -> Response<FileBody> {
    let (bytes, tag) = (file.offered().bytes, format!("\"{}\"", file.offered().hash));
    let value = |text: &str| HeaderValue::from_str(text).expect("digits and hexadecimal digits");
    let common = |response: &mut Response<FileBody>| {
        response.headers_mut().insert(header::ETAG, value(&tag));
        response.headers_mut().insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    };
    if names(headers, header::IF_NONE_MATCH, &tag) {
        let mut response = Response::new(FileBody::Text(None));
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        common(&mut response);
        return response;
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
            return response;
        }
    };
    let content_range = format!("bytes {}-{}/{bytes}", part.start, part.end.saturating_sub(1));
    let length = part.end - part.start;
    let body = if head_only || length == 0 { FileBody::Head(length) } else { FileBody::of(file, part) };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    if status == StatusCode::PARTIAL_CONTENT {
        response.headers_mut().insert(header::CONTENT_RANGE, value(&content_range));
    }
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    common(&mut response);
    response
}

/// What a response carries.
pub(super) enum FileBody {
    Text(Option<Bytes>),
    /// Nothing, of a file with so many bytes.
    Head(u64),
    /// Pieces of a file, and the bytes that are left.
    Pieces(mpsc::Receiver<io::Result<Bytes>>, u64),
}

impl FileBody {
    /// A part of a file, as far as it is there, and as it comes.
    fn of(file: Arc<HeldFile>, part: Range<u64>) -> Self {
        let (pieces, receiver) = mpsc::channel(PIECES);
        let length = part.end - part.start;
        tokio::spawn(read(file, part, pieces));
        Self::Pieces(receiver, length)
    }
}

/// Reads a part of a file as it comes, until nobody listens any more.
async fn read(file: Arc<HeldFile>, part: Range<u64>, pieces: mpsc::Sender<io::Result<Bytes>>) {
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
        let length = (part.end - offset).min(PIECE_BYTES as u64) as usize;
        let reading = file.clone();
        let piece = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; length];
            let read = reading.read_at(offset, &mut piece)?;
            piece.truncate(read);
            Ok(Bytes::from(piece))
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
            Self::Pieces(pieces, left) => pieces.poll_recv(context).map(|piece| {
                Some(piece?.map(|piece| {
                    *left -= piece.len() as u64;
                    Frame::data(piece)
                }))
            }),
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Text(text) => text.as_ref().map_or(0, Bytes::len) as u64,
            Self::Head(length) | Self::Pieces(_, length) => *length,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
