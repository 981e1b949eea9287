//! The commands of docs/daemon.md that make two hosts of one machine do what they say.

use std::path::Path;
use std::process::Command;

const MARK: &str = "<!-- run by crates/cli/tests/daemon_document.rs -->\n```sh\n";
/// Without one of these the commands are not for this machine.
const TOOLS: [&str; 4] = ["ip", "curl", "rclone", "python3"];

fn is_there(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

/// Network namespaces are root's.
fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

#[test]
fn five_minutes_from_nothing_to_rclone() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/daemon.md")).unwrap();
    let (_, rest) = page.split_once(MARK).expect("the commands are marked");
    let (commands, _) = rest.split_once("```\n").expect("they end");
    let missing: Vec<&str> = TOOLS.into_iter().filter(|tool| !is_there(tool)).collect();
    if !missing.is_empty() || !is_root() {
        eprintln!("left out: this needs root, and {missing:?}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_pliant")).parent().unwrap().to_owned();
    let mut path = vec![program];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    // Whatever fails, no namespace and no process stays.
    let script = format!(
        "set -eu\nend() {{ for job in $(jobs -p); do kill $job; done 2> /dev/null; ip netns delete pliant-here; \
         ip netns delete pliant-there; }} 2> /dev/null\ntrap end EXIT\n{commands}trap - EXIT\necho all done\n"
    );
    let output = Command::new("timeout")
        .args(["300", "bash", "-c", &script])
        .current_dir(folder.path())
        .env("PATH", std::env::join_paths(path).unwrap())
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("all done"), "{said}");
    assert!(said.contains("backup       ledbat++") && said.contains("100.0 Mbit/s"), "{said}");
}

/// The tables of the proof are those of its record.
#[test]
fn the_tables_of_the_proof_are_the_records() {
    let read = |name: &str| {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
    };
    let (page, record) = (read("daemon.md"), read("proof.json"));
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let links = record["links"].as_array().unwrap();
    assert!(!links.is_empty());
    let mut rest = page.as_str();
    for link in links {
        let title = format!("A link of {} Mbit/s, ", link["mbit_per_second"].as_f64().unwrap());
        (_, rest) = rest.split_once(&title).unwrap_or_else(|| panic!("{title} is missing"));
        for row in link["rows"].as_array().unwrap() {
            let cells: Vec<&str> = row["cells"].as_array().unwrap().iter().map(|cell| cell.as_str().unwrap()).collect();
            let line = format!("\n| {} |", cells.join(" | "));
            (_, rest) = rest.split_once(&line).unwrap_or_else(|| panic!("{line} is missing"));
        }
    }
}
