//! `pliant reproduce`: the figures of papers, what they say and what comes out here.

mod ci;
mod document;
mod load;
mod runs;
mod table;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use clap::Args;
use pliant_sim::experiment::{Cache, Experiment, FigureOutcome, Job, Library, Size};
use pliant_sim::output::{check_folder, write_reproduction};
use pliant_sim::scenario::Estimate;
use rayon::prelude::*;

use crate::error::CliError;
use crate::estimates::{cpu_s_of_all, sample};
use crate::exit_status::ExitStatus;
use crate::progress::RunProgress;
use crate::run::OutputArguments;
use crate::stdout::{print, print_rows};
use crate::{experiments, flags, interrupt};

const AFTER_HELP: &str = "\
Examples:
  # papers and figures
  pliant reproduce
  # every figure of a paper, in minutes
  pliant reproduce reflex
  # one figure, at the paper's size
  pliant reproduce reflex fig04 --full
  # a page, too, that draws the figures like the paper's
  pliant reproduce reflex --out results/reflex
  # finds mistakes in the file, runs nothing
  pliant reproduce reflex fig04 --check
  # what a paper's figures would take at the paper's size
  pliant reproduce reflex --list --full
  pliant reproduce all --json | jq '.[] | select(.verdict == \"differs\")'
  # writes what was found into the document
  pliant reproduce --write-docs docs/reproduction.md
  # whether the claims need their mechanism
  pliant reproduce reflex fig13 --full --audit --write-docs
  # fails if a claim that agreed no longer does
  pliant reproduce --ci

Files in ./experiments/PAPER take the place of the papers that are part of the program; docs/experiments.md describes \
them. Finished runs are kept in --cache: the same command after Ctrl-C goes on where it was. Another build of the \
program runs them anew.";

/// The word for every paper there is.
const ALL: &str = "all";

/// What is said below the list.
const LISTED: &str = "\
\n`pliant reproduce PAPER [FIGURE]` runs them, a paper in some minutes; `pliant reproduce all` runs every one, thousands of \
runs; `pliant reproduce PAPER --list` says what each would take, with --full at the paper's size.\n";

