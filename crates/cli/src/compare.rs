//! `pliant compare`: variants of one scenario side by side.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum};
use pliant_sim::output::write_comparison;
use pliant_sim::report::comparison_json;
use pliant_sim::results::RunResult;
use pliant_sim::results::comparison::Variant;
use pliant_sim::scenario::{Override, Resolved, Scenario};
use rayon::prelude::*;

use crate::agreement;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::grid::{self, Axis};
use crate::jobs::with_jobs;
use crate::memory::refuse_too_little;
use crate::progress::RunProgress;
use crate::run::{OutputArguments, TableArguments, run_one};
use crate::scenarios::{self, ScenarioArguments};
use crate::stdout::print;
use crate::testbed::{self, TestbedArguments};
use crate::{flags, interrupt};

/// Most variants in one table.
const MAX_VARIANTS: u64 = 64;

const AFTER_HELP: &str = "\
Examples:
  pliant compare demo                                        the variants that the scenario names
  pliant compare rack.toml --vary queues.plan=shared,strict,dwrr-9-1
  pliant compare rack.toml --vary backup.transport=dctcp,cubic --vary load=0.3,0.6 --out results/compared
  pliant compare demo --json | jq '.rows[].variant'
  pliant compare experiments/testbed/two-dctcp.toml --on sim,testbed    simulator and real network, and their ratio";

/// Runs variants of a scenario and shows them side by side.
///
/// The variants are those of --vary, or those that the scenario names in its table `variants`.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// Gives a key several values, one variant each: `KEY=a,b,c` or `KEY=START:STOP:STEP`; several keys span a grid
    #[arg(long, value_name = "KEY=VALUES")]
    vary: Vec<String>,
    /// Runs at once. Default: as many as processors
    #[arg(long, value_name = "N", value_parser = flags::jobs())]
    jobs: Option<usize>,
    /// Where each variant runs: `sim`, the simulator, or `testbed`, a real network (`pliant testbed run`); or both
    #[arg(long, value_name = "WHERE", value_delimiter = ',', default_value = "sim")]
    on: Vec<Platform>,
    #[command(flatten)]
    how: TestbedArguments,
    #[command(flatten)]
    table: TableArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// Where a scenario runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Platform {
    Sim,
    Testbed,
}

impl Platform {
    const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Testbed => "testbed",
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let scenario = arguments.scenario.load()?;
    let platforms = &arguments.on;
    let on_testbed = platforms.contains(&Platform::Testbed);
    if let (false, Some(flag)) = (on_testbed, arguments.how.given()) {
        return Err(CliError::User(format!("{flag} is about a testbed: it goes with --on testbed")));
    }
    let variants = variants(&scenario, &Axis::parse_all(&arguments.vary)?, on_testbed)?;
    let output = &arguments.output;
    output.check()?;
    let name = scenario.resolve()?.name().to_owned();
    // Every variant is checked before the first one runs.
    let (mut said, count) = (BTreeSet::new(), variants.len());
    let resolve = |(label, overrides): (String, Vec<Override>)| {
        let resolved = scenarios::resolve(&scenario.with(&overrides)?, &mut said)?;
        if platforms.contains(&Platform::Sim) {
            refuse_too_little(resolved.estimate().memory_bytes, arguments.jobs, count)?;
        }
        Ok((label, resolved))
    };
    let resolved: Vec<(String, Resolved)> = variants.into_iter().map(resolve).collect::<Result<_, CliError>>()?;

    let interrupt = interrupt::listen(interrupt::FINISHED_IS_KEPT);
    let display = RunProgress::new(resolved.len(), output.quiet);
    let run = |(label, scenario): &(String, Resolved)| -> Result<Option<(String, RunResult, String)>, CliError> {
        if interrupt.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let result = run_one(scenario, interrupt, &display)?;
        Ok(Some((label.clone(), result, scenario.to_toml())))
    };
    let simulated = if platforms.contains(&Platform::Sim) { &resolved[..] } else { &[] };
    let ran: Vec<_> = with_jobs(arguments.jobs, || simulated.par_iter().map(run).collect::<Result<_, CliError>>())??;
    drop(display);
    let ran: Vec<(String, RunResult, String)> = ran.into_iter().flatten().collect();
    let mut ran = if on_testbed { with_testbed(arguments, &resolved, ran, interrupt)? } else { ran };
    if interrupt.load(Ordering::Relaxed) {
        // Half a run beside a whole one would be no comparison.
        ran.retain(|(_, result, _)| !result.interrupted);
        let all = resolved.len() * platforms.len();
        let kept = if ran.is_empty() { "; nothing was written" } else { ", the others are left out" };
        eprintln!("interrupted: {} of {all} runs went to their end{kept}", ran.len());
        if ran.is_empty() {
            return Ok(ExitStatus::Interrupted);
        }
    }
    say_what_is_equal(&ran);
    let variants: Vec<_> = ran.iter().map(|(label, result, _)| Variant { label, result }).collect();
    let scenarios: Vec<String> = ran.iter().map(|(_, _, scenario)| scenario.clone()).collect();

