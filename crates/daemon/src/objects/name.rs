//! The file that a request's path names.

use pliant_mirror::decoded;
use pliant_net::transfer::{FileSelector, Hash};

use super::image::tags;

/// Digits of a BLAKE3 hash.
const HASH_DIGITS: usize = 64;
/// Prefix of the paths of files.
pub(crate) const FOLDER: &str = "/objects/";

/// What a path requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum AskedPath {
    /// The list of files.
    List,
    /// One of them.
    File(FileSelector),
}

/// Reads a path: a hash in 64 hexadecimal digits, or a name in which `%` and two digits stand for a byte. `None` for
/// anything else, for a name that is not plain, and for what an image's name stands for.
pub(crate) fn read(path: &str) -> Option<AskedPath> {
    let name = path.strip_prefix(FOLDER)?;
    if name.is_empty() {
        return Some(AskedPath::List);
    }
    if name.len() == HASH_DIGITS
        && let Ok(hash) = Hash::from_hex(name)
    {
        return Some(AskedPath::File(FileSelector::Hash(hash)));
    }
    let name = String::from_utf8(decoded(name)?).ok()?;
    let plain = !name.starts_with('.') && name.len() <= 255 && !name.contains(['/', '\0']);
    (plain && !name.starts_with(tags::PREFIX)).then_some(AskedPath::File(FileSelector::Name(name)))
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
        for wrong in [
            "",
            "/",
            "/objects",
            "/objects/.",
            "/objects/..",
            "/objects/%2e%2e%2fkey",
            "/objects/a/b",
            "/objects/a%2",
            "/objects/%ff",
            "/objects/a%00",
            "/objects/oci:alpine:3.20",
            "/objects/%6fci:alpine:3.20",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    proptest! {
        /// A name comes back from its path, unless it is a hash or none that may be; nothing leads out of the folder.
        #[test]
        fn names_round_trip(name in "\\PC{1,40}", path in "(/objects/)?[-%./0-9a-f]{0,20}") {
            if !name.starts_with('.') && !name.starts_with(tags::PREFIX) && !name.contains('/') {
                let expected = AskedPath::File(FileSelector::Name(name.clone()));
                prop_assert_eq!(read(&format!("{FOLDER}{}", encoded(&name))), Some(expected));
            }
            if let Some(AskedPath::File(FileSelector::Name(name))) = read(&path) {
                prop_assert!(!name.contains('/') && name != ".." && name != ".");
            }
        }
    }
}
