//! The points of a sweep: their scenarios, their folders, whether they are finished, what they will take.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pliant_proto::rng::fnv1a;
use pliant_sim::one_line::OneLine;
use pliant_sim::output::{CheckDepth, check_folder, check_point, files};
use pliant_sim::scenario::{Estimate, Override, Resolved, Scenario};
use pliant_sim::text_file;
use rayon::prelude::*;

use crate::error::CliError;
use crate::estimates::{cpu_s_of_all, sample};
use crate::grid::{self, Choice};
use crate::memory::refuse_too_little;

/// The axis of a file's variants.
pub(super) const VARIANT: &str = "variant";
/// The axis that gives each point its seed.
pub(super) const SEED: &str = "seed";
/// Folder of the points within that of the results.
const POINTS: &str = "points";
/// Largest seed of a scenario.
const MAX_SEED: u64 = i64::MAX as u64;
/// Most points of a sweep.
const MAX_POINTS: u64 = 20_000;
/// Most points whose cost is estimated.
const ESTIMATED_POINTS: usize = 8;
/// A sweep beyond this needs `--allow-large`, in hours of one processor.
const LARGE_CPU_HOURS: f64 = 24.0 * 7.0;

/// One run of a sweep.
#[derive(Clone, Debug)]
pub struct Point {
    /// What tells it from the others but for its seed.
    pub choice: Choice,
    /// The seed.
    pub seed: u64,
    /// The resolved scenario: what it runs, and what it must have run to be finished.
    pub text: String,
    /// Where its files are.
    pub folder: PathBuf,
    /// What is odd about it.
    pub(super) warnings: Vec<String>,
    /// Memory of its network without traffic.
    network_bytes: u64,
}

/// Every choice with every seed, checked. `fits` is asked, as soon as a choice is known, whether runs that need so many
/// bytes each have room.
pub(super) fn points(
    scenario: &Scenario,
    variants: &[(String, Vec<Override>)],
    choices: &[Choice],
    seeds: u64,
    out: &Path,
    fits: &(dyn Fn(u64) -> Result<(), CliError> + Sync),
) -> Result<Vec<Point>, CliError> {
    let Some((first, others)) = choices.split_first() else { return Ok(Vec::new()) };
    let of_choice = |choice: &Choice, memory: fn(&Resolved) -> u64| {
        let scenario = scenario.with(&overrides(choice, variants)?)?;
        let resolved = scenario.resolve()?;
        fits(memory(&resolved))?;
        of_seeds(choice, &scenario, resolved, seeds, out)
    };
    // The first by itself: where it does not fit, nothing else is built.
    let mut points = of_choice(first, |resolved| resolved.estimate().memory_bytes)?;
    let others: Vec<Vec<Point>> =
        others.par_iter().map(|choice| of_choice(choice, Resolved::network_bytes)).collect::<Result<_, _>>()?;
    points.extend(others.into_iter().flatten());
    Ok(points)
}

/// A choice as it is laid over the scenario: a variant by its name, then the other keys.
fn overrides(choice: &Choice, variants: &[(String, Vec<Override>)]) -> Result<Vec<Override>, CliError> {
    let (named, others): (Choice, Choice) =
        choice.iter().cloned().partition(|(key, _)| key == VARIANT && !variants.is_empty());
    let of_variant = named.iter().filter_map(|(_, name)| variants.iter().find(|(variant, _)| variant == name));
    let mut all: Vec<Override> = of_variant.flat_map(|(_, overrides)| overrides.clone()).collect();
    all.extend(grid::overrides(&others)?);
    Ok(all)
}

/// One choice with every seed. The network is built for the first seed only: it, and with it the memory, is the same for
/// all.
fn of_seeds(
    choice: &Choice,
    scenario: &Scenario,
    mut resolved: Resolved,
    seeds: u64,
    out: &Path,
) -> Result<Vec<Point>, CliError> {
    let first = resolved.spec.seed;
    let end = first.checked_add(seeds).filter(|&end| end <= MAX_SEED + 1);
    let end = end.ok_or_else(|| CliError::User(format!("--seeds {seeds}: from seed {first} on there are fewer")))?;
    let network_bytes = resolved.network_bytes();
    let each_by_itself = scenario.seed_decides_settings()?;
    let of_seed = |seed: u64| {
        if each_by_itself && seed != first {
            resolved = scenario.with(&[Override::parse("--seeds", &format!("seed={seed}"))?])?.resolve()?;
        }
        resolved.spec.seed = seed;
        let (text, warnings) = (resolved.to_toml(), resolved.warnings.clone());
        let folder = out.join(POINTS).join(folder_name(choice, seed));
        Ok(Point { choice: choice.clone(), seed, text, folder, warnings, network_bytes })
    };
    (first..end).map(of_seed).collect()
}

