//! Holds verdicts to those recorded.

use std::path::Path;

use pliant_sim::experiment::{FigureOutcome, Records, Size, Verdict};

use crate::Ending;
use crate::error::CliError;

/// The records in a file.
pub(super) fn read(path: &Path) -> Result<Records, CliError> {
    let text = std::fs::read_to_string(path).map_err(|error| CliError::User(format!("{}: {error}", path.display())))?;
    Records::parse(&text).map_err(|why| CliError::User(format!("{}: {why}", path.display())))
}

/// An error if a claim of CI is worse than recorded, or is not recorded and differs.
pub(super) fn hold(recorded: &Records, outcomes: &[FigureOutcome], size: Size) -> Result<Ending, CliError> {
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
        return Ok(Ending::Done);
    }
    Err(CliError::Machine(format!("{} claims differ that should not: {}", worse.len(), worse.join("; "))))
}
