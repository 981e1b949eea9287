//! Makes the experiment files part of the program.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let folder = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../experiments");
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    collect(&folder, &mut files);
    files.sort();
    let mut list = String::from("&[\n");
    for file in files {
        let path = file.strip_prefix(&folder).expect("it was found there").to_string_lossy().replace('\\', "/");
        let full = file.canonicalize().expect("it was just listed");
        writeln!(list, "    ({path:?}, include_str!({:?})),", full.display().to_string()).expect("a string takes all");
    }
    list.push_str("]\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("experiments.rs");
    fs::write(out, list).expect("the output folder can be written");
}

/// Every TOML file below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|end| end == "toml") {
            files.push(path);
        }
    }
}
