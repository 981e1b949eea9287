//! The lock files of the workspaces beside this one, which `make test` does not build.

use std::collections::BTreeMap;

use super::{none, text};

/// What each of Pliant's crates needs, by its name, of a lock file.
fn needs(lock: &str) -> BTreeMap<String, Vec<String>> {
    let lock: toml::Table = text(lock).parse().expect("a lock file is TOML");
    let packages = lock["package"].as_array().expect("it has packages").clone();
    let ours = packages.into_iter().filter(|package| package.get("source").is_none());
    let entry = |package: toml::Value| {
        let name = package["name"].as_str().expect("a package has a name").to_owned();
        let words = package.get("dependencies").and_then(toml::Value::as_array).cloned().unwrap_or_default();
        // A version follows the name where there are several.
        let names = words.iter().filter_map(|word| word.as_str()?.split(' ').next().map(str::to_owned));
        (name, names.collect())
    };
    ours.map(entry).collect()
}

/// A lock file that lacks what a crate of this tree needs fails `--locked`. Dependencies for tests are in this workspace's lock file only.
#[test]
fn other_lock_files_are_current() {
    let own = needs("Cargo.lock");
    let mut findings = Vec::new();
    for (file, least) in [("crates/python/Cargo.lock", 5), ("fuzz/Cargo.lock", 5)] {
        let locked = needs(file);
        let common: Vec<_> = locked.iter().filter(|(name, _)| own.contains_key(*name)).collect();
        assert!(common.len() >= least, "{file}: {common:?}");
        for (name, dependencies) in common {
            let manifest: toml::Table =
                text(format!("crates/{}/Cargo.toml", name.trim_start_matches("pliant-"))).parse().expect("TOML");
            let wanted = manifest.get("dependencies").and_then(toml::Value::as_table).into_iter().flatten();
            for (key, value) in wanted {
                let optional = value.get("optional").and_then(toml::Value::as_bool).unwrap_or(false);
                if !optional && !dependencies.contains(key) {
                    findings.push(format!("{file}: {name} needs {key}: run `cargo metadata` in that folder"));
                }
            }
        }
    }
    none(&findings);
}
