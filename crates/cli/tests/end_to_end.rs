//! Whole commands: what they write, that they repeat, that they resume.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use common::{limited, pliant, pliant_in, stderr};
use serde_json::Value;

/// The demo, made short.
const SHORT: [&str; 8] = [
    "demo",
    "--set",
    "duration=2ms",
    "--set",
    "topology.hosts_per_leaf=2",
    "--set",
    "traffic.copies.size=200kB",
    "--quiet",
];

fn run(command: &str, more: &[&str]) -> Output {
    let output = pliant(&[&[command], &SHORT[..], more].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn summary(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("summary.json")).unwrap()).unwrap()
}

#[test]
fn run_writes_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results/demo");
    let out_text = out.to_str().unwrap();
    let table = stdout(&run("run", &["--out", out_text]));
    assert!(table.contains("search") && table.contains("copies"), "{table}");
    for file in ["scenario.toml", "summary.json", "flows.csv", "flows.parquet", "ports.csv", "report.html"] {
        assert!(out.join(file).is_file(), "{file}");
    }
    // What was written runs again to the same end.
    let again = pliant(&["run", out.join("scenario.toml").to_str().unwrap(), "--json", "--quiet"]);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["digest"], summary(&out)["digest"]);
    // A folder is not replaced unless asked.
    let occupied = pliant(&[&["run"], &SHORT[..], &["--out", out_text]].concat());
    assert_eq!(occupied.status.code(), Some(2));
    assert!(stderr(&occupied).contains("--force"));
    run("run", &["--out", out_text, "--force"]);
    fs::remove_file(out.join("report.html")).unwrap();
    assert!(pliant(&["report", out_text]).status.success());
    assert!(out.join("report.html").is_file());
}

/// The demo's table says of every kind of trouble what there was of it, in a terminal of 100 columns: a column, or that
/// it is 0 everywhere.
#[test]
fn the_demo_tells_marks_drops_and_timeouts() {
    let text = stdout(&run("compare", &["--seeds", "1"]));
    let left_out = text.lines().find_map(|line| line.strip_prefix("more with --all-columns: ")).unwrap_or("");
    let zero = text.lines().find_map(|line| line.strip_prefix("0 everywhere: ")).unwrap_or("");
    let heading = text.lines().next().unwrap();
    for trouble in ["marks", "drops", "timeouts"] {
        assert!(!left_out.contains(trouble), "{text}");
        assert!(heading.contains(trouble) != zero.contains(trouble), "{trouble} once in\n{text}");
    }
    assert!(heading.contains("marks"), "the queues mark: {text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

/// Where the disk fills up under what is written, the folder that was asked for is named, nothing is left of it, and the
/// exit code says that the command was not at fault.
#[test]
fn a_full_disk_is_told_by_the_folder_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let of = |command: &str| folder.path().join(command).to_str().unwrap().to_owned();
    for (command, more, named) in [
        ("run", &[][..], of("run")),
        ("compare", &["--vary", "seed=1,2"], of("compare")),
        ("sweep", &["--vary", "seed=1,2", "--jobs", "1"], format!("{}/points/seed=1", of("sweep"))),
    ] {
        // A few kilobytes: the scenario has room, the flows have none.
        let mut limited = limited("-f 4");
        let output = limited.arg(command).args(SHORT).args(more).args(["--out", &of(command)]).output().unwrap();
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        let last = told.lines().last().unwrap();
        assert!(last.starts_with(&format!("error: cannot write {named}: ")), "{told}");
        assert!(last.contains("File too large"), "{told}");
        let left: Vec<_> = fs::read_dir(Path::new(&named).parent().unwrap()).unwrap().collect();
        assert!(left.is_empty(), "{command}: {left:?}");
        if command == "sweep" {
            fs::remove_dir_all(of("sweep")).unwrap();
        }
    }
}

/// The digest depends on the seed alone: not on the recorder, the number of threads, or what else runs.
#[test]
fn equal_seeds_give_equal_digests() {
    let digest = |more: &[&str]| -> String {
        let summary: Value = serde_json::from_slice(&run("run", &[&["--json"], more].concat()).stdout).unwrap();
        summary["digest"].as_str().unwrap().to_owned()
    };
    let first = digest(&[]);
    assert_eq!(digest(&["--set", "sample_interval=20us"]), first);
    assert_ne!(digest(&["--seed", "2"]), first);
    let folder = tempfile::tempdir().unwrap();
    let sweep = |jobs: &str| {
        let out = folder.path().join(jobs);
        run(
            "sweep",
            &["--vary", "queues.plan=shared,strict", "--seeds", "2", "--jobs", jobs, "--out", out.to_str().unwrap()],
        );
        fs::read_to_string(out.join("sweep.csv")).unwrap()
    };
    let (one, two) = (sweep("1"), sweep("2"));
    assert!(one.contains(&first), "the sweep has the run");
    assert_eq!(one, two);
}

/// With --identify every row says which run it is of, and files that are put together keep their rows apart; without it
/// nothing leads the columns of the tables.
#[test]
fn rows_say_which_run_they_are_of() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let flows = |path: &str| fs::read_to_string(folder.path().join(path).join("flows.csv")).unwrap();

    run("run", &["--variant", "strict", "--out", &of("plain")]);
    run("run", &["--variant", "strict", "--identify", "--out", &of("run")]);
    let digest = summary(&folder.path().join("run"))["digest"].as_str().unwrap().to_owned();
    let lead = format!("demo,strict,1,{digest},");
    let lines = |folder: &str| flows(folder).lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let expected: Vec<_> = lines("plain").into_iter().map(|line| format!("{lead}{line}")).collect();
    assert_eq!(lines("run"), expected);
    assert!(flows("run").starts_with("scenario,variant,seed,digest,flow,group,"));

    run("compare", &["--vary", "queues.plan=shared,strict", "--identify", "--out", &of("compared")]);
    let compared = flows("compared/queues.plan=strict");
    assert!(compared.lines().nth(1).unwrap().starts_with("demo,queues.plan=strict,1,"), "{compared}");
    // The page is made from such files, too.
    assert!(pliant(&["report", &of("compared")]).status.success());

    let grid = ["--variant", "strict", "--vary", "search.load=0.3", "--seeds", "2", "--identify", "--out"];
    run("sweep", &[&grid[..], &[&of("grid")]].concat());
    let swept = flows("grid/points/search.load=0.3,seed=2");
    assert!(swept.lines().nth(1).unwrap().starts_with("demo,strict search.load=0.3,2,"), "{swept}");

    let nowhere = pliant(&[&["run"], &SHORT[..], &["--identify"]].concat());
    assert!(stderr(&nowhere).contains("--out"), "{}", stderr(&nowhere));
}

