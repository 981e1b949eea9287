//! Long pages begin with their contents.

use std::collections::BTreeSet;

use super::{files_in, none, text};

/// Two screens.
const LINES: usize = 100;
/// Fewer sections need no list.
const SECTIONS: usize = 4;
const MARK: &str = "**Contents**: ";

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let plain = heading.to_lowercase().replace(' ', "-");
    plain.chars().filter(|&c| c.is_alphanumeric() || c == '-' || c == '_').collect()
}

/// Every page of two screens and more lists its sections before the first of them, and each link leads to one.
#[test]
fn long_pages_have_contents() {
    let mut findings = Vec::new();
    // What a command writes is a list, or has one as its first table.
    let is_written = |file: &std::path::Path| {
        ["docs/reference", "docs/results", "docs/conformance.md"].iter().any(|written| file.starts_with(written))
    };
    for file in files_in("docs", ".md").into_iter().filter(|file| !is_written(file)) {
        let page = text(file);
        let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        if page.lines().count() < LINES || sections.len() < SECTIONS {
            continue;
        }
        let head = page.split("\n## ").next().unwrap_or_default();
        let Some(contents) = head.split(MARK).nth(1) else {
            findings.push(format!("{}: has no line \"{MARK}…\"", file.display()));
            continue;
        };
        let anchors: BTreeSet<String> = page
            .lines()
            .filter(|line| line.starts_with("##"))
            .map(|line| anchor(line.trim_start_matches('#').trim()))
            .collect();
        let links = contents.split("](#").skip(1).filter_map(|rest| rest.split(')').next());
        findings.extend(
            links
                .filter(|link| !anchors.contains(*link))
                .map(|link| format!("{}: no section has the anchor #{link}", file.display())),
        );
    }
    none(&findings);
}

#[test]
fn anchors_are_those_of_headings() {
    assert_eq!(anchor("How much may the backup yield?"), "how-much-may-the-backup-yield");
    assert_eq!(anchor("flows.csv, flows.parquet"), "flowscsv-flowsparquet");
}
