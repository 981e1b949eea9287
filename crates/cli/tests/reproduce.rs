//! `pliant reproduce` as a user has it.

mod common;

use std::fs;
use std::path::Path;

#[cfg(unix)]
use common::interrupted;
use common::{pliant_in, stderr};
use serde_json::Value;

/// Two runs of a millisecond, one claim for CI.
const FIGURE: &str = r#"
title = "Two flows"
section = "2"
setup = "Two flows on one link."

[scenario]
duration = "1ms"
topology = { kind = "star", hosts = 3, link = { rate = "10Gbit/s", delay = "1us" } }
traffic.web = { kind = "flows", flows = [{ source = 0, destination = 2, size = "300kB" }] }
traffic.bulk = { kind = "flows", class = 1, flows = [{ source = 1, destination = 2, size = "300kB" }] }

[runs.shared]

[runs.strict]
set = { queues.plan = "strict" }

[[claims]]
claim = "sharing takes twice as long"
paper = 2.0
ours = 'flows(run("shared"), "web").fct_us("mean") / flows(run("strict"), "web").fct_us("mean")'
ci = true

[[claims]]
claim = "there are <many> flows"
paper = 100
ours = 'flows(run("shared")).count()'

[[plots]]
title = "completion times"
kind = "bars"
categories = ["shared", "strict"]
series = [{ name = "web", y = 'flows(run(x), "web").fct_us("mean")' }]
"#;

fn folder_with(figure: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_figure(folder.path(), figure);
    folder
}

fn write_figure(folder: &Path, figure: &str) {
    fs::create_dir_all(folder.join("experiments/mine")).unwrap();
    fs::write(folder.join("experiments/mine/fig1.toml"), figure).unwrap();
}

fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = pliant_in(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn entries(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Programs find exactly these keys, and papers that are part of the program are found from anywhere.
#[test]
fn json_has_one_object_per_claim() {
    let folder = tempfile::tempdir().unwrap();
    let rows: Value =
        serde_json::from_str(&succeed(folder.path(), &["reproduce", "reflex", "fig03", "--json"])).unwrap();
    let rows = rows.as_array().unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        let mut keys: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["claim", "class", "figure", "ours", "paper", "paper_value", "scaled", "verdict", "why"]);
        assert_eq!(
            (&row["paper"], &row["figure"], &row["verdict"]),
            (&"reflex".into(), &"fig03".into(), &"agrees".into())
        );
    }
    assert!(succeed(folder.path(), &["reproduce", "--list"]).contains("reflex fig03"));
    assert!(succeed(folder.path(), &["list", "experiments"]).contains("reflex fig04"));
}

/// Without a paper nothing runs: what there is to choose from is listed, and of a paper what it takes.
#[test]
fn without_a_paper_there_is_a_list() {
    let folder = folder_with(FIGURE);
    let listed = succeed(folder.path(), &["reproduce"]);
    assert!(
        listed.contains("mine fig1 ") && listed.contains("reflex fig04") && listed.contains("reproduce all"),
        "{listed}"
    );
    let of_one = succeed(folder.path(), &["reproduce", "mine", "--list"]);
    assert!(of_one.contains("Two flows (2 runs, about 0 s of processor time)"), "{of_one}");
    assert!(succeed(folder.path(), &["reproduce", "mine", "--list", "--full"]).contains("Two flows (2 runs"));
    assert!(succeed(folder.path(), &["reproduce", "reflex", "fig03", "--list"]).contains("(computed, no runs)"));
    for wrong in [&["reproduce", "--json"][..], &["reproduce", "--full"], &["reproduce", "--out", "page"]] {
        let output = pliant_in(folder.path(), wrong);
        assert!(output.status.code() == Some(2) && stderr(&output).contains("say which paper, or `all`"), "{wrong:?}");
    }
    let output = pliant_in(folder.path(), &["reproduce", "all", "fig1"]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("all figures of all papers"));
    assert_eq!(entries(folder.path()), ["experiments"], "nothing ran");
    assert!(succeed(folder.path(), &["reproduce", "mine", "--check"]).contains("mine fig1: well formed"));
}

/// A reader that has gone ends it: nobody would see what it prints.
#[cfg(unix)]
#[test]
fn a_closed_output_ends_it() {
    let folder = folder_with(FIGURE);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pliant"));
    let status = command.current_dir(folder.path()).args(["reproduce", "mine"]).stdout(writer).status().unwrap();
    assert!(status.success());
    let cache = folder.path().join("target/reproduce");
    assert!(!cache.exists() || entries(&cache).is_empty(), "no run was begun");
}

