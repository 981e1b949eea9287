//! What scenarios found on a testbed beside the simulator: recorded in a file of its own, and told of in the document
//! under the figures that they are scaled forms of.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::text::{self, TAKES_ALL, UNEXPLAINED, cell};
use super::{Verdict, print_number};

/// Everything recorded of testbeds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestbedRecords {
    /// Claims, those of a scenario together.
    claims: Vec<TestbedRecord>,
}

/// A measure of a scenario as it was found once, in the simulator and on a testbed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestbedRecord {
    /// Name of the scenario, and of its variant; empty if it has none.
    pub scenario: String,
    /// The variant.
    pub variant: String,
    /// Figures of papers that it is a scaled form of: `PAPER FIGURE`.
    pub figures: Vec<String>,
    /// What is measured, in words.
    pub claim: String,
    /// Unit of both values.
    pub unit: String,
    /// Median over all runs in the simulator.
    pub simulator: f64,
    /// Median over all runs on the testbed that were not overloaded; none if all were.
    pub testbed: Option<f64>,
    /// Least and most of these.
    pub range: Option<[f64; 2]>,
    /// How far the ratio of both may be from 1.
    pub tolerance: f64,
    /// Why it is further.
    pub why: Option<String>,
    /// Runs on the testbed, and how many of them were overloaded, which are no results.
    pub runs: u32,
    /// Overloaded ones.
    pub overloaded: u32,
    /// Fraction of all processors that was idle, the median over the runs.
    pub idle: f64,
    /// The version of Pliant.
    pub version: String,
}

impl TestbedRecord {
    /// The testbed's value over the simulator's.
    pub fn ratio(&self) -> Option<f64> {
        self.testbed.filter(|_| self.simulator != 0.0).map(|testbed| testbed / self.simulator)
    }

    /// Whether the ratio is within the tolerance; none if there is no ratio.
    pub fn verdict(&self) -> Option<Verdict> {
        let off = (self.ratio()? - 1.0).abs();
        Some(if off <= self.tolerance { Verdict::Agrees } else { Verdict::Differs })
    }

    /// The verdict with what is to be said of it.
    pub fn remark(&self) -> String {
        match (self.verdict(), &self.why) {
            (None, _) => "no result: overloaded".to_owned(),
            (Some(Verdict::Differs), None) => UNEXPLAINED.to_owned(),
            (Some(verdict), _) => verdict.name().to_owned(),
        }
    }

    /// Simulator, testbed with its range, and their ratio, as people read them.
    pub fn print_values(&self) -> [String; 3] {
        let mut testbed = print_number(self.testbed);
        if let Some([least, most]) = self.range.filter(|[least, most]| least < most) {
            let ends = [least, most].map(|end| print_number(Some(end)));
            write!(testbed, " ({} to {})", ends[0], ends[1]).expect(TAKES_ALL);
        }
        if !self.unit.is_empty() {
            write!(testbed, " {}", self.unit).expect(TAKES_ALL);
        }
        [print_number(Some(self.simulator)), testbed, self.ratio().map_or("none".to_owned(), |r| format!("{r:.2}"))]
    }
}

impl TestbedRecords {
    /// Reads what [`to_json`](Self::to_json) wrote.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// The records as a file.
    pub fn to_json(&self) -> String {
        text::to_json(self)
    }

    /// Takes all claims of a scenario in place of those before.
    pub fn insert(&mut self, scenario: &str, claims: Vec<TestbedRecord>) {
        self.claims.retain(|claim| claim.scenario != scenario);
        self.claims.extend(claims);
    }

    /// Forgets the scenarios that `exists` does not know.
    pub fn retain(&mut self, exists: impl Fn(&str) -> bool) {
        self.claims.retain(|claim| exists(&claim.scenario));
    }

    /// What testbeds found of a figure, as a part of its section; empty if nothing was recorded.
    pub(super) fn figure_section(&self, paper: &str, figure: &str) -> String {
        let name = format!("{paper} {figure}");
        let claims: Vec<&TestbedRecord> = self.claims.iter().filter(|claim| claim.figures.contains(&name)).collect();
        table(&claims)
    }

