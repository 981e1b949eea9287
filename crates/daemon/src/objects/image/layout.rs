//! Folders with the layout of OCI images (image-spec 1.1, image-layout.md).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::name::is_tagged_name;

/// Most bytes of a layout's index, and of a manifest. Registries accept manifests of at most 4 MiB.
pub(in crate::objects) const MAX_MANIFEST_BYTES: u64 = 4 << 20;
/// The name that containerd gives an image, with its registry.
const CONTAINERD_NAME: &str = "io.containerd.image.name";
/// The name that other tools give: a tag alone, or a name with a tag.
const REFERENCE_NAME: &str = "org.opencontainers.image.ref.name";

/// The manifest of a name.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(in crate::objects) struct Descriptor {
    /// Media type of the manifest.
    #[serde(rename = "mediaType")]
    pub(in crate::objects) media_type: String,
    /// Its hash, as `sha256:` and hexadecimal digits.
    pub(in crate::objects) digest: String,
    /// Its size in bytes.
    pub(in crate::objects) size: u64,
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(flatten)]
    descriptor: Descriptor,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// The folder of a layout's blobs, if the folder is a layout.
pub(in crate::objects) fn blobs(folder: &Path) -> Option<PathBuf> {
    folder.join("oci-layout").is_file().then(|| folder.join("blobs/sha256"))
}

/// The text of a folder's index. A FIFO in its place would wait for a writer, and all folders with it.
fn index_text(folder: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(folder.join("index.json"), flags, Mode::empty())?);
    let mut text = String::new();
    if file.metadata()?.is_file() {
        file.take(MAX_MANIFEST_BYTES).read_to_string(&mut text)?;
    }
    Ok(text)
}

/// The images of a layout, by name and tag. A tag alone gets the folder's name.
pub(in crate::objects) fn images(folder: &Path) -> BTreeMap<String, Descriptor> {
    let text = blobs(folder).and_then(|_| index_text(folder).ok());
    let index: Option<Index> = text.and_then(|text| serde_json::from_str(&text).ok());
    let folder_name = folder.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let named = |entry: Entry| {
        let annotation = |name| entry.annotations.get(name).cloned();
        let tagged = annotation(CONTAINERD_NAME).or_else(|| {
            let reference = annotation(REFERENCE_NAME)?;
            Some(if reference.contains(':') { reference } else { format!("{folder_name}:{reference}") })
        });
        tagged.filter(|name| is_tagged_name(name)).map(|name| (name, entry.descriptor))
    };
    index.map(|index| index.manifests.into_iter().filter_map(named).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Images have the names that the tools write, whole or in part; what is no name, or no index, is passed over.
    #[test]
    fn images_have_names() {
        let folder = tempfile::tempdir().unwrap();
        let layout = folder.path().join("Alpine");
        std::fs::create_dir(&layout).unwrap();
        assert_eq!((blobs(&layout), images(&layout).len()), (None, 0));
        std::fs::write(layout.join("oci-layout"), "{}").unwrap();
        assert_eq!(blobs(&layout), Some(layout.join("blobs/sha256")));
        let entry = |annotations: &str| {
            format!(r#"{{"mediaType": "m", "digest": "sha256:00", "size": 7, "annotations": {{{annotations}}}}}"#)
        };
        let entries = [
            entry(r#""org.opencontainers.image.ref.name": "3.20""#),
            entry(r#""org.opencontainers.image.ref.name": "library/redis:7""#),
            entry(
                r#""org.opencontainers.image.ref.name": "7", "io.containerd.image.name": "docker.io/library/node:7""#,
            ),
            entry(r#""org.opencontainers.image.ref.name": "../../key:7""#),
            entry(""),
        ];
        std::fs::write(layout.join("index.json"), format!(r#"{{"manifests": [{}]}}"#, entries.join(","))).unwrap();
        let found: Vec<String> = images(&layout).into_keys().collect();
        assert_eq!(found, ["alpine:3.20", "docker.io/library/node:7", "library/redis:7"]);
        std::fs::write(layout.join("index.json"), "{").unwrap();
        assert_eq!(images(&layout).len(), 0);
    }

    /// An index that is a FIFO, which nobody writes, is waited for by nobody.
    #[test]
    fn no_fifo_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("oci-layout"), "{}").unwrap();
        let mode = Mode::RUSR | Mode::WUSR;
        let index = folder.path().join("index.json");
        rustix::fs::mknodat(rustix::fs::CWD, index, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(images(folder.path()).len(), 0);
    }
}
