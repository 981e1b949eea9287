//! The runs of an experiment: its scenario with every combination of overrides.

use std::sync::Arc;

use indexmap::IndexMap;

use super::axes::{Axis, Scalar};
use super::library::Library;
use super::size::Size;
use super::spec::{AxisSpec, ExperimentSpec};
use crate::run::group_infos;
use crate::scenario::file::document::Document;
use crate::scenario::{Override, Resolved, Scenario, ScenarioError};
use crate::suggest;
use toml::Value;

/// Files that take their scenario from one another: more is a circle.
const MAX_FILES: usize = 8;

/// One run of the simulator: a scenario with a seed. Experiments share it if they come to the same.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Job {
    /// The resolved scenario, without what has no influence on the result.
    pub scenario: String,
}

impl Job {
    /// The scenario, built. Jobs keep text: built, a thousand networks would not fit in memory.
    pub fn resolve(&self) -> Result<Resolved, ScenarioError> {
        Scenario::parse(&self.scenario, std::path::Path::new("scenario.toml"))?.resolve()
    }
}

/// One run of a file along its axes.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) run: String,
    /// For each axis of the run its index in [`Plan::axes`] and the index of the value.
    pub(super) values: Vec<(usize, usize)>,
    /// One per seed.
    pub(super) jobs: Vec<Arc<Job>>,
    pub(super) groups: Vec<String>,
    /// Payload bytes of a full packet.
    pub(super) mss: u16,
}

/// All runs of an experiment at one size.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) axes: Vec<Axis>,
    pub(super) points: Vec<Point>,
    pub(super) seeds: Vec<u64>,
}

impl Plan {
    pub(super) fn new(
        document: &Document,
        spec: &ExperimentSpec,
        size: Size,
        library: &Library,
        path: &str,
    ) -> Result<Self, ScenarioError> {
        let sized = size.of(spec);
        let name = size.name();
        let axes = axes(document, spec, size)?;
        let seeds = sized.seeds.clone().unwrap_or_else(|| spec.seeds.clone());
        let seeds_at = if sized.seeds.is_some() { format!("{name}.seeds") } else { "seeds".to_owned() };
        check_seeds(document, &seeds_at, &seeds)?;
        let mut plan = Self { axes, points: Vec::new(), seeds };
        let Some(scenario) = scenario(document, library, path, 0)? else {
            return match spec.runs.keys().next() {
                Some(run) => Err(document.error(&format!("runs.{run}"), "there is no `scenario` to run")),
                None => Ok(plan),
            };
        };
        let of_size = Override::all_in(document, &format!("{name}.set"), &sized.set);
        for (run, run_spec) in &spec.runs {
            let at = format!("runs.{run}");
            let mut over = Vec::new();
            for axis in &run_spec.over {
                let names: Vec<String> = plan.axes.iter().map(|axis| axis.name.clone()).collect();
                let position = names.iter().position(|name| name == axis);
                over.push(
                    position
                        .ok_or_else(|| document.error(&format!("{at}.over"), suggest::unknown("axis", axis, &names)))?,
                );
            }
            let own = Override::all_in(document, &format!("{at}.set"), &run_spec.set);
            for values in combinations(&over, &plan.axes) {
                let along = values.iter().flat_map(|&(axis, value)| plan.axes[axis].values[value].overrides.iter());
                let all: Vec<Override> = of_size.iter().chain(&own).chain(along).cloned().collect();
                let resolved = scenario.with(&all)?.resolve()?;
                plan.points.push(Point::new(run, values, resolved, &plan.seeds));
            }
        }
        Ok(plan)
    }

    /// The run `name` where its axes have the values that `named` or else `bound` gives them, or their defaults.
    pub(super) fn point(
        &self,
        name: &str,
        named: &[(String, Scalar)],
        bound: &[(String, Scalar)],
    ) -> Result<usize, String> {
        let mut names: Vec<String> = self.points.iter().map(|point| point.run.clone()).collect();
        names.dedup();
        let Some(first) = self.points.iter().find(|point| point.run == name) else {
            return Err(suggest::unknown("run", name, &names));
        };
        for (axis, _) in named {
            if !first.values.iter().any(|&(index, _)| self.axes[index].name == *axis) {
                return Err(format!("run `{name}` does not go over an axis `{axis}`"));
            }
        }
        let mut wanted = Vec::new();
        for &(index, _) in &first.values {
            let axis = &self.axes[index];
            let given = named.iter().chain(bound).find(|(name, _)| *name == axis.name);
            let value = match given {
                Some((_, value)) => axis.position(value)?,
                None => axis.default.ok_or_else(|| {
                    format!("run `{name}` needs a value of axis `{0}`: run(\"{name}\", #{{ {0}: ... }})", axis.name)
                })?,
            };
            wanted.push((index, value));
        }
        let found = self.points.iter().position(|point| point.run == name && point.values == wanted);
        Ok(found.expect("every combination is planned"))
    }