    /// A section for what belongs to no figure.
    pub(super) fn section(&self) -> String {
        let claims: Vec<&TestbedRecord> = self.claims.iter().filter(|claim| claim.figures.is_empty()).collect();
        if claims.is_empty() {
            return String::new();
        }
        format!("\n## Testbed\n\nWhat belongs to no paper's figure.\n{}", table(&claims))
    }
}

fn table(claims: &[&TestbedRecord]) -> String {
    let Some(first) = claims.first() else { return String::new() };
    let mut scenarios: Vec<&str> = claims.iter().map(|claim| claim.scenario.as_str()).collect();
    scenarios.dedup();
    let files: Vec<String> = scenarios.iter().map(|name| format!("`experiments/testbed/{name}.toml`")).collect();
    let (runs, overloaded) = (first.runs, claims.iter().map(|claim| claim.overloaded).max().unwrap_or(0));
    let mut text = format!(
        "\nOn the testbed ({}, medians of {runs} runs, at most {overloaded} of them overloaded and left out; Pliant {}):\n\n\
         | claim | simulator | testbed | ratio | verdict | why |\n|---|---|---|---|---|---|\n",
        files.join(", "),
        first.version
    );
    for claim in claims {
        let [simulator, testbed, ratio] = claim.print_values();
        let cells = [&claim.claim, &simulator, &testbed, &ratio, &claim.remark()].map(|text| cell(text));
        let why = claim.why.as_deref().filter(|_| claim.verdict() == Some(Verdict::Differs));
        writeln!(text, "| {} | {} |", cells.join(" | "), cell(why.unwrap_or_default())).expect(TAKES_ALL);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(testbed: Option<f64>) -> TestbedRecord {
        TestbedRecord {
            scenario: "theta".to_owned(),
            variant: String::new(),
            figures: vec!["paper fig1".to_owned()],
            claim: "mean queue".to_owned(),
            unit: "packets".to_owned(),
            simulator: 20.0,
            testbed,
            range: testbed.map(|testbed| [testbed - 1.0, testbed + 1.0]),
            tolerance: 0.1,
            why: None,
            runs: 3,
            overloaded: 0,
            idle: 0.5,
            version: "1".to_owned(),
        }
    }

    /// The tolerance is of the ratio, both ends included; a run that was no result has no verdict.
    #[test]
    fn verdicts_follow_the_ratio() {
        let verdict = |testbed| record(testbed).verdict();
        assert_eq!(verdict(Some(21.9)), Some(Verdict::Agrees));
        assert_eq!(verdict(Some(18.1)), Some(Verdict::Agrees));
        assert_eq!(verdict(Some(22.1)), Some(Verdict::Differs));
        assert_eq!(verdict(None), None);
        assert_eq!(record(Some(30.0)).remark(), UNEXPLAINED);
        assert_eq!(record(None).remark(), "no result: overloaded");
    }

    /// A scenario recorded again takes the place of what it was; its table stands under its figure only.
    #[test]
    fn tables_stand_under_their_figures() {
        let mut records = TestbedRecords::default();
        records.insert("theta", vec![record(Some(30.0))]);
        records.insert("theta", vec![record(Some(20.5))]);
        let text = records.figure_section("paper", "fig1");
        assert!(text.contains("| mean queue | 20 | 20.5 (19.5 to 21.5) packets | 1.02 | agrees |  |"), "{text}");
        let why = Some("it rained".to_owned());
        records.insert("theta", vec![TestbedRecord { why, ..record(Some(30.0)) }]);
        assert!(records.figure_section("paper", "fig1").contains("| 1.50 | differs | it rained |"));
        assert_eq!(text.matches("mean queue").count(), 1);
        assert_eq!(records.figure_section("paper", "fig10"), "");
        assert_eq!(records.section(), "");
        records
            .insert("two", vec![TestbedRecord { figures: Vec::new(), scenario: "two".into(), ..record(Some(20.0)) }]);
        assert!(records.section().contains("experiments/testbed/two.toml"));
        assert_eq!(TestbedRecords::parse(&records.to_json()).unwrap(), records);
        records.retain(|scenario| scenario == "theta");
        assert_eq!(records.section(), "");
    }
}
