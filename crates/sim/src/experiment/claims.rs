//! What a paper says, what came out here, and whether these agree.

use serde::{Deserialize, Serialize};
use toml::Value;

use super::evaluate::Outcome;
use super::spec::ClaimSpec;
use crate::scenario::ScenarioError;
use crate::scenario::file::document::Document;
use crate::suggest;

/// A ratio agrees within this part, unless the claim says otherwise.
const DEFAULT_TOLERANCE: f64 = 0.2;

/// Whether ours agrees with the paper's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It does not.
    Differs,
    /// It does, at a size smaller than the paper's.
    Scaled,
    /// It does.
    Agrees,
}

impl Verdict {
    /// Its name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Differs => "differs",
            Self::Scaled => "scaled",
            Self::Agrees => "agrees",
        }
    }

    /// Whether ours is within the tolerance, at whatever size.
    pub fn is_within(self) -> bool {
        self != Self::Differs
    }
}

/// What a paper says or what came out: a number, a list, a truth, or text.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "must be a number, a list of numbers, true, false or text")]
pub enum Quantity {
    /// Whether an ordering holds.
    Truth(bool),
    /// A number; none where it is not finite.
    Number(Option<f64>),
    /// Several.
    List(Vec<Option<f64>>),
    /// What the paper prints where it prints no number.
    Text(String),
}

impl Quantity {
    pub(super) fn of(outcome: &Outcome) -> Option<Self> {
        let finite = |number: f64| Some(number).filter(|number| number.is_finite());
        match outcome {
            Outcome::Number(number) => Some(Self::Number(finite(*number))),
            Outcome::List(numbers) => Some(Self::List(numbers.iter().copied().map(finite).collect())),
            Outcome::Truth(truth) => Some(Self::Truth(*truth)),
            Outcome::Unknown => Some(Self::Number(None)),
            Outcome::Pairs(_) => None,
        }
    }

    /// As people read it, with its unit.
    pub fn print(&self, unit: &str) -> String {
        let text = match self {
            Self::Truth(true) => return "holds".to_owned(),
            Self::Truth(false) => return "does not hold".to_owned(),
            Self::Text(text) => return text.clone(),
            Self::Number(value) => print_number(*value),
            Self::List(values) => values.iter().copied().map(print_number).collect::<Vec<_>>().join(", "),
        };
        if unit.is_empty() { text } else { format!("{text} {unit}") }
    }
}

/// Four significant digits, without zeros at the end.
pub fn print_number(value: Option<f64>) -> String {
    let Some(value) = value else { return "none".to_owned() };
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-4..7).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let text = format!("{value:.*}", (3 - magnitude).max(0) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// When ours agrees.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Tolerance {
    Relative(f64),
    Absolute(f64),
    AtMost(f64),
    AtLeast(f64),
    Between(f64, f64),
    Rising,
    Falling,
    /// It is true.
    True,
}

/// A claim, checked.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Claim {
    pub(super) paper: Quantity,
    /// None for truths, which only ours tells apart from numbers.
    tolerance: Option<Tolerance>,
}

impl Claim {
    /// The claim that stands at the key `at`.
    pub(super) fn new(document: &Document, at: &str, spec: &ClaimSpec) -> Result<Self, ScenarioError> {
        let paper_at = format!("{at}.paper");
        let paper = match &spec.paper {
            Value::String(text) => Quantity::Text(text.clone()),
            value => match (number(value), numbers(value)) {
                (Some(number), _) => Quantity::Number(Some(number)),
                (None, Some(list)) => Quantity::List(list.into_iter().map(Some).collect()),
                _ => return Err(document.error(&paper_at, "must be a number, a list of numbers, or text")),
            },
        };
        let tolerance = match &spec.tolerance {
            Some(value) => Some(tolerance(document, &format!("{at}.tolerance"), value)?),
            None => match paper {
                Quantity::Number(_) | Quantity::List(_) => Some(Tolerance::Relative(DEFAULT_TOLERANCE)),
                _ => None,
            },
        };
        let relates = matches!(tolerance, Some(Tolerance::Relative(_) | Tolerance::Absolute(_)));
        if relates && matches!(paper, Quantity::Text(_)) {
            return Err(document.error(&paper_at, "must be a number, which the tolerance relates ours to"));
        }
        let is_zero = match &paper {
            Quantity::Number(number) => *number == Some(0.0),
            Quantity::List(numbers) => numbers.contains(&Some(0.0)),
            _ => false,
        };
        if is_zero && matches!(tolerance, Some(Tolerance::Relative(_))) {
            return Err(document.error(&paper_at, "is 0, of which there is no part: give an absolute tolerance"));
        }
        Ok(Self { paper, tolerance })
    }

