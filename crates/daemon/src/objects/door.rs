//! A door for programs that speak HTTP: `GET` and `HEAD` of `/objects/NAME` and `/objects/HASH`, and a list at `/objects/`.
//!
//! A file's `ETag` is its BLAKE3 hash. A request may have one range of bytes; several are answered by the whole file. A
//! body begins as soon as its first block is verified, and continues with the others. It is cut off if they cannot be
//! fetched. Images are at [`/v2/`](registry).

use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use pliant_mirror::encoded;
use pliant_net::transfer::FileSelector;
use tokio::net::TcpStream;

use super::image::tags;
use super::name::{self, AskedPath};
use super::response::{FileBody, give, text};
use super::{NoFile, Objects, registry};
use crate::this_host::names_this_host;

/// Most bytes of a request's head.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Serves a connection. A program that breaks off or violates the protocol ends only its own connection.
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
    if !names_this_host(request.headers().get(header::HOST).map(HeaderValue::as_bytes)) {
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

/// Links to the files that are here.
fn list(objects: &Objects) -> Response<FileBody> {
    let mut names: Vec<String> = objects.files.list().iter().map(|file| file.offered().name.clone()).collect();
    // Only what can be requested: no file of a folder, and not what the names of images stand for.
    names.retain(|name| !name.contains('/') && !name.starts_with(tags::PREFIX));
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
