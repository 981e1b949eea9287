//! What a table shows: one run of each variant, or means over several seeds with their changes.

use super::measures::{Better, Format, Measure, SHARE_KEPT, number};
use crate::results::comparison::ComparisonRow;
use crate::results::repetition::{Change, Repeated};
use crate::results::statistics::Estimate;

pub(super) enum Shown<'a> {
    Once(Vec<ComparisonRow>),
    Repeated(&'a Repeated),
}

impl Shown<'_> {
    pub(super) fn rows(&self) -> &[ComparisonRow] {
        match self {
            Self::Once(rows) => rows,
            Self::Repeated(repeated) => repeated.rows(),
        }
    }

    /// A measure of row `index`: of several seeds the mean, a lower bound if one of them is.
    pub(super) fn value(&self, measure: &Measure, index: usize) -> Option<Estimate> {
        match self {
            Self::Once(rows) => measure.value(&rows[index]),
            Self::Repeated(repeated) => {
                let value = repeated.mean(index, |row| measure.value(row).map(|estimate| estimate.value))?;
                let is_bound = |row: &ComparisonRow| measure.value(row).is_some_and(|estimate| estimate.lower_bound);
                Some(Estimate { value, lower_bound: repeated.of_row(index).any(is_bound) })
            }
        }
    }

    /// How a measure of row `index` changes against the first variant, over several seeds. Nothing can be said of lower
    /// bounds.
    pub(super) fn change(&self, measure: &Measure, index: usize) -> Option<Change> {
        let Self::Repeated(repeated) = self else { return None };
        let is_told = measure.title == SHARE_KEPT
            || (measure.better != Better::Neither && !matches!(measure.format, Format::Count | Format::Percent));
        let exact = |row: &ComparisonRow| {
            measure.value(row).filter(|estimate| !estimate.lower_bound).map(|estimate| estimate.value)
        };
        is_told.then(|| repeated.change(index, exact)).flatten()
    }

    /// The change in words: `−33 ±4 %`; `≈` where the interval holds zero; of a share its interval alone.
    pub(super) fn change_text(&self, measure: &Measure, index: usize) -> Option<String> {
        let change = self.change(measure, index)?;
        Some(if measure.title == SHARE_KEPT { format!("±{}", points(change.half_width())) } else { told(change) })
    }
}

/// A change in percent with its interval, or `≈`. An interval that is wide beside the change is lopsided, and told by its
/// ends.
pub(super) fn told(change: Change) -> String {
    if !change.is_seen() {
        return "≈".to_owned();
    }
    if change.change > 9.0 {
        return format!("×{}", number(1.0 + change.change));
    }
    if change.half_width() > 0.5 * change.change.abs() {
        return format!("{}…{} %", signed(change.low), signed(change.high));
    }
    format!("{} ±{} %", signed(change.change), points(change.half_width()))
}

fn signed(ratio: f64) -> String {
    format!("{}{}", if ratio < 0.0 { "−" } else { "+" }, points(ratio.abs()))
}

/// A ratio in percent, with one digit behind the point below 10.
fn points(ratio: f64) -> String {
    let percent = 100.0 * ratio;
    if percent < 9.95 { format!("{percent:.1}") } else { format!("{percent:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_with_their_intervals() {
        for (low, change, high, expected) in [
            (-0.38, -0.33, -0.28, "−33 ±5.0 %"),
            (0.05, 0.83, 2.31, "+5.0…+231 %"),
            (-0.1, 0.1, 0.3, "≈"),
            (0.0, 0.0, 0.0, "≈"),
            (9.0, 10.0, 11.0, "×11.0"),
        ] {
            assert_eq!(told(Change { change, low, high }), expected);
        }
    }
}
