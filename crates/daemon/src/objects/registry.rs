//! A pull-only registry of OCI images for programs of this host (distribution-spec 1.1): `/v2/`.
//!
//! Manifests and blobs are files named by their SHA-256, as in a layout's `blobs/sha256`. They come from all sources at
//! once, like any file. The descriptor of a name with a tag is a [small file](super::image::tags) that hosts with a
//! layout offer. Content that does not have the requested hash is neither given whole nor kept, because sources may agree on
//! false content.

use std::sync::Arc;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use pliant_net::transfer::{FileSelector, HeldFile};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::watch as channel;

use super::asker::Asker;
use super::image::layout::{Descriptor, MAX_MANIFEST_BYTES};
use super::image::name::{self, AskedPart, NameError};
use super::image::sha256::Sha256;
use super::image::{FALSE_CONTENT, Verification};
use super::response::{FileBody, TOO_MANY, full, give, head};
use super::{NoFile, Objects};
use crate::mutex::lock;

/// Prefix of the paths of a registry.
pub(super) const FOLDER: &str = "/v2/";
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");
const API_VERSION: HeaderName = HeaderName::from_static("docker-distribution-api-version");
/// Media types of manifests that do not give their own.
const IMAGE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Most bytes of a type and of a subtype (RFC 6838, section 4.2).
const MAX_TYPE_BYTES: usize = 127;
/// Bytes of a blob that are hashed at once while it arrives.
const HASHED_AT_ONCE: u64 = 8 << 20;

/// Why a request is refused.
struct Refusal {
    status: StatusCode,
    /// Code of the specification.
    code: &'static str,
    why: String,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, why: impl Into<String>) -> Self {
        Self { status, code, why: why.into() }
    }

    /// The refusal for a file that could not be opened. `unknown` is the code if it does not exist.
    fn of_file(why: NoFile, unknown: &'static str) -> Self {
        match why {
            NoFile::Unknown(why) => Self::new(StatusCode::NOT_FOUND, unknown, why),
            NoFile::Failed(why) => Self::new(StatusCode::BAD_GATEWAY, "UNKNOWN", why),
            NoFile::TooLarge(why) => Self::new(StatusCode::INSUFFICIENT_STORAGE, "UNKNOWN", why),
            NoFile::Busy => Self::new(StatusCode::SERVICE_UNAVAILABLE, "TOOMANYREQUESTS", TOO_MANY),
        }
    }

    fn response(&self) -> Response<FileBody> {
        let errors = json!({ "errors": [{ "code": self.code, "message": self.why }] });
        let mut response = full(format!("{errors}\n").into(), "application/json", false);
        *response.status_mut() = self.status;
        response
    }
}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Self {
        match error {
            NameError::Unsupported => Self::new(
                StatusCode::NOT_FOUND,
                "UNSUPPORTED",
                "images are pulled here: manifests by tag or digest, and blobs by digest",
            ),
            NameError::Name => Self::new(StatusCode::BAD_REQUEST, "NAME_INVALID", "the name or the tag is none"),
            NameError::Digest => Self::new(
                StatusCode::BAD_REQUEST,
                "DIGEST_INVALID",
                "digests are `sha256:` and 64 small hexadecimal digits",
            ),
        }
    }
}

/// Refuses a request for a change.
pub(super) fn refuse_change() -> Response<FileBody> {
    let why = "images are only pulled here: GET and HEAD";
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "UNSUPPORTED", why).response()
}

/// Answers a request for what follows `/v2/`. The `query` may name the mirrored registry.
pub(super) async fn answer(
    path: &str,
    query: Option<&str>,
    headers: &HeaderMap,
    head_only: bool,
    (objects, asker): (&Arc<Objects>, &Asker),
) -> Response<FileBody> {
    let given = match name::read(path) {
        Ok(AskedPart::Registry) => Ok(full("{}\n".into(), "application/json", head_only)),
        Ok(AskedPart::Blob(digest)) => blob(&digest, headers, head_only, (objects, asker)).await,
        Ok(AskedPart::Manifest(digest)) => manifest(&digest, head_only, (objects, asker)).await,
        Ok(AskedPart::Tag(image)) => match tagged(&image, query, (objects, asker)).await {
            Ok(descriptor) => {
                let digits = descriptor.digest.strip_prefix("sha256:").filter(|digits| name::is_sha256(digits));
                if let Some(digits) = digits {
                    manifest(digits, head_only, (objects, asker)).await
                } else {
                    let why = "the tag's digest is no SHA-256";
                    objects.tell(&image, &NoFile::Failed(why.to_owned()));
                    Err(Refusal::new(StatusCode::BAD_GATEWAY, "UNKNOWN", why))
                }
            }
            Err(why) => Err(Refusal::of_file(why, "MANIFEST_UNKNOWN")),
        },
        Err(error) => Err(error.into()),
    };
    let mut response = given.unwrap_or_else(|refusal| refusal.response());
    response.headers_mut().insert(API_VERSION, HeaderValue::from_static("registry/2.0"));
    response
}