/// Runs that are kept are not done again, and what is missing after an interrupted reproduction is made up for.
#[test]
fn the_same_command_goes_on() {
    let folder = folder_with(FIGURE);
    let all = ["reproduce", "mine", "--json"];
    let first = succeed(folder.path(), &all);
    let cache = folder.path().join("target/reproduce");
    let kept = entries(&cache);
    assert_eq!(kept.len(), 2);
    let written = |name: &str| fs::metadata(cache.join(name)).unwrap().modified().unwrap();
    let (stays, goes) = (&kept[0], &kept[1]);
    let before = written(stays);
    fs::remove_dir_all(cache.join(goes)).unwrap();
    assert_eq!(succeed(folder.path(), &all), first);
    assert_eq!((entries(&cache), written(stays)), (kept.clone(), before));
}

/// Ctrl-C before a figure is whole leaves no page, no record and no verdict, and says so.
#[cfg(unix)]
#[test]
fn an_interrupted_reproduction_writes_nothing() {
    let folder =
        folder_with(&FIGURE.replace("duration = \"1ms\"", "duration = \"100s\"").replace(", size = \"300kB\"", ""));
    let arguments = ["reproduce", "mine", "--out", "page", "--write-docs", "docs/reproduction.md"];
    let (told, table) = interrupted(folder.path(), &arguments);
    assert!(told.last().unwrap().starts_with("interrupted: 0 of 1 figures are whole, no file was written"), "{told:?}");
    assert_eq!(table, "");
    assert_eq!(entries(folder.path()), ["experiments"]);
}