/// A program that is no Python, ends well and brings nothing is no success.
#[test]
fn a_cluster_that_brings_nothing_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pliant"));
    command.env("PLIANT_PYTHON", "true").arg("sweep").args(SHORT).args([
        "--seeds",
        "2",
        "--dask",
        "tcp://127.0.0.1:1",
        "--out",
    ]);
    let output = command.arg(folder.path().join("out")).output().unwrap();
    let said = stderr(&output);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("true -m pliant.dask_sweep ended without 2 of 2 points"), "{said}");
}

#[test]
fn a_sweep_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let grid = ["--vary", "search.load=0.2:0.4:0.2", "--seeds", "2", "--out", out];
    let half = stdout(&run("sweep", &[&grid[..], &["--shard", "1/2"]].concat()));
    assert!(half.starts_with("2 of 4 points finished (2 now, 0 before)"), "{half}");
    let rest = stdout(&run("sweep", &grid));
    assert!(rest.starts_with("4 of 4 points finished (2 now, 2 before)"), "{rest}");
    let table = fs::read_to_string(folder.path().join("sweep.csv")).unwrap();
    assert!(table.starts_with("search.load,seed,digest,group,transport,flow_size,flows,"), "{table}");
    let rows_of_all = table.lines().filter(|line| line.contains(",all,")).count();
    assert_eq!(rows_of_all, 2 * 2 * 2, "two loads, two seeds, two groups");

    // A point whose run was interrupted, or whose scenario changed, runs again.
    let points: Vec<_> =
        fs::read_dir(folder.path().join("points")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let summary = points[0].join("summary.json");
    let interrupted = fs::read_to_string(&summary).unwrap().replace("\"interrupted\": false", "\"interrupted\": true");
    fs::write(&summary, interrupted).unwrap();
    let repaired = stdout(&run("sweep", &grid));
    assert!(repaired.starts_with("4 of 4 points finished (1 now, 3 before)"), "{repaired}");
    assert_eq!(fs::read_to_string(folder.path().join("sweep.csv")).unwrap(), table);
    let changed = stdout(&run("sweep", &[&grid[..], &["--set", "packets.mss=1000B"]].concat()));
    assert!(changed.starts_with("4 of 4 points finished (4 now, 0 before)"), "{changed}");
}

