//! What this build is: runs on another machine are worth as much only if its build and its arithmetic are the same.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use pliant_sim::experiment::FINGERPRINT;
use pliant_sim::scenario::Scenario;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// A run of a few milliseconds with laws that compute in floating point: CUBIC, DCTCP and a distribution of sizes.
const CHECK: &str = r#"
duration = "20ms"
seed = 7
[topology]
kind = "leaf-spine"
leaves = 2
spines = 2
hosts_per_leaf = 4
host_link = { rate = "10Gbit/s", delay = "1us" }
[traffic.search]
kind = "poisson"
workload = "web_search"
load = 0.3
transport = "dctcp"
[traffic.copies]
kind = "poisson"
size = "1MB"
load = 0.3
transport = "cubic"
"#;

/// Version, hash of the simulator's sources, and the digest of a short run: equal on machines whose runs are equal.
#[pyfunction]
pub(crate) fn identity(py: Python<'_>) -> PyResult<(String, String, String)> {
    let run = || {
        let scenario = Scenario::parse(CHECK, Path::new("check.toml")).and_then(|scenario| scenario.resolve());
        let scenario = scenario.map_err(|error| error.to_string())?;
        let result = pliant_sim::run::run(&scenario, &AtomicBool::new(false), &mut |_| ());
        result.map(|result| result.digest_text()).map_err(|error| error.to_string())
    };
    let digest = py.detach(run).map_err(PyRuntimeError::new_err)?;
    Ok((env!("CARGO_PKG_VERSION").to_owned(), FINGERPRINT.to_owned(), digest))
}
