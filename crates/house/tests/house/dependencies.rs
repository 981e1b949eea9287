//! Dependencies between crates point one way, and what decides cannot touch the world.

use std::collections::{BTreeMap, BTreeSet};

use pliant_house::source::Source;

use super::{CODE, line_of, none, text};

/// What each crate may use of the others.
const MAY_USE: &[(&str, &[&str])] = &[
    ("proto", &[]),
    ("sim", &["proto"]),
    ("net", &["proto"]),
    ("testbed", &["proto", "net", "sim"]),
    ("kafka", &[]),
    ("handover", &[]),
    // Its tests begin daemons.
    ("preload", &["handover", "net", "daemon"]),
    ("mirror", &["net"]),
    ("daemon", &["proto", "net", "kafka", "handover", "mirror"]),
    ("ffi", &["proto", "net"]),
    // Its tests replay what the fuzz targets check.
    ("cli", &["proto", "sim", "net", "testbed", "daemon", "kafka", "handover", "mirror"]),
    ("python", &["proto", "sim", "net", "cli"]),
    ("house", &[]),
];

/// Tests and build scripts count: a test of `sim` that needs `net` belongs into `testbed`.
#[test]
fn dependencies_point_one_way() {
    let mut findings = Vec::new();
    for (name, may_use) in MAY_USE {
        let file = format!("crates/{name}/Cargo.toml");
        let text = text(&file);
        let manifest: toml::Table = text.parse().unwrap();
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for other in manifest.get(kind).and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys) {
                let Some(other) = other.strip_prefix("pliant-") else { continue };
                if !may_use.contains(&other) {
                    let line = line_of(&text, &format!("pliant-{other}"));
                    findings.push(format!("{file}:{line}: {name} must not depend on {other}"));
                }
            }
        }
    }
    none(&findings);
}

#[test]
fn machines_have_no_world() {
    let lib = "crates/proto/src/lib.rs";
    assert!(text(lib).lines().any(|line| line == "#![no_std]"), "{lib}:1: `#![no_std]` is missing");
    let mut findings = Vec::new();
    let (_, proto) = CODE.iter().find(|(name, _)| *name == "proto").expect("it is there");
    for file in proto.files() {
        let text = text(file);
        for token in Source::parse(&text).tokens.iter().filter(|token| token.text == "std") {
            findings.push(format!("{}:{}: `std`, which proto's machines do not have", file.display(), token.line));
        }
    }
    none(&findings);
}

/// crates/python is a workspace of its own, and its runs are the command's: the same versions of what both use, and the same
/// profiles. `cp Cargo.lock crates/python/ && cargo metadata --manifest-path crates/python/Cargo.toml` takes over versions.
#[test]
fn the_python_package_is_built_alike() {
    const OTHER: &str = "crates/python/Cargo";
    let read = |file: &str| text(file).parse::<toml::Table>().unwrap();
    let packages = |file: &str| -> BTreeMap<String, BTreeSet<String>> {
        let mut packages: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for package in read(file)["package"].as_array().unwrap() {
            let field = |key: &str| package[key].as_str().unwrap().to_owned();
            packages.entry(field("name")).or_default().insert(field("version"));
        }
        packages
    };
    let lock = format!("{OTHER}.lock");
    let (ours, theirs) = (packages("Cargo.lock"), packages(&lock));
    let mut findings = Vec::new();
    for (name, versions) in theirs {
        for version in ours.get(&name).map_or(BTreeSet::new(), |known| &versions - known) {
            let line = line_of(&text(&lock), &format!("name = \"{name}\""));
            findings.push(format!("{lock}:{line}: {name} {version}, which Cargo.lock does not have"));
        }
    }
    let manifest = format!("{OTHER}.toml");
    let (mut ours, theirs) = (read("Cargo.toml"), read(&manifest));
    let dev = ours["profile"]["dev"]["package"].as_table_mut().unwrap();
    dev.remove("pliant-house").expect("it is no part of the package");
    if ours["profile"] != theirs["profile"] {
        let line = line_of(&text(&manifest), "[profile.");
        findings.push(format!("{manifest}:{line}: its profiles are not those of Cargo.toml"));
    }
    none(&findings);
}
