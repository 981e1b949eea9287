//! One convention for the files of modules, and one for those of tests.

use std::path::{Path, PathBuf};

use pliant_house::source::{Source, tokens};

use super::{FILES, files_in, none, root, text};

/// Modules that are still beside the folder of their children. The list only gets shorter; once it is empty, the lint
/// `clippy::self_named_module_files` can take this rule's place.
const BESIDE_THEIR_FOLDER: &[&str] = &[];

/// Tests that are still beside what they test, or in a file of another name. The list only gets shorter.
const TESTS_ELSEWHERE: &[&str] = &["crates/cli/src/lib.rs"];

/// Helpers of tests that several modules' tests share, by the file that declares them.
const SHARED_BY_TESTS: &[(&str, &str)] = &[
    ("crates/cli/src/lib.rs", "shell"),
    ("crates/net/src/lib.rs", "world"),
    ("crates/proto/src/transport/mod.rs", "pair"),
    ("crates/sim/src/results/mod.rs", "samples"),
];

fn is(files: &[&str], file: &Path) -> bool {
    files.iter().any(|known| Path::new(known) == file)
}

/// A finding for each entry of a list that holds no longer.
fn stale(list: &[&str], found: &[&Path]) -> Vec<String> {
    let gone = list.iter().filter(|known| !found.contains(&Path::new(known)));
    gone.map(|known| format!("{}: {known} keeps the rule: remove it from the list", file!())).collect()
}

/// A module with children is `name/mod.rs`.
#[test]
fn modules_with_children_are_in_their_folder() {
    let has_folder = |file: &&Path| root().join(file.with_extension("")).is_dir();
    let found: Vec<_> = files_in("crates", ".rs").into_iter().filter(has_folder).collect();
    let new = found.iter().filter(|file| !is(BESIDE_THEIR_FOLDER, file));
    let mut findings: Vec<_> = new
        .map(|file| {
            format!(
                "{}:1: its children are in {}/: make it mod.rs there",
                file.display(),
                file.with_extension("").display()
            )
        })
        .collect();
    findings.extend(stale(BESIDE_THEIR_FOLDER, &found));
    none(&findings);
}

/// A module's tests are `mod tests` at its end, or `tests.rs` or `tests/` in its own folder.
#[test]
fn tests_stand_where_they_are_looked_for() {
    let mut findings = Vec::new();
    let mut elsewhere = Vec::new();
    for file in files_in("crates", ".rs").into_iter().filter(|file| file.iter().any(|part| part == "src")) {
        let code = text(file);
        if let Some(line) = code.lines().position(|line| line.trim_start().starts_with("#[path =")) {
            elsewhere.push(file);
            if !is(TESTS_ELSEWHERE, file) {
                findings.push(format!("{}:{}: a module's file is where its name says", file.display(), line + 1));
            }
        }
        let shared = SHARED_BY_TESTS.iter().filter(|(by, _)| Path::new(by) == file).map(|(_, name)| *name);
        let shared: Vec<_> = shared.collect();
        for name in
            Source::parse(&code).test_modules.iter().filter(|name| *name != "tests" && !shared.contains(&name.as_str()))
        {
            let line = super::line_of(&code, &format!("mod {name};"));
            findings.push(format!("{}:{line}: tests are in a module `tests`, not `{name}`", file.display()));
        }
        if let Some(line) = behind_tests(&code) {
            findings.push(format!("{}:{line}: `mod tests` is the end of a file", file.display()));
        }
    }
    let beside = |file: &&PathBuf| file.to_string_lossy().ends_with("_tests.rs") && !file.starts_with("crates/house");
    for file in FILES.iter().filter(beside) {
        let of = file.to_string_lossy().replace("_tests.rs", ".rs");
        if !TESTS_ELSEWHERE.contains(&of.as_str()) {
            findings.push(format!("{}:1: tests are `mod tests`, or `tests.rs` in the module's folder", file.display()));
        }
    }
    findings.extend(stale(TESTS_ELSEWHERE, &elsewhere));
    none(&findings);
}

/// The line of the first token behind `#[cfg(test)] mod tests { ... }`.
fn behind_tests(code: &str) -> Option<usize> {
    const BEGINNING: [&str; 10] = ["#", "[", "cfg", "(", "test", ")", "]", "mod", "tests", "{"];
    let tokens = tokens(code);
    let begins = |at: &usize| tokens[*at..].iter().take(BEGINNING.len()).map(|token| token.text).eq(BEGINNING);
    let start = (0..tokens.len()).find(begins)?;
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(start + BEGINNING.len() - 1) {
        match token.text {
            "{" => depth += 1,
            "}" if depth == 1 => return tokens.get(index + 1).map(|token| token.line),
            "}" => depth -= 1,
            _ => {}
        }
    }
    None
}
