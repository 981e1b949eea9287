//! Hashes the sources that the result of a run depends on: results that were kept are valid as long as it is the same.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders and files below the workspace that results depend on.
const SOURCES: [&str; 4] = ["crates/proto/src", "crates/sim/src", "workloads", "Cargo.lock"];
/// What only reads results.
const READERS: [&str; 2] = ["crates/sim/src/experiment", "crates/sim/src/report"];

fn main() {
    let workspace = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo:rerun-if-changed={}", workspace.join(source).display());
        collect(&workspace.join(source), &mut files);
    }
    let readers = READERS.map(|folder| workspace.join(folder));
    files.retain(|file| !readers.iter().any(|folder| file.starts_with(folder)));
    files.sort();
    // FNV-1a.
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for file in files {
        let name = file.strip_prefix(&workspace).unwrap_or(&file).to_string_lossy().into_owned();
        let content = fs::read(&file).unwrap_or_default();
        for byte in name.bytes().chain(content) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo:rustc-env=PLIANT_SIMULATOR_FINGERPRINT={hash:016x}");
}

/// Every file at or below `path`.
fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_file() {
        files.push(path.to_owned());
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        collect(&entry.path(), files);
    }
}
