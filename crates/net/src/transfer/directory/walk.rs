//! The content of a directory, always in the same order.

use std::ffi::OsString;
use std::fs::FileType;
use std::io;
use std::path::{Path, PathBuf};

/// Everything below a directory, by relative paths: folders before their content, and nothing behind a link. Two paths
/// have the same order in every directory that has both.
pub(in super::super) struct Walk {
    root: PathBuf,
    /// Folders still to be read.
    folders: Vec<PathBuf>,
    folder: PathBuf,
    names: std::vec::IntoIter<OsString>,
}

impl Walk {
    pub(in super::super) fn new(root: &Path) -> Self {
        let folders = vec![PathBuf::new()];
        Self { root: root.to_owned(), folders, folder: PathBuf::new(), names: Vec::new().into_iter() }
    }

    /// Skips the content of the folder returned last.
    pub(in super::super) fn prune(&mut self) {
        self.folders.pop();
    }

    fn read_next_folder(&mut self) -> io::Result<bool> {
        let Some(folder) = self.folders.pop() else { return Ok(false) };
        let names = std::fs::read_dir(self.root.join(&folder))
            .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>());
        let mut names = names.map_err(|error| at(&folder, &error))?;
        names.sort_unstable();
        (self.folder, self.names) = (folder, names.into_iter());
        Ok(true)
    }

    fn look(&mut self, name: PathBuf) -> io::Result<(PathBuf, FileType)> {
        let metadata = self.root.join(&name).symlink_metadata().map_err(|error| at(&name, &error))?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            self.folders.push(name.clone());
        }
        Ok((name, kind))
    }
}

impl Iterator for Walk {
    type Item = io::Result<(PathBuf, FileType)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(name) = self.names.next() {
                let name = self.folder.join(name);
                return Some(self.look(name));
            }
            match self.read_next_folder() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// The error with the name of the file in the directory.
pub(in super::super) fn at(name: &Path, error: &io::Error) -> io::Error {
    let named = if name == Path::new("") { error.to_string() } else { format!("{}: {error}", name.display()) };
    io::Error::new(error.kind(), named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths(names: &[String]) -> Vec<PathBuf> {
        let directory = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        Walk::new(directory.path()).map(|entry| entry.unwrap().0).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        /// Whatever else is in a directory: what two of them have both comes in the same order.
        #[test]
        fn the_order_depends_on_the_paths_alone(
            all in prop::collection::vec("[ab]{1,2}(/[abc]{1,2}){0,3}", 1..20), chosen in any::<u32>(),
        ) {
            let some: Vec<String> =
                all.iter().enumerate().filter(|(at, _)| chosen >> at & 1 != 0).map(|(_, name)| name.clone()).collect();
            let (whole, part) = (paths(&all), paths(&some));
            let common: Vec<&PathBuf> = whole.iter().filter(|path| part.contains(path)).collect();
            prop_assert_eq!(common, part.iter().collect::<Vec<_>>());
        }
    }
}
