//! What the documentation and the help texts tell users to type: it runs.

mod common;
#[path = "common/page.rs"]
mod page;

use std::fs;
use std::path::Path;

use common::{pliant, pliant_in, stderr};
use page::commands;
use page::shell::{joined, words};
use pliant_testbed::plan::Plan;

/// Variants and traffic of the demo, small.
const SHORT_DEMO: [&str; 6] =
    ["--set", "duration=1ms", "--set", "topology.hosts_per_leaf=2", "--set", "traffic.copies.size=20kB"];

/// A scenario for the examples that speak of `rack.toml`.
const RACK: &str = r#"
duration = "1ms"
topology = { kind = "star", hosts = 6, link = { rate = "10Gbit/s", delay = "1us" } }

[traffic.web]
kind = "poisson"
size = "20kB"
load = 0.5

[traffic.backup]
kind = "permutation"
size = "100kB"
"#;

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// What follows `pliant` in a command.
fn arguments(command: &str) -> Vec<String> {
    words(command).split_off(1)
}

/// The examples of a help text, without comments and without what they are piped into.
fn examples(command: &str) -> Vec<Vec<String>> {
    let output = pliant(&[command, "--help"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let examples = text.split("Example").nth(1).unwrap_or_else(|| panic!("{command} --help has no example"));
    let examples = joined(examples);
    let lines = examples.lines().map(str::trim).filter(|line| line.starts_with("pliant "));
    lines.map(|line| arguments(line.split("  ").next().unwrap().split(['|', '>']).next().unwrap())).collect()
}

/// Every example that needs no network, no privilege and no minutes runs as it stands, beside a `rack.toml`.
#[test]
fn examples_of_help_texts_run() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rack.toml"), RACK).unwrap();
    let mut ran = 0;
    for command in
        ["run", "compare", "sweep", "check", "list", "show", "report", "fluid", "export", "keygen", "reproduce"]
    {
        for mut example in examples(command) {
            let needs_more = example.iter().any(|word| word.contains("testbed") || word == "--dask")
                || (command == "reproduce" && !example.iter().any(|word| word == "--list" || word == "--check"));
            if needs_more {
                continue;
            }
            let simulates = ["run", "compare", "sweep"].contains(&command);
            // The example before it writes this file.
            if example.iter().any(|word| word == "mine.toml") {
                fs::copy(folder.path().join("rack.toml"), folder.path().join("mine.toml")).unwrap();
            }
            if simulates && example[1] == "demo" {
                example.extend(SHORT_DEMO.map(str::to_owned));
            }
            if simulates && command != "sweep" {
                example.push("--force".to_owned());
            }
            let output = pliant_in(folder.path(), &example.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(output.status.success(), "{example:?}: {}", stderr(&output));
            ran += 1;
        }
    }
    assert!(ran >= 30, "{ran} examples");
    assert!(folder.path().join("results/rack/report.html").is_file(), "what an example says it writes");
    assert!(folder.path().join("results/grid/sweep.csv").is_file());
}

/// The plans that `switch --help` shows are plans as they stand: that for interfaces, and that without root, which runs.
#[test]
fn plans_of_the_help_text_are_plans() {
    let help = String::from_utf8(pliant(&["switch", "--help"]).stdout).unwrap();
    let plan = |heading: &str| {
        let (_, rest) = help.split_once(heading).unwrap_or_else(|| panic!("{help}"));
        let lines = rest.lines().skip(1).take_while(|line| line.is_empty() || line.starts_with("  "));
        lines.flat_map(|line| [line.trim(), "\n"]).collect::<String>()
    };
    let of_interfaces = Plan::parse(&plan("A plan for interfaces"), Path::new("help"));
    assert!(matches!(of_interfaces, Ok(Plan::Ethernet(_))), "{of_interfaces:?}");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("plan.toml"), plan("A plan for loopback")).unwrap();
    let output = pliant_in(folder.path(), &["switch", "plan.toml", "--for", "0"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// What is called a scenario to start from has the variants of the demo.
#[test]
fn the_scenario_to_start_from_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let help = String::from_utf8(pliant(&["check", "--help"]).stdout).unwrap();
    let (_, example) = help.split_once("# a scenario to start from").expect("an example");
    let (command, _) = example.lines().nth(1).and_then(|line| line.split_once("> mine.toml")).expect("its command");
    let words = arguments(command.trim());
    let output = pliant(&words.iter().map(String::as_str).collect::<Vec<_>>());
    fs::write(folder.path().join("mine.toml"), output.stdout).unwrap();
    let output = pliant_in(folder.path(), &["check", "mine.toml", "--variant", "strict"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// The commands of pages on scenarios and switches run as they stand, the demo made short, each with what those before it wrote.
/// What needs a network or minutes is left out.
#[test]
fn the_commands_of_pages_run() {
    let mut ran = 0;
    for page in ["README.md", "docs/switches.md", "docs/experiments.md"] {
        let folder = tempfile::tempdir().unwrap();
        let inside = |name: &str| folder.path().join(name);
        fs::create_dir_all(inside("docs/guide")).unwrap();
        for file in fs::read_dir(repository().join("docs/guide")).unwrap().map(Result::unwrap) {
            fs::copy(file.path(), inside("docs/guide").join(file.file_name())).unwrap();
        }
        let text = fs::read_to_string(repository().join(page)).unwrap();
        for line in &commands(&text) {
            let (command, file) =
                line.split_once(" > ").map_or((line.as_str(), None), |(command, file)| (command, Some(file)));
            let mut words = arguments(command);
            let local = ["show", "check", "run", "compare", "sweep", "export", "import", "reproduce"];
            let takes_minutes = words[0] == "reproduce" && !words.iter().any(|word| word == "--check");
            if !local.contains(&words[0].as_str()) || takes_minutes || words.iter().any(|word| word == "--on") {
                continue;
            }
            if ["run", "compare", "sweep"].contains(&words[0].as_str()) {
                words.extend(SHORT_DEMO.map(str::to_owned));
            }
            // A switch's own file; what was exported to one is like it.
            if words.iter().any(|word| word == "config_db.json") {
                fs::copy(inside("qos.json"), inside("config_db.json")).unwrap();
            }
            let output = pliant_in(folder.path(), &words.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(output.status.success(), "{page}: {line}: {}", stderr(&output));
            if let Some(file) = file {
                fs::write(inside(file), output.stdout).unwrap();
            }
            ran += 1;
        }
    }
    assert!(ran >= 14, "{ran} commands");
}

/// What makes the guide's scenarios short, by file.
const SHORT_GUIDE: &[(&str, &[&str])] = &[
    ("backup", &["--set", "duration=21ms", "--set", "topology.hosts_per_leaf=2", "--set", "traffic.backup.size=1MB"]),
    ("training", &["--set", "duration=22ms"]),
    ("wan", &["--set", "duration=11s", "--set", "traffic.users.stop=2s"]),
    ("model", &["--set", "duration=2ms", "--set", "traffic.model.size=1MB"]),
    ("rollout", &["--set", "duration=5ms", "--set", "topology.hosts_per_leaf=2"]),
    (
        "racks",
        &[
            "--set",
            "duration=3ms",
            "--set",
            "topology.hosts_per_leaf=2",
            "--set",
            "traffic.backup.sources=0..18",
            "--set",
            "traffic.backup.destinations=18..20",
            "--set",
            "traffic.backup.size=50kB",
        ],
    ),
];

/// Every command of the guide runs, made short, and its tables have a row for every variant of the scenario.
#[test]
fn the_guide_runs() {
    let guide = fs::read_to_string(repository().join("docs/guide.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let commands = commands(&guide);
    let theory: Vec<_> = commands.iter().filter(|command| command.starts_with("pliant fluid ")).collect();
    assert!(!theory.is_empty(), "the guide has an example of the fluid model");
    for command in theory {
        let output = pliant(&arguments(command).iter().map(String::as_str).collect::<Vec<_>>());
        assert!(output.status.success(), "{command}: {}", stderr(&output));
        for line in String::from_utf8(output.stdout).unwrap().lines().filter(|line| line.starts_with(['0', '1'])) {
            let row = line.split_whitespace().collect::<Vec<_>>().join(" | ");
            assert!(guide.contains(&format!("\n| {row} |")), "a row as it is printed: {row}");
        }
    }
    for (name, short) in SHORT_GUIDE {
        let file = format!("docs/guide/{name}.toml");
        let of_file: Vec<_> = commands.iter().filter(|command| command.contains(&file)).collect();
        assert!(!of_file.is_empty(), "the guide runs {file}");
        for command in of_file {
            let mut words = arguments(command);
            if let Some(at) = words.iter().position(|word| word == "--out") {
                words[at + 1] = folder.path().join(&words[at + 1]).to_string_lossy().into_owned();
            }
            words.extend(short.iter().map(|&word| word.to_owned()));
            let output = pliant_in(repository(), &words.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(output.status.success(), "{command}: {}", stderr(&output));
        }
        let scenario: toml::Table = fs::read_to_string(repository().join(&file)).unwrap().parse().unwrap();
        for variant in scenario["variants"].as_table().unwrap().keys() {
            assert!(guide.contains(&format!("\n| {variant} |")), "a row for {variant} of {file}");
        }
    }
    let files = fs::read_dir(repository().join("docs/guide")).unwrap().map(|entry| entry.unwrap().path());
    let scenarios = files.filter(|file| file.extension().is_some_and(|ending| ending == "toml")).count();
    assert_eq!(scenarios, SHORT_GUIDE.len(), "every file is run");
}

/// What the guide shows of a scenario stands in one of its files, part by part.
#[test]
fn the_guide_shows_its_files() {
    let guide = fs::read_to_string(repository().join("docs/guide.md")).unwrap();
    let files: Vec<String> = SHORT_GUIDE.iter().map(|(name, _)| format!("docs/guide/{name}.toml")).collect::<Vec<_>>();
    let texts: Vec<String> = files.iter().map(|file| fs::read_to_string(repository().join(file)).unwrap()).collect();
    let blocks: Vec<&str> =
        guide.split("\n```toml\n").skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect();
    assert!(blocks.len() >= 5, "{} blocks", blocks.len());
    for block in blocks {
        let parts = || block.split("\n\n").map(str::trim);
        assert!(texts.iter().any(|text| parts().all(|part| text.contains(part))), "no file has this:\n{block}");
    }
}

/// The README's counts of claims are those of the records.
#[test]
fn the_readme_counts_claims_as_the_records_do() {
    let read = |file: &str| fs::read_to_string(repository().join(file)).unwrap();
    let (readme, records) = (read("README.md"), read("docs/reproduction.md"));
    let table = records.split("\n|---|").nth(1).unwrap().split("\n\n").next().unwrap();
    let papers: Vec<_> = table.lines().skip(1).collect();
    assert!(papers.len() >= 5, "{table}");
    for paper in papers {
        let [_, agree, scaled, differ, check, beyond] =
            paper.trim_matches([' ', '|']).split(" | ").collect::<Vec<_>>()[1..]
        else {
            panic!("{paper}")
        };
        let row = readme.lines().find(|row| row.contains(&format!("| {agree}, {scaled}, {differ}, {check} |")));
        let row = row.unwrap_or_else(|| panic!("no row of the README's has the counts of {paper}"));
        assert!(beyond == "0" || row.contains(&format!("({beyond} beyond")), "{paper}: {row}");
    }
    let all = records.lines().find(|line| line.starts_with("| all | ")).unwrap();
    let classes: Vec<&str> = all.trim_matches([' ', '|']).split(" | ").skip(1).collect();
    let [unstated, simulator, inconsistent, own, ours, unexplained] = classes[..] else { panic!("{all}") };
    let are = if ours == "1" { "is" } else { "are" };
    let classed = format!(
        "Of those that differ, {unstated} depend on a parameter that the paper does not give, in {simulator} the paper's \
         simulator does not do what its text says, {inconsistent} contradict the paper's own numbers or a bound that nothing \
         can pass, {own} are expectations of our own that no paper states, and {ours} {are} ours"
    );
    let one_line = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(one_line.contains(&classed), "the README says: {classed}");
    assert_eq!(unexplained, "0", "a claim that differs has a class");
    // Of so many that agree the mechanism was switched off.
    let audit = records.lines().find(|line| line.contains("the mechanism switched off")).unwrap();
    let numbers: Vec<&str> = audit.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty()).collect();
    let [within, audited, another] = numbers[..] else { panic!("{audit}") };
    let counted = |end: &str| {
        let line = records.lines().find(|line| line.contains(end));
        line.map_or("0", |line| line.split(' ').next().unwrap())
    };
    let (none, left) = (counted(" have none to switch off"), counted(" are not audited"));
    assert_eq!(left, "0", "the README says that all are audited");
    let sentence = format!(
        "Of the {within} that agree {audited} were computed again without the mechanism that the paper gives; {another} hold \
         without it, and are marked. The other {none} have none to switch off."
    );
    assert!(one_line.contains(&sentence), "the README says: {sentence}");
}

/// Each table of docs/performance.md, and what it says of each target, is what its record holds, and each record has its table.
#[test]
fn the_tables_of_performance_are_the_records() {
    let page = fs::read_to_string(repository().join("docs/performance.md")).unwrap();
    let table = |columns: Vec<String>, rows: Vec<Vec<String>>| {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rows = rows.iter().map(|row| line(row)).collect::<String>();
        format!("{}|{}\n{rows}", line(&columns), "---|".repeat(columns.len()))
    };
    let words = |value: &serde_json::Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|cell| cell.as_str().unwrap().to_owned()).collect()
    };
    let mut parts = 0;
    for entry in fs::read_dir(repository().join("docs/performance")).unwrap().map(Result::unwrap) {
        let name = entry.path().file_stem().unwrap().to_str().unwrap().to_owned();
        let record: serde_json::Value = serde_json::from_str(&fs::read_to_string(entry.path()).unwrap()).unwrap();
        let rows = record["rows"].as_array().unwrap().iter().map(words).collect();
        let mut expected = table(words(&record["columns"]), rows);
        if let Some(targets) = record["figures"].get("targets") {
            let row = |target: &serde_json::Value| {
                let [what, wanted] = ["target", "wanted"].map(|key| target[key].as_str().unwrap().to_owned());
                let reached = if target["reached"] == true { "yes" } else { "no" };
                vec![what, format!("{:.2}", target["measured"].as_f64().unwrap()), wanted, reached.to_owned()]
            };
            let columns = ["target", "measured", "wanted", "reached"].map(String::from).to_vec();
            expected.push('\n');
            expected.push_str(&table(columns, targets.as_array().unwrap().iter().map(row).collect()));
        }
        let (_, rest) = page.split_once(&format!("<!-- {name}: written by bench/performance.py -->")).expect(&name);
        let (kept, _) = rest.split_once(&format!("<!-- end of {name} -->")).expect(&name);
        assert_eq!(kept.trim(), expected.trim(), "{name}: `make performance PARTS={name}` writes the table");
        parts += 1;
    }
    assert_eq!(page.matches("written by bench/performance.py -->").count(), parts, "each table has its record");
}

/// Pages that a command writes, with the quickest one that writes all of them. The records beside them are part of it.
const GENERATED: &[&str] = &[
    "docs/reproduction.md",
    "docs/results/atp.md",
    "docs/results/flexpass.md",
    "docs/results/lowprio.md",
    "docs/results/ppush.md",
    "docs/results/reflex.md",
];
const WRITE_DOCS: &str = "pliant reproduce reflex fig03 --write-docs docs/reproduction.md";

/// Generated pages are what their commands write from the records, the experiment files and the program of today.
#[test]
fn generated_pages_are_fresh() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("docs")).unwrap();
    for entry in fs::read_dir(repository().join("docs")).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), folder.path().join("docs").join(entry.file_name())).unwrap();
        }
    }
    let command = WRITE_DOCS;
    let output = pliant_in(folder.path(), &arguments(command).iter().map(String::as_str).collect::<Vec<_>>());
    assert!(output.status.success(), "{command}: {}", stderr(&output));
    for page in GENERATED {
        let written = fs::read_to_string(folder.path().join(page)).unwrap();
        let kept = fs::read_to_string(repository().join(page)).unwrap();
        let differs = written.lines().zip(kept.lines()).position(|(written, kept)| written != kept);
        let line = differs.unwrap_or(written.lines().count().min(kept.lines().count())) + 1;
        assert!(written == kept, "{page}:{line}: not what `{command}` writes");
    }
}

/// `pliant show push` names each field of the contract that push honours, by itself or with REFLEX over it.
#[test]
fn show_names_what_a_contract_may_ask_of_push() {
    let output = pliant(&["show", "push"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("it honours: weight, priority, max_rate\n") && text.contains("it honours min_share."),
        "{text}"
    );
}

/// Every command has a manual page, which names its flags, and every shell a script of completions.
#[test]
fn every_command_has_a_manual_page_and_completions() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let made = pliant(&["man", pages.to_str().unwrap()]);
    assert!(made.status.success(), "{}", stderr(&made));
    let commands = String::from_utf8(pliant(&["--help"]).stdout).unwrap();
    let commands = commands.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    let names = commands.lines().filter_map(|line| line.split_whitespace().next());
    let mut count = 0;
    for name in names.filter(|name| *name != "help" && pliant(&[name, "--help"]).status.success()) {
        let page = fs::read_to_string(pages.join(format!("pliant-{name}.1"))).unwrap_or_else(|_| panic!("{name}"));
        assert!(page.contains(".SH OPTIONS") && page.contains("Example"), "{name}");
        count += 1;
    }
    assert!(count >= 15, "{count} pages");
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = pliant(&["man", file.to_str().unwrap()]);
    assert_eq!((refused.status.code(), stderr(&refused).lines().count()), (Some(2), 1), "{}", stderr(&refused));
    for shell in ["bash", "zsh", "fish"] {
        let script = String::from_utf8(pliant(&["completions", shell]).stdout).unwrap();
        assert!(script.contains("reproduce") && script.contains("write-docs"), "{shell}");
    }
}
