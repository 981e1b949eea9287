//! The commands of docs/objects.md that make three hosts of one machine do what they say.

use std::path::Path;
use std::process::Command;

const MARK: &str = "<!-- run by crates/cli/tests/objects_document.rs -->\n```sh\n";
/// Without one of these the commands are not for this machine.
const TOOLS: [&str; 2] = ["ip", "curl"];

fn is_there(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

/// Network namespaces are root's.
fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

#[test]
fn five_minutes_from_nothing_to_curl_from_two_sources() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/objects.md")).unwrap();
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
        "set -eu\nend() {{ for job in $(jobs -p); do kill $job; done 2> /dev/null; \
         for number in 1 2 3; do ip netns delete pliant-host$number; done; ip netns delete pliant-bridge; }} 2> /dev/null\n\
         trap end EXIT\n{commands}trap - EXIT\necho all done\n"
    );
    let output = Command::new("timeout")
        .args(["300", "bash", "-c", &script])
        .current_dir(folder.path())
        .env("PATH", std::env::join_paths(path).unwrap())
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("all done"), "{said}");
    assert!(said.to_lowercase().contains("content-length: 20000000") && said.contains("10.214.0.3:7413"), "{said}");
}
