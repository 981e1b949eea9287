//! The document of all that was recorded.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pliant_sim::experiment::{Experiment, FigureOutcome, Library, PAGE_MARK, Records, Size, TestbedRecords};

use super::ci;
use crate::error::CliError;
use crate::files::write_atomically;
use crate::testbed::record;

/// Folder beside the document with a page for each paper.
const PAGES: &str = "results";

fn read(document: &Path) -> Result<(Records, TestbedRecords), CliError> {
    let path = document.with_extension("json");
    let records = if path.exists() { ci::read(&path)? } else { Records::default() };
    Ok((records, record::read(&document.with_file_name(record::FILE))?))
}

/// Finds, before the first run, the mistakes in records and in files of other figures that [`write()`] would find after
/// the last. It keeps nothing: another process may record a figure in between.
/// A page that somebody else wrote is not replaced.
pub(super) fn check(document: &Path, library: &Library, experiments: &[Experiment]) -> Result<(), CliError> {
    let (records, _) = read(document)?;
    let papers: BTreeSet<&str> =
        experiments.iter().map(|experiment| &*experiment.paper).chain(records.papers()).collect();
    for paper in papers {
        let page = page(document, paper);
        if fs::read_to_string(&page).is_ok_and(|text| !text.contains(PAGE_MARK)) {
            let why =
                "was not written by `pliant reproduce` and would be replaced: give `--write-docs` another document";
            return Err(CliError::User(format!("{}: {why}", page.display())));
        }
    }
    ci::recorded_experiments(&records, library).map(drop)
}

fn page(document: &Path, paper: &str) -> PathBuf {
    document.with_file_name(PAGES).join(format!("{paper}.md"))
}

/// Takes the outcomes, or what they give without their mechanism, into the records beside the document, and writes the document
/// from these.
pub(super) fn write(
    document: &Path,
    library: &Library,
    outcomes: &[FigureOutcome],
    size: Size,
    audit: bool,
) -> Result<(), CliError> {
    let (mut records, testbed) = read(document)?;
    let mut refused = Vec::new();
    for outcome in outcomes {
        if audit {
            refused.extend(records.insert_audit(outcome, size).err());
        } else {
            records.insert(outcome, size);
        }
    }
    let figures = library.figures();
    records.retain(|paper, figure| figures.get(paper).is_some_and(|figures| figures.contains(&figure)));
    for experiment in ci::recorded_experiments(&records, library)? {
        if records.refresh(&experiment)? {
            let (paper, figure, size) = (&experiment.paper, &experiment.figure, experiment.size().name());
            say!("forgotten: {paper} {figure}, {size}: its file makes other claims now");
        }
    }
    write_atomically(&document.with_extension("json"), &records.to_json())?;
    write_atomically(document, &records.to_markdown(&testbed))?;
    let pages = document.with_file_name(PAGES);
    fs::create_dir_all(&pages).map_err(|error| CliError::User(format!("{}: {error}", pages.display())))?;
    for (paper, text) in records.paper_pages(&testbed) {
        write_atomically(&page(document, paper), &text)?;
    }
    if refused.is_empty() { Ok(()) } else { Err(CliError::Machine(refused.join("; "))) }
}