/// Refuses a grid with one point twice: a seed that is written in two ways.
pub(super) fn refuse_twice(points: &[Point]) -> Result<(), CliError> {
    let mut seen = BTreeSet::new();
    match points.iter().find(|point| !seen.insert(&point.folder)) {
        Some(Point { seed, .. }) => Err(CliError::User(format!("--vary {SEED}: {seed} is given twice"))),
        None => Ok(()),
    }
}

/// Refuses a folder with points that are not of this sweep: its table would lose them.
pub(super) fn refuse_another_grid(points: &[Point], out: &Path) -> Result<(), CliError> {
    let own: BTreeSet<_> = points.iter().filter_map(|point| point.folder.file_name()).collect();
    let found = fs::read_dir(out.join(POINTS)).into_iter().flatten().flatten().map(|entry| entry.file_name());
    // What is being written has a hidden name.
    let mut others = found.filter(|name| !own.contains(name.as_os_str()) && !name.to_string_lossy().starts_with('.'));
    let Some(other) = others.next() else { return Ok(()) };
    Err(CliError::User(format!(
        "{} has points of another grid, such as {}: give another --out, or --force to leave {} out of sweep.csv",
        out.display(),
        other.to_string_lossy(),
        if others.next().is_some() { "them" } else { "it" }
    )))
}

/// Whether no point of a sweep into `out` was ever run: all are due.
pub(super) fn is_new(out: &Path) -> bool {
    !out.join(POINTS).exists()
}

impl Point {
    /// Its scenario. Points keep text only: built, a thousand networks would not fit in memory.
    pub fn resolve(&self) -> Result<Resolved, CliError> {
        Ok(Scenario::parse(&self.text, &self.folder.join(files::SCENARIO))?.resolve()?)
    }

    /// What tells it from the other points but for its seed, behind the variant of the scenario if there is one.
    pub fn label(&self, variant: &str) -> String {
        [variant, &grid::label(&self.choice)].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Whether its folder holds a whole run of exactly this scenario by this version. What its files contain is compared by
    /// `forget_damaged`, once.
    pub fn is_finished(&self) -> bool {
        let same = text_file::read_table(&self.folder.join(files::SCENARIO)).is_ok_and(|text| text == self.text);
        let whole = same && check_point(&self.folder, CheckDepth::Lengths).is_ok();
        whole
            && self.summary().is_some_and(|summary| {
                summary["interrupted"] == false && summary["version"] == env!("CARGO_PKG_VERSION")
            })
    }

    /// `summary.json` of its folder.
    pub(super) fn summary(&self) -> Option<serde_json::Value> {
        serde_json::from_str(&text_file::read_table(&self.folder.join(files::SUMMARY)).ok()?).ok()
    }
}

/// A folder's name made of a choice; where characters had to give way, a hash keeps it distinct. The seed stands at its end.
fn folder_name(choice: &Choice, seed: u64) -> String {
    let named: Choice = choice.iter().filter(|(key, _)| key != SEED).cloned().collect();
    let label = grid::label(&named).replace(' ', ",");
    let harmless = |c: char| if c.is_ascii_alphanumeric() || "-_=.,".contains(c) { c } else { '_' };
    let mut name: String = label.chars().map(harmless).take(120).collect();
    if name != label {
        name = format!("{name}-{:016x}", fnv1a(label.as_bytes()));
    }
    if name.is_empty() { format!("seed={seed}") } else { format!("{name},seed={seed}") }
}

/// Part of the points: the `index`-th, the `index + parts`-th and so on.
#[derive(Clone, Copy, Debug)]
pub struct Shard {
    index: usize,
    parts: usize,
}

impl Shard {
    /// How many of so many points are in it.
    pub(super) fn count(self, points: usize) -> usize {
        points.saturating_sub(self.index).div_ceil(self.parts)
    }

