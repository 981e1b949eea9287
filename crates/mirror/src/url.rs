//! Where a mirror is.

use std::fmt;
use std::str::FromStr;

use ureq::http::Uri;

/// Longest URL.
const MAX_BYTES: usize = 4096;

/// Why a text is no mirror's URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UrlError {
    /// It is none at all, or of something else.
    NoUrl,
    /// It has more bytes than a URL may have.
    TooLong,
    /// It says a name or a password.
    Secret,
    /// It names no bucket, or no plain one.
    Bucket,
    /// It names no file.
    NoFile,
    /// It names no folder.
    NoFolder,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoUrl => "it must be http://HOST/PATH, https://HOST/PATH or s3://BUCKET/KEY",
            Self::TooLong => "it is longer than 4096 bytes",
            Self::Secret => "a name and a password in a URL would be seen by all users of this host",
            Self::Bucket => "a bucket's name has letters, digits, dots and hyphens",
            Self::NoFile => "it must name a file: it ends with a slash, or has no path",
            Self::NoFolder => "it must end with a slash: a file is at this URL and its name",
        })
    }
}

impl std::error::Error for UrlError {}

/// Place of a file, or of the folder of many.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirrorUrl {
    pub(crate) kind: Kind,
    /// Without the query, which may be a secret.
    pub(crate) shown: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Of a server of HTTP: the URL.
    Http(String),
    /// Of S3: the key is as users write it.
    S3 { bucket: String, key: String },
}

impl FromStr for MirrorUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if text.len() > MAX_BYTES {
            return Err(UrlError::TooLong);
        }
        if text.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(UrlError::NoUrl);
        }
        if let Some(place) = text.strip_prefix("s3://") {
            let (bucket, key) = place.split_once('/').unwrap_or((place, ""));
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-' || byte == b'_';
            let begins = bucket.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
            if !begins || bucket.len() > 255 || !bucket.bytes().all(plain) {
                return Err(UrlError::Bucket);
            }
            let kind = Kind::S3 { bucket: bucket.to_owned(), key: key.to_owned() };
            return Ok(Self { kind, shown: text.to_owned() });
        }
        if text.contains(' ') {
            return Err(UrlError::NoUrl);
        }
        let without_fragment = text.split('#').next().unwrap_or_default();
        let url: Uri = without_fragment.parse().map_err(|_| UrlError::NoUrl)?;
        let (scheme, authority) = (url.scheme_str(), url.authority());
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (scheme, authority) else {
            return Err(UrlError::NoUrl);
        };
        if authority.as_str().contains('@') {
            return Err(UrlError::Secret);
        }
        let shown = format!("{scheme}://{authority}{}", url.path());
        Ok(Self { kind: Kind::Http(url.to_string()), shown })
    }
}

impl MirrorUrl {
    /// Of one file, which it must name.
    pub fn of_file(text: &str) -> Result<Self, UrlError> {
        let url: Self = text.parse()?;
        url.file_name().is_some().then_some(url).ok_or(UrlError::NoFile)
    }

    /// Of a folder of files: it must end with a slash.
    pub fn of_folder(text: &str) -> Result<Self, UrlError> {
        let url: Self = text.parse()?;
        let is_folder = match &url.kind {
            Kind::Http(url) => url.ends_with('/'),
            Kind::S3 { key, .. } => key.is_empty() && text.ends_with('/') || key.ends_with('/'),
        };
        is_folder.then_some(url).ok_or(UrlError::NoFolder)
    }

    /// The file of this name in the folder.
    pub(crate) fn file(&self, name: &str) -> Self {
        let kind = match &self.kind {
            Kind::Http(url) => Kind::Http(format!("{url}{}", encoded(name))),
            Kind::S3 { bucket, key } => Kind::S3 { bucket: bucket.clone(), key: format!("{key}{name}") },
        };
        Self { kind, shown: format!("{}{}", self.shown, encoded(name)) }
    }

    /// The name of the file that it names, if that is a plain one.
    pub(crate) fn file_name(&self) -> Option<String> {
        let name = match &self.kind {
            Kind::Http(url) => {
                let url: Uri = url.parse().ok()?;
                String::from_utf8(decoded(url.path().rsplit('/').next()?)?).ok()?
            }
            Kind::S3 { key, .. } => key.rsplit('/').next()?.to_owned(),
        };
        let plain = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
        plain.then_some(name)
    }
}

/// What stands for a text in a URL's path: its slashes stay.
pub fn encoded(text: impl AsRef<[u8]>) -> String {
    let bytes = text.as_ref().iter().copied();
    bytes
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => (byte as char).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// The bytes that a part of a URL's path stands for; `None` where a `%` has no two digits behind it.
pub fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| (byte? as char).to_digit(16);
        bytes.push(if byte == b'%' { (digit(rest.next())? * 16 + digit(rest.next())?) as u8 } else { byte });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn files_are_named() {
        for (url, name) in [
            ("http://host/a/model.bin", "model.bin"),
            ("https://host:8443/a%20b.bin?X-Amz-Signature=secret", "a b.bin"),
            ("s3://bucket/folder/model.bin", "model.bin"),
            ("s3://bucket/a folder/a model+1.bin", "a model+1.bin"),
        ] {
            assert_eq!(MirrorUrl::of_file(url).unwrap().file_name().unwrap(), name);
        }
        assert!(!MirrorUrl::of_file("https://host/a?secret").unwrap().shown.contains("secret"));
        for (url, why) in [
            ("", UrlError::NoUrl),
            ("host/file", UrlError::NoUrl),
            ("file:///etc/passwd", UrlError::NoUrl),
            ("gopher://host/x", UrlError::NoUrl),
            ("http://ho st/x", UrlError::NoUrl),
            ("http://host/x\r\nHost: other", UrlError::NoUrl),
            ("http://user:word@host/x", UrlError::Secret),
            ("http://host", UrlError::NoFile),
            ("http://host/a/", UrlError::NoFile),
            ("http://host/a/..", UrlError::NoFile),
            ("http://host/%2e%2e%2fx", UrlError::NoFile),
            ("s3://bucket", UrlError::NoFile),
            ("s3:///key", UrlError::Bucket),
            ("s3://a:b@host/key", UrlError::Bucket),
        ] {
            assert_eq!(MirrorUrl::of_file(url), Err(why), "{url}");
        }
    }

    #[test]
    fn folders_end_with_a_slash() {
        for url in ["http://host/", "https://host/models/", "s3://bucket/", "s3://bucket/models/"] {
            let file = MirrorUrl::of_folder(url).unwrap().file("a b");
            assert_eq!(file.file_name().unwrap(), "a b");
            assert_eq!(file.shown, format!("{url}a%20b"));
        }
        for url in ["http://host/models", "https://host/?folder", "s3://bucket", "s3://bucket/models"] {
            assert_eq!(MirrorUrl::of_folder(url), Err(UrlError::NoFolder), "{url}");
        }
    }

    proptest! {
        /// A plain name leads nowhere but to a file of the folder at that host.
        #[test]
        fn names_stay_in_their_folder(name in "\\PC{1,40}") {
            prop_assume!(!name.starts_with('.') && !name.contains('/'));
            let file = MirrorUrl::of_folder("http://host/folder/").unwrap().file(&name);
            let Kind::Http(url) = &file.kind else { unreachable!() };
            let url: Uri = url.parse().unwrap();
            prop_assert_eq!(url.host(), Some("host"));
            prop_assert!(url.path().starts_with("/folder/") && url.path().matches('/').count() == 2 && url.query().is_none());
            prop_assert_eq!(file.file_name(), Some(name));
        }
    }
}
