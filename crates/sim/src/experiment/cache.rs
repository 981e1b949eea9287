//! Results of runs on disk, so that what was run once need not run again.
//!
//! A result is kept under a hash of its scenario, which holds the seed, and of the simulator's sources. It appears whole
//! or not at all. A change of experiments, measures or reports leaves the results valid; a change of anything that could
//! move an event does not.

use std::path::{Path, PathBuf};

use pliant_proto::rng::fnv1a;

use super::runs::Job;
use crate::output::{self, OutputError, files};
use crate::results::RunResult;
use crate::text_file;

/// Hash of the sources that results depend on, made when the program was built.
pub const FINGERPRINT: &str = env!("PLIANT_SIMULATOR_FINGERPRINT");

/// A folder of results.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The cache in `folder`, which is made when something is kept.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Whether the result of a run is there.
    pub fn has(&self, job: &Job) -> bool {
        let (folder, text) = self.entry(job);
        folder.join(files::SUMMARY).is_file()
            && text_file::read_table(&folder.join(files::SCENARIO)).is_ok_and(|own| own == text)
    }

    /// Reads the result of a run.
    pub fn read(&self, job: &Job) -> Result<RunResult, OutputError> {
        output::read_run(&self.entry(job).0)
    }

    /// Keeps the result of a run, whole or not at all. What was interrupted is no result.
    pub fn write(&self, job: &Job, result: &RunResult) -> Result<(), OutputError> {
        assert!(!result.interrupted, "half a run is kept nowhere");
        let (folder, text) = self.entry(job);
        output::write_data(&folder, result, &text)
    }

    /// The folder of a run, and what stands in it as the scenario.
    fn entry(&self, job: &Job) -> (PathBuf, String) {
        let text = format!("# simulator {FINGERPRINT}\n{}", job.scenario);
        // The text itself is compared as well.
        let hash = fnv1a(text.as_bytes());
        (self.folder.join(format!("{hash:016x}")), text)
    }
}