/// Reproduces figures of papers: the paper's value, ours, and whether they agree.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The paper, or `all`. Without one, papers and figures are listed; --check, --ci and --write-docs take all
    paper: Option<String>,
    /// The figure. Default: all of the paper
    figure: Option<String>,
    /// Runs the paper's sizes in place of quick ones
    #[arg(long)]
    full: bool,
    /// Lists papers and figures, and runs nothing; of one paper with the processor time that its runs would take
    #[arg(long, conflicts_with_all = ["check", "ci", "write_docs", "out", "json"])]
    list: bool,
    /// Checks the files, and runs nothing
    #[arg(long, conflicts_with_all = ["full", "write_docs", "out", "json"])]
    check: bool,
    /// Runs the claims that CI holds; fails if one is worse than recorded beside --write-docs' document
    #[arg(long, conflicts_with = "full")]
    ci: bool,
    /// Computes only the claims whose mechanism is switched off, with it and without it; --write-docs then takes what they give
    /// without it, if they give with it what is recorded
    #[arg(long, conflicts_with_all = ["check", "ci", "out"])]
    audit: bool,
    /// Writes what was found into this document, and what it is made of beside it, as JSON
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = "docs/reproduction.md")]
    write_docs: Option<PathBuf>,
    /// Verdicts that --ci holds
    #[arg(long, value_name = "PATH", default_value = "docs/reproduction.json")]
    recorded: PathBuf,
    /// Folder in which finished runs are kept
    #[arg(long, value_name = "DIR", default_value = "target/reproduce")]
    cache: PathBuf,
    /// Runs at once. Default: as many as processors
    #[arg(long, value_name = "N", value_parser = flags::jobs())]
    jobs: Option<usize>,
    #[command(flatten)]
    output: OutputArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let library = experiments::library()?;
    let (paper, figure) = (arguments.paper.as_deref(), arguments.figure.as_deref());
    let takes_all = arguments.check || arguments.ci || arguments.write_docs.is_some();
    if paper.is_none() && !takes_all && !arguments.list {
        let output = &arguments.output;
        if arguments.full || output.json || output.out.is_some() {
            return Err(CliError::User("say which paper, or `all` of them: `pliant reproduce` lists them".to_owned()));
        }
        print_rows(&experiments::titles(&library, None, None)?)?;
        return print(LISTED).map(|()| ExitStatus::Done);
    }
    let paper = paper.filter(|&paper| paper != ALL);
    if let (None, Some(figure)) = (paper, figure) {
        return Err(CliError::User(format!("{figure}: `{ALL}` are all figures of all papers")));
    }
    let size = if arguments.full { Size::Full } else { Size::Quick };
    if arguments.list {
        let mut rows = experiments::titles(&library, paper, figure)?;
        if paper.is_some() {
            let chosen = library.choose(paper, figure).map_err(CliError::User)?;
            add_costs(&library, &chosen, size, arguments.audit, &mut rows)?;
        }
        return print_rows(&rows);
    }
    arguments.output.check()?;
    let chosen = library.choose(paper, figure).map_err(CliError::User)?;
    if arguments.check {
        return check(&library, &chosen, arguments.ci);
    }
    // Every file is checked before the first run.
    let mut experiments = load::chosen(&library, &chosen, size)?;
    if arguments.ci {
        let held = experiments.into_iter().filter(Experiment::is_in_ci);
        experiments = held.map(Experiment::for_ci).collect::<Result<_, _>>()?;
    }
    if arguments.audit {
        let held = experiments.into_iter().filter(Experiment::is_audited);
        experiments = held.map(Experiment::for_audit).collect::<Result<_, _>>()?;
    }
    let recorded = arguments.ci.then(|| ci::read(&arguments.recorded)).transpose()?;
    if let Some(recorded) = &recorded {
        ci::hold_claims(recorded, &library)?;
    }
    if let Some(document) = &arguments.write_docs {
        document::check(document, &library, &experiments)?;
    }

    let cache = open_cache(&arguments.cache)?;
    let interrupt = interrupt::listen(interrupt::FINISHED_IS_KEPT);
    let display = OnceLock::new();
    let finished = runs::run_all(&experiments, &cache, arguments.jobs, interrupt, &display, arguments.output.quiet)?;
    drop(display);
    let outcomes = evaluate(&experiments, &cache, finished)?;
    if finished || !outcomes.is_empty() {
        print(&if arguments.output.json { table::json(&outcomes) } else { table::text(&outcomes) })?;
    }
    if !finished {
        let (whole, all) = (outcomes.len(), experiments.len());
        say!(
            "interrupted: {whole} of {all} figures are whole, no file was written; the same command goes on where this \
             one was"
        );
        return Ok(ExitStatus::Interrupted);
    }
    if let Some(out) = &arguments.output.out {
        write_reproduction(out, &outcomes, size, &table::json(&outcomes), arguments.output.force)?;
        if !arguments.output.json {
            print(&format!("written to {}\n", out.display()))?;
        }
    }
    if let Some(document) = &arguments.write_docs {
        document::write(document, &library, &outcomes, size, arguments.audit)?;
    }
    match recorded {
        Some(recorded) => ci::hold(&recorded, &outcomes, size),
        None => Ok(ExitStatus::Done),
    }
}

/// What came out of the experiments whose runs are all there.
fn evaluate(experiments: &[Experiment], cache: &Cache, finished: bool) -> Result<Vec<FigureOutcome>, CliError> {
    let mut outcomes = Vec::new();
    // One after the other: the flows of one figure's runs are in memory at a time.
    for experiment in experiments {
        if finished || runs::are_finished(experiment, cache) {
            let cache = cache.clone();
            outcomes.push(experiment.evaluate(move |job| runs::read(&cache, job).map_err(|error| error.to_string()))?);
        }
    }
    Ok(outcomes)
}

