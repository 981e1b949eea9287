//! The verdicts of earlier reproductions, and the document made of them.
//!
//! `docs/reproduction.json` has, for each figure and size, what was found when it was last reproduced. From it
//! `docs/reproduction.md` and a page for each paper, `docs/results/PAPER.md`, are written, and CI reads what it must not fall
//! behind.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::class::BEYOND;
use super::on_testbed::TestbedRecords;
use super::text::{TAKES_ALL, UNEXPLAINED, cell, to_json};
use super::{ClaimOutcome, Class, Experiment, FigureOutcome, NoMechanism, Quantity, Size, Verdict};
use crate::scenario::ScenarioError;

/// Everything recorded.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Records {
    /// Paper, figure, size.
    figures: BTreeMap<String, BTreeMap<String, BTreeMap<String, FigureRecord>>>,
}

/// A figure as it was reproduced once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FigureRecord {
    /// The version of Pliant.
    pub version: String,
    /// What it shows.
    pub title: String,
    /// The paper's section.
    pub section: String,
    /// The set-up.
    pub setup: String,
    /// Number of seeds.
    pub seeds: usize,
    /// The claims.
    pub claims: Vec<ClaimRecord>,
}

/// A claim as it was found once.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// What the paper says.
    pub claim: String,
    /// The paper's value, printed.
    pub paper: String,
    /// Ours, printed.
    pub ours: String,
    /// Whether they agree.
    pub verdict: Verdict,
    /// What was smaller than in the paper.
    pub scaled: Option<String>,
    /// Why ours differs.
    pub why: Option<String>,
    /// What kind of reason that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// What the paper says causes it, and ours without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<MechanismRecord>,
    /// Why there is no mechanism to switch off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_mechanism: Option<NoMechanism>,
    /// By settings that the paper leaves unsaid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sensitivity: Vec<SensitivityRecord>,
}

/// What a paper says causes what it claims, and ours without it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MechanismRecord {
    /// What the paper names.
    pub name: String,
    /// How it was switched off.
    pub off: String,
    /// Ours without it, printed.
    pub ours: String,
    /// Whether the claim holds without it.
    pub agrees: bool,
}

/// Ours at one value of a setting.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SensitivityRecord {
    /// The setting and its value.
    pub setting: String,
    /// Ours, printed.
    pub ours: String,
    /// Whether that is within the claim's tolerance.
    pub agrees: bool,
}

impl ClaimOutcome {
    /// Ours as people read it: its range over the seeds, and whether flows were still under way.
    pub fn print_ours(&self) -> String {
        let mut text = self.ours.print(&self.unit);
        if let Some((least, most)) = self.spread {
            let ends = [least, most].map(|end| super::print_number(Some(end)));
            write!(text, " ({} to {})", ends[0], ends[1]).expect("a string takes all");
        }
        if self.lower_bound && !matches!(self.ours, Quantity::Truth(_)) {
            text.push_str(", flows unfinished");
        }
        text
    }

    /// The verdict with what is to be said of it.
    pub fn remark(&self) -> String {
        let holds_without = self.mechanism.as_ref().map(|mechanism| mechanism.agrees);
        remark(self.verdict, self.class, holds_without)
    }

    /// Whether it is a check of ours: the paper has no value for it.
    pub fn is_check(&self) -> bool {
        matches!(&self.paper, Quantity::Text(text) if text == NOT_GIVEN)
    }

    fn mechanism_record(&self) -> Option<MechanismRecord> {
        self.mechanism.as_ref().map(|mechanism| MechanismRecord {
            name: mechanism.name.clone(),
            off: mechanism.off.clone(),
            ours: mechanism.ours.print(&self.unit),
            agrees: mechanism.agrees,
        })
    }

    fn record(&self) -> ClaimRecord {
        let setting = |row: &super::Sensitivity| SensitivityRecord {
            setting: format!("{} = {}", row.axis, row.value),
            ours: row.ours.print(&self.unit),
            agrees: row.agrees,
        };
        ClaimRecord {
            claim: self.claim.clone(),
            paper: self.paper.print(&self.unit),
            ours: self.print_ours(),
            verdict: self.verdict,
            scaled: self.scaled.clone(),
            why: self.why.clone(),
            class: self.class,
            mechanism: self.mechanism_record(),
            no_mechanism: self.no_mechanism,
            sensitivity: self.sensitivity.iter().map(setting).collect(),
        }
    }
}

