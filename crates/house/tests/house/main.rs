//! What holds for the whole tree. Each rule has a file; a finding is a line with the place where it is broken.

mod attacks;
mod conformance;
mod contents;
mod dependencies;
mod imports;
mod layout;
mod lists;
mod locks;
mod names;
mod numbers;
mod tables;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use pliant_house::modules::Modules;

/// Where nothing is that people wrote.
const NOT_OURS: [&str; 8] = [
    ".git",
    "target",
    "fuzz/target",
    "fuzz/artifacts",
    "fuzz/corpus",
    "out",
    "bench/quinn/target",
    "crates/python/target",
];

const CRATES: [&str; 13] = [
    "proto", "sim", "net", "testbed", "kafka", "handover", "mirror", "daemon", "preload", "ffi", "cli", "python",
    "house",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a file, by its path from the repository's top.
fn text(file: impl AsRef<Path>) -> String {
    let file = file.as_ref();
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Every file of the tree that people wrote, by its path from the repository's top, in order.
static FILES: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
    let (top, mut files, mut folders) = (root(), Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(top.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if NOT_OURS.iter().any(|other| path == Path::new(other)) {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    files
});

/// The files below a folder of which the name ends so.
fn files_in(folder: &str, ending: &str) -> Vec<&'static Path> {
    let of_folder = FILES.iter().filter(|file| file.starts_with(folder));
    of_folder.filter(|file| file.to_string_lossy().ends_with(ending)).map(PathBuf::as_path).collect()
}

/// The production code of every crate, by the crate's name.
static CODE: LazyLock<Vec<(&'static str, Modules)>> = LazyLock::new(|| {
    let read = |path: &Path| fs::read_to_string(root().join(path)).ok();
    let roots = CRATES.into_iter().flat_map(|name| ["lib.rs", "main.rs"].map(|file| (name, file)));
    let paths = roots.map(|(name, file)| (name, PathBuf::from(format!("crates/{name}/src/{file}"))));
    let present = paths.filter(|(_, path)| root().join(path).exists());
    present.map(|(name, path)| (name, Modules::of(&path, &read))).collect()
});

/// The 1-based line of a file in which `part` stands first.
fn line_of(text: &str, part: &str) -> usize {
    text.lines().position(|line| line.contains(part)).map_or(1, |index| index + 1)
}

/// Fails with a line for each finding.
fn none(findings: &[String]) {
    assert!(findings.is_empty(), "{} findings\n{}", findings.len(), findings.join("\n"));
}

/// The scan sees the tree: a test over no files would hold, too.
#[test]
fn the_whole_tree_is_read() {
    assert!(files_in("crates", ".rs").len() > 300, "{}", files_in("crates", ".rs").len());
    let missing: Vec<_> = CODE.iter().flat_map(|(_, modules)| &modules.missing).collect();
    assert!(CODE.len() >= CRATES.len() && missing.is_empty(), "{missing:?}");
    let folders: Vec<_> =
        fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(folders.len(), CRATES.len(), "{folders:?}");
}