    if let Some(out) = &output.out {
        write_comparison(out, &name, &variants, &scenarios, output.options())?;
    }
    print(&if output.json { comparison_json(&name, &variants) } else { arguments.table.text(&variants) })?;
    if variants.len() > 1 && !output.json {
        print("share kept: rate of a group's flows while they are open, relative to the first variant\n")?;
    }
    if on_testbed && platforms.contains(&Platform::Sim) && !output.json {
        for (label, scenario) in &resolved {
            let of = |platform: Platform| {
                ran.iter().find(|(ran, ..)| *ran == labelled(label, platform)).map(|(_, result, _)| result)
            };
            if let (Some(simulated), Some(real)) = (of(Platform::Sim), of(Platform::Testbed)) {
                print(&agreement::text(label, scenario.spec.sample_interval, simulated, real))?;
            }
        }
    }
    if let (Some(out), false) = (&output.out, output.json) {
        print(&format!("written to {}\n", out.display()))?;
    }
    if interrupt.load(Ordering::Relaxed) {
        return Ok(ExitStatus::Interrupted);
    }
    Ok(ran.iter().map(|(_, result, _)| ExitStatus::of(result)).max().unwrap_or(ExitStatus::Done))
}

/// Says on stderr which variants did exactly the same: what tells them apart has no effect on this traffic.
fn say_what_is_equal(ran: &[(String, RunResult, String)]) {
    let twins = ran.iter().enumerate().filter_map(|(at, (label, result, _))| {
        let first = ran[..at].iter().find(|(_, other, _)| !result.flows.is_empty() && other.flows == result.flows)?;
        Some((&first.0, label))
    });
    for (first, label) in twins {
        eprintln!("warning: `{label}` has the same flows as `{first}` to the last: what differs has no effect here");
    }
}

/// The label of a variant at a platform.
fn labelled(label: &str, platform: Platform) -> String {
    if label.is_empty() { platform.name().to_owned() } else { format!("{label}, {}", platform.name()) }
}

/// The same runs with those on the testbed, one after the other, behind each that was simulated.
fn with_testbed(
    arguments: &Arguments,
    resolved: &[(String, Resolved)],
    simulated: Vec<(String, RunResult, String)>,
    interrupt: &AtomicBool,
) -> Result<Vec<(String, RunResult, String)>, CliError> {
    let mut simulated = simulated.into_iter().peekable();
    let mut all = Vec::new();
    for (label, scenario) in resolved {
        if let Some((label, result, text)) = simulated.next_if(|(of, ..)| of == label) {
            all.push((labelled(&label, Platform::Sim), result, text));
        }
        if !interrupt.load(Ordering::Relaxed) {
            let (result, _) = testbed::run_one(scenario, &arguments.how, interrupt, arguments.output.quiet)?;
            all.push((labelled(label, Platform::Testbed), result, scenario.to_toml()));
        }
    }
    Ok(all)
}

/// Label and overrides of each variant.
fn variants(scenario: &Scenario, axes: &[Axis], on_testbed: bool) -> Result<Vec<(String, Vec<Override>)>, CliError> {
    if axes.is_empty() {
        let named = scenario.variants()?;
        if named.is_empty() && on_testbed {
            return Ok(vec![(String::new(), Vec::new())]);
        }
        if named.is_empty() {
            let why = "nothing to compare: the scenario has no table `variants`, and no --vary is given";
            return Err(CliError::User(why.to_owned()));
        }
        return Ok(named);
    }
    let count = grid::count(axes);
    if count > MAX_VARIANTS {
        return Err(CliError::User(format!("--vary: {count} variants do not fit in a table, use `pliant sweep`")));
    }
    grid::choices(axes).iter().map(|choice| Ok((grid::label(choice), grid::overrides(choice)?))).collect()
}
