//! The columns of the table of groups and variants, and how their numbers are printed.

use crate::results::comparison::ComparisonRow;
use crate::results::statistics::{Distribution, Estimate, FlowStatistics, ObjectStatistics, ShareStatistics};
use crate::results::table::{Column, ColumnUnit};
use crate::results::{FLOWS, FlowRow};

/// Title of the measure that is itself a ratio to the first variant.
pub(super) const SHARE_KEPT: &str = "share kept";

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
    /// Microseconds, printed in µs, ms or s.
    Time,
    /// Gbit/s, printed in bit/s to Gbit/s.
    Rate,
}

/// One column of the table.
pub(super) struct Measure {
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    pub(super) format: Format,
    pub(super) better: Better,
    /// Its place among the measures where not all find room, from 0.
    pub(super) rank: u8,
    value: fn(&ComparisonRow) -> Option<Estimate>,
}

impl Measure {
    /// Its value in `row`, unless there is none.
    pub(super) fn value(&self, row: &ComparisonRow) -> Option<Estimate> {
        (self.value)(row)
    }

    /// Whether it counts something of which there is none in any of `rows`.
    pub(super) fn is_all_zero(&self, rows: &[ComparisonRow]) -> bool {
        let is_zero = |row: &ComparisonRow| self.value(row).is_none_or(|estimate| estimate.value == 0.0);
        self.format == Format::Count && rows.iter().all(is_zero)
    }
}