/// A file of a point, what happens to it, and what is then said.
type Damage<'d> = (&'d str, &'d dyn Fn(&Path), &'d str);

/// A finished point of which a file is not as it was written runs again, and one line names the file: a bit that changed, a
/// file that is cut off, one that is gone, a list that is gone or nonsense. The others do not run.
#[test]
fn a_damaged_point_runs_again() {
    let folder = tempfile::tempdir().unwrap();
    let grid = ["--vary", "search.load=0.2", "--seeds", "2", "--out", folder.path().to_str().unwrap()];
    run("sweep", &grid);
    let point = folder.path().join("points/search.load=0.2,seed=2");
    let files = || -> Vec<(PathBuf, Vec<u8>)> {
        let entries = fs::read_dir(&point).unwrap().map(|entry| entry.unwrap().path());
        let own = entries
            .filter(|path| !["summary.json", "checksums.txt"].contains(&path.file_name().unwrap().to_str().unwrap()));
        own.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    };
    let before = files();
    let flipped = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        fs::write(path, bytes).unwrap();
    };
    let cut_off = |path: &Path| fs::write(path, &fs::read(path).unwrap()[1..]).unwrap();
    let gone = |path: &Path| fs::remove_file(path).unwrap();
    let nonsense = |path: &Path| fs::write(path, "0 0 ../../../etc/passwd\n").unwrap();
    let damages: [Damage<'_>; 7] = [
        ("flows.parquet", &flipped, "flows.parquet is not as it was written: its checksum differs"),
        ("flows.parquet", &cut_off, "flows.parquet has "),
        ("flows.csv", &flipped, "flows.csv is not as it was written: its checksum differs"),
        ("ports.csv", &gone, "ports.csv: No such file"),
        ("summary.json", &flipped, "summary.json is not as it was written: its checksum differs"),
        ("checksums.txt", &gone, "it has no checksums.txt"),
        ("checksums.txt", &nonsense, "checksums.txt is damaged"),
    ];
    for (file, damage, why) in damages {
        damage(&point.join(file));
        let again = pliant(&[&["sweep"], &SHORT[..], &grid].concat());
        assert!(stdout(&again).starts_with("2 of 2 points finished (1 now, 1 before)"), "{file}: {}", stdout(&again));
        let told = stderr(&again);
        let line = format!("warning: search.load=0.2,seed=2: {why}");
        assert!(told.lines().count() == 1 && told.starts_with(&line) && told.contains(". It runs again."), "{told}");
        assert!(files() == before, "{file}: the run is the same");
    }
    assert!(stdout(&run("sweep", &grid)).starts_with("2 of 2 points finished (0 now, 2 before)"));
}

