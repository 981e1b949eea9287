//! The points of a sweep on a Dask cluster, by the Python package.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use pliant_sim::experiment::FINGERPRINT;
use serde::Serialize;

use super::plan::Point;
use crate::error::CliError;

/// The variable that names the Python to take, and the one that is taken without it.
const PYTHON: (&str, &str) = ("PLIANT_PYTHON", "python3");
const MODULE: &str = "pliant.dask_sweep";

/// What the module reads on its standard input.
#[derive(Serialize)]
struct Asked<'a> {
    /// Version and hash of the sources: the package must be the same build.
    identity: [&'a str; 2],
    address: &'a str,
    out: &'a Path,
    identify: bool,
    quiet: bool,
    points: Vec<AskedPoint<'a>>,
}

#[derive(Serialize)]
struct AskedPoint<'a> {
    /// Pairs, which keep their order.
    values: &'a [(String, String)],
    seed: u64,
    folder: &'a Path,
    label: String,
    text: &'a str,
}

/// Whose points run, and how they are written.
pub(super) struct Cluster<'a> {
    /// The scheduler's address.
    pub(super) address: &'a str,
    /// Folder of the results.
    pub(super) out: &'a Path,
    /// The variant that is swept; may be empty.
    pub(super) variant: &'a str,
    pub(super) identify: bool,
    pub(super) quiet: bool,
}

/// Runs points on a cluster, each into its folder. An interrupt reaches the module by itself, and what finished is kept.
pub(super) fn run(cluster: &Cluster<'_>, due: &[&Point], interrupt: &AtomicBool) -> Result<(), CliError> {
    let python = std::env::var(PYTHON.0).unwrap_or_else(|_| PYTHON.1.to_owned());
    check_package(&python)?;
    let points = due.iter().map(|point| AskedPoint {
        values: &point.choice,
        seed: point.seed,
        folder: &point.folder,
        label: point.label(cluster.variant),
        text: &point.text,
    });
    let asked = Asked {
        identity: [env!("CARGO_PKG_VERSION"), FINGERPRINT],
        address: cluster.address,
        out: cluster.out,
        identify: cluster.identify,
        quiet: cluster.quiet,
        points: points.collect(),
    };
    let asked = serde_json::to_vec(&asked).expect("what is asked is plain data");
    let command = Command::new(&python).args(["-m", MODULE]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = command.map_err(|error| not_started(&python, &error))?;
    // A module that ended before it read all says why.
    let _ = child.stdin.take().expect("it is piped").write_all(&asked);
    let mut why = String::new();
    let _ = child.stdout.take().expect("it is piped").take(1 << 16).read_to_string(&mut why);
    let status = child.wait()?;
    if interrupt.load(Ordering::Relaxed) {
        return Ok(());
    }
    match (status.code(), why.trim()) {
        // What was started under this name may be something else.
        (Some(0), _) => match due.iter().filter(|point| !point.is_finished()).count() {
            0 => Ok(()),
            missing => Err(CliError::Machine(format!(
                "--dask: {python} -m {MODULE} ended without {missing} of {} points; {} names a Python",
                due.len(),
                PYTHON.0
            ))),
        },
        (Some(1), why) if !why.is_empty() => Err(CliError::Machine(format!("--dask: {why}"))),
        (Some(2), why) if !why.is_empty() => Err(CliError::User(format!("--dask: {why}"))),
        _ => Err(CliError::Machine(format!("--dask: {python} -m {MODULE} ended with {status}"))),
    }
}

/// Refuses a Python that lacks the package, or what the package needs for a cluster.
fn check_package(python: &str) -> Result<(), CliError> {
    let import = Command::new(python).args(["-c", &format!("import {MODULE}")]).stdin(Stdio::null()).output();
    let import = import.map_err(|error| not_started(python, &error))?;
    if import.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&import.stderr);
    let why = text.lines().last().unwrap_or("it cannot be imported").trim();
    Err(CliError::User(format!(
        "--dask: {python} has no package pliant with what a cluster needs ({why}): `pip install '.[dask]'` in Pliant's \
         sources, or another Python by {}",
        PYTHON.0
    )))
}

fn not_started(python: &str, error: &std::io::Error) -> CliError {
    CliError::User(format!("--dask: cannot start {python}: {error}; name a Python by {}", PYTHON.0))
}
