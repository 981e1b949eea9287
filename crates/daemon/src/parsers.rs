//! Parsers of input from programs and peers, for fuzzing only.

use std::ops::Range;
use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pliant_net::transfer::FileSelector;
use tokio::io::{BufReader, join, sink};

use crate::doors::proxy::{AskedService, request};
use crate::header::StreamHeader;
use crate::objects::name::{self, AskedPath};
use crate::objects::range::{Asked, asked};

/// A program's request to a proxy.
#[derive(Debug)]
pub struct ProxyRequest {
    /// The service's text.
    pub service: String,
    /// Bytes that the service gets first.
    pub head: Vec<u8>,
}

/// The request of a program that sends these bytes and ends; `None` if it is refused.
pub fn proxy_request(bytes: &[u8]) -> Option<ProxyRequest> {
    let mut program = BufReader::new(join(bytes, sink()));
    // Nothing has to be waited for.
    let Poll::Ready(asked) = pin!(request(&mut program)).poll(&mut Context::from_waker(Waker::noop())) else {
        unreachable!("all bytes are here");
    };
    let AskedService { service, head, .. } = asked.ok()?.1.ok()?;
    Some(ProxyRequest { service: service.text(), head })
}

/// The request of a stream's header, as text; `None` if the header is invalid.
pub fn stream_header(header: &[u8]) -> Option<String> {
    StreamHeader::parse(header).map(|header| header.text())
}

/// The name of the file that a path requests at the HTTP door; `None` if it requests something else, or nothing.
pub fn object_name(path: &str) -> Option<String> {
    match name::read(path)? {
        AskedPath::File(FileSelector::Name(name)) => Some(name),
        AskedPath::File(_) | AskedPath::List | AskedPath::InFolder(_) => None,
    }
}

/// The folder that a path requests something of at the HTTP door, and the path in it; `None` if it requests something
/// else, or nothing.
pub fn object_in_folder(path: &str) -> Option<(String, PathBuf)> {
    match name::read(path)? {
        AskedPath::InFolder(asked) => Some((asked.folder, asked.path)),
        AskedPath::File(_) | AskedPath::List => None,
    }
}

/// The range of a file of this many bytes that a header requests; `None` if it is everything, or nothing.
pub fn object_range(header: &str, bytes: u64) -> Option<Range<u64>> {
    match asked(header, bytes) {
        Asked::Part(part) => Some(part),
        Asked::All | Asked::NotThere => None,
    }
}
