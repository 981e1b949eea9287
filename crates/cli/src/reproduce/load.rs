//! Reads experiment files, on all processors.

use pliant_sim::experiment::{Experiment, Library, Size};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::error::CliError;

/// The chosen experiments whose data are there; stderr says which are left out.
pub(super) fn chosen(library: &Library, chosen: &[(String, String)], size: Size) -> Result<Vec<Experiment>, CliError> {
    let chosen = with_data(library, chosen)?.into_iter().map(|(paper, figure)| (&**paper, &**figure, size));
    all(library, chosen.collect())
}

/// Experiments at a size each; the first of several errors.
pub(super) fn all(library: &Library, chosen: Vec<(&str, &str, Size)>) -> Result<Vec<Experiment>, CliError> {
    let load = |(paper, figure, size)| Experiment::load(library, paper, figure, size);
    let loaded: Vec<Result<_, _>> = chosen.into_par_iter().map(load).collect();
    Ok(loaded.into_iter().collect::<Result<_, _>>()?)
}

/// Those of the chosen whose data are there; stderr says which are left out.
pub(super) fn with_data<'a>(
    library: &Library,
    chosen: &'a [(String, String)],
) -> Result<Vec<&'a (String, String)>, CliError> {
    let mut found = Vec::new();
    for each in chosen {
        match library.missing_data(&each.0, &each.1)? {
            Some(why) => say!("left out: {why}"),
            None => found.push(each),
        }
    }
    Ok(found)
}
