//! Numbers of documents equal the records that they come from.
//!
//! A document marks what is held with a comment before a paragraph or a table:
//!
//! ```text
//! <!-- held by docs/guide.md: strict priority / search: FCT mean; DWRR 9:1 / copies: share kept -->
//! ```
//!
//! Of a document `row / column` is a cell of a table: the first cell of its row, the heading of its column. Of
//! `docs/testbed.json` the names are those of [`testbed`]. The first number of each stands in the paragraph or table, as it
//! is or rounded.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::{FILES, files_in, line_of, none, text};

/// A comment that names a record, and what follows it up to an empty line.
struct Held {
    line: usize,
    record: String,
    items: Vec<String>,
    block: String,
}

const MARK: &str = "<!-- held by ";

fn marked(text: &str) -> Vec<Held> {
    let starts = text.match_indices(MARK).map(|(at, _)| at);
    let held = starts.map(|at| {
        let (comment, after) = text[at + MARK.len()..].split_once("-->").expect("a comment ends");
        let (record, items) = comment.split_once(": ").expect("a record and what it holds");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        // Other comments may stand between.
        let mut block = after.trim_start();
        while let Some((_, behind)) = block.strip_prefix("<!--").and_then(|rest| rest.split_once("-->")) {
            block = behind.trim_start();
        }
        let block = block.split("\n\n").next().unwrap_or_default().to_owned();
        let line = text[..at].matches('\n').count() + 1;
        Held { line, record: record.to_owned(), items: items.split(';').map(words).collect(), block }
    });
    held.collect()
}

fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split(" | ").map(str::trim).collect()
}

/// The cell of a table of a document.
fn cell<'d>(document: &'d str, row: &str, column: &str) -> Option<&'d str> {
    let mut heading: Vec<&str> = Vec::new();
    let mut before = "";
    for line in document.lines() {
        if line.starts_with("|---") {
            heading = cells(before);
        } else if !line.starts_with('|') {
            heading.clear();
        } else if !heading.is_empty() && cells(line)[0].trim_start_matches('|').trim() == row {
            let names = heading.iter().map(|name| name.trim_start_matches('|').trim());
            if let Some(index) = names.into_iter().position(|name| name == column) {
                return cells(line).get(index).copied();
            }
        }
        before = line;
    }
    None
}

/// The numbers of a text as they are written, without the commas of thousands.
fn numbers(text: &str) -> Vec<String> {
    let text = text.as_bytes();
    let digit = |at: usize| text.get(at).is_some_and(u8::is_ascii_digit);
    let (mut found, mut at) = (Vec::new(), 0);
    while at < text.len() {
        if !digit(at) {
            at += 1;
            continue;
        }
        let mut number = String::new();
        while digit(at) || matches!(text.get(at), Some(b'.' | b',')) && digit(at + 1) {
            let is_thousands = text[at] == b',';
            if is_thousands && !(digit(at + 2) && digit(at + 3) && !digit(at + 4)) {
                break;
            }
            number.extend((!is_thousands).then_some(char::from(text[at])));
            at += 1;
        }
        found.push(number);
        at += 1;
    }
    found
}

fn decimals(number: &str) -> usize {
    number.split_once('.').map_or(0, |(_, decimals)| decimals.len())
}

/// Whether a number is the recorded one, or that rounded to fewer digits: to tenths at most.
fn is_rounded(number: &str, recorded: &str) -> bool {
    let (digits, value) = (decimals(number), recorded.parse::<f64>());
    number == recorded
        || digits > 0 && digits < decimals(recorded) && value.is_ok_and(|value| format!("{value:.digits$}") == number)
}

/// What `docs/testbed.json` says by name.
fn testbed(name: &str) -> Option<String> {
    let record: Value = serde_json::from_str(&text("docs/testbed.json")).unwrap();
    let claims = record["claims"].as_array().unwrap();
    let number = |claim: &Value, key: &str| claim[key].as_f64().unwrap();
    let is_within = |claim: &&Value| {
        (number(claim, "testbed") / number(claim, "simulator") - 1.0).abs() <= number(claim, "tolerance")
    };
    match name {
        "measures" => Some(claims.len().to_string()),
        "measures within tolerance" => Some(claims.iter().filter(is_within).count().to_string()),
        _ => None,
    }
}

