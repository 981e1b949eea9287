//! Dependencies between crates point one way, and what decides cannot touch the world.

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
    ("daemon", &["proto", "net", "kafka", "handover"]),
    ("ffi", &["proto", "net"]),
    ("cli", &["proto", "sim", "net", "testbed", "daemon", "handover"]),
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