/// What stands for the paper's value where the paper has none.
const NOT_GIVEN: &str = "not given";

/// The verdict, with the class of what differs, and whether what agrees does so without the paper's mechanism.
fn remark(verdict: Verdict, class: Option<Class>, holds_without: Option<bool>) -> String {
    match (verdict, class, holds_without) {
        (Verdict::Differs, None, _) => UNEXPLAINED.to_owned(),
        (Verdict::Differs, Some(class), _) => format!("differs: {}", class.title()),
        (verdict, _, Some(true)) => format!("{}, for another reason", verdict.name()),
        (verdict, ..) => verdict.name().to_owned(),
    }
}

impl ClaimRecord {
    /// Whether it is a check of ours: the paper has no value for it.
    pub fn is_check(&self) -> bool {
        self.paper == NOT_GIVEN
    }

    fn remark(&self) -> String {
        let said = remark(self.verdict, self.class, self.mechanism.as_ref().map(|mechanism| mechanism.agrees));
        if self.is_check() { format!("check: {said}") } else { said }
    }

    /// Why it differs, or whether what agrees needs the mechanism that the paper gives.
    fn why_in_words(&self) -> String {
        match (&self.why, &self.mechanism, self.no_mechanism) {
            (Some(why), ..) => why.clone(),
            (None, Some(MechanismRecord { name, off, ours, agrees }), _) => {
                let then = if *agrees { "it holds all the same" } else { "it does not hold" };
                format!("Without {name} ({off}) {then}: {ours}.")
            }
            (None, None, Some(none)) => format!("No mechanism to switch off: {}.", none.title()),
            (None, None, None) => String::new(),
        }
    }
}

impl Records {
    /// Reads what [`to_json`](Self::to_json) wrote.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// The records as a file.
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// Takes a figure's outcome in place of the one of this size before.
    pub fn insert(&mut self, outcome: &FigureOutcome, size: Size) {
        let record = FigureRecord {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            title: outcome.title.clone(),
            section: outcome.section.clone(),
            setup: outcome.setup.clone(),
            seeds: outcome.seeds,
            claims: outcome.claims.iter().map(ClaimOutcome::record).collect(),
        };
        let figures = self.figures.entry(outcome.paper.clone()).or_default();
        figures.entry(outcome.figure.clone()).or_default().insert(size.name().to_owned(), record);
    }

    /// Takes what a figure's claims give without their mechanism into the record of this size. An error, and nothing
    /// taken, if a claim, which is computed with it too, gives something else than is recorded.
    pub fn insert_audit(&mut self, outcome: &FigureOutcome, size: Size) -> Result<(), String> {
        let (paper, figure) = (&outcome.paper, &outcome.figure);
        let sizes = self.figures.get_mut(paper).and_then(|figures| figures.get_mut(figure));
        let Some(record) = sizes.and_then(|sizes| sizes.get_mut(size.name())) else {
            return Err(format!("{paper} {figure}: nothing is recorded at the {} size", size.name()));
        };
        let mut taken = record.claims.clone();
        for claim in &outcome.claims {
            let refuse = |what: &str| format!("{paper} {figure}, \"{}\": {what}", claim.claim);
            let recorded = taken.iter_mut().find(|recorded| recorded.claim == claim.claim);
            let recorded = recorded.ok_or_else(|| refuse("is not recorded"))?;
            let ours = claim.print_ours();
            if (&recorded.ours, recorded.verdict) != (&ours, claim.verdict) {
                return Err(refuse(&format!("is {ours} now, recorded is {}", recorded.ours)));
            }
            (recorded.mechanism, recorded.no_mechanism) = (claim.mechanism_record(), None);
        }
        record.claims = taken;
        Ok(())
    }

    /// Whether anything is recorded of a figure at a size.
    pub fn has(&self, paper: &str, figure: &str, size: Size) -> bool {
        self.record(paper, figure, size).is_some()
    }

    /// Whether what is recorded of a figure are other claims than its file makes.
    pub fn is_outdated(&self, experiment: &Experiment) -> bool {
        let record = self.record(&experiment.paper, &experiment.figure, experiment.size);
        record
            .is_some_and(|record| !record.claims.iter().map(|claim| claim.claim.as_str()).eq(experiment.claim_texts()))
    }