/// A sweep takes the file's variants and seeds, draws all points in one page without the plotting library in it, and chooses
/// among the points by a goal; each mistake in a goal is one line.
#[test]
fn a_sweep_takes_variants_and_a_goal() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let base = ["--variants", "--vary", "search.load=0.2,0.4", "--seeds", "2", "--out", out];
    let goal = ["--goal", "search.fct_p99 < 100s", "--cost", "copies.share_kept"];
    let told = stdout(&run("sweep", &[&base[..], &goal].concat()));
    assert!(
        told.contains(" meets search.fct_p99 < 100s at the least cost: ") && told.contains("8 of 8 meet the goal"),
        "{told}"
    );
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.len() < 400_000 && page.contains("src=\"plotly-basic.min.js\""), "{} bytes", page.len());
    assert!(folder.path().join("plotly-basic.min.js").is_file());
    let points: Vec<_> =
        fs::read_dir(folder.path().join("points")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(points.len(), 16);
    assert!(points.iter().all(|point| !point.join("report.html").exists()), "one page, not one for each point");
    let json: Value = serde_json::from_str(&stdout(&run("sweep", &[&base[..], &goal, &["--json"]].concat()))).unwrap();
    assert_eq!(
        (json["rows"].as_array().unwrap().len(), json["rows"][0]["seeds"].clone()),
        (16, serde_json::json!([1, 2]))
    );
    let (chosen, all) =
        (json["decision"]["chosen"].as_str().unwrap(), json["decision"]["candidates"].as_array().unwrap());
    let kept = |candidate: &Value| candidate["cost"]["mean"].as_f64().unwrap();
    let best = all.iter().max_by(|a, b| kept(a).total_cmp(&kept(b))).unwrap();
    assert!(kept(all.iter().find(|candidate| candidate["name"] == chosen).unwrap()) >= kept(best));
    let none = ["--goal", "search.fct_p99 < 1ns", "--cost", "copies.share_kept"];
    let told = stdout(&run("sweep", &[&base[..], &none].concat()));
    assert!(
        told.contains("No variant meets search.fct_p99 < 1ns. ") && told.contains(" comes nearest with "),
        "{told}"
    );
    fs::remove_dir_all(&points[0]).unwrap();
    for (wrong, why) in [
        ([&["--goal", "serch.fct_p99 < 1s"][..], &goal[2..]].concat(), "did you mean `search`?"),
        ([&["--goal", "search.fct_p99 < 1"][..], &goal[2..]].concat(), "must be a time such as 20ms"),
        (goal[..2].to_vec(), "--cost"),
    ] {
        let output = pliant(&[&["sweep"], &SHORT[..], &base, &wrong].concat());
        assert!(output.status.code() == Some(2) && stderr(&output).contains(why), "{}", stderr(&output));
    }
    assert!(!points[0].exists(), "what is wrong is told before a run");
}

/// A log of nfdump becomes a trace that a scenario replays, by the names of its hosts.
#[test]
fn a_flow_log_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let log = "ts,sa,da,ibyt,obyt\n2026-03-01 22:15:07.125,10.0.0.7,10.0.0.9,5200,180\n2026-03-01 22:15:07.126,10.0.0.8,10.0.0.7,9000,0\n";
    fs::write(folder.path().join("flows.csv"), log).unwrap();
    let group = stdout(&pliant_in(folder.path(), &["trace", "flows.csv", "--out", "replay"]));
    assert!(group.starts_with("# 3 flows of 3 hosts in 1ms\n[traffic.replay]\n"), "{group}");
    let scenario = format!("duration = \"10ms\"\n[topology]\nkind = \"star\"\nhosts = 3\nlink = \"10Gbit/s\"\n{group}");
    fs::write(folder.path().join("replay.toml"), scenario).unwrap();
    let summary: Value =
        serde_json::from_slice(&pliant_in(folder.path(), &["run", "replay.toml", "--json", "--quiet"]).stdout).unwrap();
    assert_eq!(summary["groups"][0]["all"]["delivered_bytes"], 14_380);
    fs::write(folder.path().join("flows.csv"), "ts,sa,da,ibyt\n0,a,b,lots\n").unwrap();
    let refused = pliant_in(folder.path(), &["trace", "flows.csv", "--out", "none"]);
    let told = stderr(&refused);
    assert!(
        refused.status.code() == Some(2) && told == "error: flows.csv:2: \"lots\" is not a number of bytes\n",
        "{told}"
    );
    assert!(!folder.path().join("none").exists());
}

/// `compare` chooses by a goal, too, and says so in its JSON and page.
#[test]
fn a_comparison_has_a_goal() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("c");
    let goal = ["--goal", "search.fct_mean < 100s", "--cost", "copies.fct_mean", "--seeds", "2"];
    let told = stdout(&run("compare", &[&goal[..], &["--out", out.to_str().unwrap()]].concat()));
    assert!(told.contains("meets search.fct_mean < 100s at the least cost: FCT mean of search is "), "{told}");
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("What meets the goal"));
    let json: Value = serde_json::from_str(&fs::read_to_string(out.join("comparison.json")).unwrap()).unwrap();
    assert_eq!(json["decision"]["candidates"].as_array().unwrap().len(), 4);
}