/// Prints `value`, lower bounds with ≥.
pub(super) fn print(value: Option<Estimate>, format: Format) -> String {
    let Some(Estimate { value, lower_bound }) = value else { return "–".to_owned() };
    let number = match format {
        Format::Count => with_thousands(value),
        Format::Number => number(value),
        Format::Percent => format!("{} %", number(100.0 * value)),
        Format::Time => time(value),
        Format::Rate => rate(value),
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

/// `us` microseconds in the unit that needs no more than three digits before the point.
fn time(us: f64) -> String {
    match us.abs() {
        size if size < 999.5 => format!("{} µs", number(us)),
        size if size < 999.5e3 => format!("{} ms", number(us / 1e3)),
        _ => format!("{} s", number(us / 1e6)),
    }
}

/// `gbit_per_s` in the unit that needs no more than three digits before the point.
fn rate(gbit_per_s: f64) -> String {
    match gbit_per_s.abs() {
        0.0 => "0".to_owned(),
        size if size < 999.5e-9 => format!("{} bit/s", number(gbit_per_s * 1e9)),
        size if size < 999.5e-6 => format!("{} kbit/s", number(gbit_per_s * 1e6)),
        size if size < 0.9995 => format!("{} Mbit/s", number(gbit_per_s * 1e3)),
        _ => format!("{} Gbit/s", number(gbit_per_s)),
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

fn all(row: &ComparisonRow) -> &FlowStatistics {
    &row.group.all
}

fn objects(row: &ComparisonRow) -> Option<&ObjectStatistics> {
    row.group.objects.as_ref()
}

fn completion(row: &ComparisonRow) -> Option<&Distribution> {
    objects(row).map(|objects| &objects.completion_us)
}

/// Shares of a group whose contract promises one.
fn promised_share(row: &ComparisonRow) -> Option<&ShareStatistics> {
    row.group.all.fair_share.as_ref().filter(|_| row.group.min_share < 1.0)
}

/// Columns of flows whose sums the report shows, under their titles.
pub(super) const DROPS: &Column<FlowRow> = FLOWS.column("dropped_packets");
pub(super) const MARKS: &Column<FlowRow> = FLOWS.column("marked_packets");
pub(super) const TIMEOUTS: &Column<FlowRow> = FLOWS.column("timeouts");
pub(super) const RETRANSMISSIONS: &Column<FlowRow> = FLOWS.column("retransmitted_packets");

/// The unit that a number of a column is shown with, if its title does not say it.
pub(super) const fn unit_shown<R>(column: &Column<R>) -> &'static str {
    if matches!(column.unit, ColumnUnit::Packets) { "packets" } else { "" }
}

const fn measure(
    (rank, title, unit): (u8, &'static str, &'static str),
    format: Format,
    better: Better,
    value: fn(&ComparisonRow) -> Option<Estimate>,
) -> Measure {
    Measure { title, unit, format, better, rank, value }
}

/// All there are, in the order of their columns.
const MEASURES: [Measure; 19] = [
    measure((13, "objects", ""), Format::Count, Better::Neither, |row| objects(row).map(|all| count(all.objects))),
    measure((0, "object mean", ""), Format::Time, Better::Less, |row| completion(row).map(|time| time.mean)),
    measure((1, "object p99", ""), Format::Time, Better::Less, |row| completion(row).map(|time| time.p99)),
    measure((14, "flows", ""), Format::Count, Better::Neither, |row| Some(count(row.group.all.flows))),
    measure((5, "unfinished", ""), Format::Count, Better::Less, |row| Some(count(row.group.all.unfinished))),
    measure((2, "FCT mean", ""), Format::Time, Better::Less, |row| fct(row).map(|fct| fct.mean)),
    measure((15, "FCT p50", ""), Format::Time, Better::Less, |row| fct(row).map(|fct| fct.p50)),
    measure((3, "FCT p99", ""), Format::Time, Better::Less, |row| fct(row).map(|fct| fct.p99)),
    measure((16, "slowdown p50", "×"), Format::Number, Better::Less, |row| slowdown(row).map(|slowdown| slowdown.p50)),
    measure((4, "slowdown p99", "×"), Format::Number, Better::Less, |row| slowdown(row).map(|slowdown| slowdown.p99)),
    measure((10, "goodput", ""), Format::Rate, Better::More, |row| Some(exact(row.group.all.goodput_gbit_per_s))),
    measure((18, "of all bytes", ""), Format::Percent, Better::Neither, |row| {
        Some(exact(row.group.share_of_delivered))
    }),
    measure((6, SHARE_KEPT, ""), Format::Percent, Better::Neither, |row| row.share_kept.map(exact)),
    measure((7, "below promise", ""), Format::Percent, Better::Less, |row| {
        promised_share(row).map(|shares| exact(shares.below_min_share))
    }),
    measure((9, "least share", ""), Format::Percent, Better::Neither, |row| {
        promised_share(row).map(|shares| exact(shares.min))
    }),
    measure((11, DROPS.title, unit_shown(DROPS)), Format::Count, Better::Neither, |row| Some(count(all(row).drops))),
    measure((12, MARKS.title, unit_shown(MARKS)), Format::Count, Better::Neither, |row| Some(count(all(row).marks))),
    measure((8, TIMEOUTS.title, unit_shown(TIMEOUTS)), Format::Count, Better::Less, |row| {
        Some(count(all(row).timeouts))
    }),
    measure((17, RETRANSMISSIONS.title, unit_shown(RETRANSMISSIONS)), Format::Count, Better::Neither, |row| {
        Some(count(all(row).retransmissions))
    }),
];

/// The columns of a table of `rows` in so many variants: those that some row has a value of. Alone, a run keeps all of its
/// share.
pub(super) fn measures(rows: &[ComparisonRow], variants: usize) -> Vec<&'static Measure> {
    let is_told = |measure: &&Measure| match measure.title {
        SHARE_KEPT => variants > 1,
        title if title.starts_with("object") => rows.iter().any(|row| objects(row).is_some()),
        "below promise" | "least share" => rows.iter().any(|row| promised_share(row).is_some()),
        _ => true,
    };
    MEASURES.iter().filter(is_told).collect()
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
    fn times_have_the_unit_that_reads_best() {
        let printed = [0.0, 0.5, 157.2, 999.4, 999.6, 2_316.0, 31_268.0, 999_600.0, 12.5e6].map(time);
        assert_eq!(
            printed,
            ["0 µs", "0.50 µs", "157 µs", "999 µs", "1.00 ms", "2.32 ms", "31.3 ms", "1.00 s", "12.5 s"]
        );
    }

    #[test]
    fn rates_have_the_unit_that_reads_best() {
        let printed = [0.0, 1.5e-10, 2e-6, 999.4e-6, 0.0091, 0.9994, 0.9996, 93.81].map(rate);
        assert_eq!(
            printed,
            ["0", "0.15 bit/s", "2.00 kbit/s", "999 kbit/s", "9.10 Mbit/s", "999 Mbit/s", "1.00 Gbit/s", "93.8 Gbit/s"]
        );
    }

    /// No two measures want the same place.
    #[test]
    fn ranks_are_distinct() {
        let ranks: std::collections::BTreeSet<u8> = MEASURES.iter().map(|measure| measure.rank).collect();
        assert_eq!(ranks.len(), MEASURES.len());
    }

    #[test]
    fn lower_bounds_are_shown() {
        let value = Estimate { value: 0.5, lower_bound: true };
        assert_eq!(print(Some(value), Format::Percent), "≥ 50.0 %");
        assert_eq!(print(None, Format::Count), "–");
    }
}