    /// Brings the words of a figure's record up to those of its file, which change without a run. Returns whether the
    /// record was forgotten, since [it is outdated](Self::is_outdated).
    pub fn refresh(&mut self, experiment: &Experiment) -> Result<bool, ScenarioError> {
        let (outdated, size) = (self.is_outdated(experiment), experiment.size.name());
        let figures = self.figures.get_mut(&experiment.paper);
        let Some(sizes) = figures.and_then(|figures| figures.get_mut(&experiment.figure)) else { return Ok(false) };
        if outdated {
            sizes.remove(size);
            return Ok(true);
        }
        let Some(record) = sizes.get_mut(size) else { return Ok(false) };
        record.title.clone_from(&experiment.spec.title);
        record.section.clone_from(&experiment.spec.section);
        experiment.spec.setup.trim().clone_into(&mut record.setup);
        for (index, claim) in record.claims.iter_mut().enumerate() {
            claim.why = experiment.why(index)?.filter(|_| claim.verdict == Verdict::Differs);
            let spec = &experiment.spec.claims[index];
            claim.class = spec.class.filter(|_| claim.verdict == Verdict::Differs);
            claim.no_mechanism = spec.mechanism.as_ref().and_then(|mechanism| mechanism.none);
            // What was computed without another mechanism, or by another switch, says nothing of this one.
            let switched = spec.mechanism.as_ref().filter(|mechanism| mechanism.is_switched());
            let switched = switched.map(|mechanism| (mechanism.name.clone(), mechanism.off_in_words()));
            claim.mechanism =
                claim.mechanism.take().filter(|old| Some((old.name.clone(), old.off.clone())) == switched);
        }
        Ok(false)
    }

    fn record(&self, paper: &str, figure: &str, size: Size) -> Option<&FigureRecord> {
        self.figures.get(paper)?.get(figure)?.get(size.name())
    }

    /// Forgets the figures that `exists` does not know.
    pub fn retain(&mut self, exists: impl Fn(&str, &str) -> bool) {
        for (paper, figures) in &mut self.figures {
            figures.retain(|figure, _| exists(paper, figure));
        }
        self.figures.retain(|_, figures| !figures.is_empty());
    }

    /// The papers of which something was recorded.
    pub fn papers(&self) -> impl Iterator<Item = &str> {
        self.figures.keys().map(String::as_str)
    }

    /// The verdict recorded for a claim at a size.
    pub fn verdict(&self, paper: &str, figure: &str, size: Size, claim: &str) -> Option<Verdict> {
        let record = self.record(paper, figure, size)?;
        record.claims.iter().find(|record| record.claim == claim).map(|record| record.verdict)
    }

