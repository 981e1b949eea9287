//! Paths of a registry (distribution-spec 1.1).

/// Most bytes of a name with its tag. The name of an offered file has one byte for its length, and four characters
/// more.
const MAX_NAME_BYTES: usize = 251;
const MAX_TAG_BYTES: usize = 128;
const SHA256_DIGITS: usize = 64;

/// What a path requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::objects) enum AskedPart {
    /// Whether this is a registry.
    Registry,
    /// A manifest by its SHA-256, in hexadecimal digits.
    Manifest(String),
    /// The manifest of an image, by its name and tag.
    Tag(String),
    /// A blob by its SHA-256, in hexadecimal digits.
    Blob(String),
}

/// Why a path is refused, as codes of the specification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::objects) enum NameError {
    /// It is not a path for anything that can be requested here.
    Unsupported,
    Name,
    Digest,
}

/// Reads what follows `/v2/`.
pub(in crate::objects) fn read(path: &str) -> Result<AskedPart, NameError> {
    if path.is_empty() {
        return Ok(AskedPart::Registry);
    }
    let (front, reference) = path.rsplit_once('/').ok_or(NameError::Unsupported)?;
    let (name, kind) = front.rsplit_once('/').ok_or(NameError::Unsupported)?;
    let digest = || {
        let digits = reference.strip_prefix("sha256:").filter(|digits| is_sha256(digits));
        digits.map(str::to_owned).ok_or(NameError::Digest)
    };
    let asked = match kind {
        "blobs" => AskedPart::Blob(digest()?),
        "manifests" if reference.contains(':') => AskedPart::Manifest(digest()?),
        "manifests" => AskedPart::Tag(format!("{name}:{reference}")),
        _ => return Err(NameError::Unsupported),
    };
    is_tagged_name(&format!("{name}:tag")).then_some(()).ok_or(NameError::Name)?;
    match &asked {
        AskedPart::Tag(tagged) if !is_tagged_name(tagged) => Err(NameError::Name),
        _ => Ok(asked),
    }
}

/// Whether these are the digits of a SHA-256, in lower case as the specification requires.
pub(in crate::objects) fn is_sha256(digits: &str) -> bool {
    digits.len() == SHA256_DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether this is `NAME:TAG`. The parts of a name begin and end with a letter or a digit. The first may have a port.
pub(in crate::objects) fn is_tagged_name(text: &str) -> bool {
    let Some((name, tag)) = text.rsplit_once(':') else { return false };
    let part = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let inner = |byte: u8| plain(byte) || matches!(byte, b'.' | b'_' | b'-' | b':');
        part.bytes().all(inner)
            && part.bytes().next().is_some_and(plain)
            && part.bytes().next_back().is_some_and(plain)
            && !part.contains("..")
    };
    let of_tag = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    text.len() <= MAX_NAME_BYTES
        && name.split('/').all(part)
        && tag.len() <= MAX_TAG_BYTES
        && tag.bytes().all(of_tag)
        && tag.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_name_parts() {
        let digits = "0a".repeat(32);
        for (path, expected) in [
            (String::new(), Ok(AskedPart::Registry)),
            (format!("library/alpine/blobs/sha256:{digits}"), Ok(AskedPart::Blob(digits.clone()))),
            (format!("alpine/manifests/sha256:{digits}"), Ok(AskedPart::Manifest(digits.clone()))),
            ("alpine/manifests/3.20".into(), Ok(AskedPart::Tag("alpine:3.20".into()))),
            ("a/manifests/blobs/manifests/latest".into(), Ok(AskedPart::Tag("a/manifests/blobs:latest".into()))),
            ("alpine/blobs/sha256:0a".into(), Err(NameError::Digest)),
            (format!("alpine/blobs/sha512:{digits}"), Err(NameError::Digest)),
            (format!("alpine/blobs/sha256:{}", digits.to_uppercase()), Err(NameError::Digest)),
            (format!("../key/blobs/sha256:{digits}"), Err(NameError::Name)),
            ("alpine/manifests/".into(), Err(NameError::Name)),
            ("/manifests/latest".into(), Err(NameError::Name)),
            ("Alpine/manifests/latest".into(), Err(NameError::Name)),
            ("alpine/tags/list".into(), Err(NameError::Unsupported)),
            ("_catalog".into(), Err(NameError::Unsupported)),
        ] {
            assert_eq!(read(&path), expected, "{path}");
        }
        assert!(is_tagged_name("localhost:5000/alpine:3.20") && !is_tagged_name("alpine"));
    }

    proptest! {
        /// Nothing that is read leads elsewhere than to a part of an image. A tag may have any dots.
        #[test]
        fn names_are_plain(path in "[-a-z:./%0-9]{0,30}(/(blobs|manifests)/[-a-zA-Z:./0-9]{0,20})?") {
            match read(&path) {
                Ok(AskedPart::Tag(name)) => {
                    let image = name.rsplit_once(':').map_or("", |(image, _)| image);
                    prop_assert!(is_tagged_name(&name) && !image.contains("..") && !name.contains("//"));
                }
                Ok(AskedPart::Blob(digits) | AskedPart::Manifest(digits)) => prop_assert!(is_sha256(&digits)),
                Ok(AskedPart::Registry) => prop_assert!(path.is_empty()),
                Err(_) => {}
            }
        }
    }
}
