//! Mirrors of files: servers of HTTP, HTTPS and S3, of which [`pliant_net::transfer::fetch`] takes blocks beside its sources.
//!
//! A mirror is asked for ranges of bytes ([RFC 9110](https://www.rfc-editor.org/rfc/rfc9110), section 14). What it sends is
//! believed by nobody: the fetch holds each block against the file's hash. What is looked at here is that it answers what it
//! was asked: the range, the file's size, no more and no less, and not too slowly.

#![allow(
    clippy::disallowed_methods,
    reason = "a driver: it reads the clock for how long a server takes, and for signatures"
)]

mod content_range;
mod http;
mod s3;
mod url;

pub use http::HttpMirror;
pub use s3::S3Access;
pub use url::{MirrorUrl, UrlError, decoded, encoded};