/// The descriptor of an image's name. A client that mirrors another registry gives its name in the query (`ns=`). Then
/// the image's name with that registry before it is tried first.
async fn tagged(
    image: &str,
    query: Option<&str>,
    (objects, asker): (&Arc<Objects>, &Asker),
) -> Result<Descriptor, NoFile> {
    let registry = query.into_iter().flat_map(|query| query.split('&')).find_map(|pair| pair.strip_prefix("ns="));
    let with_registry =
        registry.map(|registry| format!("{registry}/{image}")).filter(|name| name::is_tagged_name(name));
    if let Some(name) = with_registry {
        match objects.tag(&name, asker).await {
            Err(NoFile::Unknown(_)) => {}
            found => return found,
        }
    }
    objects.tag(image, asker).await
}

/// A manifest. It is small and read as a whole, so that its hash is verified and its type known.
async fn manifest(
    digest: &str,
    head_only: bool,
    (objects, asker): (&Arc<Objects>, &Asker),
) -> Result<Response<FileBody>, Refusal> {
    let refuse = |why: &str| {
        objects.tell(digest, &NoFile::Failed(why.to_owned()));
        Refusal::new(StatusCode::BAD_GATEWAY, "MANIFEST_INVALID", why)
    };
    let name = FileSelector::Name(digest.to_owned());
    let file = objects.open(&name, asker).await.map_err(|why| Refusal::of_file(why, "MANIFEST_UNKNOWN"))?;
    if file.offered().bytes > MAX_MANIFEST_BYTES {
        return Err(refuse("it is larger than 4 MiB: it is no manifest"));
    }
    if !arrived(&file).await {
        return Err(refuse("the rest of it cannot be fetched"));
    }
    // Few are in memory at a time, and none while a program reads its own.
    let _reading = objects.reading.acquire().await.map_err(|_| refuse("this daemon ends"))?;
    let content = whole(&file).await.ok_or_else(|| refuse("it cannot be read"))?;
    if Sha256::of(&content) != digest {
        objects.forget(&file);
        return Err(refuse(FALSE_CONTENT));
    }
    let kind = kind(&content).ok_or_else(|| refuse("it is no manifest"))?;
    let headers = HeaderMap::new();
    let mut response = if head_only {
        head(file.offered(), &headers).0
    } else {
        give(objects, file, None, &headers, asker).await.map_err(|why| Refusal::of_file(why, "MANIFEST_UNKNOWN"))?
    };
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    say_digest(&mut response, digest);
    Ok(response)
}

/// A blob while it arrives. Its last piece is given once its hash is right. Without its content its sources say what it is.
async fn blob(
    digest: &str,
    headers: &HeaderMap,
    head_only: bool,
    (objects, asker): (&Arc<Objects>, &Asker),
) -> Result<Response<FileBody>, Refusal> {
    let refuse = |why| Refusal::of_file(why, "BLOB_UNKNOWN");
    let name = FileSelector::Name(digest.to_owned());
    let mut response = if head_only && objects.files.find(&name).is_err() {
        head(&objects.describe(&name, asker).await.map_err(refuse)?, headers).0
    } else {
        let file = objects.open(&name, asker).await.map_err(refuse)?;
        let mut verifying = verifying(&file, digest, objects);
        if file.is_whole() && !verifying.wait_for(Option::is_some).await.is_ok_and(|right| *right == Some(true)) {
            return Err(Refusal::new(StatusCode::BAD_GATEWAY, "UNKNOWN", FALSE_CONTENT));
        }
        if head_only {
            head(file.offered(), headers).0
        } else {
            give(objects, file, Some(verifying), headers, asker).await.map_err(refuse)?
        }
    };
    say_digest(&mut response, digest);
    Ok(response)
}

fn say_digest(response: &mut Response<FileBody>, digest: &str) {
    let value = HeaderValue::from_str(&format!("sha256:{digest}")).expect("it is hexadecimal digits");
    response.headers_mut().insert(CONTENT_DIGEST, value);
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
}

/// The verification of a file while it arrives. All who ask for it meanwhile share it: a file is large, and asked for often.
fn verifying(file: &Arc<HeldFile>, digest: &str, objects: &Arc<Objects>) -> Verification {
    let name = (file.offered().hash, digest.to_owned());
    let mut running = lock(&objects.verifying);
    if let Some(result) = running.get(&name) {
        return result.clone();
    }
    let (tell, result) = channel::channel(None);
    running.insert(name.clone(), result.clone());
    let (file, digest, objects) = (file.clone(), digest.to_owned(), objects.clone());
    tokio::spawn(async move {
        let right = verify(file, digest, objects.clone()).await;
        lock(&objects.verifying).remove(&name);
        tell.send_replace(Some(right));
    });
    result
}

