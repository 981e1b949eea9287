//! Experiments: a figure of a paper as a file that says what to run, what the paper says and what to draw.
//!
//! 1. [`Library`] has the files. [`Experiment::load`] reads one at a [`Size`] and finds what is wrong with it.
//! 2. [`Experiment::jobs`] are the runs that it needs; several experiments may need the same.
//! 3. [`Experiment::evaluate`] computes the claims and plots from the results, which a [`Cache`] keeps on disk.
//!
//! `docs/experiments.md` is the reference of the files.

mod axes;
mod cache;
mod claims;
mod class;
mod context;
mod evaluate;
mod library;
mod made_up;
mod measures;
mod mechanism;
mod no_mechanism;
mod on_testbed;
mod outcome;
mod plots;
mod record;
mod runs;
mod size;
mod spec;
#[cfg(test)]
mod tests;
mod text;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use toml::Value;

pub use cache::{Cache, FINGERPRINT};
pub use claims::{Quantity, Verdict, print_number};
pub use class::Class;
pub use library::Library;
pub use no_mechanism::NoMechanism;
pub use on_testbed::{TestbedRecord, TestbedRecords};
pub use outcome::{ClaimOutcome, FigureOutcome, Mechanism, Sensitivity};
pub use plots::{PlotData, PlotPoint, SeriesData};
pub use record::{ClaimRecord, FigureRecord, MechanismRecord, PAGE_MARK, Records, SensitivityRecord};
pub use runs::Job;
pub use size::Size;
pub use spec::{PlotAxis, PlotKind};

use crate::results::RunResult;
use crate::scenario::ScenarioError;
use crate::scenario::file::document::Document;
use crate::suggest;
use axes::Scalar;
use claims::Claim;
use class::BEYOND;
use context::Source;
use evaluate::{Evaluated, Evaluator, spread};
use runs::Plan;
use spec::{ClaimSpec, ExperimentSpec, MechanismSpec};

/// A figure at one size, read and checked.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The paper's name.
    pub paper: String,
    /// The figure's name.
    pub figure: String,
    document: Document,
    spec: ExperimentSpec,
    size: Size,
    plan: Plan,
    claims: Vec<Claim>,
    parameters: toml::Table,
    held: Held,
    /// The runs that the claims held need, if these are not all.
    needed: Option<BTreeSet<Arc<Job>>>,
}

/// What is computed of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Held {
    /// Claims and plots.
    Everything,
    /// The claims that CI holds; whether they need their mechanism it does not ask.
    Ci,
    /// The claims whose mechanism is switched off, at no other setting.
    Audited,
}

/// What the file at `path` takes from another that was measured.
fn measured(
    document: &Document,
    spec: &ExperimentSpec,
    library: &Library,
    path: &str,
) -> Result<toml::Table, ScenarioError> {
    let Some(relative) = &spec.measured else { return Ok(toml::Table::new()) };
    let other = Library::resolve(path, relative);
    let Some((shown, text)) = library.read(&other) else {
        let paths: Vec<String> = library.paths().map(str::to_owned).collect();
        return Err(document.error("measured", suggest::unknown("file", &other, &paths)));
    };
    Ok(Document::parse(text, shown)?.root().as_table().cloned().unwrap_or_default())
}

impl Experiment {
    /// Reads a file of `library` and checks all of it: its keys, its runs' scenarios, every name in every expression.
    pub fn load(library: &Library, paper: &str, figure: &str, size: Size) -> Result<Self, ScenarioError> {
        let path = format!("{paper}/{figure}.toml");
        let (shown, text) = library.read(&path).expect("chosen from the library");
        let document = Document::parse(text, shown)?;
        let spec: ExperimentSpec = document.decode()?;
        let names = spec.parameters.keys().map(|name| ("parameters", name));
        for (table, name) in names.chain(spec.axes.keys().map(|name| ("axes", name))) {
            evaluate::check_name(name).map_err(|why| document.error(&format!("{table}.{name}"), why))?;
        }
        let plan = Plan::new(&document, &spec, size, library, &path)?;
        if spec.claims.is_empty() {
            return Err(document.error("claims", "an experiment has at least one"));
        }
        let texts: Vec<&str> = spec.claims.iter().map(|claim| claim.claim.as_str()).collect();
        if let Some(twice) = (1..texts.len()).find(|&index| texts[..index].contains(&texts[index])) {
            return Err(document.error(&format!("claims.{twice}.claim"), "says the same as another claim"));
        }
        let claim = |(index, spec): (usize, &ClaimSpec)| Claim::new(&document, &format!("claims.{index}"), spec);
        let claims = spec.claims.iter().enumerate().map(claim).collect::<Result<_, _>>()?;
        let mut parameters = spec.parameters.clone();
        for (name, value) in &size.of(&spec).parameters {
            if parameters.insert(name.clone(), value.clone()).is_none() {
                let names: Vec<String> = spec.parameters.keys().cloned().collect();
                let at = format!("{}.parameters.{name}", size.name());
                return Err(document.error(&at, suggest::unknown("parameter", name, &names)));
            }
        }
        for (name, value) in measured(&document, &spec, library, &path)? {
            let refuse = |why| document.error("measured", why);
            evaluate::check_name(&name).map_err(refuse)?;
            let taken = parameters.contains_key(&name) || spec.axes.contains_key(&name);
            if taken {
                return Err(refuse(format!("`{name}` is a name of this file too")));
            }
            parameters.insert(name, value);
        }
        let (paper, figure) = (paper.to_owned(), figure.to_owned());
        let (held, needed) = (Held::Everything, None);
        let experiment = Self { paper, figure, document, spec, size, plan, claims, parameters, held, needed };
        experiment.check()?;
        Ok(experiment)
    }

