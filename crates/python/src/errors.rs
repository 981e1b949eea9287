//! Errors of the crates as exceptions of the package.

use pliant_cli::library::CliError;
use pliant_sim::output::OutputError;
use pliant_sim::scenario::{Place, ScenarioError};
use pliant_sim::suggest;
use pyo3::import_exception;
use pyo3::prelude::*;

/// The classes are Python's, in `pliant/_errors.py`.
pub(crate) mod classes {
    use super::import_exception;

    import_exception!(pliant._errors, PliantError);
    import_exception!(pliant._errors, ScenarioError);
}

/// A scenario that was refused: the command line's message, and what it is about.
pub(crate) fn refused(error: &ScenarioError) -> PyErr {
    let message = error.to_string();
    let (file, line) = match error.place() {
        Some(Place::Line { file, line }) => (Some(file.display().to_string()), Some(*line)),
        Some(Place::Flag(_) | Place::Program(_)) | None => (None, None),
    };
    let suggestion = suggest::offered(&message).map(str::to_owned);
    classes::ScenarioError::new_err((message, error.key(), line, suggestion, file))
}

/// A mistake in a value of a scenario that no document can have.
pub(crate) fn refused_value(path: &str, why: &str) -> PyErr {
    let message = if path.is_empty() { why.to_owned() } else { format!("`{path}`: {why}") };
    let path = (!path.is_empty()).then(|| path.to_owned());
    classes::ScenarioError::new_err((message, path, None::<usize>, None::<String>, None::<String>))
}

/// Whatever else ends a command early.
pub(crate) fn failed(error: &CliError) -> PyErr {
    match error {
        CliError::Scenario(error) => refused(error),
        other => classes::PliantError::new_err(other.to_string()),
    }
}

/// A file that cannot be written or read.
pub(crate) fn not_written(error: &OutputError) -> PyErr {
    classes::PliantError::new_err(error.to_string())
}