/// A sweep builds the network of a variant once, and yet each seed's scenario is what that seed says by itself: also where
/// the seed decides a setting, here the share that is reserved.
#[test]
fn every_seed_of_a_sweep_is_the_scenario_with_that_seed() {
    let rollout = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/rollout.toml");
    let short = ["--set", "duration=2ms", "--set", "warmup=0s", "--set", "topology.hosts_per_leaf=2"];
    for reserve in ["0.5", "traffic"] {
        let folder = tempfile::tempdir().unwrap();
        let reserve = format!("queues.reserve={reserve}");
        let scenario = [&[rollout][..], &short, &["--set", &reserve]].concat();
        let sweep = ["--seeds", "3", "--quiet", "--out", folder.path().to_str().unwrap()];
        let swept = pliant(&[&["sweep"], &scenario[..], &sweep].concat());
        assert!(swept.status.success(), "{}", stderr(&swept));
        let mut settings = std::collections::BTreeSet::new();
        for seed in ["1", "2", "3"] {
            let alone = stdout(&pliant(&[&["check"], &scenario[..], &["--seed", seed]].concat()));
            let alone: String =
                alone.lines().filter(|line| !line.starts_with('#')).map(|l| l.to_owned() + "\n").collect();
            let point = folder.path().join(format!("points/seed={seed}/scenario.toml"));
            assert_eq!(fs::read_to_string(point).unwrap(), alone, "{reserve}, seed {seed}");
            settings.insert(alone.replace(&format!("seed = {seed}\n"), ""));
        }
        assert_eq!(settings.len() > 1, reserve.ends_with("traffic"), "the seed decides: {settings:?}");
    }
}

#[test]
fn compare_shows_the_variants_of_the_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("compared");
    let table = stdout(&run("compare", &["--out", out.to_str().unwrap()]));
    for variant in ["shared", "strict", "dwrr-9-1", "weight-0.25"] {
        assert!(table.contains(variant), "{variant} in {table}");
        assert!(out.join(variant).join("summary.json").is_file(), "{variant}");
    }
    // It fits a terminal, and says how to see the rest; nothing is lost.
    let fits = |line: &str| line.chars().count() <= 100 || line.starts_with("again: ");
    assert!(table.lines().all(fits), "{table}");
    assert!(table.contains("more with --all-columns: "), "{table}");
    let all = stdout(&run("compare", &["--all-columns"]));
    assert!(all.contains("marks") && all.contains("sent") && !all.contains("more with"), "{all}");
    // Copies in a second queue, and then no traffic of theirs in it.
    let pair = ["--vary", "queues.plan=shared,dwrr-1-1", "--set", "traffic.copies.class=0"];
    let told = stderr(&run("compare", &pair));
    assert!(told.starts_with("warning: `queues.plan=dwrr-1-1` has the same flows as `queues.plan=shared`"), "{told}");
    let json = run("compare", &["--vary", "queues.plan=shared,strict", "--jobs", "1", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["variants"], serde_json::json!(["queues.plan=shared", "queues.plan=strict"]));
}

/// Several seeds give changes with intervals and an answer in words, the same with any number of jobs; one seed gives none.
/// Short runs have five without being asked.
#[test]
fn a_comparison_says_how_sure_it_is() {
    let pair = ["--vary", "queues.plan=shared,strict", "--json"];
    let compared = |more: &[&str]| -> Value {
        serde_json::from_slice(&run("compare", &[&pair[..], more].concat()).stdout).unwrap()
    };
    let once = compared(&["--seeds", "1"]);
    assert!(once["seeds"].is_null() && once["answer"].is_null() && once["changes"].is_null());
    let thrice = compared(&["--seeds", "3", "--jobs", "1"]);
    assert_eq!(thrice["seeds"], serde_json::json!([1, 2, 3]));
    assert_eq!(thrice["rows"], once["rows"], "the rows are of the first seed");
    assert!(thrice["answer"].as_str().unwrap().contains("search"), "{thrice}");
    let changes = thrice["changes"].as_array().unwrap();
    assert!(!changes.is_empty());
    for change in changes {
        let [low, middle, high] = ["low", "change", "high"].map(|key| change[key].as_f64().unwrap());
        assert!(low <= middle && middle <= high && change["variant"] == "queues.plan=strict", "{change}");
        assert_eq!(change["seen"], low > 0.0 || high < 0.0);
    }
    assert_eq!(compared(&["--seeds", "3", "--jobs", "2"])["changes"], thrice["changes"]);
    assert_eq!(compared(&[])["seeds"], serde_json::json!([1, 2, 3, 4, 5]));
    let until = compared(&["--until", "60%"]);
    assert_eq!(until["seeds"].as_array().unwrap().len() % 5, 1);
    let table = stdout(&run("compare", &["--seeds", "3"]));
    assert!(table.lines().all(|line| line.chars().count() <= 100 || line.starts_with("again: ")), "{table}");
    assert!(table.lines().last().unwrap().starts_with("again: pliant compare demo "), "{table}");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("compared");
    run("compare", &["--seeds", "3", "--out", out.to_str().unwrap()]);
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("Means over 3 seeds (1, 2, 3)"));
    assert!(fs::read_to_string(out.join("comparison.json")).unwrap().contains("\"changes\""));
}

