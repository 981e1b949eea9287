//! What is taken of lists of numbers.

use rhai::{Array, Dynamic, Engine, ImmutableString};

use super::flows::numbers;
use super::values::{Statistic, exact, number};
use crate::experiment::context::{Failure, lacking};
use crate::oracle::fairness;

/// The numbers of a list that has some.
fn some(list: &Array) -> Result<Vec<f64>, Failure> {
    if list.is_empty() { Err(lacking("the list is empty")) } else { numbers(list) }
}

pub(super) fn register_statistic(engine: &mut Engine) {
    engine.register_fn("statistic", |list: &mut Array, which: ImmutableString| {
        let values = some(list)?.into_iter().map(exact).collect();
        Ok::<f64, Failure>(Statistic::parse(&which)?.of(values).value)
    });
}

pub(super) fn register_sum(engine: &mut Engine) {
    engine.register_fn("sum", |list: &mut Array| Ok::<f64, Failure>(numbers(list)?.iter().sum()));
}

/// The fraction of the list's elements below a limit.
pub(super) fn register_share_below(engine: &mut Engine) {
    engine.register_fn("share_below", |list: &mut Array, limit: Dynamic| {
        let limit = number(&limit).ok_or_else(|| Failure::from("the limit is not a number"))?;
        let values = some(list)?;
        Ok::<f64, Failure>(values.iter().filter(|&&value| value < limit).count() as f64 / values.len() as f64)
    });
}

pub(super) fn register_jain(engine: &mut Engine) {
    engine.register_fn("jain", |list: &mut Array| Ok::<f64, Failure>(fairness::jain(&some(list)?)));
}
