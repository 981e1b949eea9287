//! Every test that a table of attacks names is there.

use std::collections::BTreeSet;

use super::{files_in, none, text};

/// Files with tables of who can do what; the last column of each names tests.
const TABLES: [&str; 2] = ["docs/security.md", "crates/net/src/connection/mod.rs"];

#[test]
fn every_attack_has_the_test_that_its_row_names() {
    let read = |folder, end| files_in(folder, end).into_iter().map(text).collect::<Vec<String>>();
    let (rust, python) = (read("crates", ".rs"), read("python/tests", ".py"));
    let defines = |sources: &[String], text: String| sources.iter().any(|source| source.contains(&text));
    let exists = |name: &str| defines(&rust, format!("fn {name}(")) || defines(&python, format!("def {name}("));
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

/// What docs/security.md says of a flood is what `bench/flood.py` recorded, and that holds what is promised.
#[test]
fn the_flood_is_as_recorded() {
    let record: serde_json::Value = serde_json::from_str(&text("docs/flood.json")).unwrap();
    let number = |key: &str| record[key].as_u64().unwrap_or_else(|| panic!("docs/flood.json: {key}"));
    assert!(number("longest_answer_bytes") < number("hello_bytes"));
    assert!(number("answered_bytes") <= number("sent_bytes"));
    assert!(number("memory_kib_after") <= number("memory_kib_after_a_tenth") + 1024);
    assert_eq!(record["transfer_succeeds"], true);
    let grouped = |key: &str| {
        let digits = number(key).to_string();
        let groups: Vec<&str> =
            digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap()).collect();
        groups.join(",")
    };
    let said = format!(
        "{} hellos of {} bytes, {} answers of at most {} bytes. Its memory, without the pages of its program, was {} KiB before, {} KiB after a tenth of \
         them and {} KiB after all",
        grouped("hellos"),
        grouped("hello_bytes"),
        grouped("answers"),
        grouped("longest_answer_bytes"),
        grouped("memory_kib_before"),
        grouped("memory_kib_after_a_tenth"),
        grouped("memory_kib_after"),
    );
    let page = text("docs/security.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(&said), "docs/security.md: the record says: {said}");
}