/// A day's work.
#[cfg(unix)]
const LONG: [&str; 3] = ["demo", "--set", "duration=100s"];

/// Ctrl-C ends a run early with what finished.
#[cfg(unix)]
#[test]
fn an_interrupted_run_is_written_and_marked() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("long");
    common::interrupted(folder.path(), &[&["run"], &LONG[..], &["--out", "long"]].concat());
    assert_eq!(summary(&out)["interrupted"], true);
}

/// Half a run beside a whole one would be no comparison: of none that is whole nothing is written.
#[cfg(unix)]
#[test]
fn an_interrupted_comparison_keeps_whole_runs_only() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("compared");
    let (told, _) = common::interrupted(folder.path(), &[&["compare"], &LONG[..], &["--out", "compared"]].concat());
    assert_eq!(told.last().unwrap(), "interrupted: 0 of 4 runs went to their end; nothing was written");
    assert!(!out.exists());
}

/// A variant runs alone as it does in a comparison; without one it is said whom variants are for, and a wrong name is
/// told with the others.
#[test]
fn a_variant_runs_by_itself() {
    let compared: Value = serde_json::from_slice(&run("compare", &["--json", "--jobs", "1"]).stdout).unwrap();
    let row = compared["rows"].as_array().unwrap().iter().find(|row| row["variant"] == "strict").unwrap();
    let alone: Value = serde_json::from_slice(&run("run", &["--variant", "strict", "--json"]).stdout).unwrap();
    assert_eq!(alone["groups"][0]["all"], row["all"]);
    assert!(stdout(&run_check(&["demo", "--variant", "strict"])).contains("scheduler = \"strict\""));
    let folder = tempfile::tempdir().unwrap();
    let sweep = ["--variant", "strict", "--seeds", "2", "--csv", "--out", folder.path().to_str().unwrap()];
    let digest = alone["digest"].as_str().unwrap();
    assert!(stdout(&run("sweep", &sweep)).contains(digest));
    let told = stderr(&pliant(&[&["run"], &SHORT[..SHORT.len() - 1]].concat()));
    assert!(told.lines().any(|line| line.starts_with("variants are for") && line.contains("\"strict\"")), "{told}");
    let wrong = pliant(&["run", "demo", "--variant", "xyzzy"]);
    let (code, told) = (wrong.status.code(), stderr(&wrong));
    assert!(
        code == Some(2) && told.contains("unknown variant `xyzzy`, there are: ") && told.contains("strict"),
        "{told}"
    );
}

/// A sweep over seeds names each point once, by its seed, in its folder and in the table; another number of seeds, or one seed in
/// two forms, is refused.
#[test]
fn seeds_are_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("sweep");
    let sweep = |vary: &[&str]| pliant(&[&["sweep"], &SHORT[..], vary, &["--out", out.to_str().unwrap()]].concat());
    let vary = ["--vary", "seed=3,5", "--vary", "search.load=0.2,0.3"];
    let output = sweep(&vary);
    assert!(output.status.success(), "{}", stderr(&output));
    let mut points: Vec<String> = fs::read_dir(out.join("points"))
        .unwrap()
        .map(|point| point.unwrap().file_name().into_string().unwrap())
        .collect();
    points.sort();
    assert_eq!(
        points,
        [0.2, 0.3].map(|load| [3, 5].map(|seed| format!("search.load={load},seed={seed}"))).concat()[..]
    );
    let table = fs::read_to_string(out.join("sweep.csv")).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').take(2).collect()).collect();
    assert!(table.starts_with("search.load,seed,digest,"), "{table}");
    assert!(rows[1..].iter().all(|row| ["0.2", "0.3"].contains(&row[0]) && ["3", "5"].contains(&row[1])), "{table}");
    for (more, why) in [
        (&["--vary", "seed=3,5", "--seeds", "2"][..], "--seeds 2: each point has a seed of its own by --vary seed"),
        (&["--vary", "seed=3,0x3"], "--vary seed: 3 is given twice"),
    ] {
        let refused = sweep(more);
        let told = stderr(&refused);
        assert!(refused.status.code() == Some(2) && told.contains(why) && told.lines().count() == 1, "{told}");
    }
}