/// Whether a file, once it is complete, has the hash of its name. If not, it is removed.
async fn verify(file: Arc<HeldFile>, digest: String, objects: Arc<Objects>) -> bool {
    let hash = file.offered().hash;
    let found = match objects.verified.digest(&hash) {
        Some(known) => Some(known),
        None => hashed(&file, &objects).await,
    };
    if !arrived(&file).await {
        return false;
    }
    let right = found.as_ref() == Some(&digest);
    if let Some(found) = found {
        if !right {
            objects.tell(&digest, &NoFile::Failed(FALSE_CONTENT.to_owned()));
        }
        objects.verified.insert(hash, found);
    }
    if !right {
        objects.forget(&file);
    }
    right
}

/// The SHA-256 of a file, read as it arrives: whoever waits for it has little to wait for at the end.
async fn hashed(file: &Arc<HeldFile>, objects: &Objects) -> Option<String> {
    let (mut coming, mut hash, mut at) = (file.follow(), Sha256::begin(), 0);
    while at < file.offered().bytes {
        let over = coming.borrow_and_update().over;
        let more = file.bytes_there() - at;
        if more < HASHED_AT_ONCE && !over && !file.is_whole() {
            coming.changed().await.ok()?;
            continue;
        }
        if more == 0 {
            return None;
        }
        // Programs read their files in the same threads.
        let _hashing = objects.hashing.acquire().await.ok()?;
        let reading = file.clone();
        let work = move || hash.go_on(&reading, at).map(|at| (hash, at));
        (hash, at) = tokio::task::spawn_blocking(work).await.ok()?.ok()?;
    }
    Some(hash.digits())
}

/// Waits until a file is complete and in its place; false if it will not be. A file removed earlier would come back.
async fn arrived(file: &HeldFile) -> bool {
    let mut coming = file.follow();
    while !coming.borrow_and_update().over {
        if coming.changed().await.is_err() {
            break;
        }
    }
    file.is_whole()
}

/// The content of a small file that is complete.
async fn whole(file: &Arc<HeldFile>) -> Option<Vec<u8>> {
    let reading = file.clone();
    let content = tokio::task::spawn_blocking(move || {
        let mut content = vec![0; reading.offered().bytes as usize];
        let read = reading.read_at(0, &mut content)?;
        content.truncate(read);
        std::io::Result::Ok(content)
    });
    content.await.ok()?.ok()
}

/// The media type of a manifest.
fn kind(manifest: &[u8]) -> Option<HeaderValue> {
    #[derive(Deserialize)]
    struct Manifest {
        #[serde(rename = "mediaType")]
        media_type: Option<String>,
        manifests: Option<serde::de::IgnoredAny>,
    }
    let manifest: Manifest = serde_json::from_slice(manifest).ok()?;
    let inferred = if manifest.manifests.is_some() { INDEX } else { IMAGE };
    let kind = manifest.media_type.unwrap_or_else(|| inferred.to_owned());
    HeaderValue::from_str(&kind).ok().filter(|_| is_media_type(&kind))
}

/// Whether a text is a media type without parameters (RFC 6838, section 4.2).
fn is_media_type(text: &str) -> bool {
    let is_name = |name: &str| {
        name.len() <= MAX_TYPE_BYTES
            && name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    text.split_once('/').is_some_and(|(kind, subtype)| is_name(kind) && is_name(subtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source chooses what a manifest calls itself: what is no media type is not handed on as one.
    #[test]
    fn a_manifest_has_a_media_type() {
        let of = |text: &str| kind(text.as_bytes()).map(|kind| kind.to_str().unwrap().to_owned());
        assert_eq!(of("{}").as_deref(), Some(IMAGE));
        assert_eq!(of(r#"{"manifests": []}"#).as_deref(), Some(INDEX));
        assert_eq!(of(&format!(r#"{{"mediaType": "{INDEX}"}}"#)).as_deref(), Some(INDEX));
        let longest = format!("a/{}", "b".repeat(MAX_TYPE_BYTES));
        assert_eq!(of(&format!(r#"{{"mediaType": "{longest}"}}"#)), Some(longest.clone()));
        for kind in ["", "a", "a/", "/b", "a/b/c", "a/b; charset=x", "a b/c", &format!("{longest}b"), "text/html\n"] {
            assert_eq!(of(&format!(r#"{{"mediaType": "{kind}"}}"#)), None, "{kind}");
        }
        assert_eq!(of("[]"), None);
    }
}