    pub(super) fn of(self, points: &[Point]) -> impl Iterator<Item = &Point> {
        points.iter().skip(self.index).step_by(self.parts)
    }
}

impl Default for Shard {
    fn default() -> Self {
        Self { index: 0, parts: 1 }
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<usize>().ok();
        match text.split_once('/').and_then(|(index, parts)| number(index).zip(number(parts))) {
            Some((index, parts)) if (1..=parts).contains(&index) => Ok(Self { index: index - 1, parts }),
            _ => Err("it must be I/N with I from 1 to N, such as 2/4".to_owned()),
        }
    }
}

pub(super) fn refuse_too_many(points: u64) -> Result<(), CliError> {
    if points > MAX_POINTS {
        return Err(CliError::User(format!("the sweep has {points} points, at most {MAX_POINTS} are possible")));
    }
    Ok(())
}

/// Refuses a folder that could not be written, before the first point runs.
pub(super) fn refuse_unwritable(due: &[&Point]) -> Result<(), CliError> {
    due.first().map_or(Ok(()), |point| Ok(check_folder(&point.folder, true)?))
}

/// Compares every file of the points that have run with its checksum. Points of which one differs are not finished any more,
/// and one line on stderr says so.
pub(super) fn forget_damaged(points: &[&Point]) -> Result<(), CliError> {
    let damage = |point: &&&Point| {
        let has_run = [files::SUMMARY, files::CHECKSUMS].iter().any(|name| point.folder.join(name).exists());
        if has_run { check_point(&point.folder, CheckDepth::Content).err() } else { None }
    };
    let damaged: Vec<(&Point, String)> =
        points.par_iter().filter_map(|point| damage(&point).map(|why| (*point, why))).collect();
    for (point, _) in &damaged {
        let list = point.folder.join(files::CHECKSUMS);
        match fs::remove_file(&list) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(CliError::User(format!("cannot remove {}: {error}", list.display())));
            }
            _ => {}
        }
    }
    let Some((point, why)) = damaged.first() else { return Ok(()) };
    let label = point.folder.file_name().unwrap_or_default().to_string_lossy();
    let others = match damaged.len() - 1 {
        0 => String::new(),
        others => format!(" So do {others} other points"),
    };
    say!("warning: {}", OneLine(format!("{label}: {why}. It runs again.{others}")));
    Ok(())
}

/// Says in one line on stderr what is odd about the points.
pub(super) fn warn(due: &[&Point]) {
    let mut warned = due.iter().filter_map(|point| Some((point, point.warnings.first()?)));
    if let Some((point, warning)) = warned.next() {
        let label = point.folder.file_name().unwrap_or_default().to_string_lossy();
        let others = match warned.count() {
            0 => String::new(),
            others => format!(" (and {others} other points)"),
        };
        say!("warning: {}", OneLine(format!("{label}{others}: {warning}")));
    }
}

/// Refuses what would not fit in memory, and what takes very long unless that is `allowed`.
pub(super) fn refuse_too_large(due: &[&Point], jobs: Option<usize>, allowed: bool) -> Result<(), CliError> {
    let estimates: Vec<Estimate> =
        sample(due, ESTIMATED_POINTS).map(|point| Ok(point.resolve()?.estimate())).collect::<Result<_, CliError>>()?;
    let largest = due.iter().max_by_key(|point| point.network_bytes);
    let largest = largest.map_or(Ok(Estimate::default()), |point| Ok::<_, CliError>(point.resolve()?.estimate()))?;
    let memory = estimates.iter().chain([&largest]).map(|estimate| estimate.memory_bytes).max().unwrap_or(0);
    refuse_too_little(memory, jobs, due.len())?;
    let hours = cpu_s_of_all(&estimates, due.len()) / 3600.0;
    if hours > LARGE_CPU_HOURS && !allowed {
        return Err(CliError::User(format!(
            "{} points would take about {hours:.0} hours of processor time: shorten `duration`, use --shard, or insist \
             with --allow-large",
            due.len()
        )));
    }
    Ok(())
}