/// A page that somebody wrote stands where a paper's would, of those that run or of those that were recorded: nothing runs, and
/// it stays.
#[test]
fn a_page_of_somebody_else_is_not_replaced() {
    let folder = folder_with(FIGURE);
    let page = folder.path().join("docs/results/mine.md");
    fs::create_dir_all(page.parent().unwrap()).unwrap();
    let stays = |paper| {
        fs::write(&page, "# What I found\n").unwrap();
        let refused = pliant_in(folder.path(), &["reproduce", paper, "--write-docs", "docs/reproduction.md"]);
        assert_eq!(refused.status.code(), Some(2));
        let told = stderr(&refused);
        assert!(told.contains("docs/results/mine.md: was not written by `pliant reproduce`"), "{told}");
        assert_eq!(fs::read_to_string(&page).unwrap(), "# What I found\n");
    };
    stays("mine");
    assert_eq!(entries(&folder.path().join("docs")), ["results"]);

    fs::remove_file(&page).unwrap();
    succeed(folder.path(), &["reproduce", "mine", "--write-docs", "docs/reproduction.md"]);
    let other = folder.path().join("experiments/other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("fig1.toml"), FIGURE).unwrap();
    stays("other");
    assert!(!folder.path().join("docs/results/other.md").exists());
}

#[test]
fn the_page_draws_and_tells() {
    let folder = folder_with(FIGURE);
    let text = succeed(folder.path(), &["reproduce", "mine", "fig1", "--out", "page"]);
    assert!(
        text.contains("differs: not yet explained") && text.contains("1 figure, claims: 1 agrees, 0 scaled, 1 differs"),
        "{text}"
    );
    assert_eq!(entries(&folder.path().join("page")), ["report.html", "verdicts.json"]);
    let page = fs::read_to_string(folder.path().join("page/report.html")).unwrap();
    for part in ["sharing takes twice as long", "there are &lt;many&gt; flows", "\"type\":\"bar\"", "completion times"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<many>"));
    let again = pliant_in(folder.path(), &["reproduce", "mine", "fig1", "--out", "page"]);
    assert_eq!(again.status.code(), Some(2), "an existing folder is not replaced");
    succeed(folder.path(), &["reproduce", "mine", "fig1", "--out", "page", "--force"]);
}

/// What agreed when it was recorded must agree; what differed may differ.
#[test]
fn ci_holds_what_was_recorded() {
    let folder = folder_with(FIGURE);
    let ci = ["reproduce", "mine", "--ci"];
    let unrecorded = pliant_in(folder.path(), &ci);
    assert!(unrecorded.status.code() == Some(2) && stderr(&unrecorded).contains("docs/reproduction.json"));
    fs::create_dir(folder.path().join("docs")).unwrap();
    succeed(folder.path(), &["reproduce", "mine", "--write-docs", "docs/reproduction.md"]);
    let document = fs::read_to_string(folder.path().join("docs/results/mine.md")).unwrap();
    assert!(document.contains("| there are <many> flows | 100 | 2 | differs: not yet explained |"), "{document}");
    succeed(folder.path(), &ci);

    let worse = FIGURE.replace("paper = 2.0", "paper = 3.0");
    write_figure(folder.path(), &worse);
    let output = pliant_in(folder.path(), &ci);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("\"sharing takes twice as long\" (recorded: agrees)"), "{}", stderr(&output));
    succeed(folder.path(), &["reproduce", "mine", "--write-docs", "docs/reproduction.md"]);
    succeed(folder.path(), &ci);
}

/// Words of a file reach the document without a run; what was recorded of other claims is forgotten, and no CI passes with it.
#[test]
fn the_document_says_what_the_files_say() {
    let folder = folder_with(FIGURE);
    let second = folder.path().join("experiments/mine/fig2.toml");
    fs::write(&second, FIGURE).unwrap();
    fs::create_dir(folder.path().join("docs")).unwrap();
    let record = ["reproduce", "mine", "fig1", "--write-docs", "docs/reproduction.md"];
    let document = || fs::read_to_string(folder.path().join("docs/results/mine.md")).unwrap();
    succeed(folder.path(), &["reproduce", "mine", "--write-docs", "docs/reproduction.md"]);

    let reason = "paper = 100\nwhy = \"there are two\"\nclass = \"unstated-parameter\"";
    fs::write(&second, FIGURE.replace("paper = 100", reason)).unwrap();
    succeed(folder.path(), &record);
    let row = "| differs: unstated parameter | there are two |";
    assert_eq!(document().matches(row).count(), 1, "{}", document());
    let counts = fs::read_to_string(folder.path().join("docs/reproduction.md")).unwrap();
    assert!(counts.contains("| mine | 1 | 0 | 0 | 0 | 0 | 1 |"), "one of two has a class: {counts}");

    // What is wrong in a file whose words are needed is told before anything runs, and nothing changes.
    let before = document();
    fs::write(&second, FIGURE.replace("paper = 100", "paper = 100\nwyh = \"x\"")).unwrap();
    write_figure(folder.path(), &FIGURE.replace("duration = \"1ms\"", "duration = \"1000000s\""));
    let output = pliant_in(folder.path(), &record);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("fig2.toml:") && stderr(&output).contains("`why`"), "{}", stderr(&output));
    assert_eq!(document(), before);
    write_figure(folder.path(), FIGURE);

    fs::write(&second, FIGURE.replace("there are <many> flows", "flows are many")).unwrap();
    let output = pliant_in(folder.path(), &["reproduce", "mine", "--ci"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("other claims than the files make: mine fig2 (quick)"), "{}", stderr(&output));
    let output = pliant_in(folder.path(), &record);
    assert!(stderr(&output).contains("forgotten: mine fig2, quick"), "{}", stderr(&output));
    assert!(document().contains("## fig1:") && !document().contains("fig2"), "{}", document());
}

/// Every file under `tests/broken_experiments`, and what must stand in the one line about it.
const BROKEN: &[(&str, &[&str])] = &[
    ("bad_override", &["bad_override.toml:11:", "`queues.plan`", "did you mean `strict`?"]),
    ("bad_tolerance", &["bad_tolerance.toml:15:", "`claims.0.tolerance", "did you mean `at_most`?"]),
    ("broken_scenario", &["broken_scenario.toml:6:", "`duration`", "\"1m\""]),
    ("kind_of_value", &["kind_of_value.toml:15:", "`claims.0.ours`", "neither a number"]),
    ("no_scenario", &["no_scenario.toml:5:", "`runs.shared`", "no `scenario`"]),
    ("not_toml", &["not_toml.toml:14:"]),
    ("unknown_group", &["unknown_group.toml:15:", "`claims.0.ours`", "did you mean `web`?", "it completes"]),
    ("unknown_key", &["unknown_key.toml:3:", "`set_up`", "did you mean `setup`?"]),
    ("unknown_measure", &["unknown_measure.toml:15:", "`complete`", "did you mean `completed`?"]),
    ("unknown_run", &["unknown_run.toml:15:", "`shraed`", "did you mean `shared`?"]),
];

#[test]
fn broken_files_are_refused_by_line_and_key() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken_experiments");
    let refused = |arguments: &[&str], expected: &[&str]| {
        let output = pliant_in(&folder, arguments);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(
            output.stdout.is_empty() && text.starts_with("error: ") && text.trim_end().lines().count() == 1,
            "{text}"
        );
        for part in expected {
            assert!(text.contains(part), "{part:?} in {text}");
        }
    };
    for (name, expected) in BROKEN {
        refused(&["reproduce", "broken", name], expected);
        refused(&["reproduce", "broken", name, "--check"], expected);
    }
    refused(&["reproduce", "brokn"], &["no experiments of a paper `brokn`", "did you mean `broken`?"]);
    refused(&["reproduce", "broken", "unknown_rnu"], &["did you mean `unknown_run`?"]);
    refused(&["reproduce", "reflex", "--jobs", "0"], &["--jobs <N>"]);
    assert_eq!(fs::read_dir(folder.join("experiments/broken")).unwrap().count(), BROKEN.len(), "no file is forgotten");
    assert!(!folder.join("target").exists(), "nothing is written");
}