    /// The same with the claims that CI holds and the runs that these need, and without plots.
    pub fn for_ci(self) -> Result<Self, ScenarioError> {
        self.holding(Held::Ci)
    }

    /// The same with the claims whose mechanism is switched off and the runs that these need, and without plots.
    pub fn for_audit(self) -> Result<Self, ScenarioError> {
        self.holding(Held::Audited)
    }

    fn holding(mut self, held: Held) -> Result<Self, ScenarioError> {
        self.held = held;
        self.needed = Some(self.check()?.into_iter().map(Arc::new).collect());
        Ok(self)
    }

    /// What it shows.
    pub fn title(&self) -> &str {
        &self.spec.title
    }

    /// Whether CI holds any of its claims.
    pub fn is_in_ci(&self) -> bool {
        self.spec.claims.iter().any(|claim| claim.ci)
    }

    /// Whether the mechanism of any of its claims is switched off.
    pub fn is_audited(&self) -> bool {
        self.spec.claims.iter().any(|claim| claim.mechanism.as_ref().is_some_and(MechanismSpec::is_switched))
    }

    /// The size that it was loaded at.
    pub fn size(&self) -> Size {
        self.size
    }

    /// What its claims say, in the file's order.
    fn claim_texts(&self) -> impl Iterator<Item = &str> {
        self.spec.claims.iter().map(|claim| claim.claim.as_str())
    }

    /// The runs that it needs.
    pub fn jobs(&self) -> BTreeSet<Arc<Job>> {
        if let Some(jobs) = &self.needed {
            return jobs.clone();
        }
        self.plan.points.iter().flat_map(|point| point.jobs.iter().cloned()).collect()
    }

    /// Computes every claim and plot; `result` yields the result of a run.
    pub fn evaluate(
        &self,
        result: impl Fn(&Job) -> Result<RunResult, String> + 'static,
    ) -> Result<FigureOutcome, ScenarioError> {
        let evaluator = self.evaluator(Box::new(result), false);
        let claims = self.held_claims().map(|index| self.claim(&evaluator, index)).collect::<Result<_, _>>()?;
        let plots = match self.held {
            Held::Everything => plots::plots(&self.document, &self.spec, &evaluator)?,
            Held::Ci | Held::Audited => Vec::new(),
        };
        let (paper, figure) = (self.paper.clone(), self.figure.clone());
        let ExperimentSpec { title, section, setup, .. } = self.spec.clone();
        let (scaled, seeds) = (self.size.of(&self.spec).scaled.clone(), self.plan.seeds.len());
        let setup = setup.trim().to_owned();
        Ok(FigureOutcome { paper, figure, title, section, setup, scaled, seeds, claims, plots })
    }

    /// Computes everything with made-up results: names and types must be right, values are not looked at. Returns the runs
    /// that were asked for.
    fn check(&self) -> Result<BTreeSet<Job>, ScenarioError> {
        let groups: usize = self.plan.points.iter().map(|point| point.groups.len()).max().unwrap_or(0);
        let asked = Rc::new(RefCell::new(BTreeSet::new()));
        let note = Rc::clone(&asked);
        let source = move |job: &Job| {
            note.borrow_mut().insert(job.clone());
            Ok(made_up::result(groups as u16))
        };
        let evaluator = self.evaluator(Box::new(source), true);
        for index in self.held_claims() {
            self.claim(&evaluator, index)?;
        }
        if self.held == Held::Everything {
            plots::plots(&self.document, &self.spec, &evaluator)?;
        }
        Ok(asked.take())
    }

    /// The places of the claims that are computed.
    fn held_claims(&self) -> impl Iterator<Item = usize> {
        let is_held = |claim: &ClaimSpec| match self.held {
            Held::Everything => true,
            Held::Ci => claim.ci,
            Held::Audited => claim.mechanism.as_ref().is_some_and(MechanismSpec::is_switched),
        };
        (0..self.claims.len()).filter(move |&index| is_held(&self.spec.claims[index]))
    }