    /// The document: how many claims of each paper came out, and what testbeds found of no paper's figure. Of a figure that was
    /// reproduced at both sizes the full one counts.
    pub fn to_markdown(&self, testbed: &TestbedRecords) -> String {
        let mut text = String::from(
            "# Reproduction\n\nWhat papers say, what Pliant finds, and whether these agree. Written by `pliant reproduce \
             --write-docs docs/reproduction.md`;\nthe claims and their tolerances are in `experiments/`, \
             [experiments.md](experiments.md) explains them. Each paper has a page.\n\n**Reproduced**: within the claim's \
             tolerance. **At reduced scale**: within it, at a size smaller than the paper's. **Not reproduced**: not within \
             it, because of an **unstated parameter** of the paper; because the **paper's simulator** does not do what its \
             text says; because the **paper** is **inconsistent**; because the claim is our **own expectation**, which no paper \
             states, and was wrong; or for a reason that is **ours** or not known. **For another \
             reason**: it agrees, but also where the mechanism that the paper gives is switched off.\n**Check**: a claim of \
             ours about something that the paper leaves open and has no value for.\n\n\
             **On the testbed** is what `pliant testbed record` found: processes on a real network against the same \
             scenario in the simulator.\n",
        );
        let chosen: Vec<(&str, Vec<Chosen<'_>>)> =
            self.figures.iter().map(|(paper, figures)| (paper.as_str(), chosen(figures))).collect();
        text.push_str(
            "\n| paper | figures | reproduced | at reduced scale | not reproduced | check | of them beyond the paper |\n\
             |---|---|---|---|---|---|---|\n",
        );
        for (paper, figures) in &chosen {
            let counts = counts(figures).map(|count| count.to_string()).join(" | ");
            let beyond = figures.iter().filter(|(_, _, record)| record.section.contains(BEYOND));
            let beyond: usize = beyond.map(|(_, _, record)| record.claims.len()).sum();
            writeln!(text, "| [{paper}](results/{paper}.md) | {} | {counts} | {beyond} |", figures.len())
                .expect(TAKES_ALL);
        }
        text.push_str("\n| why claims differ |");
        for class in Class::ALL {
            write!(text, " {} |", class.title()).expect(TAKES_ALL);
        }
        writeln!(text, " not yet explained |\n|---|{}", "---|".repeat(Class::ALL.len() + 1)).expect(TAKES_ALL);
        let mut sums = [0; Class::ALL.len() + 1];
        for (paper, figures) in &chosen {
            let counts = classes(figures);
            class_row(&mut text, paper, &counts);
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        class_row(&mut text, "all", &sums);
        let claims = || chosen.iter().flat_map(|(_, figures)| figures).flat_map(|(_, _, record)| &record.claims);
        let within = || claims().filter(|claim| claim.verdict.is_within());
        text.push_str(&audit(&within().collect::<Vec<_>>()));
        text.push_str(&testbed.section());
        text
    }

    /// A page for each paper, by its name: what differs, how many claims of each figure came out, and every claim.
    pub fn paper_pages(&self, testbed: &TestbedRecords) -> Vec<(&str, String)> {
        let mut pages = Vec::new();
        for (paper, figures) in &self.figures {
            let figures = chosen(figures);
            let mut text = format!(
                "# {paper}: claims and what came of them\n\n{PAGE_MARK}; \
                 [reproduction.md](../reproduction.md) says what the\ncolumns mean. Settings that a paper leaves unsaid were \
                 varied: `pliant reproduce {paper} FIGURE --out DIR` draws each figure\nand lists ours by setting.\n\n\
                 | figure | reproduced | at reduced scale | not reproduced | check |\n|---|---|---|---|---|\n"
            );
            for figure in &figures {
                let (name, _, record) = figure;
                let counts = counts(std::slice::from_ref(figure)).map(|count| count.to_string()).join(" | ");
                let title = cell(&record.title);
                writeln!(text, "| [{name}](#{}): {title} | {counts} |", anchor(name, &record.title)).expect(TAKES_ALL);
            }
            let all = counts(&figures).map(|count| count.to_string()).join(" | ");
            writeln!(text, "| all | {all} |").expect(TAKES_ALL);
            text.push_str(&not_reproduced(&figures));
            for (figure, size, record) in figures {
                figure_section(&mut text, paper, figure, size, record);
                text.push_str(&testbed.figure_section(paper, figure));
            }
            pages.push((paper.as_str(), text));
        }
        pages
    }
}

/// Of how many claims that agree the mechanism was switched off, and what the others are.
fn audit(within: &[&ClaimRecord]) -> String {
    let audited: Vec<_> = within.iter().filter_map(|claim| claim.mechanism.as_ref()).collect();
    let another = audited.iter().filter(|mechanism| mechanism.agrees).count();
    let mut text = format!(
        "\nOf {} claims that agree, {} were computed again with the mechanism switched off that the paper gives; {another} \
         hold without it.\n",
        within.len(),
        audited.len(),
    );
    let without: Vec<_> = within.iter().filter(|claim| claim.mechanism.is_none()).collect();
    let of = |none| without.iter().filter(|claim| claim.no_mechanism == none).count();
    let counts = NoMechanism::ALL.map(|none| (none, of(Some(none)))).into_iter().filter(|(_, claims)| *claims > 0);
    let reasons: Vec<String> = counts.map(|(none, claims)| none.count(claims)).collect();
    let (none, left) = (without.len() - of(None), of(None));
    if none > 0 {
        writeln!(text, "{none} have none to switch off: {}.", reasons.join(", ")).expect(TAKES_ALL);
    }
    if left > 0 {
        writeln!(text, "{left} are not audited.").expect(TAKES_ALL);
    }
    text
}

/// The claims that differ, with why.
fn not_reproduced(figures: &[Chosen<'_>]) -> String {
    let mut text = String::new();
    for (figure, _, record) in figures {
        for claim in record.claims.iter().filter(|claim| claim.verdict == Verdict::Differs) {
            let why = claim.why.as_deref().unwrap_or(UNEXPLAINED);
            let cells = [*figure, &*claim.claim, &claim.paper, &claim.ours, why].map(cell).join(" | ");
            writeln!(text, "| {cells} |").expect(TAKES_ALL);
        }
    }
    if text.is_empty() {
        return text;
    }
    format!("\n## Not reproduced\n\n| figure | claim | paper | ours | why |\n|---|---|---|---|---|\n{text}")
}

/// The anchor of a figure's heading, as GitHub makes it.
fn anchor(figure: &str, title: &str) -> String {
    let heading = format!("{figure}: {title}").to_lowercase().replace(' ', "-");
    heading.chars().filter(|&c| c.is_alphanumeric() || c == '-' || c == '_').collect()
}

/// What tells a page of [`Records::paper_pages`] from one that somebody wrote.
pub const PAGE_MARK: &str = "Written by `pliant reproduce --write-docs docs/reproduction.md`";

/// A figure, and the size whose record counts.
type Chosen<'a> = (&'a str, &'static str, &'a FigureRecord);

fn chosen(figures: &BTreeMap<String, BTreeMap<String, FigureRecord>>) -> Vec<Chosen<'_>> {
    let preferred = [Size::Full.name(), Size::Quick.name()];
    let choice = |sizes| preferred.into_iter().find_map(|size| Some((size, BTreeMap::get(sizes, size)?)));
    figures
        .iter()
        .filter_map(|(figure, sizes)| choice(sizes).map(|(size, record)| (figure.as_str(), size, record)))
        .collect()
}

/// Claims that agree, agree at a smaller size, differ, and checks.
fn counts(figures: &[Chosen<'_>]) -> [usize; 4] {
    let claims = || figures.iter().flat_map(|(_, _, record)| &record.claims);
    let [agree, scaled, differ] = [Verdict::Agrees, Verdict::Scaled, Verdict::Differs]
        .map(|verdict| claims().filter(|claim| claim.verdict == verdict && !claim.is_check()).count());
    [agree, scaled, differ, claims().filter(|claim| claim.is_check()).count()]
}

/// Claims that differ, by class, and those without one.
fn classes(figures: &[Chosen<'_>]) -> [usize; Class::ALL.len() + 1] {
    let differing = figures.iter().flat_map(|(_, _, record)| &record.claims);
    let mut counts = [0; Class::ALL.len() + 1];
    for claim in differing.filter(|claim| claim.verdict == Verdict::Differs) {
        counts[claim.class.map_or(Class::ALL.len(), |class| class as usize)] += 1;
    }
    counts
}

fn class_row(text: &mut String, name: &str, counts: &[usize]) {
    let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
    writeln!(text, "| {name} | {} |", counts.join(" | ")).expect(TAKES_ALL);
}

fn figure_section(text: &mut String, paper: &str, figure: &str, size: &str, record: &FigureRecord) {
    let seeds = if record.seeds == 1 { "one seed".to_owned() } else { format!("{} seeds", record.seeds) };
    let full = if size == "full" { " --full" } else { "" };
    write!(
        text,
        "\n## {figure}: {}\n\nSection {}. {}\n\n`pliant reproduce {paper} {figure}{full}`, {seeds}, Pliant {}.\n\n\
         | claim | paper | ours | verdict | why |\n|---|---|---|---|---|\n",
        record.title, record.section, record.setup, record.version
    )
    .expect(TAKES_ALL);
    let mut scaled: Vec<&str> = Vec::new();
    // What differs comes first.
    let mut claims: Vec<&ClaimRecord> = record.claims.iter().collect();
    claims.sort_by_key(|claim| claim.verdict.is_within());
    for claim in claims {
        let cells = [&claim.claim, &claim.paper, &claim.ours, &claim.remark(), &claim.why_in_words()];
        let cells = cells.map(|text| cell(text));
        writeln!(text, "| {} |", cells.join(" | ")).expect(TAKES_ALL);
        scaled.extend(claim.scaled.as_deref().filter(|sentence| !scaled.contains(sentence)));
    }
    for sentence in scaled {
        write!(text, "\nScaled: {sentence}\n").expect(TAKES_ALL);
    }
}
