//! Values that expressions give and take.

use pliant_proto::time::Span;
use pliant_proto::units::Bytes;
use rhai::Dynamic;

use crate::experiment::context::Failure;
use crate::results::statistics::{self, Estimate};

/// The number that `value` is.
pub(in crate::experiment) fn number(value: &Dynamic) -> Option<f64> {
    value.as_float().ok().or_else(|| value.as_int().ok().map(|number| number as f64))
}

/// A time: a text with its unit, or seconds.
pub(super) fn seconds(value: &Dynamic) -> Result<f64, Failure> {
    quantity(value, |text| text.parse::<Span>().ok().map(Span::as_secs_f64), "a time such as \"5ms\", or seconds")
}

/// A size: a text with its unit, or bytes.
pub(super) fn bytes(value: &Dynamic) -> Result<f64, Failure> {
    quantity(value, |text| text.parse::<Bytes>().ok().map(|bytes| bytes.0 as f64), "a size such as \"10kB\", or bytes")
}

fn quantity(value: &Dynamic, parse: fn(&str) -> Option<f64>, what: &str) -> Result<f64, Failure> {
    let text = value.clone().into_string();
    let found = number(value).or_else(|| parse(text.as_ref().ok()?));
    found.ok_or_else(|| format!("`{value}` is not {what}").as_str().into())
}

/// What is taken of many values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::experiment) enum Statistic {
    Mean,
    Min,
    Max,
    /// Standard deviation of the population.
    Deviation,
    /// In tenths of a percent, by nearest rank.
    Permille(usize),
}

impl Statistic {
    pub(in crate::experiment) fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "mean" => return Ok(Self::Mean),
            "min" => return Ok(Self::Min),
            "max" => return Ok(Self::Max),
            "std" => return Ok(Self::Deviation),
            _ => {}
        }
        let percent = text.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
        let permille =
            percent.map(|percent| percent * 10.0).filter(|permille| (permille - permille.round()).abs() < 1e-9);
        match permille.map(|permille| permille.round() as usize).filter(|permille| (1..=1000).contains(permille)) {
            Some(permille) => Ok(Self::Permille(permille)),
            None => Err(format!("`{text}` is no statistic: mean, min, max, std, or a percentile such as p99 or p99.9")
                .as_str()
                .into()),
        }
    }

    /// The statistic of `values`, of which there is at least one.
    pub(in crate::experiment) fn of(self, mut values: Vec<Estimate>) -> Estimate {
        assert!(!values.is_empty(), "a statistic of something");
        statistics::sort(&mut values);
        match self {
            Self::Min => values[0],
            Self::Max => Estimate {
                value: values[values.len() - 1].value,
                lower_bound: values.iter().any(|value| value.lower_bound),
            },
            Self::Permille(permille) => statistics::permille(&values, permille),
            Self::Mean => Estimate { value: mean(&values), lower_bound: values.iter().any(|value| value.lower_bound) },
            Self::Deviation => {
                let mean = mean(&values);
                let squares = values.iter().map(|estimate| (estimate.value - mean).powi(2)).sum::<f64>();
                // Of flows still under way nothing is known: neither a bound below nor one above.
                let lower_bound = values.iter().any(|value| value.lower_bound);
                Estimate { value: (squares / values.len() as f64).sqrt(), lower_bound }
            }
        }
    }
}

fn mean(values: &[Estimate]) -> f64 {
    values.iter().map(|estimate| estimate.value).sum::<f64>() / values.len() as f64
}

pub(super) fn exact(value: f64) -> Estimate {
    Estimate { value, lower_bound: false }
}
