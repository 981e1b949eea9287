//! `pliant run`: one run.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::Args;
use pliant_sim::output::{WriteOptions, check_folder, summary_json, write_run};
use pliant_sim::report::{TextTable, repeated_text_table, text_table};
use pliant_sim::results::RunResult;
use pliant_sim::results::comparison::Variant;
use pliant_sim::results::repetition::Repeated;
use pliant_sim::scenario::Resolved;

use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::memory::refuse_too_little;
use crate::progress::{RunPart, RunProgress};
use crate::scenarios::{ScenarioArguments, VariantArgument};
use crate::stdout::print;
use crate::{interrupt, scenarios};

const AFTER_HELP: &str = "\
Examples:
  # a table of the run's results
  pliant run demo
  # its files, too: flows, ports, summary, report.html
  pliant run rack.toml --out results/rack
  pliant run rack.toml --set load=0.7 --set queues.plan=dwrr-9-1 --seed 3
  # queue lengths and throughput over time, too
  pliant run rack.toml --set sample_interval=10us --out results/rack
  # one of the schemes that `pliant compare demo` compares
  pliant run demo --variant strict
  pliant run demo --json | jq .digest";

/// Runs a scenario: a table on stdout, and files with --out.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    #[command(flatten)]
    variant: VariantArgument,
    #[command(flatten)]
    table: TableArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// Most characters in a line of a table; fewer on a terminal that is narrower.
const TABLE_WIDTH: usize = 100;

/// What the table on stdout shows.
#[derive(Args)]
pub(crate) struct TableArguments {
    /// Shows every column of the table, however wide it becomes
    #[arg(long, conflicts_with = "json")]
    all_columns: bool,
}

/// Columns of the terminal that stdout is; `None` if it is none, or does not say.
fn terminal_width() -> Option<usize> {
    let columns = || ratatui::crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns));
    std::io::stdout().is_terminal().then(columns).flatten().filter(|&columns| columns > 0)
}

impl TableArguments {
    /// What is printed of a single run.
    pub(crate) fn of_run(&self, result: &RunResult, json: bool) -> String {
        if json { summary_json(result) } else { self.text(&[Variant { label: "", result }]) }
    }

    /// The table, and what it leaves out.
    pub(crate) fn text(&self, variants: &[Variant<'_>]) -> String {
        Self::with_notes(text_table(variants, self.width()), variants)
    }

    /// The same of several seeds; `variants` are the first seed's runs.
    pub(crate) fn repeated_text(&self, repeated: &Repeated, variants: &[Variant<'_>]) -> String {
        Self::with_notes(repeated_text_table(repeated, self.width()), variants)
    }

    fn width(&self) -> Option<usize> {
        (!self.all_columns).then(|| terminal_width().map_or(TABLE_WIDTH, |columns| columns.min(TABLE_WIDTH)))
    }

    fn with_notes(table: TextTable, variants: &[Variant<'_>]) -> String {
        let TextTable { mut text, all_zero, no_room } = table;
        for (told, columns) in [("0 everywhere", all_zero), ("more with --all-columns", no_room)] {
            if !columns.is_empty() {
                writeln!(text, "{told}: {}", columns.join(", ")).expect("a string takes all");
            }
        }
        for Variant { label, result } in variants {
            if let Some(why) = &result.overloaded {
                let label = if label.is_empty() { "this run" } else { label };
                writeln!(text, "{label}: overloaded, not a result: {why}").expect("a string takes all");
            }
        }
        text
    }
}

/// Whether rows say which run they are of.
#[derive(Args)]
pub(crate) struct IdentifyArgument {
    /// Leads every row of the CSV and Parquet files with scenario, variant, seed and digest, so that files of many runs
    /// can be joined
    #[arg(long, requires = "out")]
    pub(crate) identify: bool,
}

/// Where results go.
#[derive(Args)]
pub(crate) struct OutputArguments {
    /// Writes the results into this folder, whole or not at all
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Replaces an output folder that is there already
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    identify: IdentifyArgument,
    /// Prints JSON in place of a table
    #[arg(long)]
    pub(crate) json: bool,
    /// Shows no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl OutputArguments {
    /// How an output folder is written.
    pub(crate) fn options(&self) -> WriteOptions {
        WriteOptions { force: self.force, identify: self.identify.identify }
    }

    /// Refuses a folder that could not be written at the end, before anything runs.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        self.out.as_deref().map_or(Ok(()), |out| Ok(check_folder(out, self.force)?))
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let named = arguments.scenario.load_variant(&arguments.variant)?;
    let output = &arguments.output;
    let scenario = scenarios::resolve(&named, &mut BTreeSet::new())?;
    arguments.scenario.check_variants(&arguments.variant)?;
    output.check()?;
    refuse_too_little(scenario.estimate().memory_bytes, Some(1), 1)?;
    if !output.quiet {
        arguments.variant.say_there_are(&named)?;
    }
    let display = RunProgress::new(1, output.quiet);
    let result = run_one(&scenario, interrupt::listen(interrupt::SO_FAR_IS_THE_RESULT), &display)?;
    drop(display);
    if result.flows.is_empty() && !result.interrupted {
        say!("warning: no flow started between `warmup` and `measure_until`: there is nothing to measure");
    }
    if let Some(out) = &output.out {
        let run = Variant { label: arguments.variant.name(), result: &result };
        write_run(out, run, &scenario.to_toml(), output.options())?;
    }
    print(&arguments.table.of_run(&result, output.json))?;
    if !output.json {
        match &output.out {
            Some(out) => print(&format!("written to {}\n", out.display()))?,
            None => print("nothing written: --out DIR keeps flows, ports and a report\n")?,
        }
    }
    Ok(ExitStatus::of(&result))
}

/// Runs a scenario, telling `display` how far it is.
pub fn run_one(scenario: &Resolved, interrupt: &AtomicBool, display: &RunProgress) -> Result<RunResult, CliError> {
    run_part(scenario, interrupt, display, RunPart::default())
}

/// The same for a run that is not like any other in length.
pub(crate) fn run_part(
    scenario: &Resolved,
    interrupt: &AtomicBool,
    display: &RunProgress,
    mut part: RunPart,
) -> Result<RunResult, CliError> {
    let result = pliant_sim::run::run(scenario, interrupt, &mut |progress| display.update(&mut part, progress))?;
    display.finish(&part);
    Ok(result)
}
