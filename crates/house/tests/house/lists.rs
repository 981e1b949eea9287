//! One list of fuzz targets and one of benchmarks.
//!
//! The fuzz targets are the files of fuzz/fuzz_targets: the Makefile reads that folder, and what else must name each is
//! compared with it. The benchmarks are `SCENARIOS` of bench/bench.py.

use std::collections::BTreeSet;

use super::{files_in, line_of, none, root, text};

fn stems(folder: &str, ending: &str) -> BTreeSet<String> {
    let files = files_in(folder, ending).into_iter();
    files.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

/// A finding for each name that one has and the other has not.
fn compare(names: &BTreeSet<String>, of: &str, others: &BTreeSet<String>, of_others: &str, findings: &mut Vec<String>) {
    let others_text = text_of(of_others);
    findings.extend(names.difference(others).map(|name| format!("{of_others}:1: `{name}` of {of} is missing")));
    let more = others.difference(names);
    findings.extend(more.map(|name| format!("{of_others}:{}: `{name}` is not in {of}", line_of(&others_text, name))));
}

/// The text of a file; of a folder none.
fn text_of(path: &str) -> String {
    if root().join(path).is_file() { text(path) } else { String::new() }
}

/// The words between two marks: each after `before`, up to `end`.
fn words_after(text: &str, before: &str, end: char) -> BTreeSet<String> {
    text.split(before).skip(1).filter_map(|rest| rest.split(end).next()).map(str::to_owned).collect()
}

#[test]
fn fuzz_targets_are_one_list() {
    const TARGETS: &str = "fuzz/fuzz_targets";
    let targets = stems(TARGETS, ".rs");
    assert!(!targets.is_empty());
    let mut findings = Vec::new();
    compare(&targets, TARGETS, &stems("fuzz/checks", ".rs"), "fuzz/checks", &mut findings);
    let manifest: toml::Table = text("fuzz/Cargo.toml").parse().unwrap();
    let bins = manifest["bin"].as_array().unwrap().iter().map(|bin| bin["name"].as_str().unwrap().to_owned()).collect();
    compare(&targets, TARGETS, &bins, "fuzz/Cargo.toml", &mut findings);
    // On stable Rust.
    let replayed = text("crates/cli/tests/fuzz.rs");
    compare(&targets, TARGETS, &words_after(&replayed, "replay(\"", '"'), "crates/cli/tests/fuzz.rs", &mut findings);
    let corpora = std::fs::read_dir(root().join("fuzz/corpus")).unwrap();
    let corpora = corpora.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    compare(&targets, TARGETS, &corpora, "fuzz/corpus", &mut findings);
    let makefile = text("Makefile");
    for name in targets.iter().filter(|name| !["scenario_parser"].contains(&name.as_str()) && makefile.contains(*name))
    {
        findings.push(format!("Makefile:{}: `{name}`: the list is {TARGETS}", line_of(&makefile, name)));
    }
    none(&findings);
}

#[test]
fn benchmarks_are_one_list() {
    const LIST: &str = "bench/bench.py";
    let script = text(LIST);
    let list = script.split("\nSCENARIOS = [").nth(1).and_then(|rest| rest.split(']').next()).expect("the list");
    let names: BTreeSet<String> = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    // Both are runs of one file, with flows of their own; `-dwrr` is another plan in the same.
    let file_of = |name: &String| match name.trim_end_matches("-dwrr") {
        "S2" | "S3" => "fat_tree".to_owned(),
        name => name.to_lowercase(),
    };
    let mut findings = Vec::new();
    compare(
        &names.iter().map(file_of).collect(),
        LIST,
        &stems("bench/scenarios", ".toml"),
        "bench/scenarios",
        &mut findings,
    );
    // The document's table names several in a row; `S*n*-dwrr` are all with another plan.
    let document = text("bench/README.md");
    let table = document.split("\n| | topology | flows | length |\n").nth(1).and_then(|rest| rest.split("\n\n").next());
    let rows = table.expect("the table").lines().skip(1);
    let first_cells = rows.filter_map(|row| row.split(" | ").next());
    let shown = first_cells.flat_map(|cell| cell.trim_matches(['|', ' ']).split(", ")).map(str::to_owned);
    let shown = shown.filter(|name| name != "S*n*-dwrr").collect();
    let without_plans = names.iter().filter(|name| !name.ends_with("-dwrr")).cloned().collect();
    compare(&without_plans, LIST, &shown, "bench/README.md", &mut findings);
    none(&findings);
}