/// Every experiment that is part of the program is well formed at both sizes, or says which data it needs.
#[test]
fn every_experiment_is_well_formed() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = pliant_in(&repository, &["reproduce", "all", "--check"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let checked = String::from_utf8(output.stdout.clone()).unwrap();
    let left_out = stderr(&output).lines().filter(|line| line.starts_with("left out: ")).count();
    let listed = succeed(&repository, &["reproduce", "--list"]).lines().count();
    assert_eq!(checked.lines().count() + left_out, listed);
}

/// What agrees is computed once more with the paper's mechanism off, and the document says if it holds all the same; an axis
/// or value that is not there is refused before anything runs.
#[test]
fn an_agreement_says_whether_it_needs_the_papers_mechanism() {
    let axis = "[axes.plan]\ndefault = \"shared\"\n[axes.plan.points.shared]\n[axes.plan.points.strict]\nqueues.plan = \"strict\"\n";
    let with = |off: &str| {
        let mechanism = format!("ci = true\nmechanism = {{ name = \"one queue for all\", off = {{ {off} }} }}");
        let figure = FIGURE.replace("[runs.shared]\n", &format!("{axis}\n[runs.shared]\nover = [\"plan\"]\n"));
        figure.replace("ci = true", &mechanism)
    };
    let folder = folder_with(&with("plan = \"strict\""));
    fs::create_dir(folder.path().join("docs")).unwrap();
    let text = succeed(folder.path(), &["reproduce", "mine"]);
    assert!(text.contains("without one queue for all (plan = strict)") && text.contains("outside"), "{text}");
    succeed(folder.path(), &["reproduce", "mine", "--write-docs", "docs/reproduction.md"]);
    let page = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
    let document = || page("docs/results/mine.md");
    assert!(
        document().contains("| agrees | Without one queue for all (plan = strict) it does not hold: 1."),
        "{}",
        document()
    );

    write_figure(folder.path(), &with("plan = \"shared\""));
    succeed(folder.path(), &["reproduce", "mine", "--write-docs", "docs/reproduction.md"]);
    assert!(document().contains("| agrees, for another reason | Without one queue"), "{}", document());
    let counts = page("docs/reproduction.md");
    assert!(counts.contains("Of 1 claims that agree, 1 were computed again"), "{counts}");

    // An audit takes what was recorded and adds what the claim gives without the mechanism, if the claim itself gives the same.
    write_figure(folder.path(), FIGURE);
    succeed(folder.path(), &["reproduce", "mine", "--write-docs", "docs/reproduction.md"]);
    assert!(page("docs/reproduction.md").contains("\n1 are not audited.\n"));
    write_figure(folder.path(), &with("plan = \"strict\""));
    let audit = ["reproduce", "mine", "--audit", "--write-docs", "docs/reproduction.md"];
    succeed(folder.path(), &audit);
    assert!(document().contains("Without one queue for all (plan = strict) it does not hold: 1."), "{}", document());
    assert!(document().contains("there are <many> flows") || document().contains("there are &lt;many&gt; flows"));
    write_figure(
        folder.path(),
        &with("plan = \"strict\"")
            .replace("ours = 'flows(run(\"shared\"), \"web\")", "ours = '2 * flows(run(\"shared\"), \"web\")"),
    );
    let refused = pliant_in(folder.path(), &audit);
    assert!(!refused.status.success() && stderr(&refused).contains(", recorded is "), "{}", stderr(&refused));

    // A claim without a mechanism says so, without a run.
    write_figure(folder.path(), &FIGURE.replace("ci = true", "ci = true\nmechanism = { none = \"compared\" }"));
    succeed(folder.path(), &["reproduce", "mine", "--audit", "--write-docs", "docs/reproduction.md"]);
    assert!(document().contains("| No mechanism to switch off: compares with and without it. |"), "{}", document());
    let counts = page("docs/reproduction.md");
    assert!(counts.contains("\n1 have none to switch off: 1 compares with and without it.\n"), "{counts}");

    for (off, named) in [("plam = \"strict\"", "axis `plam`"), ("plan = \"strct\"", "strict")] {
        write_figure(folder.path(), &with(off));
        let output = pliant_in(folder.path(), &["reproduce", "mine", "--check"]);
        assert!(output.status.code() == Some(2) && stderr(&output).contains(named), "{off}: {}", stderr(&output));
        assert!(stderr(&output).contains("mechanism.off"), "{}", stderr(&output));
    }
}
