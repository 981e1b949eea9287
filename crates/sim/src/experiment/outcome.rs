//! What became of a figure and its claims.

use super::claims::{Quantity, Verdict};
use super::class::Class;
use super::no_mechanism::NoMechanism;
use super::plots::PlotData;

/// What became of a figure.
#[derive(Clone, PartialEq, Debug)]
pub struct FigureOutcome {
    /// The paper's name.
    pub paper: String,
    /// The figure's name.
    pub figure: String,
    /// What it shows.
    pub title: String,
    /// The paper's section.
    pub section: String,
    /// The set-up.
    pub setup: String,
    /// What is smaller than in the paper.
    pub scaled: Option<String>,
    /// Number of seeds.
    pub seeds: usize,
    /// The claims, in the file's order.
    pub claims: Vec<ClaimOutcome>,
    /// The plots, in the file's order.
    pub plots: Vec<PlotData>,
}

/// What became of a claim.
#[derive(Clone, PartialEq, Debug)]
pub struct ClaimOutcome {
    /// What the paper says.
    pub claim: String,
    /// The paper's value.
    pub paper: Quantity,
    /// Ours.
    pub ours: Quantity,
    /// Unit of both.
    pub unit: String,
    /// The smallest and largest of all seeds, of a number and more than one seed.
    pub spread: Option<(f64, f64)>,
    /// Whether flows still under way count with the time they have taken so far.
    pub lower_bound: bool,
    /// Whether they agree.
    pub verdict: Verdict,
    /// What is smaller than in the paper.
    pub scaled: Option<String>,
    /// Why ours differs, if it does and somebody knows.
    pub why: Option<String>,
    /// What kind of reason that is.
    pub class: Option<Class>,
    /// What the paper says causes it, and ours without it.
    pub mechanism: Option<Mechanism>,
    /// Why there is no mechanism to switch off.
    pub no_mechanism: Option<NoMechanism>,
    /// Whether CI holds it.
    pub ci: bool,
    /// Ours by values of settings that the paper leaves unsaid.
    pub sensitivity: Vec<Sensitivity>,
}

/// What a paper says causes what it claims, and whether the claim needs it here.
#[derive(Clone, PartialEq, Debug)]
pub struct Mechanism {
    /// What the paper names.
    pub name: String,
    /// How it was switched off.
    pub off: String,
    /// Ours without it.
    pub ours: Quantity,
    /// Whether that is within the claim's tolerance.
    pub agrees: bool,
}

/// Ours at one value of a setting.
#[derive(Clone, PartialEq, Debug)]
pub struct Sensitivity {
    /// The setting.
    pub axis: String,
    /// Its value.
    pub value: String,
    /// Ours there.
    pub ours: Quantity,
    /// Whether that is within the claim's tolerance.
    pub agrees: bool,
}
