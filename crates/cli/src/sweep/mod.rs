//! `pliant sweep`: a grid of runs, each in a folder of its own, and one table of all.

mod dask;
mod observed;
mod plan;
mod table;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use pliant_sim::output::{WriteOptions, write_point, write_sweep_report};
use pliant_sim::report::{Sweep, decision_text, sweep_json};
use pliant_sim::results::RunResult;
use pliant_sim::results::comparison::Variant;
use pliant_sim::scenario::{Override, Scenario};
use rayon::prelude::*;

use crate::again;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::files::write_atomically;
use crate::goal::GoalArguments;
use crate::grid::{self, Axis};
use crate::jobs::with_jobs;
use crate::memory::refuse_too_little;
use crate::progress::RunProgress;
use crate::run::{IdentifyArgument, run_one};
use crate::scenarios::{ScenarioArguments, VariantArgument};
use crate::stdout::print;
use crate::{flags, interrupt};
pub use plan::{Point, Shard};

const AFTER_HELP: &str = "\
Examples:
  pliant sweep demo --vary search.load=0.2:0.6:0.1 --seeds 5 \\
      --out results/load
  pliant sweep rack.toml --vary queues.plan=shared,strict \\
      --vary load=0.3,0.6 --jobs 8 --out results/grid
  # every variant of the file; of those at the goal, which one costs least
  pliant sweep demo --variants --seeds 3 --goal 'search.fct_p99 < 200ms' \\
      --cost copies.share_kept --out results/goal
  # each row of the files says which point it is of
  pliant sweep rack.toml --vary load=0.3,0.6 --identify --out results/joined
  # the second quarter of the points, beside three other machines
  pliant sweep rack.toml --vary load=0.1:0.9:0.1 --shard 2/4 \\
      --out results/loads
  # on a cluster
  pliant sweep rack.toml --vary load=0.1:0.9:0.1 --seeds 20 \\
      --dask tcp://cluster:8786 --out results/loads

The same command again runs only the points that are not finished, and those of which a file is not as it was written. \
DIR/sweep.csv has a row for each point, traffic group and flow size; DIR/report.html draws them all, and `pliant \
report DIR/points/POINT` makes a page of one.";

/// Runs a scenario at every point of a grid; finished points are not run again.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    #[command(flatten)]
    variant: VariantArgument,
    /// Gives a key several values: `KEY=a,b,c` or `KEY=START:STOP:STEP`; several keys span a grid
    #[arg(long, value_name = "KEY=VALUES")]
    vary: Vec<String>,
    /// Runs every variant that the scenario names, as a first axis of the grid
    #[arg(long, conflicts_with = "variant")]
    variants: bool,
    #[command(flatten)]
    goal: GoalArguments,
    /// Runs every point with this many seeds: the scenario's, and those that follow it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = flags::whole::<u64>(1..=u64::MAX))]
    seeds: u64,
    /// Runs at once. Default: as many as processors
    #[arg(long, value_name = "N", value_parser = flags::jobs())]
    jobs: Option<usize>,
    /// Runs only the I-th of N parts of the points, I from 1
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Runs the points on the Dask cluster whose scheduler is there, by the Python package (docs/python.md); finished ones
    /// are written here
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["jobs", "shard"])]
    dask: Option<String>,
    /// Folder of the results
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    identify: IdentifyArgument,
    /// Writes sweep.csv anew though the folder has points of another grid, which it then leaves out
    #[arg(long)]
    force: bool,
    /// Runs a sweep that would take very long all the same
    #[arg(long)]
    allow_large: bool,
    /// Prints the table as CSV in place of a summary
    #[arg(long)]
    csv: bool,
    /// Prints the means with their intervals as JSON in place of a summary
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Shows no progress
    #[arg(long, short)]
    quiet: bool,
}

/// What a sweep is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct SweepRequest<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Its variants, where they are the first axis.
    pub variants: &'a [(String, Vec<Override>)],
    /// The keys that vary.
    pub axes: &'a [Axis],
    /// Seeds of each choice.
    pub seeds: u64,
    /// Folder of the results.
    pub out: &'a Path,
    /// Runs at once; `None` as many as processors.
    pub jobs: Option<usize>,
    /// Part of the points.
    pub shard: Shard,
    /// Whether points of another grid may stand in the folder.
    pub force: bool,
    /// Whether it may take very long.
    pub allow_large: bool,
}

impl SweepRequest<'_> {
    /// Every point, checked: nothing has to be refused any more when the first one runs. What is odd about them is said
    /// on stderr.
    pub fn points(&self) -> Result<Vec<Point>, CliError> {
        if self.seeds > 1 && self.axes.iter().any(|axis| axis.key == plan::SEED) {
            let why = "each point has a seed of its own by --vary seed, and no others";
            return Err(CliError::User(format!("--seeds {}: {why}", self.seeds)));
        }
        let count = grid::count(self.axes).saturating_mul(self.seeds);
        plan::refuse_too_many(count)?;
        let choices = grid::choices(self.axes);
        let is_new = plan::is_new(self.out);
        // In a folder that has points, how many are left is known when all of them are.
        let fits = |bytes: u64| {
            let runs = self.shard.count(count as usize);
            if is_new { refuse_too_little(bytes, self.jobs, runs) } else { Ok(()) }
        };
        // On more threads than processors more networks would be built at once, and none sooner.
        let planners = rayon::current_num_threads().min(self.jobs.unwrap_or(usize::MAX));
        let plan = || plan::points(self.scenario, self.variants, &choices, self.seeds, self.out, &fits);
        let points = with_jobs(Some(planners), plan)??;
        plan::refuse_twice(&points)?;
        if !self.force {
            plan::refuse_another_grid(&points, self.out)?;
        }
        if !is_new {
            let own: Vec<&Point> = self.shard.of(&points).collect();
            with_jobs(Some(planners), || plan::forget_damaged(&own))??;
        }
        let due = self.due(&points);
        plan::warn(&due);
        plan::refuse_too_large(&due, self.jobs, self.allow_large)?;
        plan::refuse_unwritable(&due)?;
        Ok(points)
    }

    /// Those of its part that are not finished.
    pub fn due<'p>(&self, points: &'p [Point]) -> Vec<&'p Point> {
        self.shard.of(points).filter(|point| !point.is_finished()).collect()
    }
}

