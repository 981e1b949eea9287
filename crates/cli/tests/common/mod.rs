//! Runs the command as a user does.

use std::process::{Command, Output};

/// Runs `pliant` to its end.
#[allow(dead_code, reason = "not every test runs where it stands")]
pub(crate) fn pliant(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pliant")).args(arguments).output().expect("the command starts")
}

/// Runs `pliant` in a folder to its end.
#[allow(dead_code, reason = "not every test has a folder of its own")]
pub(crate) fn pliant_in(folder: &std::path::Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pliant")).current_dir(folder).args(arguments).output().expect("the command starts")
}

/// What it printed about itself.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
