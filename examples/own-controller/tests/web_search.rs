//! The example's program, as a user runs it.

use std::process::Command;

fn own_controller(arguments: &[&str]) -> String {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/web_search.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_own-controller"));
    let output = command.args(&arguments[..1]).arg(scenario).args(&arguments[1..]).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Swift stands in the table beside DCTCP and REFLEX, and all of its flows complete.
#[test]
fn swift_runs_beside_built_in_transports() {
    let table = own_controller(&["compare", "--set", "duration=4ms", "--quiet"]);
    for variant in ["swift", "dctcp", "reflex"] {
        assert!(table.contains(variant), "{table}");
    }
    let summary = own_controller(&["run", "--set", "duration=4ms", "--json", "--quiet"]);
    assert!(summary.contains("\"unfinished\": 0"), "{summary}");
}

/// Its settings are settings like others: written out, overridden, checked.
#[test]
fn its_settings_are_known() {
    let resolved = own_controller(&["check", "--set", "traffic.search.tcp.base_target=40us"]);
    assert!(resolved.contains("base_target = \"40us\"") && resolved.contains("most_decrease = 0.5"), "{resolved}");
}
