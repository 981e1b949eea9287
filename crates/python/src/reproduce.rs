//! The figures of papers.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use pliant_cli::library::{ReproduceRequest, RunProgress, figure_titles, verdicts_json, verdicts_text};
use pliant_sim::experiment::{FigureOutcome, PlotData, Size};
use pliant_sim::report::render_reproduction;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::failed;
use crate::supervise::{Progress, supervised};

/// Runs figures. Returns their verdicts as JSON and as text, their page, and their plots.
#[pyfunction]
#[pyo3(signature = (paper, figure, full, cache, jobs = None, progress = None))]
#[allow(clippy::type_complexity, reason = "a tuple for one caller")]
pub(crate) fn reproduce<'py>(
    py: Python<'py>,
    paper: &str,
    figure: Option<&str>,
    full: bool,
    cache: PathBuf,
    jobs: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, String, String, Bound<'py, PyList>)> {
    let size = if full { Size::Full } else { Size::Quick };
    let display: OnceLock<RunProgress> = OnceLock::new();
    let request = ReproduceRequest { paper, figure, size, cache: &cache, jobs };
    let work = |interrupt: &AtomicBool| request.run(interrupt, &display);
    let outcomes = supervised(py, progress.as_ref(), || display.get().map(Progress::of), work)?;
    let outcomes: Vec<FigureOutcome> = outcomes.map_err(|error| failed(&error))?;
    let plots = PyList::empty(py);
    for outcome in &outcomes {
        for plot in &outcome.plots {
            plots.append(plot_of(py, &outcome.figure, plot)?)?;
        }
    }
    Ok((verdicts_json(&outcomes), verdicts_text(&outcomes), render_reproduction(&outcomes, size), plots))
}

fn plot_of<'py>(py: Python<'py>, figure: &str, plot: &PlotData) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("figure", figure)?;
    dict.set_item("title", &plot.title)?;
    dict.set_item("kind", plot.kind.name())?;
    dict.set_item("note", &plot.note)?;
    for (name, axis) in [("x", &plot.x), ("y", &plot.y)] {
        dict.set_item(format!("{name}_label"), &axis.title)?;
        dict.set_item(format!("{name}_log"), axis.log)?;
    }
    dict.set_item("categories", &plot.categories)?;
    let series = PyList::empty(py);
    for curve in &plot.series {
        let of_curve = PyDict::new(py);
        of_curve.set_item("name", &curve.name)?;
        of_curve.set_item("paper", curve.paper)?;
        of_curve.set_item("x", curve.points.iter().map(|point| point.x).collect::<Vec<_>>())?;
        of_curve.set_item("y", curve.points.iter().map(|point| point.y).collect::<Vec<_>>())?;
        of_curve.set_item("spread", curve.points.iter().map(|point| point.spread).collect::<Vec<_>>())?;
        series.append(of_curve)?;
    }
    dict.set_item("series", series)?;
    Ok(dict)
}

/// Papers with their figures: name and title of each, of all papers or of one.
#[pyfunction]
#[pyo3(signature = (paper = None))]
pub(crate) fn figures(paper: Option<&str>) -> PyResult<Vec<(String, String)>> {
    figure_titles(paper).map_err(|error| failed(&error))
}
