//! A door for programs that speak HTTP: `GET` and `HEAD` of `/objects/NAME`, `/objects/HASH` and `/objects/FOLDER/PATH`, and
//! lists at `/objects/` and `/objects/FOLDER/`.
//!
//! A file's `ETag` is its BLAKE3 hash. A request may have one range of bytes; several are answered by the whole file. A
//! body begins as soon as its first block is verified, and continues with the others. It is cut off if they cannot be
//! fetched. Images are at [`/v2/`](registry).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use pliant_mirror::encoded;
use pliant_net::transfer::{FileSelector, InFolder};
use tokio::net::TcpStream;

use super::asker::Asker;
use super::image::tags;
use super::name::{self, AskedInFolder, AskedPath};
use super::response::{FileBody, TOO_MANY, give, head, text};
use super::{NoFile, Objects, registry, text_of};
use crate::this_host::names_this_host;

/// Most bytes of a request's head.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// The first second, since 1970, of the year 10000, which dates in headers cannot have.
const MAX_HTTP_DATE: u64 = 253_402_300_800;

/// Serves a connection. A program that breaks off or violates the protocol ends only its own connection.
pub(crate) async fn serve(tcp: TcpStream, objects: Option<Arc<Objects>>) {
    let asker = Arc::new(Asker::of(&tcp));
    let answer = service_fn(move |request: Request<Incoming>| {
        let (objects, asker) = (objects.clone(), asker.clone());
        async move { Ok::<_, Infallible>(answer(&request, objects, &asker).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).max_buf_size(MAX_HEAD_BYTES).half_close(true);
    let _ = http.serve_connection(TokioIo::new(tcp), answer).await;
}

async fn answer(request: &Request<Incoming>, objects: Option<Arc<Objects>>, asker: &Asker) -> Response<FileBody> {
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
        return registry::answer(path, request.uri().query(), request.headers(), head_only, (&objects, asker)).await;
    }
    match name::read(request.uri().path()) {
        None => text(StatusCode::NOT_FOUND, format!("files are at {}NAME, {0}HASH and {0}FOLDER/PATH\n", name::FOLDER)),
        Some(AskedPath::List) => list(&objects),
        Some(AskedPath::File(file)) if head_only => match objects.describe(&file, asker).await {
            Ok(found) => head(&found, request.headers()).0,
            Err(why) => refuse(&text_of(&file), why),
        },
        Some(AskedPath::File(file)) => {
            let given = match objects.open(&file, asker).await {
                Ok(found) => give(&objects, found, None, request.headers(), asker).await,
                Err(why) => Err(why),
            };
            given.unwrap_or_else(|why| refuse(&text_of(&file), why))
        }
        Some(AskedPath::InFolder(asked)) => in_folder(&asked, request, head_only, (&objects, asker)).await,
    }
}

/// Answers with a file of a folder, or with links to what is in a folder.
async fn in_folder(
    asked: &AskedInFolder,
    request: &Request<Incoming>,
    head_only: bool,
    (objects, asker): (&Arc<Objects>, &Asker),
) -> Response<FileBody> {
    let shown = || format!("{}/{}", asked.folder, asked.path.display());
    let index = match objects.folder(&asked.folder, asker).await {
        Ok(index) => index,
        Err(why) => return refuse(&format!("{}/", asked.folder), why),
    };
    match index.find(&asked.path) {
        Some(InFolder::Folder(_)) if !asked.is_folder => {
            let mut response = text(StatusCode::MOVED_PERMANENTLY, "it is a folder\n".to_owned());
            if let Ok(with_slash) = HeaderValue::try_from(format!("{}/", request.uri().path())) {
                response.headers_mut().insert(header::LOCATION, with_slash);
            }
            response
        }
        Some(InFolder::Folder(names)) => page(names.into_iter().map(|(name, is_folder)| {
            let end = if is_folder { "/" } else { "" };
            (format!("{}{end}", encoded(name.as_encoded_bytes())), format!("{}{end}", name.to_string_lossy()))
        })),
        Some(InFolder::File(file)) if !asked.is_folder => {
            let given = if head_only {
                objects.describe_listed(&file).map(|found| head(&found, request.headers()).0)
            } else {
                match objects.open(&FileSelector::Hash(file.hash), asker).await {
                    Ok(found) => {
                        objects.fetch_next(&asked.folder, &index, &asked.path, asker).await;
                        give(objects, found, None, request.headers(), asker).await
                    }
                    Err(why) => Err(why),
                }
            };
            match given {
                Ok(mut response) => {
                    if let Some(modified) = http_date(file.modified) {
                        response.headers_mut().insert(header::LAST_MODIFIED, modified);
                    }
                    response
                }
                // It was in the folder a moment ago.
                Err(NoFile::Unknown(why)) => refuse(&shown(), NoFile::Failed(why)),
                Err(why) => refuse(&shown(), why),
            }
        }
        _ => refuse(&shown(), NoFile::Unknown("it is not in the folder".to_owned())),
    }
}

/// A time in seconds since 1970 as headers have it.
fn http_date(seconds: i64) -> Option<HeaderValue> {
    // Later years have no such form.
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds < MAX_HTTP_DATE)?;
    HeaderValue::try_from(httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))).ok()
}

/// Links to the files that are here.
fn list(objects: &Objects) -> Response<FileBody> {
    let mut names: Vec<String> = objects.files.list().iter().map(|file| file.offered().name.clone()).collect();
    // Files of folders are in the folders' own lists; names of images, and files that are kept under their hashes, in none.
    names.retain(|name| {
        let of_folder = name.trim_end_matches('/').contains('/');
        !of_folder && name::hash(name).is_none() && !name.starts_with(tags::PREFIX)
    });
    names.sort_unstable();
    names.dedup();
    page(names.into_iter().map(|name| (encoded(name.as_bytes()), name)))
}

/// A page of links, by address and text.
fn page(links: impl Iterator<Item = (String, String)>) -> Response<FileBody> {
    let escape = |name: &str| name.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let link = |(address, text): (String, String)| format!("<a href=\"{address}\">{}</a>\n", escape(&text));
    let page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>objects</title>\n<pre>\n{}</pre>\n",
        links.map(link).collect::<String>()
    );
    let mut response = text(StatusCode::OK, page);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response
}

fn refuse(what: &str, why: NoFile) -> Response<FileBody> {
    let (status, why) = match why {
        NoFile::Unknown(why) => (StatusCode::NOT_FOUND, why),
        NoFile::Failed(why) => (StatusCode::BAD_GATEWAY, why),
        NoFile::TooLarge(why) => (StatusCode::INSUFFICIENT_STORAGE, format!("it does not fit into the cache: {why}")),
        NoFile::Busy => (StatusCode::SERVICE_UNAVAILABLE, TOO_MANY.to_owned()),
    };
    text(status, format!("{what}: {why}\n"))
}
