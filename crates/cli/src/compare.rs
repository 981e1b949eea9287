//! `pliant compare`: variants of one scenario side by side.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum};
use pliant_sim::output::write_comparison;
use pliant_sim::report::{answer, comparison_json, decision_text};
use pliant_sim::results::RunResult;
use pliant_sim::results::comparison::{ComparisonRow, Variant};
use pliant_sim::results::decision::Observed;
use pliant_sim::results::repetition::{Repeated, SeedRuns};
use pliant_sim::results::statistics::{GroupStatistics, by_group};
use pliant_sim::scenario::{Override, Resolved, Scenario};
use rayon::prelude::*;

use crate::again;
use crate::agreement;
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::goal::GoalArguments;
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

/// Most seeds of a comparison.
const MAX_SEEDS: u64 = 1000;
/// Seeds where nothing is said and runs are short, and those between two looks at the intervals.
const SEEDS: u64 = 5;
/// Seconds of one processor that are short.
const SHORT_CPU_S: f64 = 120.0;

const AFTER_HELP: &str = "\
Examples:
  # the variants that the scenario names
  pliant compare demo
  # each with twenty seeds, and intervals of the changes
  pliant compare demo --seeds 20
  pliant compare rack.toml --vary queues.plan=shared,strict,dwrr-9-1
  pliant compare rack.toml --vary backup.transport=dctcp,cubic \\
      --vary load=0.3,0.6 --out results/compared
  # of the variants that reach a goal, the one that costs least
  pliant compare demo --goal 'search.fct_p99 < 200ms' --cost copies.share_kept
  pliant compare demo --json | jq '.rows[].variant'
  # simulator and real network, and their ratio
  pliant compare experiments/testbed/two-dctcp.toml --on sim,testbed";

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
    /// Runs each variant with so many seeds, from the scenario's on. Default: 5 where that takes less than two minutes of
    /// processor time, else 1
    #[arg(long, value_name = "N", value_parser = flags::whole::<u64>(1..=MAX_SEEDS))]
    seeds: Option<u64>,
    /// Runs five seeds at a time until the 95 % interval of every change of an FCT's mean and 99th percentile is within ±
    /// PERCENT of the change, or a thousand seeds have run
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with = "seeds")]
    until: Option<f64>,
    #[command(flatten)]
    goal: GoalArguments,
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
    let first = scenario.resolve()?;
    let (name, wish) = (first.name().to_owned(), arguments.goal.wish(&first)?);
    drop(first);
    // Every variant is checked before the first one runs.
    let (mut said, count) = (BTreeSet::new(), variants.len());
    let resolve = |(label, overrides): (String, Vec<Override>)| {
        let resolved = scenarios::resolve(&scenario.with(&overrides)?, &mut said)?;
        if platforms.contains(&Platform::Sim) {
            refuse_too_little(resolved.estimate().memory_bytes, arguments.jobs, count)?;
        }
        Ok((label, resolved))
    };
    let overrides: Vec<Vec<Override>> = variants.iter().map(|(_, overrides)| overrides.clone()).collect();
    let resolved: Vec<(String, Resolved)> = variants.into_iter().map(resolve).collect::<Result<_, CliError>>()?;

    let seeds = arguments.seeds(&scenario, &resolved, on_testbed)?;
    let labels: Vec<String> = resolved.iter().map(|(label, _)| label.clone()).collect();

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
        say!("interrupted: {} of {all} runs went to their end{kept}", ran.len());
        if ran.is_empty() {
            return Ok(ExitStatus::Interrupted);
        }
    }
    say_what_is_equal(&ran);
    let repeated = if interrupt.load(Ordering::Relaxed) || seeds.at_most() == 1 {
        None
    } else {
        Some(repeat(arguments, &seeds, &labels, &overrides, &scenario, &ran, interrupt)?)
    };
    // An interrupted repetition keeps the seeds that are whole.
    let repeated = repeated.as_ref().filter(|repeated| repeated.seeds().len() > 1);
    let variants: Vec<_> = ran.iter().map(|(label, result, _)| Variant { label, result }).collect();
    let scenarios: Vec<String> = ran.iter().map(|(_, _, scenario)| scenario.clone()).collect();

    let decision = wish.map(|wish| {
        let mut single = Repeated::default();
        let labels: Vec<String> = ran.iter().map(|(label, ..)| label.clone()).collect();
        if repeated.is_none() && !variants.is_empty() {
            single.add(variants[0].result.seed, &SeedRuns::of(&labels, &variants));
        }
        wish.decide(&Observed::of_repeated(repeated.unwrap_or(&single)))
    });
    if let Some(out) = &output.out {
        let of_all = (repeated, decision.as_ref());
        write_comparison(out, &name, &variants, of_all, &scenarios, output.options())?;
    }
    print(&match repeated {
        _ if output.json => comparison_json(&name, &variants, repeated, decision.as_ref()),
        Some(repeated) => answered(&arguments.table, repeated, &variants),
        None => arguments.table.text(&variants),
    })?;
    if variants.len() > 1 && !output.json {
        print("share kept: rate of a group's flows while they are open, relative to the first variant\n")?;
    }
    if let (Some(decision), false) = (&decision, output.json) {
        print(&format!("{}\n", decision_text(decision)))?;
    }
    if let (Some(repeated), false) = (repeated, output.json) {
        print(&format!("again: {}\n", again(repeated.seeds().len())))?;
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

/// How many seeds there are.
enum Seeds {
    Fixed(u64),
    /// Until half the interval of every change is at most this ratio.
    Until(f64),
}

impl Seeds {
    fn at_most(&self) -> u64 {
        match self {
            Self::Fixed(seeds) => *seeds,
            Self::Until(_) => MAX_SEEDS,
        }
    }
}

impl Arguments {
    fn seeds(&self, scenario: &Scenario, resolved: &[(String, Resolved)], on_testbed: bool) -> Result<Seeds, CliError> {
        let seeds = match (self.seeds, self.until) {
            (Some(1), None) => return Ok(Seeds::Fixed(1)),
            (seeds, until) if on_testbed => {
                if seeds.is_some() || until.is_some() {
                    let flag = if until.is_some() { "--until" } else { "--seeds" };
                    return Err(CliError::User(format!("{flag} is about the simulator: it goes without --on testbed")));
                }
                return Ok(Seeds::Fixed(1));
            }
            (Some(seeds), _) => Seeds::Fixed(seeds),
            (None, Some(until)) => Seeds::Until(until),
            (None, None) => {
                let cpu_s: f64 = resolved.iter().map(|(_, scenario)| scenario.estimate().cpu_s()).sum();
                if resolved.len() < 2 || cpu_s * SEEDS as f64 > SHORT_CPU_S {
                    return Ok(Seeds::Fixed(1));
                }
                Seeds::Fixed(SEEDS)
            }
        };
        let first = resolved.first().map_or(0, |(_, scenario)| scenario.spec.seed);
        let own = scenario.resolve()?.spec.seed;
        if let Some((label, _)) = resolved.iter().find(|(_, scenario)| scenario.spec.seed != own) {
            // Seeds that are varied are variants.
            if self.seeds.is_none() && self.until.is_none() {
                return Ok(Seeds::Fixed(1));
            }
            return Err(CliError::User(format!("--seeds: `{label}` has a seed of its own")));
        }
        if first.checked_add(seeds.at_most()).is_none_or(|end| end > i64::MAX as u64) {
            return Err(CliError::User(format!("--seeds: from seed {first} on there are too few")));
        }
        if let (Seeds::Fixed(count), false) = (&seeds, self.output.quiet) {
            let chosen = if self.seeds.is_none() { " (--seeds takes another number)" } else { "" };
            say!("{count} seeds, {first} to {}{chosen}", first + count - 1);
        }
        Ok(seeds)
    }
}

/// The comparison over all seeds, of which `ran` is the first.
fn repeat(
    arguments: &Arguments,
    seeds: &Seeds,
    labels: &[String],
    overrides: &[Vec<Override>],
    scenario: &Scenario,
    ran: &[(String, RunResult, String)],
    interrupt: &AtomicBool,
) -> Result<Repeated, CliError> {
    let runs: Vec<Variant<'_>> = ran.iter().map(|(label, result, _)| Variant { label, result }).collect();
    let mut repeated = Repeated::default();
    let first = ran.first().map_or(0, |(_, result, _)| result.seed);
    repeated.add(first, &SeedRuns::of(labels, &runs));
    while (repeated.seeds().len() as u64) < seeds.at_most() {
        if let Seeds::Until(ratio) = *seeds
            && widest(&repeated).is_some_and(|widest| widest <= ratio)
        {
            break;
        }
        let from = first + repeated.seeds().len() as u64;
        let end = match seeds {
            Seeds::Fixed(count) => first + count,
            Seeds::Until(_) => (from + SEEDS).min(first + MAX_SEEDS),
        };
        let display = RunProgress::new((end - from) as usize * labels.len(), arguments.output.quiet);
        let run = |(seed, overrides): (u64, &Vec<Override>)| -> Result<Option<Vec<GroupStatistics>>, CliError> {
            if interrupt.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let seed = Override::parse("--seeds", &format!("seed={seed}"))?;
            let overrides: Vec<Override> = overrides.iter().cloned().chain([seed]).collect();
            let result = run_one(&scenario.with(&overrides)?.resolve()?, interrupt, &display)?;
            Ok((!result.interrupted).then(|| by_group(&result)))
        };
        let points: Vec<(u64, &Vec<Override>)> =
            (from..end).flat_map(|seed| overrides.iter().map(move |overrides| (seed, overrides))).collect();
        let done: Vec<_> =
            with_jobs(arguments.jobs, || points.into_par_iter().map(run).collect::<Result<_, CliError>>())??;
        drop(display);
        for (seed, statistics) in (from..end).zip(done.chunks(labels.len())) {
            let Some(statistics) = statistics.iter().cloned().collect::<Option<Vec<_>>>() else { break };
            repeated.add(seed, &SeedRuns::new(labels, statistics));
        }
        if interrupt.load(Ordering::Relaxed) {
            say!("interrupted: seeds that went to their end: {}; the others are left out", repeated.seeds().len());
            break;
        }
    }
    Ok(repeated)
}

/// Half the widest interval of a change in the mean or 99th percentile of a group's completion times; `None` before there
/// is one.
fn widest(repeated: &Repeated) -> Option<f64> {
    let statistics: [fn(&ComparisonRow) -> Option<f64>; 2] =
        [|row| row.group.all.fct_us.map(|fct| fct.mean.value), |row| row.group.all.fct_us.map(|fct| fct.p99.value)];
    let changes = (0..repeated.rows().len())
        .flat_map(|row| statistics.map(|statistic| repeated.change(row, statistic)))
        .flatten();
    changes.map(|change| change.half_width()).max_by(f64::total_cmp)
}

/// The answer in a sentence, if there is one, and the table.
fn answered(table: &TableArguments, repeated: &Repeated, variants: &[Variant<'_>]) -> String {
    let sentence = answer(repeated).map(|answer| format!("{answer}\n\n")).unwrap_or_default();
    format!("{sentence}{}", table.repeated_text(repeated, variants))
}

/// The command that gives the same numbers again.
fn again(seeds: usize) -> String {
    again::command(|words| {
        if let Some(at) = words.iter().position(|word| word == "--until" || word.starts_with("--until=")) {
            words.drain(at..if words[at] == "--until" { at + 2 } else { at + 1 });
        }
        if !words.iter().any(|word| word == "--seeds" || word.starts_with("--seeds=")) {
            words.extend(["--seeds".to_owned(), seeds.to_string()]);
        }
    })
}

/// A percentage as a ratio.
fn percent(text: &str) -> Result<f64, String> {
    let number =
        text.trim_end_matches('%').trim().parse::<f64>().ok().filter(|number| *number > 0.0 && *number < 100.0);
    number
        .map(|number| number / 100.0)
        .ok_or_else(|| "it must be a percentage above 0 and below 100, such as 5%".to_owned())
}

/// Says on stderr which variants did exactly the same: what tells them apart has no effect on this traffic.
fn say_what_is_equal(ran: &[(String, RunResult, String)]) {
    let twins = ran.iter().enumerate().filter_map(|(at, (label, result, _))| {
        let first = ran[..at].iter().find(|(_, other, _)| !result.flows.is_empty() && other.flows == result.flows)?;
        Some((&first.0, label))
    });
    for (first, label) in twins {
        say!(
            "warning: `{label}` has the same flows as `{first}` to the last: what differs has no effect under the first seed"
        );
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
