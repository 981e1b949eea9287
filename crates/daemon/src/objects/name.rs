//! The file that a request's path names.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use pliant_mirror::decoded;
use pliant_net::transfer::{FileSelector, Hash};

use super::image::tags;

/// Digits of a BLAKE3 hash.
const HASH_DIGITS: usize = 64;
/// Prefix of the paths of files.
pub(crate) const FOLDER: &str = "/objects/";
/// Most bytes of a name, and of a path.
const MAX_NAME_BYTES: usize = 255;
const MAX_PATH_BYTES: usize = 4096;

/// What a path requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum AskedPath {
    /// The list of files.
    List,
    /// One of them.
    File(FileSelector),
    /// Something in a folder.
    InFolder(AskedInFolder),
}

/// What a path requests of a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AskedInFolder {
    /// The name of the folder.
    pub(crate) folder: String,
    /// A path in it. Empty for the folder itself.
    pub(crate) path: PathBuf,
    /// Whether the request is for a folder, by the slash at its end.
    pub(crate) is_folder: bool,
}

/// Reads a path: a hash in 64 hexadecimal digits, a name, or the name of a folder and a path in it. `%` and two digits
/// stand for a byte. `None` for anything else, for a name that is not plain, and for what an image's name stands for.
pub(crate) fn read(path: &str) -> Option<AskedPath> {
    let asked = path.strip_prefix(FOLDER)?;
    if asked.is_empty() {
        return Some(AskedPath::List);
    }
    if let Some((folder, within)) = asked.split_once('/') {
        return in_folder(folder, within).map(AskedPath::InFolder);
    }
    if let Some(hash) = hash(asked) {
        return Some(AskedPath::File(FileSelector::Hash(hash)));
    }
    let name = String::from_utf8(plain(asked)?).ok()?;
    (!name.starts_with(tags::PREFIX)).then_some(AskedPath::File(FileSelector::Name(name)))
}

fn in_folder(folder: &str, within: &str) -> Option<AskedInFolder> {
    let folder = String::from_utf8(plain(folder)?).ok()?;
    let (within, is_folder) = match within.strip_suffix('/') {
        Some("") => return None,
        Some(within) => (within, true),
        None => (within, within.is_empty()),
    };
    if within.len() > MAX_PATH_BYTES {
        return None;
    }
    let mut path = PathBuf::new();
    for part in within.split('/').filter(|_| !within.is_empty()) {
        path.push(OsString::from_vec(plain(part)?));
    }
    Some(AskedInFolder { folder, path, is_folder })
}

/// The name for which a part of a path stands, if it is plain.
fn plain(part: &str) -> Option<Vec<u8>> {
    decoded(part).filter(|name| is_plain(name))
}

/// Whether something may have this name: it is not hidden, and no path.
pub(crate) fn is_plain(name: &[u8]) -> bool {
    let length = (1..=MAX_NAME_BYTES).contains(&name.len());
    length && name[0] != b'.' && !name.contains(&b'/') && !name.contains(&0)
}

/// The hash that is this name, if it is one: a file may be kept under its hash.
pub(crate) fn hash(name: &str) -> Option<Hash> {
    if name.len() == HASH_DIGITS { Hash::from_hex(name).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pliant_mirror::encoded;
    use proptest::prelude::*;

    #[test]
    fn paths_name_files() {
        let named = |name: &str| Some(AskedPath::File(FileSelector::Name(name.to_owned())));
        assert_eq!(read("/objects/"), Some(AskedPath::List));
        assert_eq!(read("/objects/model.bin"), named("model.bin"));
        assert_eq!(read("/objects/a%20b%C3%A9"), named("a bé"));
        let hash = Hash::from_hex("0a".repeat(32)).unwrap();
        assert_eq!(read(&format!("/objects/{hash}")), Some(AskedPath::File(FileSelector::Hash(hash))));
        let in_folder = |folder: &str, path: &str, is_folder| {
            Some(AskedPath::InFolder(AskedInFolder { folder: folder.to_owned(), path: path.into(), is_folder }))
        };
        assert_eq!(read("/objects/a/"), in_folder("a", "", true));
        assert_eq!(read("/objects/a/b%20c/d"), in_folder("a", "b c/d", false));
        assert_eq!(read("/objects/a/b/"), in_folder("a", "b", true));
        for wrong in [
            "",
            "/",
            "/objects",
            "/objects/.",
            "/objects/..",
            "/objects/%2e%2e%2fkey",
            "/objects//a",
            "/objects/a//",
            "/objects/a//b",
            "/objects/a/../b",
            "/objects/a/%2e%2e/b",
            "/objects/a/b%2fc",
            "/objects/a/.git/b",
            "/objects/a/b%00",
            "/objects/a%2",
            "/objects/%ff",
            "/objects/a%00",
            "/objects/oci:alpine:3.20",
            "/objects/%6fci:alpine:3.20",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(read(&format!("/objects/a/{}", "b/".repeat(3000))), None);
    }

    proptest! {
        /// A name comes back from its path, unless it is a hash or none that may be; nothing leads out of the folder.
        #[test]
        fn names_round_trip(name in "\\PC{1,40}", path in "(/objects/)?[-%./0-9a-f]{0,20}") {
            if !name.starts_with('.') && !name.starts_with(tags::PREFIX) && !name.contains('/') {
                let expected = AskedPath::File(FileSelector::Name(name.clone()));
                prop_assert_eq!(read(&format!("{FOLDER}{}", encoded(&name))), Some(expected));
            }
            match read(&path) {
                Some(AskedPath::File(FileSelector::Name(name))) => prop_assert!(is_plain(name.as_bytes())),
                Some(AskedPath::InFolder(AskedInFolder { folder, path, .. })) => {
                    prop_assert!(is_plain(folder.as_bytes()));
                    prop_assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
                }
                _ => {}
            }
        }
    }
}
