//! Names of images, each offered as a small file with its descriptor.
//!
//! Hosts with the same image offer the same bytes under the same name, so they agree as on any other file.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use pliant_net::transfer::OfferedFiles;

use super::layout::{Descriptor, images};
use super::sha256::Sha256;

/// Beginning of the names of such files. They are asked for by pulls alone: as a file of the cache, one would stay as it is.
pub(in crate::objects) const PREFIX: &str = "oci:";
/// Most bytes of such a file.
pub(in crate::objects) const MAX_TAG_FILE_BYTES: u64 = 4 << 10;

/// The name of the file for an image's name.
pub(in crate::objects) fn file_name(image: &str) -> String {
    format!("{PREFIX}{image}")
}

/// The content of such a file.
pub(in crate::objects) fn read(text: &[u8]) -> Option<Descriptor> {
    serde_json::from_slice(text).ok()
}

/// The files of the images that are here.
pub(in crate::objects) struct Tags {
    folder: PathBuf,
    known: HashMap<String, Descriptor>,
}

impl Tags {
    /// Puts them into this folder, whose old content is removed.
    pub(in crate::objects) fn new(folder: PathBuf) -> Self {
        let _ = std::fs::remove_dir_all(&folder);
        Self { folder, known: HashMap::new() }
    }

    /// Offers the names in those of these folders that are layouts, and withdraws those that are gone. If two have one
    /// name, the first has it.
    pub(in crate::objects) fn look(&mut self, folders: &[PathBuf], files: &OfferedFiles) {
        let mut there = HashMap::new();
        for (image, descriptor) in folders.iter().rev().flat_map(|folder| images(folder)) {
            there.insert(image, descriptor);
        }
        self.known.retain(|image, descriptor| {
            let keeps = there.get(image) == Some(descriptor);
            let path = path_of(&self.folder, image);
            if !keeps {
                files.retain(|file| file.path() != path);
            }
            keeps
        });
        for (image, descriptor) in there {
            if !self.known.contains_key(&image) && self.offer(&image, &descriptor, files).is_ok() {
                self.known.insert(image, descriptor);
            }
        }
    }

    fn offer(&self, image: &str, descriptor: &Descriptor, files: &OfferedFiles) -> io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        let path = path_of(&self.folder, image);
        std::fs::write(&path, serde_json::to_vec(descriptor)?)?;
        files.add_named(&path, &file_name(image)).map_err(io::Error::other)
    }
}

/// The path of a name's file. A name may have slashes, and its file has none.
fn path_of(folder: &Path, image: &str) -> PathBuf {
    folder.join(Sha256::of(image.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pliant_net::transfer::FileSelector;

    /// Names come, change and go with the layouts.
    #[test]
    fn names_follow_the_layouts() {
        let folder = tempfile::tempdir().unwrap();
        let layout = folder.path().join("alpine");
        std::fs::create_dir(&layout).unwrap();
        std::fs::write(layout.join("oci-layout"), "{}").unwrap();
        let write = |tag: &str, digest: &str| {
            let index = format!(
                r#"{{"manifests": [{{"mediaType": "m", "digest": "{digest}", "size": 7,
                "annotations": {{"org.opencontainers.image.ref.name": "{tag}"}}}}]}}"#
            );
            std::fs::write(layout.join("index.json"), index).unwrap();
        };
        let files = OfferedFiles::new();
        let mut tags = Tags::new(folder.path().join("tags"));
        let mut look = || tags.look(std::slice::from_ref(&layout), &files);
        let said = |image: &str| {
            let file = files.find(&FileSelector::Name(file_name(image))).ok()?;
            let mut text = vec![0; file.offered().bytes as usize];
            file.read_at(0, &mut text).unwrap();
            read(&text).map(|descriptor| descriptor.digest)
        };
        look();
        assert_eq!(files.list().len(), 0);
        for (tag, digest) in [("3.20", "sha256:aa"), ("3.20", "sha256:bb"), ("3.21", "sha256:cc")] {
            write(tag, digest);
            look();
            assert_eq!(said(&format!("alpine:{tag}")).as_deref(), Some(digest));
        }
        assert_eq!((said("alpine:3.20"), files.list().len()), (None, 1));
    }
}