fn recorded(record: &str, item: &str) -> Option<String> {
    if record == "docs/testbed.json" {
        return testbed(item);
    }
    let (row, column) = item.split_once(" / ")?;
    let document = text(record);
    numbers(cell(&document, row, column)?).into_iter().next()
}

#[test]
fn documents_say_what_records_hold() {
    let (mut findings, mut items) = (Vec::new(), 0);
    let documents = files_in("docs", ".md").into_iter().chain([Path::new("README.md")]);
    for file in documents {
        for Held { line, record, items: held, block } in marked(&text(file)) {
            let place = format!("{}:{line}", file.display());
            if !FILES.iter().any(|known| known == Path::new(&record)) {
                findings.push(format!("{place}: there is no {record}"));
                continue;
            }
            let written = numbers(&block);
            for item in held {
                items += 1;
                match recorded(&record, &item) {
                    None => findings.push(format!("{place}: {record} has no number for `{item}`")),
                    Some(value) if !written.iter().any(|number| is_rounded(number, &value)) => {
                        findings.push(format!("{place}: {record} has {value} for `{item}`"));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    none(&findings);
    assert!(items >= 20, "{items} numbers are marked");
}

/// The table at the head of docs/reproduction.md counts what docs/reproduction.json holds. (That the README says the same
/// is a test of pliant-cli.)
#[test]
fn counts_of_claims_are_those_of_the_record() {
    let (document, record) = ("docs/reproduction.md", "docs/reproduction.json");
    let table = text(document);
    let record: Value = serde_json::from_str(&text(record)).unwrap();
    let mut findings = Vec::new();
    for (paper, figures) in record["figures"].as_object().unwrap() {
        let columns = ["reproduced", "at reduced scale", "not reproduced", "check"];
        let mut counts: BTreeMap<&str, usize> = columns.map(|column| (column, 0)).into();
        for figure in figures.as_object().unwrap().values() {
            // The paper's size is shown where it was run.
            let size = figure.get("full").filter(|full| !full.is_null()).unwrap_or(&figure["quick"]);
            for claim in size["claims"].as_array().unwrap() {
                let column = match claim["verdict"].as_str().unwrap() {
                    _ if claim["paper"] == "not given" => "check",
                    "agrees" => "reproduced",
                    "scaled" => "at reduced scale",
                    _ => "not reproduced",
                };
                *counts.get_mut(column).unwrap() += 1;
            }
        }
        counts.insert("figures", figures.as_object().unwrap().len());
        for (column, count) in counts {
            let shown = cell(&table, &format!("[{paper}](results/{paper}.md)"), column).unwrap_or_default();
            if shown != count.to_string() {
                let line = line_of(&table, &format!("| [{paper}](results/{paper}.md) |"));
                findings.push(format!("{document}:{line}: {paper}, {column}: {shown}, recorded {count}"));
            }
        }
    }
    none(&findings);
}

#[test]
fn marks_are_read() {
    let text = "a\n<!-- held by x.md: r 1 / c; r\n2 / d -->\n<!-- other -->\n\n| 1,234.5 | 2,3 |\nb\n\nc 4";
    let [held] = &marked(text)[..] else { panic!("one mark") };
    assert_eq!((held.line, held.record.as_str(), held.block.as_str()), (2, "x.md", "| 1,234.5 | 2,3 |\nb"));
    assert_eq!(held.items, ["r 1 / c", "r 2 / d"]);
    assert_eq!(numbers(&held.block), ["1234.5", "2", "3"]);
    let table = "| | c | d |\n|---|---|---|\n| r 1 | 2.48 (9 times) | |\n";
    assert_eq!((cell(table, "r 1", "c"), cell(table, "r 1", "e")), (Some("2.48 (9 times)"), None));
    assert!(is_rounded("2.5", "2.48") && is_rounded("2.48", "2.48"));
    assert!(!is_rounded("2.4", "2.48") && !is_rounded("2", "2.48") && !is_rounded("2.480", "2.48"));
}
