//! Every test that a table of attacks names is there.

use super::{files_in, none, text};

/// Files with tables of who can do what; the last column of each names tests.
const TABLES: [&str; 2] = ["docs/security.md", "crates/net/src/connection/mod.rs"];

#[test]
fn every_attack_has_the_test_that_its_row_names() {
    let sources: Vec<String> = files_in("crates", ".rs").into_iter().map(text).collect();
    let exists = |name: &str| sources.iter().any(|source| source.contains(&format!("fn {name}(")));
    let (mut findings, mut named) = (Vec::new(), 0);
    for file in TABLES {
        for (number, line) in text(file).lines().enumerate() {
            let row = line.trim_start_matches("//!").trim();
            let Some(cells) = row.strip_prefix('|').and_then(|row| row.strip_suffix('|')) else { continue };
            let tests = cells.rsplit('|').next().unwrap_or_default();
            for name in tests.split('`').skip(1).step_by(2) {
                named += 1;
                if !exists(name) {
                    findings.push(format!("{file}:{}: there is no test `{name}`", number + 1));
                }
            }
        }
    }
    assert!(named > 30, "the tables are not found: {named}");
    none(&findings);
}
