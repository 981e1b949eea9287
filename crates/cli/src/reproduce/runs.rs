//! The runs that experiments need: each once, the longest first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pliant_sim::experiment::{Cache, Experiment, Job};
use rayon::prelude::*;

use crate::compare::with_jobs;
use crate::error::CliError;
use crate::interrupt;
use crate::progress::Display;
use crate::run::run_one;

/// Does every run that the cache does not have. Returns whether all are there: an interrupt ends it before.
pub(super) fn run_all(
    experiments: &[Experiment],
    cache: &Cache,
    jobs: Option<usize>,
    quiet: bool,
) -> Result<bool, CliError> {
    let all: BTreeSet<Arc<Job>> = experiments.iter().flat_map(Experiment::jobs).collect();
    let interrupt = interrupt::listen();
    let due = with_jobs(jobs, || {
        let due: Vec<Arc<Job>> = all.into_par_iter().filter(|job| !cache.has(job)).collect();
        let cost = |job: Arc<Job>| Ok((job.resolve()?.estimate().packet_hops, job));
        let mut due: Vec<(f64, Arc<Job>)> = due.into_par_iter().map(cost).collect::<Result<_, CliError>>()?;
        // A long run that began last would have a processor to itself.
        due.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        Ok::<_, CliError>(due)
    })??;
    if due.is_empty() {
        return Ok(true);
    }
    let display = Display::new(due.len(), quiet);
    let run = |(_, job): &(f64, Arc<Job>)| -> Result<(), CliError> {
        if interrupt.load(Ordering::Relaxed) {
            return Ok(());
        }
        let result = run_one(&job.resolve()?, interrupt, &display)?;
        if !result.interrupted {
            cache.write(job, &result)?;
        }
        Ok(())
    };
    with_jobs(jobs, || due.par_iter().with_max_len(1).try_for_each(run))??;
    Ok(!interrupt.load(Ordering::Relaxed))
}

/// Whether the cache has every run of an experiment.
pub(super) fn are_finished(experiment: &Experiment, cache: &Cache) -> bool {
    experiment.jobs().iter().all(|job| cache.has(job))
}
