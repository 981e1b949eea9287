//! One run and what it yields.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use pliant_cli::library::{RunProgress, refuse_too_little, run_one};
use pliant_sim::output::{self, TableName, WriteOptions, frame, summary_json};
use pliant_sim::report::text_table;
use pliant_sim::results;
use pliant_sim::results::comparison::Variant;
use pyo3::prelude::*;

use crate::errors::{failed, not_written, refused_value};
use crate::scenario::Scenario;
use crate::supervise::{Progress, supervised};
use crate::table::Table;

/// What a run yielded.
#[pyclass(module = "pliant._pliant", frozen)]
pub(crate) struct RunResult {
    result: results::RunResult,
    scenario_toml: String,
}

impl RunResult {
    pub(crate) fn of(result: results::RunResult, scenario_toml: String) -> Self {
        Self { result, scenario_toml }
    }
}

/// Runs a scenario. `progress` is called every so often with what is done (0 to 1), runs over, runs, and packet-hops.
#[pyfunction]
#[pyo3(signature = (scenario, progress = None))]
pub(crate) fn run(py: Python<'_>, scenario: &Scenario, progress: Option<Py<PyAny>>) -> PyResult<RunResult> {
    let display = RunProgress::new(1, true);
    let document = &scenario.document;
    let work = |interrupt: &AtomicBool| {
        let scenario = document.resolve()?;
        refuse_too_little(scenario.estimate().memory_bytes, Some(1), 1)?;
        run_one(&scenario, interrupt, &display).map(|result| RunResult::of(result, scenario.to_toml()))
    };
    supervised(py, progress.as_ref(), || Some(Progress::of(&display)), work)?.map_err(|error| failed(&error))
}

#[pymethods]
impl RunResult {
    /// Hash over all events, in 16 hexadecimal digits.
    #[getter]
    fn digest(&self) -> String {
        self.result.digest_text()
    }

    /// `summary.json` of the run.
    fn summary_json(&self) -> String {
        summary_json(&self.result)
    }

    /// The resolved scenario, as text.
    #[getter]
    fn scenario_toml(&self) -> &str {
        &self.scenario_toml
    }

    /// The names of its tables.
    #[getter]
    #[allow(clippy::unused_self, reason = "of every run")]
    fn tables(&self) -> Vec<&'static str> {
        TableName::ALL.map(TableName::name).to_vec()
    }

    /// A table by its name, made anew at each call.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let Some(table) = TableName::ALL.into_iter().find(|table| table.name() == name) else {
            let names = TableName::ALL.map(|table| table.name().to_owned());
            return Err(refused_value("", &pliant_sim::suggest::unknown("table", name, &names)));
        };
        Table::new(py.detach(|| frame(&self.result, table)))
    }

    /// The table that `pliant run` prints.
    fn text(&self) -> String {
        text_table(&[Variant { label: "", result: &self.result }], Some(100)).text
    }

    /// Writes the folder that `pliant run --out` writes.
    #[pyo3(signature = (folder, variant = "", force = false, identify = false))]
    fn write(&self, py: Python<'_>, folder: PathBuf, variant: &str, force: bool, identify: bool) -> PyResult<()> {
        let run = Variant { label: variant, result: &self.result };
        let options = WriteOptions { force, identify };
        let written = py.detach(|| output::write_run(&folder, run, &self.scenario_toml, options));
        written.map_err(|error| not_written(&error))
    }

    /// Writes the folder of a sweep's point, which has no report: the sweep has one of all.
    fn write_point(&self, py: Python<'_>, folder: PathBuf, label: &str, identify: bool) -> PyResult<()> {
        let run = Variant { label, result: &self.result };
        let options = WriteOptions { force: true, identify };
        let written = py.detach(|| output::write_point(&folder, run, &self.scenario_toml, options));
        written.map_err(|error| not_written(&error))
    }
}
