//! Variants run with several seeds: what differs between them, and how sure that is.
//!
//! Every variant runs with the same seeds, so with the same arrivals, and each seed gives one change against the first
//! variant. The interval of their mean is Student's: with five seeds a percentile bootstrap holds the true change in 85 % of
//! cases where it should in 95.

use serde::Serialize;

use super::comparison::{ComparisonRow, Variant, compare_statistics};
use super::statistics::{GroupStatistics, by_group};

/// Two-sided 95 % quantiles of Student's distribution, from one degree of freedom on.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// A relative change against the first variant, as a ratio less 1, and its 95 % interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Change {
    /// The change of the geometric mean over the seeds: -0.33 is a third less.
    pub change: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Change {
    /// Of pairs of a value in the first variant and the value with the same seed. `None` of fewer than two, and of values
    /// that are not above 0, which have no ratio.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        if pairs.len() < 2 || pairs.iter().any(|&(first, value)| first <= 0.0 || value <= 0.0) {
            return None;
        }
        let logarithms: Vec<f64> = pairs.iter().map(|&(first, value)| (value / first).ln()).collect();
        let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
        let half = half_interval(&logarithms)?;
        let [change, low, high] = [mean, mean - half, mean + half].map(f64::exp_m1);
        Some(Self { change, low, high })
    }

    /// Whether the interval leaves out zero: chance alone makes that in one case of twenty.
    pub fn is_seen(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// Half the width of the interval.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// Half of the 95 % interval of the mean of several values, Student's; `None` of fewer than two.
pub fn half_interval(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    // Beyond the table: the normal distribution's, and the first term of what Student's has more.
    let student = STUDENT.get(values.len() - 2).copied().unwrap_or(1.96 + 2.4 / (count - 1.0));
    Some(student * (squares / (count - 1.0) / count).sqrt())
}

/// Variants of one scenario, each run with the same seeds.
#[derive(Clone, Debug, Default)]
pub struct Repeated {
    seeds: Vec<u64>,
    /// The table of each seed; all have the same rows.
    tables: Vec<Vec<ComparisonRow>>,
}

impl Repeated {
    /// Adds a seed's runs, one for each variant. They need not be kept for it: see [`SeedRuns`].
    pub fn add(&mut self, seed: u64, runs: &SeedRuns<'_>) {
        let table = compare_statistics(runs.labels, &runs.statistics);
        self.seeds.push(seed);
        self.tables.push(table);
    }

    /// The seeds, in the order in which they were added.
    pub fn seeds(&self) -> &[u64] {
        &self.seeds
    }

    /// The rows of the first seed: those of all.
    pub fn rows(&self) -> &[ComparisonRow] {
        self.tables.first().map_or(&[], Vec::as_slice)
    }

    /// Row `index` of all seeds.
    pub fn of_row(&self, index: usize) -> impl Iterator<Item = &ComparisonRow> {
        self.tables.iter().filter_map(move |table| table.get(index))
    }

    /// The row of the first variant for the group of row `index`, unless that is it.
    fn reference(&self, index: usize) -> Option<usize> {
        let name = &self.rows()[index].group.name;
        let first = self.rows().iter().position(|row| &row.group.name == name)?;
        (first != index && self.rows()[first].variant_index == 0).then_some(first)
    }

    /// How `value` of row `index` changes against the first variant. `None` for the first variant itself, and where a seed
    /// has no value.
    pub fn change(&self, index: usize, value: impl Fn(&ComparisonRow) -> Option<f64>) -> Option<Change> {
        let first = self.reference(index)?;
        let values = |row: usize| self.of_row(row).map(&value).collect::<Option<Vec<f64>>>();
        let pairs: Vec<(f64, f64)> = values(first)?.into_iter().zip(values(index)?).collect();
        (pairs.len() == self.seeds.len()).then(|| Change::of(&pairs)).flatten()
    }

    /// Mean of `value` of row `index` over the seeds; `None` where a seed has none.
    pub fn mean(&self, index: usize, value: impl Fn(&ComparisonRow) -> Option<f64>) -> Option<f64> {
        let values = self.of_row(index).map(value).collect::<Option<Vec<f64>>>()?;
        (values.len() == self.seeds.len()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

/// The runs of one seed: what of them is compared, in the order of the variants.
#[derive(Clone, Debug)]
pub struct SeedRuns<'a> {
    labels: &'a [String],
    statistics: Vec<Vec<GroupStatistics>>,
}

impl<'a> SeedRuns<'a> {
    /// Of the statistics of each variant, whose labels these are.
    ///
    /// # Panics
    ///
    /// Unless there is a label for each.
    pub fn new(labels: &'a [String], statistics: Vec<Vec<GroupStatistics>>) -> Self {
        assert_eq!(labels.len(), statistics.len(), "a label for every variant");
        Self { labels, statistics }
    }

    /// Of whole runs.
    pub fn of(labels: &'a [String], variants: &[Variant<'_>]) -> Self {
        Self::new(labels, variants.iter().map(|variant| by_group(variant.result)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    /// By hand: logarithms of ratios 0.5, 0.6 and 0.72 are ln 0.6 and as much less and more; their standard error is
    /// ln 1.2 / √3, and 4.303 of these are the half interval.
    #[test]
    fn an_interval_by_hand() {
        let change = Change::of(&[(10.0, 5.0), (20.0, 12.0), (50.0, 36.0)]).unwrap();
        let half = 4.303 * 1.2f64.ln() / 3f64.sqrt();
        for (value, expected) in
            [(change.change, 0.6), (change.low, 0.6 * (-half).exp()), (change.high, 0.6 * half.exp())]
        {
            assert!((value + 1.0 - expected).abs() < 1e-12, "{change:?}");
        }
        assert!(change.is_seen());
        assert_eq!(Change::of(&[(1.0, 2.0)]), None, "one seed has no interval");
        assert_eq!(Change::of(&[(1.0, 2.0), (0.0, 1.0)]), None);
        let same = Change::of(&[(3.0, 3.0), (4.0, 4.0)]).unwrap();
        assert!(!same.is_seen() && same.half_width() == 0.0);
    }

    /// The same scenario under other seeds has a true difference of zero: of 500 comparisons of five seeds with five
    /// others, at most 5 % call it different.
    #[test]
    fn what_does_not_differ_is_seldom_called_different() {
        let text = r#"
            name = "zero"
            duration = "2ms"
            drain = "1ms"
            topology = { kind = "star", hosts = 4, link = { rate = "10Gbit/s", delay = "1us" } }
            [traffic.search]
            kind = "poisson"
            size = "20kB"
            load = 0.5
            transport = "dctcp"
        "#;
        let measures: Vec<[f64; 2]> = (0..5_000u64)
            .map(|seed| {
                let overrides = crate::scenario::Override::parse("--seeds", &format!("seed={seed}")).unwrap();
                let scenario = Scenario::parse(text, std::path::Path::new("zero.toml")).unwrap();
                let resolved = scenario.with(&[overrides]).unwrap().resolve().unwrap();
                let run = crate::run::run(&resolved, &std::sync::atomic::AtomicBool::default(), &mut |_| ()).unwrap();
                let groups = by_group(&run);
                let fct = groups[0].all.fct_us.unwrap();
                [fct.mean.value, fct.p99.value]
            })
            .collect();
        for measure in [0, 1] {
            let different = measures.chunks(10).filter(|ten| {
                let pairs: Vec<(f64, f64)> = (0..5).map(|pair| (ten[pair][measure], ten[5 + pair][measure])).collect();
                Change::of(&pairs).unwrap().is_seen()
            });
            let different = different.count();
            assert!(different <= 25, "measure {measure}: {different} of 500");
        }
    }
}
