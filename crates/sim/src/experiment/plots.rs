//! The plots of an experiment as points.

use toml::Value;

use super::axes::{Scalar, numbers_of};
use super::evaluate::{Evaluated, Evaluator, Outcome, spread};
use super::spec::{ExperimentSpec, OverSeeds, PlotAxis, PlotKind, PlotSpec, SeriesSpec};
use crate::scenario::ScenarioError;
use crate::scenario::file::document::Document;
use crate::suggest;

/// A plot with its points.
#[derive(Clone, PartialEq, Debug)]
pub struct PlotData {
    /// Its heading.
    pub title: String,
    /// How it is drawn.
    pub kind: PlotKind,
    /// Horizontal axis.
    pub x: PlotAxis,
    /// Vertical axis.
    pub y: PlotAxis,
    /// Names along x, of bars.
    pub categories: Vec<String>,
    /// How to read it.
    pub note: String,
    /// Its curves.
    pub series: Vec<SeriesData>,
}

/// One curve, or the bars of one colour.
#[derive(Clone, PartialEq, Debug)]
pub struct SeriesData {
    /// Its name in the legend.
    pub name: String,
    /// Whether it was read off the paper.
    pub paper: bool,
    /// Its points, in order.
    pub points: Vec<PlotPoint>,
}

/// A point; of bars, `x` counts the categories.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlotPoint {
    /// Where along x.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// The smallest and largest value of all seeds.
    pub spread: Option<(f64, f64)>,
}

/// Every plot of the file.
pub(super) fn plots(
    document: &Document,
    spec: &ExperimentSpec,
    evaluator: &Evaluator,
) -> Result<Vec<PlotData>, ScenarioError> {
    let plot = |(index, plot): (usize, &PlotSpec)| {
        let at = format!("plots.{index}");
        if plot.series.is_empty() {
            return Err(document.error(&format!("{at}.series"), "a plot has at least one"));
        }
        if (plot.kind == PlotKind::Bars) == plot.categories.is_empty() {
            return Err(document.error(&format!("{at}.categories"), "bars have categories, other plots have none"));
        }
        let maker = Maker { document, evaluator, plot, over_seeds: spec.over_seeds };
        let series = plot.series.iter().enumerate();
        let series = series.map(|(index, series)| {
            let points = maker.points(&format!("{at}.series.{index}"), series)?;
            Ok(SeriesData { name: series.name.clone(), paper: series.paper, points })
        });
        Ok(PlotData {
            title: plot.title.clone(),
            kind: plot.kind,
            x: plot.x.clone(),
            y: plot.y.clone(),
            categories: plot.categories.clone(),
            note: plot.note.clone(),
            series: series.collect::<Result<_, _>>()?,
        })
    };
    spec.plots.iter().enumerate().map(plot).collect()
}

struct Maker<'a> {
    document: &'a Document,
    evaluator: &'a Evaluator,
    plot: &'a PlotSpec,
    over_seeds: OverSeeds,
}

