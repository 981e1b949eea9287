//! Sweeps: the command's points and folders, run here or elsewhere.

use std::path::PathBuf;

use pliant_cli::library::{Axis, Point, RunProgress, Shard, SweepRequest, Writing, run_points, write_table};
use pliant_sim::output::files::SCENARIO;
use pliant_sim::output::place_run;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::errors::{classes, failed, not_written};
use crate::scenario::Scenario;
use crate::supervise::{Progress, supervised};
use crate::values;

/// The points of a sweep, all checked.
#[pyclass(module = "pliant._pliant", frozen)]
pub(crate) struct SweepPlan {
    axes: Vec<Axis>,
    points: Vec<Point>,
    out: PathBuf,
    jobs: Option<usize>,
    identify: bool,
}

/// Keys and values of a point, its seed, its resolved scenario and its folder.
type Described = (Vec<(String, String)>, u64, String, PathBuf);

impl SweepPlan {
    fn point(&self, index: usize) -> PyResult<&Point> {
        self.points.get(index).ok_or_else(|| PyIndexError::new_err("no such point"))
    }
}

#[pymethods]
impl SweepPlan {
    /// Every choice of the axes' values with every seed, as `pliant sweep` has them.
    #[new]
    #[pyo3(signature = (scenario, vary, seeds, out, jobs = None, force = false, allow_large = false, identify = false))]
    #[allow(clippy::too_many_arguments, reason = "by name")]
    fn new(
        py: Python<'_>,
        scenario: &Scenario,
        vary: &Bound<'_, PyAny>,
        seeds: u64,
        out: PathBuf,
        jobs: Option<usize>,
        force: bool,
        allow_large: bool,
        identify: bool,
    ) -> PyResult<Self> {
        let axes = values::axes(vary)?;
        let document = &scenario.document;
        let plan = || {
            let shard = Shard::default();
            let request = SweepRequest {
                scenario: document,
                variants: &[],
                axes: &axes,
                seeds,
                out: &out,
                jobs,
                shard,
                force,
                allow_large,
            };
            request.points()
        };
        let points = py.detach(plan).map_err(|error| failed(&error))?;
        Ok(Self { axes, points, out, jobs, identify })
    }

    fn __len__(&self) -> usize {
        self.points.len()
    }

    /// The indices of the points that are not finished.
    fn due(&self, py: Python<'_>) -> Vec<usize> {
        let due = || (0..self.points.len()).filter(|&index| !self.points[index].is_finished()).collect();
        py.detach(due)
    }

    /// Keys and values of a point, its seed, its resolved scenario and its folder.
    fn describe(&self, index: usize) -> PyResult<Described> {
        let Point { choice, seed, text, folder, .. } = self.point(index)?;
        Ok((choice.clone(), *seed, text.clone(), folder.clone()))
    }

    /// What a point is called in the rows of its files.
    fn label(&self, index: usize) -> PyResult<String> {
        Ok(self.point(index)?.label(""))
    }

    /// Runs what is not finished, on this machine.
    #[pyo3(signature = (progress = None))]
    fn run(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        let due: Vec<&Point> = self.points.iter().filter(|point| !point.is_finished()).collect();
        let display = RunProgress::new(due.len(), true);
        let writing = Writing { variant: "", identify: self.identify };
        let look = || Some(Progress::of(&display));
        let work = |interrupt: &_| run_points(&due, self.jobs, writing, interrupt, &display);
        supervised(py, progress.as_ref(), look, work)?.map_err(|error| failed(&error))
    }

    /// Writes `sweep.csv` of all finished points; returns its path and its rows.
    fn write_table(&self, py: Python<'_>) -> PyResult<(PathBuf, usize)> {
        let written = py.detach(|| write_table(&self.axes, &self.points, &self.out));
        let (_, rows, path) = written.map_err(|error| failed(&error))?;
        Ok((path, rows))
    }
}

/// Puts the files of a point that ran elsewhere into its folder, whole or not at all. What ran must be `text`.
#[pyfunction]
#[pyo3(name = "place_run")]
pub(crate) fn place(py: Python<'_>, folder: PathBuf, files: Vec<(String, PyBackedBytes)>, text: &str) -> PyResult<()> {
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])).collect();
    let scenario = files.iter().find(|(name, _)| *name == SCENARIO).map(|(_, bytes)| *bytes);
    if scenario != Some(text.as_bytes()) {
        let why = format!("{}: what came back is not a run of this point", folder.display());
        return Err(classes::PliantError::new_err(why));
    }
    py.detach(|| place_run(&folder, &files)).map_err(|error| not_written(&error))
}
