//! The experiments that there are.

use std::path::Path;

use pliant_sim::experiment::Library;

use crate::error::CliError;

/// Experiments that are part of the program: path below `experiments` and text.
const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

/// Where experiments are looked for first.
const FOLDER: &str = "experiments";

/// Every experiment there is.
pub(crate) fn library() -> Result<Library, CliError> {
    let unreadable = |error| CliError::User(format!("cannot read the experiments in {FOLDER}: {error}"));
    Library::embedded(BUILT_IN).with_folder(Path::new(FOLDER)).map_err(unreadable)
}

/// Name and title of the experiments that are chosen, as on the command line.
pub(crate) fn titles(
    library: &Library,
    paper: Option<&str>,
    figure: Option<&str>,
) -> Result<Vec<(String, String)>, CliError> {
    let figures = library.choose(paper, figure).map_err(CliError::User)?;
    let title = |(paper, figure): &(String, String)| {
        let title = library.title(paper, figure)?;
        Ok((format!("{paper} {figure}"), title))
    };
    figures.iter().map(title).collect()
}
