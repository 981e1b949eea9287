//! Holds verdicts to those recorded.

use std::path::Path;

use pliant_sim::experiment::{Experiment, FigureOutcome, Library, Records, Size, Verdict};

use super::load;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::files::read_text;

/// The records in a file.
pub(super) fn read(path: &Path) -> Result<Records, CliError> {
    Records::parse(&read_text(path)?).map_err(|why| CliError::User(format!("{}: {why}", path.display())))
}

/// What was recorded, as its files have it now; not what needs data that is missing here.
pub(super) fn recorded_experiments(recorded: &Records, library: &Library) -> Result<Vec<Experiment>, CliError> {
    let chosen = library.choose(None, None).map_err(CliError::User)?;
    let mut found = Vec::new();
    for (paper, figure) in &chosen {
        if library.missing_data(paper, figure)?.is_none() {
            let sizes = [Size::Quick, Size::Full].into_iter().filter(|&size| recorded.has(paper, figure, size));
            found.extend(sizes.map(|size| (&**paper, &**figure, size)));
        }
    }
    load::all(library, found)
}

/// An error if anything was recorded of other claims than the files make.
pub(super) fn hold_claims(recorded: &Records, library: &Library) -> Result<(), CliError> {
    let experiments = recorded_experiments(recorded, library)?;
    let outdated = experiments.iter().filter(|experiment| recorded.is_outdated(experiment));
    let name = |outdated: &Experiment| format!("{} {} ({})", outdated.paper, outdated.figure, outdated.size().name());
    let names: Vec<_> = outdated.map(name).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(CliError::Machine(format!("recorded with other claims than the files make: {}", names.join(", "))))
}

/// An error if a claim of CI is worse than recorded, or is not recorded and differs.
pub(super) fn hold(recorded: &Records, outcomes: &[FigureOutcome], size: Size) -> Result<ExitStatus, CliError> {
    let mut worse = Vec::new();
    for outcome in outcomes {
        let (paper, figure) = (&outcome.paper, &outcome.figure);
        for claim in outcome.claims.iter().filter(|claim| claim.ci && !claim.verdict.is_within()) {
            let before = recorded.verdict(paper, figure, size, &claim.claim);
            if before.is_none_or(Verdict::is_within) {
                let before = before.map_or("nothing", Verdict::name);
                worse.push(format!("{paper} {figure}, \"{}\" (recorded: {before})", claim.claim));
            }
        }
    }
    if worse.is_empty() {
        return Ok(ExitStatus::Done);
    }
    Err(CliError::Machine(format!("{} claims differ that should not: {}", worse.len(), worse.join("; "))))
}
