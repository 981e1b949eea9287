//! The keys of an experiment file.

use std::collections::BTreeMap;

use super::class::Class;
use super::no_mechanism::NoMechanism;
use indexmap::IndexMap;
use serde::Deserialize;
use toml::{Table, Value};

/// A whole experiment file.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExperimentSpec {
    /// What the figure shows.
    pub(super) title: String,
    /// The paper's section.
    pub(super) section: String,
    /// The set-up, in our own words.
    pub(super) setup: String,
    /// A scenario's keys, or the path of a file that has them.
    pub(super) scenario: Option<Value>,
    /// Files that [`missing_data`](crate::workload::missing_data) looks for.
    #[serde(default)]
    pub(super) data: Vec<String>,
    #[serde(default)]
    pub(super) runs: IndexMap<String, RunSpec>,
    #[serde(default)]
    pub(super) axes: IndexMap<String, AxisSpec>,
    #[serde(default = "one_seed")]
    pub(super) seeds: Vec<u64>,
    #[serde(default)]
    pub(super) over_seeds: OverSeeds,
    /// Constants for expressions.
    #[serde(default)]
    pub(super) parameters: Table,
    /// The path of a file of further constants, which were measured elsewhere.
    pub(super) measured: Option<String>,
    #[serde(default)]
    pub(super) quick: SizeSpec,
    #[serde(default)]
    pub(super) full: SizeSpec,
    pub(super) claims: Vec<ClaimSpec>,
    #[serde(default)]
    pub(super) plots: Vec<PlotSpec>,
}

fn one_seed() -> Vec<u64> {
    vec![1]
}

/// A table `[runs.NAME]`.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RunSpec {
    pub(super) set: Table,
    /// Names of axes.
    pub(super) over: Vec<String>,
}

/// A table `[axes.NAME]`: `key` and `values`, or `points`.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct AxisSpec {
    /// A key or a list of keys.
    pub(super) key: Option<Value>,
    /// A list, or `"START:STOP:STEP"`.
    pub(super) values: Option<Value>,
    /// Overrides by value.
    pub(super) points: IndexMap<String, Table>,
    pub(super) default: Option<Value>,
}

/// How values of several seeds become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum OverSeeds {
    /// The mean of what each seed gives.
    #[default]
    Mean,
    /// Once, over what all seeds have.
    Pooled,
}

/// The tables `[quick]` and `[full]`.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SizeSpec {
    pub(super) set: Table,
    pub(super) seeds: Option<Vec<u64>>,
    /// Values in place of an axis's own.
    pub(super) axes: IndexMap<String, Value>,
    pub(super) parameters: Table,
    /// What is smaller than in the paper.
    pub(super) scaled: Option<String>,
}

/// A table `[[claims]]`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimSpec {
    pub(super) claim: String,
    /// A number, a list of numbers, or text.
    pub(super) paper: Value,
    #[serde(default)]
    pub(super) unit: String,
    pub(super) ours: String,
    pub(super) tolerance: Option<Value>,
    /// A text, or one for each size.
    pub(super) why: Option<Value>,
    /// What kind of reason `why` is.
    pub(super) class: Option<Class>,
    /// What the paper says causes it, and where that is switched off.
    pub(super) mechanism: Option<MechanismSpec>,
    pub(super) scaled: Option<String>,
    pub(super) over_seeds: Option<OverSeeds>,
    /// An axis or a list of axes.
    pub(super) sensitivity: Option<Value>,
    #[serde(default)]
    pub(super) ci: bool,
}

/// `mechanism` of a claim.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MechanismSpec {
    /// What the paper says causes it.
    #[serde(default)]
    pub(super) name: String,
    /// Why there is none to switch off.
    pub(super) none: Option<NoMechanism>,
    /// Values of axes, without it.
    #[serde(default)]
    pub(super) off: Table,
    /// Runs without it, by the name of the run that each replaces.
    #[serde(default)]
    pub(super) instead: BTreeMap<String, String>,
}

/// A table `[[plots]]`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlotSpec {
    pub(super) title: String,
    #[serde(default)]
    pub(super) kind: PlotKind,
    #[serde(default)]
    pub(super) x: PlotAxis,
    #[serde(default)]
    pub(super) y: PlotAxis,
    #[serde(default)]
    pub(super) categories: Vec<String>,
    #[serde(default)]
    pub(super) note: String,
    pub(super) series: Vec<SeriesSpec>,
}

/// How a plot is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlotKind {
    /// Points joined by lines.
    #[default]
    Lines,
    /// Points alone.
    Points,
    /// Bars by category.
    Bars,
    /// The fraction of values at or below x.
    Cdf,
    /// The fraction of values above x.
    Ccdf,
}

impl PlotKind {
    /// The word for it in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Points => "points",
            Self::Bars => "bars",
            Self::Cdf => "cdf",
            Self::Ccdf => "ccdf",
        }
    }
}

/// One axis of a plot.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlotAxis {
    /// Its title, with the unit.
    pub title: String,
    /// Whether it is logarithmic.
    pub log: bool,
    /// Where it begins.
    pub min: Option<f64>,
    /// Where it ends.
    pub max: Option<f64>,
}

/// A table `[[plots.series]]`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeriesSpec {
    pub(super) name: String,
    /// An axis along which x runs.
    pub(super) over: Option<String>,
    /// Values of x in place of an axis.
    pub(super) x: Option<Value>,
    /// An expression, or for bars a list of them.
    pub(super) y: Option<Value>,
    pub(super) values: Option<String>,
    /// An expression, or pairs.
    pub(super) points: Option<Value>,
    /// Whether the values were read off the paper.
    #[serde(default)]
    pub(super) paper: bool,
}
