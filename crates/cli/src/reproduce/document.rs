//! The document of all that was recorded: read before the first run, written after the last.

use std::path::{Path, PathBuf};

use pliant_sim::experiment::{FigureOutcome, Library, Records, Size, TestbedRecords};

use super::ci;
use crate::error::CliError;
use crate::files::write_atomically;
use crate::testbed::record;

/// A document, and the records beside it.
pub(super) struct Document<'a> {
    path: &'a Path,
    library: &'a Library,
    recorded: PathBuf,
    records: Records,
    testbed: TestbedRecords,
}

impl<'a> Document<'a> {
    /// Reads all that writing needs, so that no mistake in a file of another figure is found after hours of runs.
    pub(super) fn open(path: &'a Path, library: &'a Library) -> Result<Self, CliError> {
        let recorded = path.with_extension("json");
        let records = if recorded.exists() { ci::read(&recorded)? } else { Records::default() };
        ci::recorded_experiments(&records, library)?;
        let testbed = record::read(&path.with_file_name(record::FILE))?;
        Ok(Self { path, library, recorded, records, testbed })
    }

    /// Takes the outcomes into the records, and writes the document from these.
    pub(super) fn write(mut self, outcomes: &[FigureOutcome], size: Size) -> Result<(), CliError> {
        for outcome in outcomes {
            self.records.insert(outcome, size);
        }
        let figures = self.library.figures();
        self.records.retain(|paper, figure| figures.get(paper).is_some_and(|figures| figures.contains(&figure)));
        for experiment in ci::recorded_experiments(&self.records, self.library)? {
            if self.records.refresh(&experiment)? {
                let (paper, figure, size) = (&experiment.paper, &experiment.figure, experiment.size().name());
                eprintln!("forgotten: {paper} {figure}, {size}: its file makes other claims now");
            }
        }
        write_atomically(&self.recorded, &self.records.to_json())?;
        write_atomically(self.path, &self.records.to_markdown(&self.testbed))
    }
}
