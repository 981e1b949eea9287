//! What is read from programs and peers, for fuzzing: nothing else is to use it.

use std::ops::Range;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use pliant_net::transfer::FileSelector;
use tokio::io::{BufReader, join, sink};

use crate::doors::proxy::{AskedService, request};
use crate::header::StreamHeader;
use crate::objects::name::{self, AskedPath};
use crate::objects::range::{Asked, asked};

/// What a program asks a proxy for.
#[derive(Debug)]
pub struct ProxyRequest {
    /// The service's text.
    pub service: String,
    /// What the service gets first.
    pub head: Vec<u8>,
}

/// What a program that says these bytes, and ends, asks a proxy for; `None` if it is refused.
pub fn proxy_request(bytes: &[u8]) -> Option<ProxyRequest> {
    let mut program = BufReader::new(join(bytes, sink()));
    // Nothing has to be waited for.
    let Poll::Ready(asked) = pin!(request(&mut program)).poll(&mut Context::from_waker(Waker::noop())) else {
        unreachable!("all bytes are here");
    };
    let AskedService { service, head, .. } = asked.ok()?.1.ok()?;
    Some(ProxyRequest { service: service.text(), head })
}

/// What a stream's header asks for, as the text that says so; `None` if it is none.
pub fn stream_header(header: &[u8]) -> Option<String> {
    StreamHeader::parse(header).map(|header| header.text())
}

/// The name of a file that a path asks the door of files for; `None` if it asks for something else, or nothing.
pub fn object_name(path: &str) -> Option<String> {
    match name::read(path)? {
        AskedPath::File(FileSelector::Name(name)) => Some(name),
        AskedPath::File(_) | AskedPath::List => None,
    }
}

/// What of a file of so many bytes a range asks for; `None` if it is all, or nothing.
pub fn object_range(header: &str, bytes: u64) -> Option<Range<u64>> {
    match asked(header, bytes) {
        Asked::Part(part) => Some(part),
        Asked::All | Asked::NotThere => None,
    }
}
