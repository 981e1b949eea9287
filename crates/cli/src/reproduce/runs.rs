//! The runs that experiments need: each once, the longest first.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use pliant_sim::experiment::{Cache, Experiment, Job};
use pliant_sim::results::RunResult;
use pliant_sim::scenario::Estimate;
use rayon::prelude::*;

use crate::error::CliError;
use crate::jobs::with_jobs;
use crate::memory::refuse_too_little;
use crate::progress::{RunPart, RunProgress};
use crate::run::run_part;
use crate::stdout;

/// Does every run that the cache does not have; `display` becomes theirs as soon as they are known. Returns whether all are there: an interrupt ends it before.
pub(super) fn run_all(
    experiments: &[Experiment],
    cache: &Cache,
    jobs: Option<usize>,
    interrupt: &AtomicBool,
    display: &OnceLock<RunProgress>,
    quiet: bool,
) -> Result<bool, CliError> {
    let all: BTreeSet<Arc<Job>> = experiments.iter().flat_map(Experiment::jobs).collect();
    let due = with_jobs(jobs, || {
        let due: Vec<Arc<Job>> = all.into_par_iter().filter(|job| !cache.has(job)).collect();
        let estimated = |job: Arc<Job>| Ok((job.resolve()?.estimate(), job));
        let mut due: Vec<(Estimate, Arc<Job>)> = due.into_par_iter().map(estimated).collect::<Result<_, CliError>>()?;
        // A long run that began last would have a processor to itself.
        due.sort_by(|(a, _), (b, _)| b.packet_hops.total_cmp(&a.packet_hops));
        Ok::<_, CliError>(due)
    })??;
    let Some((longest, _)) = due.first() else { return Ok(true) };
    let memory = due.iter().map(|(estimate, _)| estimate.memory_bytes).max().unwrap_or(0);
    refuse_too_little(memory, jobs, due.len())?;
    let weight = |estimate: &Estimate| estimate.packet_hops / longest.packet_hops.max(1.0);
    let weights: Vec<f64> = due.iter().map(|(estimate, _)| weight(estimate)).collect();
    let display = display.get_or_init(|| RunProgress::weighing(&weights, quiet));
    let run = |(estimate, job): &(Estimate, Arc<Job>)| -> Result<(), CliError> {
        if interrupt.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Nothing was printed so far, and nobody would read it: what finished is kept.
        if stdout::is_closed() {
            return Err(CliError::OutputClosed);
        }
        let result = run_part(&job.resolve()?, interrupt, display, RunPart::weighing(weight(estimate)))?;
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

/// The result of a run. One that only the data asked for was not foreseen, and is done now.
pub(super) fn read(cache: &Cache, job: &Job) -> Result<RunResult, CliError> {
    if !cache.has(job) {
        let result = pliant_sim::run::run(&job.resolve()?, &AtomicBool::new(false), &mut |_| {})?;
        cache.write(job, &result)?;
    }
    Ok(cache.read(job)?)
}