    /// How people call a run.
    pub(super) fn label(&self, point: usize) -> String {
        let Point { run, values, .. } = &self.points[point];
        let values = values.iter().map(|&(axis, value)| {
            let axis = &self.axes[axis];
            format!(" {}={}", axis.name, axis.values[value].value)
        });
        format!("{run}{}", values.collect::<String>())
    }
}

impl Point {
    fn new(run: &str, values: Vec<(usize, usize)>, mut resolved: Resolved, seeds: &[u64]) -> Self {
        // What the figure calls it changes no result.
        let spec = &mut resolved.spec;
        (spec.name, spec.description, spec.variants) = (Some("run".to_owned()), String::new(), IndexMap::new());
        let mut job = |&seed: &u64| {
            resolved.spec.seed = seed;
            Arc::new(Job { scenario: resolved.to_toml() })
        };
        let jobs = seeds.iter().map(&mut job).collect();
        let groups = group_infos(&resolved).into_iter().map(|group| group.name).collect();
        Self { run: run.to_owned(), values, jobs, groups, mss: resolved.mss() }
    }
}

fn check_seeds(document: &Document, at: &str, seeds: &[u64]) -> Result<(), ScenarioError> {
    if seeds.is_empty() {
        return Err(document.error(at, "names no seed"));
    }
    if seeds.iter().any(|&seed| seed > i64::MAX as u64) {
        return Err(document.error(at, "seeds are at most 2^63 - 1"));
    }
    match (1..seeds.len()).find(|&index| seeds[..index].contains(&seeds[index])) {
        Some(twice) => Err(document.error(at, format!("names {} twice", seeds[twice]))),
        None => Ok(()),
    }
}

fn axes(document: &Document, spec: &ExperimentSpec, size: Size) -> Result<Vec<Axis>, ScenarioError> {
    let (sized, name) = (size.of(spec), size.name());
    let names: Vec<String> = spec.axes.keys().cloned().collect();
    if let Some(unknown) = sized.axes.keys().find(|axis| !spec.axes.contains_key(*axis)) {
        return Err(document.error(&format!("{name}.axes.{unknown}"), suggest::unknown("axis", unknown, &names)));
    }
    let axis = |(axis, axis_spec): (&String, &AxisSpec)| {
        let chosen = sized.axes.get(axis).map(|values| (values, format!("{name}.axes.{axis}")));
        Axis::new(document, axis, axis_spec, chosen)
    };
    spec.axes.iter().map(axis).collect()
}

/// Every combination of values of the axes `over`, the last axis fastest.
fn combinations(over: &[usize], axes: &[Axis]) -> Vec<Vec<(usize, usize)>> {
    over.iter().fold(vec![Vec::new()], |combinations, &axis| {
        let longer = |values: &Vec<(usize, usize)>| {
            let with = |value| values.iter().copied().chain([(axis, value)]).collect::<Vec<_>>();
            (0..axes[axis].values.len()).map(with).collect::<Vec<_>>()
        };
        combinations.iter().flat_map(longer).collect()
    })
}

/// The scenario of the file at `path`: its own table, or that of the file it names.
fn scenario(
    document: &Document,
    library: &Library,
    path: &str,
    depth: usize,
) -> Result<Option<Scenario>, ScenarioError> {
    match document.root().get("scenario") {
        None => Ok(None),
        Some(Value::Table(_)) => Ok(Scenario::within(document, "scenario")),
        Some(Value::String(relative)) => {
            let other = Library::resolve(path, relative);
            let Some((shown, text)) = library.read(&other).filter(|_| depth < MAX_FILES) else {
                let paths: Vec<String> = library.paths().map(str::to_owned).collect();
                return Err(document.error("scenario", suggest::unknown("file", &other, &paths)));
            };
            let inner = Document::parse(text, shown)?;
            if inner.root().get("claims").is_none() {
                return Ok(Some(Scenario::parse(text, shown)?));
            }
            let found = scenario(&inner, library, &other, depth + 1)?;
            found.map(Some).ok_or_else(|| document.error("scenario", format!("`{other}` has no scenario")))
        }
        Some(_) => Err(document.error("scenario", "must be a table or the path of a file")),
    }
}
