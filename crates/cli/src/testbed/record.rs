//! `pliant testbed record`: scenarios on a testbed held against the simulator, and what was found kept.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::Args;
use pliant_sim::experiment::{TestbedRecord, TestbedRecords};
use pliant_sim::scenario::{Override, Resolved, Scenario};
use pliant_sim::suggest::nearest;
use serde::Deserialize;

use super::run::{TestbedArguments, run_one};
use crate::agreement::{Measure, measures};
use crate::error::CliError;
use crate::exit_status::ExitStatus;
use crate::files::{read_text, write_atomically};
use crate::progress::RunProgress;
use crate::stdout::{print, print_rows};
use crate::{flags, interrupt, scenarios};

/// Name of the file of records, beside the document made of them.
pub(crate) const FILE: &str = "testbed.json";

const AFTER_HELP: &str = "\
Examples:
  # every scenario of experiments/testbed.toml, into docs/testbed.json
  pliant testbed record --real-time
  # one of them
  pliant testbed record --only theta --runs 5
  # takes what was recorded into docs/reproduction.md
  pliant reproduce --write-docs

Each scenario runs with seeds 1, 2, ... in the simulator and on the testbed; medians are compared. Overloaded runs are \
no results and are left out.";

/// Runs the scenarios of a file of claims on a testbed and in the simulator, and records what was found.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The claims; scenarios are in the folder of the same name beside it
    #[arg(default_value = "experiments/testbed.toml")]
    claims: PathBuf,
    /// Where records are kept
    #[arg(long, value_name = "FILE", default_value = "docs/testbed.json")]
    records: PathBuf,
    /// Runs this scenario only; repeatable. The records of others stay
    #[arg(long, value_name = "SCENARIO")]
    only: Vec<String>,
    /// Runs of each. Default: as the file says
    #[arg(long, value_name = "N", value_parser = flags::whole::<u32>(1..=99))]
    runs: Option<u32>,
    #[command(flatten)]
    how: TestbedArguments,
    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

/// A file of claims.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimsFile {
    runs: u32,
    tolerance: f64,
    claims: Vec<ClaimSpec>,
}

/// A measure that is held to the simulator's.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimSpec {
    scenario: String,
    #[serde(default)]
    variant: String,
    /// Figures that the scenario is a scaled form of.
    #[serde(default)]
    figures: Vec<String>,
    claim: String,
    /// A line of what `pliant compare` prints.
    measure: String,
    why: Option<String>,
}

/// The records in a file; none if there is none.
pub(crate) fn read(path: &Path) -> Result<TestbedRecords, CliError> {
    if !path.exists() {
        return Ok(TestbedRecords::default());
    }
    TestbedRecords::parse(&read_text(path)?).map_err(|why| CliError::User(format!("{}: {why}", path.display())))
}

impl ClaimsFile {
    fn load(path: &Path) -> Result<Self, CliError> {
        let text = read_text(path)?;
        let file: Self = toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            let why = error.message().lines().next().unwrap_or_default();
            CliError::User(format!("{}, line {line}: {why}", path.display()))
        })?;
        let figures: BTreeSet<String> = crate::experiments::library()?
            .figures()
            .iter()
            .flat_map(|(paper, figures)| figures.iter().map(move |figure| format!("{paper} {figure}")))
            .collect();
        for claim in &file.claims {
            if let Some(figure) = claim.figures.iter().find(|figure| !figures.contains(*figure)) {
                return Err(CliError::User(format!("{}: no figure `{figure}`", path.display())));
            }
        }
        if !(file.tolerance > 0.0 && file.runs > 0) {
            return Err(CliError::User(format!("{}: runs and tolerance must be above 0", path.display())));
        }
        Ok(file)
    }

    /// Scenarios in the order in which they come first.
    fn scenarios(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for claim in &self.claims {
            if !names.contains(&claim.scenario.as_str()) {
                names.push(&claim.scenario);
            }
        }
        names
    }
}

/// Name of a variant, and its runs.
type Variant = (String, Vec<Resolved>);

/// What the runs of one variant yielded.
#[derive(Default)]
struct Found {
    /// By measure: its unit, and its values in the simulator and on the testbed.
    measures: BTreeMap<String, (&'static str, Vec<f64>, Vec<f64>)>,
    overloaded: u32,
    idle: Vec<f64>,
}

impl Found {
    fn add(&mut self, measures: Vec<Measure>, overloaded: bool) {
        for (name, unit, simulated, real) in measures {
            let (_, all, on_testbed) = self.measures.entry(name).or_insert_with(|| (unit, Vec::new(), Vec::new()));
            all.push(simulated);
            if !overloaded {
                on_testbed.push(real);
            }
        }
        self.overloaded += u32::from(overloaded);
    }

