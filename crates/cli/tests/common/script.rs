//! Runs a shell's commands that make several hosts of one machine.

use std::path::Path;
use std::process::Command;

fn is_there(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

/// Network namespaces are root's.
fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

/// Runs commands in an empty folder; gives what they say. They must succeed. Nothing is run where one of `tools` is missing or
/// the user is not root. Whatever fails, no process stays, and none of `namespaces`, which a shell expands.
pub(crate) fn run_script(commands: &str, tools: &[&str], namespaces: &str) -> Option<String> {
    let missing: Vec<_> = tools.iter().filter(|tool| !is_there(tool)).collect();
    if !missing.is_empty() || !is_root() {
        eprintln!("left out: this needs root, and {missing:?}");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut path = vec![Path::new(env!("CARGO_BIN_EXE_pliant")).parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let script = format!(
        "set -eu\nend() {{ for job in $(jobs -p); do kill $job; done 2> /dev/null; \
         for namespace in {namespaces}; do ip netns delete $namespace; done; }} 2> /dev/null\n\
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
    Some(said)
}