    /// Whether ours agrees; an error if it is of another kind than the tolerance.
    pub(super) fn is_met(&self, ours: &Outcome) -> Result<bool, String> {
        use Outcome::{List, Number, Truth};
        let met = match (self.tolerance.as_ref().unwrap_or(&Tolerance::True), ours) {
            (_, Outcome::Unknown) => true,
            (Tolerance::True, Truth(truth)) => *truth,
            (Tolerance::Rising, List(list)) => list.windows(2).all(|pair| pair[1] > pair[0]),
            (Tolerance::Falling, List(list)) => list.windows(2).all(|pair| pair[1] < pair[0]),
            (Tolerance::AtMost(most), Number(_) | List(_)) => elements(ours).iter().all(|ours| ours <= most),
            (Tolerance::AtLeast(least), Number(_) | List(_)) => elements(ours).iter().all(|ours| ours >= least),
            (Tolerance::Between(least, most), Number(_) | List(_)) => {
                elements(ours).iter().all(|ours| (least..=most).contains(&ours))
            }
            (Tolerance::Relative(part), _) => {
                self.each_is_near(ours, |ours, paper| (ours / paper - 1.0).abs() <= *part)?
            }
            (Tolerance::Absolute(most), _) => self.each_is_near(ours, |ours, paper| (ours - paper).abs() <= *most)?,
            (Tolerance::True, _) => return Err("is a number: give a `tolerance`, or compare it with something".into()),
            (Tolerance::Rising | Tolerance::Falling, _) => return Err("is no list, whose order could be told".into()),
            (_, Truth(_)) => return Err("is true or false, which goes without a `tolerance`".into()),
            (_, Outcome::Pairs(_)) => return Err("is a list of pairs, which a plot draws and no claim compares".into()),
        };
        Ok(met)
    }

    fn each_is_near(&self, ours: &Outcome, near: impl Fn(f64, f64) -> bool) -> Result<bool, String> {
        let paper: Vec<f64> = match &self.paper {
            Quantity::Number(number) => number.iter().copied().collect(),
            Quantity::List(numbers) => numbers.iter().flatten().copied().collect(),
            _ => Vec::new(),
        };
        let ours = match ours {
            Outcome::Number(_) | Outcome::List(_) => elements(ours),
            _ => return Err("is neither a number nor a list of numbers, as the paper's value is".into()),
        };
        if ours.len() != paper.len() {
            return Err(format!("has {} values, the paper's {}", ours.len(), paper.len()));
        }
        Ok(ours.iter().zip(&paper).all(|(&ours, &paper)| near(ours, paper)))
    }
}

fn elements(outcome: &Outcome) -> &[f64] {
    match outcome {
        Outcome::Number(number) => std::slice::from_ref(number),
        Outcome::List(numbers) => numbers,
        _ => &[],
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|number| number as f64)).filter(|number| number.is_finite())
}

fn numbers(value: &Value) -> Option<Vec<f64>> {
    value.as_array().filter(|items| !items.is_empty())?.iter().map(number).collect()
}

fn tolerance(document: &Document, at: &str, value: &Value) -> Result<Tolerance, ScenarioError> {
    const NAMES: [&str; 5] = ["relative", "absolute", "at_most", "at_least", "between"];
    let refuse = |why: &str| document.error(at, why);
    let above_zero = |number: f64| {
        if number > 0.0 { Ok(number) } else { Err(refuse("must be above 0")) }
    };
    if let Some(part) = number(value) {
        return above_zero(part).map(Tolerance::Relative);
    }
    match value {
        Value::String(order) if order == "rising" => Ok(Tolerance::Rising),
        Value::String(order) if order == "falling" => Ok(Tolerance::Falling),
        Value::Table(table) if table.len() == 1 => {
            let (name, limit) = table.iter().next().expect("it has one");
            if !NAMES.contains(&name.as_str()) {
                return Err(refuse(&suggest::unknown("tolerance", name, &NAMES.map(str::to_owned))));
            }
            if name == "between" {
                return match numbers(limit).as_deref() {
                    Some([least, most]) if least <= most => Ok(Tolerance::Between(*least, *most)),
                    _ => Err(refuse("`between` takes two numbers, the smaller first")),
                };
            }
            let limit = number(limit).ok_or_else(|| refuse(&format!("`{name}` takes a number")))?;
            match name.as_str() {
                "relative" => above_zero(limit).map(Tolerance::Relative),
                "absolute" => above_zero(limit).map(Tolerance::Absolute),
                "at_most" => Ok(Tolerance::AtMost(limit)),
                _ => Ok(Tolerance::AtLeast(limit)),
            }
        }
        _ => Err(refuse(
            "must be a number, \"rising\", \"falling\", or a table with one of relative, absolute, at_most, at_least, \
             between",
        )),
    }
}