    /// What a claim is about, or an error that names the nearest measure.
    fn record(&self, claim: &ClaimSpec, tolerance: f64, runs: u32) -> Result<TestbedRecord, CliError> {
        let Some((unit, simulated, real)) = self.measures.get(&claim.measure) else {
            let near = nearest(&claim.measure, self.measures.keys().map(String::as_str));
            let hint = near.map_or(String::new(), |near| format!(", did you mean `{near}`?"));
            return Err(CliError::User(format!("{}: no measure `{}`{hint}", claim.scenario, claim.measure)));
        };
        let range = real.iter().fold(None, |range: Option<[f64; 2]>, &value| {
            Some(range.map_or([value; 2], |[least, most]| [least.min(value), most.max(value)]))
        });
        Ok(TestbedRecord {
            scenario: claim.scenario.clone(),
            variant: claim.variant.clone(),
            figures: claim.figures.clone(),
            claim: claim.claim.clone(),
            unit: (*unit).to_owned(),
            simulator: median(simulated).unwrap_or(f64::NAN),
            testbed: median(real),
            range,
            tolerance,
            why: claim.why.clone(),
            runs,
            overloaded: self.overloaded,
            idle: median(&self.idle).unwrap_or(0.0),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.get((sorted.len().max(1) - 1) / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low + high) / 2.0)
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitStatus, CliError> {
    let file = ClaimsFile::load(&arguments.claims)?;
    let runs = arguments.runs.unwrap_or(file.runs);
    let names = file.scenarios();
    if let Some(unknown) = arguments.only.iter().find(|only| !names.contains(&only.as_str())) {
        let why = format!("--only {unknown}: {} has no claims of it", arguments.claims.display());
        return Err(CliError::User(why));
    }
    let chosen = names.into_iter().filter(|name| arguments.only.is_empty() || arguments.only.iter().any(|o| o == name));
    // Every file is checked before the first run.
    let mut said = BTreeSet::new();
    let folder = arguments.claims.with_extension("");
    let mut plans: Vec<(&str, Vec<Variant>)> = Vec::new();
    for name in chosen {
        let scenario = Scenario::load(&folder.join(format!("{name}.toml")))?;
        let variants = variants(&file, name)
            .into_iter()
            .map(|variant| Ok((variant.to_owned(), seeds(&scenario, name, variant, runs, &mut said)?)))
            .collect::<Result<_, CliError>>()?;
        plans.push((name, variants));
    }

    let interrupt = interrupt::listen(interrupt::FINISHED_IS_KEPT);
    let mut records = read(&arguments.records)?;
    let mut rows = Vec::new();
    for (name, variants) in plans {
        let mut claims = Vec::new();
        for (variant, resolved) in variants {
            let mut found = Found::default();
            for scenario in &resolved {
                let display = RunProgress::new(1, arguments.quiet);
                let simulated = crate::run::run_one(scenario, interrupt, &display)?;
                drop(display);
                let (real, headroom) = run_one(scenario, &arguments.how, interrupt, arguments.quiet)?;
                if interrupt.load(Ordering::Relaxed) {
                    say!("interrupted: what was under way is not recorded");
                    return Ok(ExitStatus::Interrupted);
                }
                found.idle.push(headroom.idle);
                let measures = measures(scenario.spec.sample_interval, &simulated, &real);
                found.add(measures, headroom.overload().is_some());
            }
            for claim in file.claims.iter().filter(|claim| claim.scenario == name && claim.variant == variant) {
                let record = found.record(claim, file.tolerance, runs)?;
                let [simulated, real, ratio] = record.print_values();
                let told = format!("{}: simulator {simulated}, testbed {real}, ratio {ratio}", record.remark());
                rows.push((format!("{name}: {}", record.claim), told));
                claims.push(record);
            }
        }
        // Kept as soon as a scenario is whole.
        records.insert(name, claims);
        records.retain(|scenario| file.claims.iter().any(|claim| claim.scenario == scenario));
        write_atomically(&arguments.records, &records.to_json())?;
    }
    print_rows(&rows)?;
    print(&format!("written to {}\n", arguments.records.display()))?;
    Ok(ExitStatus::Done)
}

/// Variants of a scenario that have claims.
fn variants<'f>(file: &'f ClaimsFile, scenario: &str) -> BTreeSet<&'f str> {
    file.claims.iter().filter(|claim| claim.scenario == scenario).map(|claim| claim.variant.as_str()).collect()
}

/// A variant with each seed.
fn seeds(
    scenario: &Scenario,
    name: &str,
    variant: &str,
    runs: u32,
    said: &mut BTreeSet<String>,
) -> Result<Vec<Resolved>, CliError> {
    let named = scenario.variants()?;
    let overrides = match named.iter().find(|(label, _)| label == variant) {
        Some((_, overrides)) => overrides.clone(),
        None if variant.is_empty() => Vec::new(),
        None => return Err(CliError::User(format!("{name}: no variant `{variant}`"))),
    };
    (1..=runs)
        .map(|seed| {
            let mut all = overrides.clone();
            all.push(Override::parse("seed", &format!("seed={seed}"))?);
            scenarios::resolve(&scenario.with(&all)?, said)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
    }

    fn claim(measure: &str) -> ClaimSpec {
        let measure = measure.to_owned();
        let text = String::new;
        ClaimSpec { scenario: text(), variant: text(), figures: Vec::new(), claim: text(), measure, why: None }
    }

    /// What an overloaded run measured is no result; the simulator's is one all the same.
    #[test]
    fn overloaded_runs_are_left_out() {
        let mut found = Found::default();
        found.add(vec![("queue".to_owned(), "packets", 10.0, 99.0)], true);
        found.add(vec![("queue".to_owned(), "packets", 20.0, 19.0)], false);
        let record = found.record(&claim("queue"), 0.3, 2).unwrap();
        assert_eq!((record.simulator, record.testbed, record.overloaded), (15.0, Some(19.0), 1));
        let error = format!("{:?}", found.record(&claim("quue"), 0.3, 2).unwrap_err());
        assert!(error.contains("did you mean `queue`?"), "{error}");
    }

    /// The claims that come along are well formed, and about scenarios and variants that there are.
    #[test]
    fn the_claims_that_come_along_are_well_formed() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/testbed.toml");
        let file = ClaimsFile::load(&path).unwrap();
        for name in file.scenarios() {
            let scenario = Scenario::load(&path.with_extension("").join(format!("{name}.toml"))).unwrap();
            for variant in variants(&file, name) {
                seeds(&scenario, name, variant, 1, &mut BTreeSet::new()).unwrap();
            }
        }
    }
}
