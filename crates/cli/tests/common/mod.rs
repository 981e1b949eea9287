//! Runs the command as a user does.
#![allow(dead_code, reason = "each test takes what it needs")]

use std::process::{Command, Output};

/// Runs `pliant` to its end.
pub(crate) fn pliant(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pliant")).args(arguments).output().expect("the command starts")
}

/// Runs `pliant` in a folder to its end.
pub(crate) fn pliant_in(folder: &std::path::Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pliant")).current_dir(folder).args(arguments).output().expect("the command starts")
}

/// `pliant` under a limit of the shell's, such as `-f 1000`: no file above 1 MB. The signal that would end it at that limit
/// is ignored, so that the write fails as on a full disk.
pub(crate) fn limited(limit: &str) -> Command {
    let mut command = Command::new("bash");
    let script = format!("trap '' XFSZ; ulimit {limit}; exec \"$@\"");
    command.args(["-c", &script, "bash", env!("CARGO_BIN_EXE_pliant")]);
    command
}

/// What it printed about itself.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether it went to its end: on a busy machine a testbed's run does, and is called no result (exit code 1).
pub(crate) fn ran(output: &Output) -> bool {
    output.status.success() || output.status.code() == Some(1) && stderr(output).contains("overloaded, not a result")
}

/// Interrupts `pliant` as soon as it tells of its progress; what it says after that on stderr, and all it printed. Its exit
/// code is 130.
#[cfg(unix)]
pub(crate) fn interrupted(folder: &std::path::Path, arguments: &[&str]) -> (Vec<String>, String) {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;

    let mut child = Command::new(env!("CARGO_BIN_EXE_pliant"))
        .current_dir(folder)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first line of progress says that runs are under way and listen.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.by_ref().map(Result::unwrap).any(|line| line.contains("hops/s")), "it tells of its progress");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let told = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    (told, printed)
}
