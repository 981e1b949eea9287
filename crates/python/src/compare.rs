//! Variants of a scenario with several seeds.

use std::sync::atomic::{AtomicBool, Ordering};

use pliant_cli::library::{Axis, CliError, RunProgress, choices, label, overrides, run_one, with_jobs};
use pliant_sim::report::{answer, comparison_json, repeated_text_table};
use pliant_sim::results::comparison::Variant;
use pliant_sim::results::repetition::{Repeated, SeedRuns};
use pliant_sim::results::statistics::{GroupStatistics, by_group};
use pliant_sim::scenario::Override;
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::errors::failed;
use crate::result::RunResult;
use crate::scenario::Scenario;
use crate::supervise::{Progress, supervised};
use crate::values;

/// Most variants in one table, as on the command line.
const MOST_VARIANTS: usize = 64;

/// What the first seed's run of each variant yielded, and the statistics of all.
struct Compared {
    labels: Vec<String>,
    first: Vec<RunResult>,
    text: String,
    answer: Option<String>,
    json: String,
    seeds: Vec<u64>,
}

/// Runs every variant with every seed. Returns labels, the first seed's runs, `comparison.json`, the table as text, the
/// answer in a sentence if there is one, and the seeds.
#[pyfunction]
#[pyo3(signature = (scenario, vary, seeds, jobs = None, progress = None))]
#[allow(clippy::type_complexity, reason = "a tuple for one caller")]
pub(crate) fn compare(
    py: Python<'_>,
    scenario: &Scenario,
    vary: &Bound<'_, PyAny>,
    seeds: u64,
    jobs: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Vec<String>, Vec<RunResult>, String, String, Option<String>, Vec<u64>)> {
    let variants = variants(scenario, &values::axes(vary)?).map_err(|error| failed(&error))?;
    let display = RunProgress::new(variants.len() * usize::try_from(seeds).unwrap_or(usize::MAX), true);
    let work = |interrupt: &AtomicBool| work(scenario, &variants, seeds, jobs, interrupt, &display);
    let Compared { labels, first, text, answer, json, seeds } =
        supervised(py, progress.as_ref(), || Some(Progress::of(&display)), work)?.map_err(|error| failed(&error))?;
    Ok((labels, first, json, text, answer, seeds))
}

fn variants(scenario: &Scenario, axes: &[Axis]) -> Result<Vec<(String, Vec<Override>)>, CliError> {
    if axes.is_empty() {
        let named = scenario.document.variants()?;
        if named.is_empty() {
            let why = "nothing to compare: the scenario has no table `variants`, and `vary` is empty";
            return Err(CliError::User(why.to_owned()));
        }
        return Ok(named);
    }
    let choices = choices(axes);
    if choices.len() > MOST_VARIANTS {
        let count = choices.len();
        return Err(CliError::User(format!("vary: {count} variants do not fit in a table, use `sweep`")));
    }
    choices.iter().map(|choice| Ok((label(choice), overrides(choice)?))).collect()
}

/// A run of the first seed is kept whole.
type Done = (Vec<GroupStatistics>, Option<(pliant_sim::results::RunResult, String)>);

fn work(
    scenario: &Scenario,
    variants: &[(String, Vec<Override>)],
    seeds: u64,
    jobs: Option<usize>,
    interrupt: &AtomicBool,
    display: &RunProgress,
) -> Result<Compared, CliError> {
    let labels: Vec<String> = variants.iter().map(|(label, _)| label.clone()).collect();
    let own = scenario.document.resolve()?;
    let name = own.name().to_owned();
    let first = own.spec.seed;
    drop(own);
    let end = first.checked_add(seeds).filter(|&end| seeds > 0 && i64::try_from(end).is_ok());
    let end = end.ok_or_else(|| CliError::User(format!("seeds={seeds}: it must be from 1 to what is left")))?;
    // Every variant is checked before the first one runs.
    for (label, overrides) in variants {
        if scenario.document.with(overrides)?.resolve()?.spec.seed != first && seeds > 1 {
            return Err(CliError::User(format!("seeds={seeds}: `{label}` has a seed of its own")));
        }
    }
    let run = |(seed, overrides): (u64, &Vec<Override>)| -> Result<Done, CliError> {
        if interrupt.load(Ordering::Relaxed) {
            return Ok((Vec::new(), None));
        }
        let mut overrides = overrides.clone();
        if seed != first {
            overrides.push(Override::parse("seeds", &format!("seed={seed}"))?);
        }
        let resolved = scenario.document.with(&overrides)?.resolve()?;
        let result = run_one(&resolved, interrupt, display)?;
        let statistics = by_group(&result);
        Ok((statistics, (seed == first).then(|| (result, resolved.to_toml()))))
    };
    let points: Vec<(u64, &Vec<Override>)> =
        (first..end).flat_map(|seed| variants.iter().map(move |(_, overrides)| (seed, overrides))).collect();
    let mut done: Vec<Done> =
        with_jobs(jobs, || points.into_par_iter().map(run).collect::<Result<Vec<_>, CliError>>())??;
    if interrupt.load(Ordering::Relaxed) {
        return Err(CliError::User("interrupted".to_owned()));
    }
    let mut repeated = Repeated::default();
    for (seed, of_seed) in (first..end).zip(done.chunks(labels.len())) {
        let statistics = of_seed.iter().map(|(statistics, _)| statistics.clone()).collect();
        repeated.add(seed, &SeedRuns::new(&labels, statistics));
    }
    let kept: Vec<_> = done.drain(..labels.len()).filter_map(|(_, run)| run).collect();
    let runs: Vec<Variant<'_>> =
        labels.iter().zip(&kept).map(|(label, (result, _))| Variant { label, result }).collect();
    let many = Some(&repeated).filter(|_| seeds > 1);
    let json = comparison_json(&name, &runs, many, None);
    let text = match many {
        Some(repeated) => repeated_text_table(repeated, Some(100)).text,
        None => pliant_sim::report::text_table(&runs, Some(100)).text,
    };
    let answer = many.and_then(answer);
    let first_runs = kept.into_iter().map(|(result, text)| RunResult::of(result, text)).collect();
    Ok(Compared { labels, first: first_runs, text, answer, json, seeds: (first..end).collect() })
}
