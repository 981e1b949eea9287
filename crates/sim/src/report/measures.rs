//! The columns of the table of groups and variants, and how their numbers are printed.

use crate::results::comparison::ComparisonRow;
use crate::results::statistics::{Distribution, Estimate};

/// Which way is better, for colouring a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Better {
    Less,
    More,
    Neither,
}

/// How a value is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Format {
    /// Whole.
    Count,
    /// Three significant digits or more.
    Number,
    /// A ratio, in percent.
    Percent,
}

/// One column of the table.
pub(super) struct Measure {
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    pub(super) format: Format,
    pub(super) better: Better,
    value: fn(&ComparisonRow) -> Option<Estimate>,
}

impl Measure {
    /// Its value in `row`, unless there is none.
    pub(super) fn value(&self, row: &ComparisonRow) -> Option<Estimate> {
        (self.value)(row)
    }

    /// Its value in `row`, printed; a dash where there is none.
    pub(super) fn print(&self, row: &ComparisonRow) -> String {
        print(self.value(row), self.format)
    }
}

/// Prints `value`, lower bounds with ≥.
pub(super) fn print(value: Option<Estimate>, format: Format) -> String {
    let Some(Estimate { value, lower_bound }) = value else { return "–".to_owned() };
    let number = match format {
        Format::Count => with_thousands(value),
        Format::Number => number(value),
        Format::Percent => format!("{} %", number(100.0 * value)),
    };
    if lower_bound { format!("≥ {number}") } else { number }
}

/// Three significant digits or more: 0.12, 4.56, 78.9, 123, 45,678.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => with_thousands(value),
    }
}

/// `value` rounded to a whole number, with commas between thousands.
fn with_thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn count(value: u64) -> Estimate {
    exact(value as f64)
}

fn exact(value: f64) -> Estimate {
    Estimate { value, lower_bound: false }
}

fn fct(row: &ComparisonRow) -> Option<&Distribution> {
    row.group.all.fct_us.as_ref()
}

fn slowdown(row: &ComparisonRow) -> Option<&Distribution> {
    row.group.all.slowdown.as_ref()
}

const fn measure(
    title: &'static str,
    unit: &'static str,
    format: Format,
    better: Better,
    value: fn(&ComparisonRow) -> Option<Estimate>,
) -> Measure {
    Measure { title, unit, format, better, value }
}

/// The columns of a single run's table.
pub(super) const MEASURES: [Measure; 14] = [
    measure("flows", "", Format::Count, Better::Neither, |row| Some(count(row.group.all.flows))),
    measure("unfinished", "", Format::Count, Better::Less, |row| Some(count(row.group.all.unfinished))),
    measure("FCT mean", "µs", Format::Number, Better::Less, |row| fct(row).map(|fct| fct.mean)),
    measure("FCT p50", "µs", Format::Number, Better::Less, |row| fct(row).map(|fct| fct.p50)),
    measure("FCT p99", "µs", Format::Number, Better::Less, |row| fct(row).map(|fct| fct.p99)),
    measure("slowdown p50", "×", Format::Number, Better::Less, |row| slowdown(row).map(|slowdown| slowdown.p50)),
    measure("slowdown p99", "×", Format::Number, Better::Less, |row| slowdown(row).map(|slowdown| slowdown.p99)),
    measure("goodput", "Gbit/s", Format::Number, Better::More, |row| Some(exact(row.group.all.goodput_gbit_per_s))),
    measure("of all bytes", "", Format::Percent, Better::Neither, |row| Some(exact(row.group.share_of_delivered))),
    measure("share kept", "", Format::Percent, Better::Neither, |row| row.share_kept.map(exact)),
    measure("drops", "packets", Format::Count, Better::Neither, |row| Some(count(row.group.all.drops))),
    measure("marks", "packets", Format::Count, Better::Neither, |row| Some(count(row.group.all.marks))),
    measure("timeouts", "", Format::Count, Better::Less, |row| Some(count(row.group.all.timeouts))),
    measure("sent again", "packets", Format::Count, Better::Neither, |row| Some(count(row.group.all.retransmissions))),
];

/// The columns that a table of `variants` variants shows: alone, a run keeps all of its share.
pub(super) fn measures(variants: usize) -> impl Iterator<Item = &'static Measure> {
    MEASURES.iter().filter(move |measure| variants > 1 || measure.title != "share kept")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        let printed = [0.0, 0.123, 4.567, 9.996, 78.94, 99.96, 123.4, 45_678.0, 1_234_567.0].map(number);
        assert_eq!(printed, ["0", "0.12", "4.57", "10.0", "78.9", "100", "123", "45,678", "1,234,567"]);
        assert_eq!(number(-1234.0), "-1,234");
    }

    #[test]
    fn lower_bounds_are_shown() {
        let value = Estimate { value: 0.5, lower_bound: true };
        assert_eq!(print(Some(value), Format::Percent), "≥ 50.0 %");
        assert_eq!(print(None, Format::Count), "–");
    }
}