    fn evaluator(&self, source: Source<'static>, is_check: bool) -> Evaluator {
        Evaluator::new(self.plan.clone(), &self.parameters, source, is_check)
    }

    fn claim(&self, evaluator: &Evaluator, index: usize) -> Result<ClaimOutcome, ScenarioError> {
        let (spec, claim) = (&self.spec.claims[index], &self.claims[index]);
        let at = format!("claims.{index}");
        let refuse = |why: String| self.document.error(&format!("{at}.ours"), format!("{why} (claim: {})", spec.claim));
        let over_seeds = spec.over_seeds.unwrap_or(self.spec.over_seeds);
        let compute = |ours: &str, bound: &[(String, Scalar)]| -> Result<(Evaluated, Quantity, bool), ScenarioError> {
            let evaluated = evaluator.evaluate(ours, over_seeds, bound, None).map_err(refuse)?;
            let met = claim.is_met(&evaluated.outcome).map_err(refuse)?;
            let ours = Quantity::of(&evaluated.outcome).expect("pairs meet no claim");
            Ok((evaluated, ours, met))
        };
        if spec.class == Some(Class::OwnExpectation) && !self.spec.section.contains(BEYOND) {
            let why =
                format!("a figure of a paper has no expectation of our own: its `section` does not say \"{BEYOND}\"");
            return Err(self.document.error(&format!("{at}.class"), why));
        }
        let (evaluated, ours, met) = compute(&spec.ours, &[])?;
        let mut sensitivity = Vec::new();
        let axes = if self.held == Held::Audited { Vec::new() } else { self.sensitivity_axes(&at, spec)? };
        for axis in axes {
            for value in &self.plan.axes[axis].values {
                let name = self.plan.axes[axis].name.clone();
                let (_, ours, agrees) = compute(&spec.ours, &[(name.clone(), value.value.clone())])?;
                sensitivity.push(Sensitivity { axis: name, value: value.value.to_string(), ours, agrees });
            }
        }
        spec.mechanism.iter().try_for_each(|mechanism| self.check_mechanism(&at, mechanism))?;
        let mechanism = match spec.mechanism.as_ref().filter(|mechanism| mechanism.is_switched()) {
            None => None,
            Some(_) if self.held == Held::Ci => None,
            Some(mechanism) => {
                let bound = self.without(&at, mechanism)?;
                let (_, ours, agrees) = compute(&self.with_other_runs(&at, &spec.ours, mechanism)?, &bound)?;
                Some(Mechanism { name: mechanism.name.clone(), off: mechanism.off_in_words(), ours, agrees })
            }
        };
        let scaled = spec.scaled.clone().or_else(|| self.size.of(&self.spec).scaled.clone());
        let scaled = scaled.filter(|text| !text.is_empty());
        let verdict = match (met, &scaled) {
            (false, _) => Verdict::Differs,
            (true, Some(_)) => Verdict::Scaled,
            (true, None) => Verdict::Agrees,
        };
        Ok(ClaimOutcome {
            claim: spec.claim.clone(),
            paper: claim.paper.clone(),
            ours,
            unit: spec.unit.clone(),
            spread: spread(&evaluated.by_seed),
            lower_bound: evaluated.lower_bound,
            verdict,
            scaled,
            why: self.why(index)?.filter(|_| verdict == Verdict::Differs),
            class: spec.class.filter(|_| verdict == Verdict::Differs),
            mechanism,
            no_mechanism: spec.mechanism.as_ref().and_then(|mechanism| mechanism.none),
            ci: spec.ci,
            sensitivity,
        })
    }

    fn sensitivity_axes(&self, at: &str, spec: &ClaimSpec) -> Result<Vec<usize>, ScenarioError> {
        let at = format!("{at}.sensitivity");
        let names: Vec<&str> = match &spec.sensitivity {
            None => return Ok(Vec::new()),
            Some(Value::String(name)) => vec![name.as_str()],
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
            Some(_) => return Err(self.document.error(&at, "must be an axis or a list of axes")),
        };
        let axes: Vec<String> = self.plan.axes.iter().map(|axis| axis.name.clone()).collect();
        let position = |name: &str| {
            let found = axes.iter().position(|axis| axis == name);
            found.ok_or_else(|| self.document.error(&at, suggest::unknown("axis", name, &axes)))
        };
        names.into_iter().map(position).collect()
    }

    fn why(&self, index: usize) -> Result<Option<String>, ScenarioError> {
        let at = format!("claims.{index}");
        match &self.spec.claims[index].why {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Table(table))
                if table.iter().all(|(size, why)| ["quick", "full"].contains(&size.as_str()) && why.is_str()) =>
            {
                Ok(table.get(self.size.name()).and_then(Value::as_str).map(str::to_owned))
            }
            Some(_) => {
                Err(self.document.error(&format!("{at}.why"), "must be a text, or a table of `quick` and `full`"))
            }
        }
    }
}
