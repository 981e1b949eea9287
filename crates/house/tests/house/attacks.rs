//! Every test that a table of attacks names is there.

use std::collections::BTreeSet;

use super::{files_in, none, text};

/// Files with tables of who can do what; the last column of each names tests.
const TABLES: [&str; 2] = ["docs/security.md", "crates/net/src/connection/mod.rs"];

#[test]
fn every_attack_has_the_test_that_its_row_names() {
    let sources: Vec<String> = files_in("crates", ".rs").into_iter().map(text).collect();
    let exists = |name: &str| sources.iter().any(|source| source.contains(&format!("fn {name}(")));
    let (mut findings, mut named) = (Vec::new(), 0);
    // Rows of the table of what was found begin with a number, and each has a test.
    let mut found = BTreeSet::new();
    for file in TABLES {
        for (number, line) in text(file).lines().enumerate() {
            let row = line.trim_start_matches("//!").trim();
            let Some(cells) = row.strip_prefix('|').and_then(|row| row.strip_suffix('|')) else { continue };
            let tests = cells.rsplit('|').next().unwrap_or_default();
            if let Ok(finding) = cells.split('|').next().unwrap_or_default().trim().parse::<u32>() {
                found.insert(finding);
                if !tests.contains('`') {
                    findings.push(format!("{file}:{}: no test is named", number + 1));
                }
            }
            for name in tests.split('`').skip(1).step_by(2) {
                named += 1;
                if !exists(name) {
                    findings.push(format!("{file}:{}: there is no test `{name}`", number + 1));
                }
            }
        }
    }
    assert!(found == (1..=10).collect(), "{found:?}");
    assert!(named > 100, "the tables are not found: {named}");
    none(&findings);
}
