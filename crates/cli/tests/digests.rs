//! Results are bit-identical, from build to build and from machine to machine: short runs of every transport have the
//! digests of `bench/digests.txt`. `make digests` holds all of that record.

mod common;

use std::path::Path;

use common::{pliant_in, stderr};
use serde_json::Value;

/// A line of the record: digest, scenario file, variant, changes.
struct Line<'t> {
    digest: &'t str,
    scenario: &'t str,
    variant: &'t str,
    changes: Vec<&'t str>,
}

/// The lines that are marked for this test.
fn quick(record: &str) -> Vec<Line<'_>> {
    let lines = record.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect::<Vec<_>>());
    let quick = lines.filter_map(|fields| match fields[..] {
        [digest, "quick", scenario, variant, changes] => Some(Line {
            digest,
            scenario,
            variant,
            changes: changes.split(' ').filter(|word| !word.is_empty()).collect(),
        }),
        _ => None,
    });
    quick.collect()
}

#[test]
fn short_runs_have_the_digests_of_the_record() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let record = std::fs::read_to_string(repository.join("bench/digests.txt")).unwrap();
    let lines = quick(&record);
    assert!(lines.len() >= 25, "{} lines", lines.len());
    let mut differences = Vec::new();
    for Line { digest, scenario, variant, changes } in lines {
        let mut arguments = vec!["run", scenario, "--json", "--quiet"];
        if !variant.is_empty() {
            arguments.extend(["--variant", variant]);
        }
        arguments.extend(changes.iter().flat_map(|change| ["--set", change]));
        let output = pliant_in(&repository, &arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        if summary["digest"] != digest {
            differences.push(format!("{arguments:?}: {}, recorded {digest}", summary["digest"]));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Each transport that `pliant list transports` names is in one of these runs.
#[test]
fn every_transport_is_in_the_record() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let record = std::fs::read_to_string(repository.join("bench/digests.txt")).unwrap();
    let mut named = String::new();
    for line in quick(&record) {
        named += &std::fs::read_to_string(repository.join(line.scenario)).unwrap();
        named += &line.changes.join("\n");
    }
    let listed = pliant_in(&repository, &["list", "transports"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    for transport in listed.lines().filter_map(|line| line.split_whitespace().next()) {
        let quoted = named.contains(&format!("\"{transport}\""));
        let changed = named.lines().any(|line| line.ends_with(&format!(".transport={transport}")));
        assert!(quoted || changed, "{transport} is in no run of the record's quick part");
    }
}