/// What a program asks for.
#[derive(Clone, Copy, Debug)]
pub struct ReproduceRequest<'a> {
    /// The paper.
    pub paper: &'a str,
    /// The figure; `None` for all.
    pub figure: Option<&'a str>,
    /// Quick sizes, or the paper's.
    pub size: Size,
    /// Folder in which finished runs are kept.
    pub cache: &'a Path,
    /// Runs at once; `None` as many as processors.
    pub jobs: Option<usize>,
}

impl ReproduceRequest<'_> {
    /// Runs the figures, and what came out of those that are whole; figures without their data are left out, which stderr
    /// says. `display` becomes that of the runs as soon as they are known.
    pub fn run(&self, interrupt: &AtomicBool, display: &OnceLock<RunProgress>) -> Result<Vec<FigureOutcome>, CliError> {
        let library = experiments::library()?;
        let chosen = library.choose(Some(self.paper), self.figure).map_err(CliError::User)?;
        let experiments = load::chosen(&library, &chosen, self.size)?;
        let cache = open_cache(self.cache)?;
        let finished = runs::run_all(&experiments, &cache, self.jobs, interrupt, display, true)?;
        evaluate(&experiments, &cache, finished)
    }
}

/// The verdicts of figures as JSON: an object for each claim.
pub fn verdicts_json(outcomes: &[FigureOutcome]) -> String {
    table::json(outcomes)
}

/// The verdicts of figures as text.
pub fn verdicts_text(outcomes: &[FigureOutcome]) -> String {
    table::text(outcomes)
}

fn open_cache(folder: &Path) -> Result<Cache, CliError> {
    if !folder.is_dir() {
        check_folder(folder, false)?;
    }
    Ok(Cache::new(folder))
}

/// Behind each title how many runs the figure takes at this size, and how long they last.
fn add_costs(
    library: &Library,
    chosen: &[(String, String)],
    size: Size,
    audit: bool,
    rows: &mut [(String, String)],
) -> Result<(), CliError> {
    let planned = |whole: Experiment| if audit { whole.for_audit() } else { Ok(whole) };
    for ((paper, figure), (_, title)) in chosen.iter().zip(rows) {
        let cost = match library.missing_data(paper, figure)? {
            Some(why) => why,
            None => cost(&planned(Experiment::load(library, paper, figure, size)?)?)?,
        };
        *title = format!("{title} ({cost})");
    }
    Ok(())
}

/// Most runs of a figure whose cost is estimated.
const ESTIMATED_RUNS: usize = 16;

fn cost(experiment: &Experiment) -> Result<String, CliError> {
    let jobs: Vec<Arc<Job>> = experiment.jobs().into_iter().collect();
    if jobs.is_empty() {
        return Ok("computed, no runs".to_owned());
    }
    let sampled: Vec<&Arc<Job>> = sample(&jobs, ESTIMATED_RUNS).collect();
    let estimates: Vec<Estimate> =
        sampled.into_par_iter().map(|job| Ok(job.resolve()?.estimate())).collect::<Result<_, CliError>>()?;
    let seconds = cpu_s_of_all(&estimates, jobs.len());
    Ok(format!("{} runs, about {seconds:.0} s of processor time", jobs.len()))
}

/// Every file at both sizes, and how many runs each takes.
fn check(library: &Library, chosen: &[(String, String)], ci: bool) -> Result<ExitStatus, CliError> {
    let line = |(paper, figure): &(String, String)| {
        let quick = Experiment::load(library, paper, figure, Size::Quick)?;
        if ci && !quick.is_in_ci() {
            return Ok(None);
        }
        let full = Experiment::load(library, paper, figure, Size::Full)?.jobs().len();
        let quick = quick.jobs().len();
        Ok::<_, CliError>(Some(format!("{paper} {figure}: well formed, {quick} runs quick, {full} full\n")))
    };
    let lines: Vec<Result<_, _>> = load::with_data(library, chosen)?.into_par_iter().map(line).collect();
    let lines: Vec<Option<String>> = lines.into_iter().collect::<Result<_, _>>()?;
    print(&lines.into_iter().flatten().collect::<String>()).map(|()| ExitStatus::Done)
}