impl Maker<'_> {
    fn points(&self, at: &str, series: &SeriesSpec) -> Result<Vec<PlotPoint>, ScenarioError> {
        let distribution = matches!(self.plot.kind, PlotKind::Cdf | PlotKind::Ccdf);
        match (&series.y, &series.values, &series.points) {
            (Some(y), None, None) if self.plot.kind == PlotKind::Bars => self.bars(at, y),
            (Some(Value::String(y)), None, None) if !distribution => self.along(at, series, y),
            (None, Some(values), None) if distribution => self.distribution(&format!("{at}.values"), values),
            (None, None, Some(points)) => self.pairs(&format!("{at}.points"), points),
            _ => {
                let why = if distribution {
                    "needs `values` (an expression), or `points`"
                } else {
                    "needs `y` (an expression), or `points`, and no other of these"
                };
                Err(self.document.error(at, why))
            }
        }
    }

    /// One value for each category.
    fn bars(&self, at: &str, y: &Value) -> Result<Vec<PlotPoint>, ScenarioError> {
        let at = format!("{at}.y");
        let categories = &self.plot.categories;
        let expressions: Option<Vec<&str>> = match y {
            Value::String(one) => Some(vec![one.as_str(); categories.len()]),
            Value::Array(each) if each.len() == categories.len() => each.iter().map(Value::as_str).collect(),
            _ => None,
        };
        let refuse = || self.document.error(&at, "must be an expression, or a list with one for each category");
        let expressions = expressions.ok_or_else(refuse)?;
        let bar = |(position, (text, category)): (usize, (&str, &String))| {
            let x = Scalar::Text(category.clone());
            self.value(&at, text, position as f64, &[], Some(&x))
        };
        expressions.into_iter().zip(categories).enumerate().map(bar).collect()
    }

    /// One value for each of x, along an axis or a list.
    fn along(&self, at: &str, series: &SeriesSpec, y: &str) -> Result<Vec<PlotPoint>, ScenarioError> {
        let axes = &self.evaluator.plan().axes;
        let y_at = format!("{at}.y");
        match (&series.over, &series.x) {
            (Some(over), None) => {
                let names: Vec<String> = axes.iter().map(|axis| axis.name.clone()).collect();
                let Some(axis) = axes.iter().find(|axis| axis.name == *over) else {
                    return Err(self.document.error(&format!("{at}.over"), suggest::unknown("axis", over, &names)));
                };
                let point = |(index, value): (usize, &super::axes::AxisValue)| {
                    let x = if let Scalar::Number(number) = value.value { number } else { index as f64 };
                    let bound = [(axis.name.clone(), value.value.clone())];
                    self.value(&y_at, y, x, &bound, Some(&value.value))
                };
                axis.values.iter().enumerate().map(point).collect()
            }
            (None, Some(x)) => {
                let numbers = numbers_of(self.document, &format!("{at}.x"), x)?;
                numbers.into_iter().map(|x| self.value(&y_at, y, x, &[], Some(&Scalar::Number(x)))).collect()
            }
            _ => Err(self.document.error(at, "needs `over` (an axis) or `x` (values), and not both")),
        }
    }

    fn value(
        &self,
        at: &str,
        text: &str,
        x: f64,
        bound: &[(String, Scalar)],
        variable: Option<&Scalar>,
    ) -> Result<PlotPoint, ScenarioError> {
        let refuse = |why: String| self.document.error(at, why);
        let Evaluated { outcome, by_seed, .. } =
            self.evaluator.evaluate(text, self.over_seeds, bound, variable).map_err(refuse)?;
        match outcome {
            Outcome::Number(y) => Ok(PlotPoint { x, y, spread: spread(&by_seed) }),
            Outcome::Unknown => Ok(PlotPoint { x, y: f64::NAN, spread: None }),
            _ => Err(refuse("does not give a number".to_owned())),
        }
    }

    /// The steps of the distribution of values, of all seeds together.
    fn distribution(&self, at: &str, text: &str) -> Result<Vec<PlotPoint>, ScenarioError> {
        let refuse = |why: &str| self.document.error(at, why);
        let evaluated = self.evaluator.evaluate(text, OverSeeds::Pooled, &[], None).map_err(|why| refuse(&why))?;
        let mut values = match evaluated.outcome {
            Outcome::List(values) => values,
            Outcome::Unknown => Vec::new(),
            _ => return Err(refuse("does not give a list of numbers")),
        };
        values.retain(|value| value.is_finite());
        values.sort_unstable_by(f64::total_cmp);
        let all = values.len() as f64;
        let point = |(rank, x): (usize, f64)| {
            let at_or_below = (rank + 1) as f64 / all;
            let y = if self.plot.kind == PlotKind::Cdf { at_or_below } else { 1.0 - at_or_below };
            PlotPoint { x, y, spread: None }
        };
        Ok(values.into_iter().enumerate().map(point).collect())
    }

    fn pairs(&self, at: &str, points: &Value) -> Result<Vec<PlotPoint>, ScenarioError> {
        let refuse = |why: &str| self.document.error(at, why);
        let pairs = match points {
            Value::String(text) => match self.evaluator.evaluate_first(text).map_err(|why| refuse(&why))? {
                Outcome::Pairs(pairs) => pairs,
                Outcome::List(empty) if empty.is_empty() => Vec::new(),
                Outcome::Unknown => Vec::new(),
                _ => return Err(refuse("does not give a list of pairs")),
            },
            Value::Array(items) => {
                let pair = |item: &Value| match numbers_of(self.document, at, item)?[..] {
                    [x, y] => Ok((x, y)),
                    _ => Err(refuse("must be a list of pairs [x, y]")),
                };
                items.iter().map(pair).collect::<Result<_, _>>()?
            }
            _ => return Err(refuse("must be an expression or a list of pairs [x, y]")),
        };
        Ok(pairs.into_iter().map(|(x, y)| PlotPoint { x, y, spread: None }).collect())
    }
}