/// How the runs of a sweep are written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writing<'a> {
    /// The variant of the scenario that is swept; may be empty.
    pub variant: &'a str,
    /// Leads every row with what says which run it is of.
    pub identify: bool,
}

impl Writing<'_> {
    /// Writes the folder of a point that has run; `folder` may be another than its own.
    pub fn write(&self, point: &Point, folder: &Path, result: &RunResult) -> Result<(), CliError> {
        let label = point.label(self.variant);
        let options = WriteOptions { force: true, identify: self.identify };
        Ok(write_point(folder, Variant { label: &label, result }, &point.text, options)?)
    }
}

/// Runs points, each into its folder. An interrupt ends it before, and leaves what finished.
pub fn run_points(
    due: &[&Point],
    jobs: Option<usize>,
    writing: Writing<'_>,
    interrupt: &AtomicBool,
    display: &RunProgress,
) -> Result<(), CliError> {
    let run = |point: &&Point| -> Result<(), CliError> {
        if interrupt.load(Ordering::Relaxed) {
            return Ok(());
        }
        let result = run_one(&point.resolve()?, interrupt, display)?;
        writing.write(point, &point.folder, &result)
    };
    with_jobs(jobs, || due.par_iter().with_max_len(1).try_for_each(run))?
}

/// Writes `sweep.csv` of all finished points; returns its text, its number of rows and its path.
pub fn write_table(axes: &[Axis], points: &[Point], out: &Path) -> Result<(String, usize, PathBuf), CliError> {
    let (csv, rows) = table::table(axes, points)?;
    let path = out.join("sweep.csv");
    write_atomically(&path, &csv)?;
    Ok((csv, rows, path))
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let scenario = arguments.scenario.load_variant(&arguments.variant)?;
    let variants = if arguments.variants { scenario.variants()? } else { Vec::new() };
    if arguments.variants && variants.is_empty() {
        return Err(CliError::User("--variants: the scenario names none".to_owned()));
    }
    let mut axes = Axis::parse_all(&arguments.vary)?;
    if arguments.variants {
        let names = variants.iter().map(|(name, _)| name.clone()).collect();
        axes.insert(0, Axis { key: plan::VARIANT.to_owned(), values: names });
    }
    let shard = arguments.shard.unwrap_or_default();
    let request = SweepRequest {
        scenario: &scenario,
        variants: &variants,
        axes: &axes,
        seeds: arguments.seeds,
        out: &arguments.out,
        // What fits into this machine, and how long it would take, is not about a cluster.
        jobs: if arguments.dask.is_some() { Some(1) } else { arguments.jobs },
        shard,
        force: arguments.force,
        allow_large: arguments.allow_large || arguments.dask.is_some(),
    };
    let points = request.points()?;
    let due = request.due(&points);
    if !arguments.quiet && !arguments.variants {
        arguments.variant.say_there_are(&scenario)?;
    }
    let first = points.first().map(Point::resolve).transpose()?;
    let wish = first.as_ref().map_or(Ok(None), |first| arguments.goal.wish(first))?;
    let title = first.map_or_else(String::new, |first| first.name().to_owned());

    let interrupt = interrupt::listen(interrupt::FINISHED_IS_KEPT);
    let writing = Writing { variant: arguments.variant.name(), identify: arguments.identify.identify };
    if let Some(address) = &arguments.dask {
        let (out, quiet, Writing { variant, identify }) = (&*arguments.out, arguments.quiet, writing);
        dask::run(&dask::Cluster { address, out, variant, identify, quiet }, &due, interrupt)?;
    } else {
        let display = RunProgress::new(due.len(), arguments.quiet);
        run_points(&due, arguments.jobs, writing, interrupt, &display)?;
    }

    let (csv, rows, path) = write_table(&axes, &points, &arguments.out)?;
    let observed = observed::observed(&grid::choices(&axes), &points, &title);
    let decision = wish.map(|wish| wish.decide(&observed));
    let values: Vec<(String, Vec<String>)> = axes.iter().map(|axis| (axis.key.clone(), axis.values.clone())).collect();
    let again = again::command(|_| ());
    let sweep = Sweep {
        title: &title,
        axes: &values,
        observed: &observed,
        seeds: arguments.seeds,
        decision: decision.as_ref(),
        again: &again,
        scenario_toml: points.first().map_or("", |point| &point.text),
    };
    write_sweep_report(&arguments.out, &sweep)?;
    if arguments.csv {
        print(&csv)?;
    } else if arguments.json {
        print(&sweep_json(&sweep))?;
    } else {
        let finished = points.iter().filter(|point| point.is_finished()).count();
        let skipped = shard.of(&points).count() - due.len();
        let (all, ran) = (points.len(), due.iter().filter(|point| point.is_finished()).count());
        print(&format!(
            "{finished} of {all} points finished ({ran} now, {skipped} before)\n{rows} rows in {}, drawn in report.html beside it\n",
            path.display()
        ))?;
        if let Some(decision) = &decision {
            print(&format!("{}\n", decision_text(decision)))?;
        }
    }
    Ok(if interrupt.load(Ordering::Relaxed) { ExitStatus::Interrupted } else { ExitStatus::Done })
}