/// A grid of other points in the same folder would leave those there out of the table: it is refused until that is asked for.
#[test]
fn another_grid_does_not_replace_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let out = ["--out", folder.path().to_str().unwrap()];
    let seeds = |seeds: &str, more: &[&str]| {
        pliant(&[&["sweep"], &SHORT[..], &["--vary", &format!("seed={seeds}")], &out[..], more].concat())
    };
    assert!(seeds("1,2", &[]).status.success());
    let table = fs::read_to_string(folder.path().join("sweep.csv")).unwrap();
    let refused = seeds("2,3", &[]);
    let told = stderr(&refused);
    assert!(refused.status.code() == Some(2) && told.contains("another grid, such as seed=1:"), "{told}");
    assert_eq!(fs::read_to_string(folder.path().join("sweep.csv")).unwrap(), table);
    assert!(stdout(&seeds("2,3", &["--force"])).starts_with("2 of 2 points finished (1 now, 1 before)"));
    assert!(
        stdout(&seeds("1,2,3", &[])).starts_with("3 of 3 points finished (0 now, 3 before)"),
        "more is no other grid"
    );
}

/// What a terminal still shows is what matters: the scenario's facts, at the end too.
#[test]
fn check_ends_with_the_facts() {
    let printed = stdout(&run_check(&["demo"]));
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[..3], lines[lines.len() - 3..]);
    assert!(lines[..3].iter().all(|line| line.starts_with("# ")), "{:?}", &lines[..3]);
}

#[test]
fn check_prints_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("resolved.toml");
    let printed = stdout(&run_check(&["demo"]));
    assert!(printed.contains("[[queues.queue]]") && printed.contains("min_rto = \"1ms\""), "{printed}");
    fs::write(&file, &printed).unwrap();
    assert_eq!(stdout(&run_check(&[file.to_str().unwrap()])), printed);
}

fn run_check(arguments: &[&str]) -> Output {
    let output = pliant(&[&["check"], arguments].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

#[test]
fn everything_has_help_with_examples() {
    for command in ["run", "compare", "sweep", "check", "list", "show", "report"] {
        let output = pliant(&[command, "--help"]);
        let text = stdout(&output);
        assert!(output.status.success() && text.contains(&format!("  pliant {command}")), "{text}");
    }
    for what in ["transports", "workloads", "topologies", "queue-plans", "scenarios"] {
        assert!(stdout(&pliant(&["list", what])).lines().count() >= 1, "{what}");
    }
}

/// Groups that together overload a link are told of in one line on stderr, and run all the same; a sweep tells once.
#[test]
fn an_overload_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("sweep");
    let overload = ["--set", "traffic.search.load=0.8", "--set", "traffic.copies.load=0.5"];
    let sweep = ["--vary", "seed=1,2", "--out", out.to_str().unwrap(), "--quiet"];
    for (command, more) in [("check", &[][..]), ("run", &["--quiet"]), ("sweep", &sweep)] {
        let short = &SHORT[..SHORT.len() - 1];
        let output = pliant(&[&[command], short, &overload, more].concat());
        let text = stderr(&output);
        assert!(output.status.success() && text.lines().count() == 1, "{text}");
        assert!(text.starts_with("warning: ") && text.contains("search 8.000, copies 5.000"), "{text}");
        assert_eq!(text.contains("and 1 other points"), command == "sweep", "{text}");
    }
    assert!(stderr(&run("run", &[])).is_empty());
}
