//! Axes: keys of a scenario that take several values.

use toml::Value;

use super::spec::AxisSpec;
use crate::scenario::file::document::Document;
use crate::scenario::{Override, ScenarioError, number_range};
use crate::suggest;

/// An axis and its values.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) name: String,
    pub(super) values: Vec<AxisValue>,
    /// Index of the value that stands where none is named.
    pub(super) default: Option<usize>,
}

/// One value of an axis.
#[derive(Clone, Debug)]
pub(super) struct AxisValue {
    pub(super) value: Scalar,
    /// What it changes in the scenario.
    pub(super) overrides: Vec<Override>,
}

/// A number or a text.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Scalar {
    Number(f64),
    Text(String),
}

impl Scalar {
    pub(super) fn of_value(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(number) => Some(Self::Number(*number as f64)),
            Value::Float(number) => Some(Self::Number(*number)),
            Value::String(text) => Some(Self::of_text(text)),
            Value::Boolean(truth) => Some(Self::Text(truth.to_string())),
            _ => None,
        }
    }

    /// A text that is a number is one.
    pub(super) fn of_text(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Text(text.to_owned()), Self::Number)
    }

    /// Whether both are the same, numbers up to rounding.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
            (Self::Text(a), Self::Text(b)) => a == b,
            _ => false,
        }
    }
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Axis {
    /// The axis `name` of a file; `chosen` are the values of a size, at the key `chosen_at`.
    pub(super) fn new(
        document: &Document,
        name: &str,
        spec: &AxisSpec,
        chosen: Option<(&Value, String)>,
    ) -> Result<Self, ScenarioError> {
        let at = format!("axes.{name}");
        let mut values = if spec.points.is_empty() {
            let own = spec.values.as_ref().map(|values| (values, format!("{at}.values")));
            let Some((values, values_at)) = chosen.or(own) else {
                return Err(document.error(&at, "has neither `values` nor `points`"));
            };
            let keys = keys(document, &at, spec)?;
            values_of(document, &values_at, values)?
                .into_iter()
                .map(|value| {
                    let place = document.place(&values_at);
                    let set = |key: &String| Override { key: key.clone(), value: value.clone(), place: place.clone() };
                    let scalar = Scalar::of_value(&value)
                        .ok_or_else(|| document.error(&values_at, "has values that are neither numbers nor texts"))?;
                    Ok(AxisValue { value: scalar, overrides: keys.iter().map(set).collect() })
                })
                .collect::<Result<Vec<_>, ScenarioError>>()?
        } else {
            if let Some(unused) = ["key", "values"].into_iter().find(|key| document.gives(&format!("{at}.{key}"))) {
                return Err(document.error(&format!("{at}.{unused}"), "does not go with `points`"));
            }
            let points = spec.points.iter().map(|(point, table)| AxisValue {
                value: Scalar::of_text(point),
                overrides: Override::all_in(document, &format!("{at}.points.{point}"), table),
            });
            kept(document, points.collect(), chosen)?
        };
        if values.is_empty() {
            return Err(document.error(&at, "has no value"));
        }
        let twice = (1..values.len()).find(|&at| values[..at].iter().any(|other| other.value.is(&values[at].value)));
        if let Some(twice) = twice {
            return Err(document.error(&at, format!("has `{}` twice", values.swap_remove(twice).value)));
        }
        let default = match &spec.default {
            None => None,
            Some(given) => {
                let scalar = Scalar::of_value(given);
                let found =
                    values.iter().position(|value| scalar.as_ref().is_some_and(|scalar| scalar.is(&value.value)));
                Some(found.ok_or_else(|| document.error(&format!("{at}.default"), "is none of the axis's values"))?)
            }
        };
        Ok(Self { name: name.to_owned(), values, default })
    }

    /// The index of a value; the error lists those there are.
    pub(super) fn position(&self, value: &Scalar) -> Result<usize, String> {
        self.values.iter().position(|own| own.value.is(value)).ok_or_else(|| {
            let all: Vec<String> = self.values.iter().map(|own| own.value.to_string()).collect();
            suggest::unknown(&format!("value of axis `{}`", self.name), &value.to_string(), &all)
        })
    }
}

fn keys(document: &Document, at: &str, spec: &AxisSpec) -> Result<Vec<String>, ScenarioError> {
    let texts = |items: &[Value]| items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
    let keys = match &spec.key {
        None => return Err(document.error(&format!("{at}.key"), "is missing")),
        Some(Value::String(key)) => Some(vec![key.clone()]),
        Some(Value::Array(items)) => texts(items),
        Some(_) => None,
    };
    keys.ok_or_else(|| document.error(&format!("{at}.key"), "must be a key or a list of keys"))
}

/// The points that a size keeps.
fn kept(
    document: &Document,
    points: Vec<AxisValue>,
    chosen: Option<(&Value, String)>,
) -> Result<Vec<AxisValue>, ScenarioError> {
    let Some((chosen, at)) = chosen else { return Ok(points) };
    let names: Vec<String> = points.iter().map(|point| point.value.to_string()).collect();
    let keep = values_of(document, &at, chosen)?;
    let keep = keep.iter().map(|value| {
        let scalar = Scalar::of_value(value).ok_or_else(|| document.error(&at, "is no list of values"))?;
        let found = points.iter().find(|point| point.value.is(&scalar)).cloned();
        found.ok_or_else(|| document.error(&at, suggest::unknown("value", &scalar.to_string(), &names)))
    });
    keep.collect()
}

/// The values of a list or of `"START:STOP:STEP"`.
pub(super) fn values_of(document: &Document, at: &str, values: &Value) -> Result<Vec<Value>, ScenarioError> {
    match values {
        Value::Array(items) => Ok(items.clone()),
        Value::String(text) => match number_range(text) {
            Some(Ok(numbers)) => Ok(numbers.iter().map(|text| number(text)).collect()),
            Some(Err(why)) => Err(document.error(at, why)),
            None => Err(document.error(at, format!("\"{text}\" is not of the form START:STOP:STEP"))),
        },
        _ => Err(document.error(at, "must be a list or \"START:STOP:STEP\"")),
    }
}

fn number(text: &str) -> Value {
    text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<f64>().map(Value::from)).expect("a printed number")
}

/// Numbers of a list or of `"START:STOP:STEP"`.
pub(super) fn numbers_of(document: &Document, at: &str, values: &Value) -> Result<Vec<f64>, ScenarioError> {
    let number = |value: &Value| match Scalar::of_value(value) {
        Some(Scalar::Number(number)) => Ok(number),
        _ => Err(document.error(at, "must hold numbers")),
    };
    values_of(document, at, values)?.iter().map(number).collect()
}
