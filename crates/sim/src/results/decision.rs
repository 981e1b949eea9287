//! Which variant meets a goal at the least cost.
//!
//! The user states a goal, `search.fct_p99 < 20ms`, and what it may cost, `copies.share_kept`. Of the candidates whose mean
//! over the seeds meets the goal, that with the best mean of the cost is chosen. The frontier are the candidates of which no
//! other is at least as good in both and better in one.

use std::fmt;

use pliant_proto::time::Span;
use pliant_proto::units::Rate;
use serde::Serialize;
use serde_json::Value;

use super::repetition::{Repeated, half_interval};
use crate::suggest;

/// A statistic of a traffic group that goals and costs may name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GoalMeasure {
    /// Its name: `fct_p99`.
    pub name: &'static str,
    /// What it is called in tables: `FCT p99`.
    pub title: &'static str,
    /// What its values are.
    pub unit: GoalUnit,
    /// Whether less is better.
    pub less_is_better: bool,
    /// Where the statistics of a group have its value.
    at: &'static str,
    /// Where they say that it is a lower bound; empty if it never is.
    bound_at: &'static str,
}

/// What the values of a measure are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GoalUnit {
    /// Microseconds, written as a time.
    Time,
    /// Gbit/s, written as a rate.
    Rate,
    /// A ratio, written as a number or a percentage.
    Ratio,
    /// A number.
    Number,
}

const fn measure(
    (name, title): (&'static str, &'static str),
    unit: GoalUnit,
    less_is_better: bool,
    (at, bound_at): (&'static str, &'static str),
) -> GoalMeasure {
    GoalMeasure { name, title, unit, less_is_better, at, bound_at }
}

/// Every measure of goals and costs.
pub const GOAL_MEASURES: [GoalMeasure; 13] = [
    measure(("fct_mean", "FCT mean"), GoalUnit::Time, true, ("/all/fct_us/mean/value", "/all/fct_us/mean/lower_bound")),
    measure(("fct_p50", "FCT p50"), GoalUnit::Time, true, ("/all/fct_us/p50/value", "/all/fct_us/p50/lower_bound")),
    measure(("fct_p95", "FCT p95"), GoalUnit::Time, true, ("/all/fct_us/p95/value", "/all/fct_us/p95/lower_bound")),
    measure(("fct_p99", "FCT p99"), GoalUnit::Time, true, ("/all/fct_us/p99/value", "/all/fct_us/p99/lower_bound")),
    measure(
        ("slowdown_mean", "slowdown mean"),
        GoalUnit::Number,
        true,
        ("/all/slowdown/mean/value", "/all/slowdown/mean/lower_bound"),
    ),
    measure(
        ("slowdown_p50", "slowdown p50"),
        GoalUnit::Number,
        true,
        ("/all/slowdown/p50/value", "/all/slowdown/p50/lower_bound"),
    ),
    measure(
        ("slowdown_p99", "slowdown p99"),
        GoalUnit::Number,
        true,
        ("/all/slowdown/p99/value", "/all/slowdown/p99/lower_bound"),
    ),
    measure(("goodput", "goodput"), GoalUnit::Rate, false, ("/all/goodput_gbit_per_s", "")),
    measure((SHARE_KEPT, "share kept"), GoalUnit::Ratio, false, ("/share_kept", "")),
    measure(("unfinished", "unfinished flows"), GoalUnit::Number, true, ("/all/unfinished", "")),
    measure(("drops", "drops"), GoalUnit::Number, true, ("/all/drops", "")),
    measure(("timeouts", "timeouts"), GoalUnit::Number, true, ("/all/timeouts", "")),
    measure(("retransmissions", "retransmissions"), GoalUnit::Number, true, ("/all/retransmissions", "")),
];

/// The measure that is relative to the first candidate.
const SHARE_KEPT: &str = "share_kept";

/// A measure of a group.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupMeasure {
    /// The traffic group.
    pub group: String,
    /// The measure.
    pub measure: &'static GoalMeasure,
}

/// A limit to a measure of a group: `search.fct_p99 < 20ms`.
#[derive(Clone, PartialEq, Debug)]
pub struct Goal {
    /// What is limited.
    pub of: GroupMeasure,
    /// Whether the limit is one from above.
    pub is_most: bool,
    /// The limit, in the measure's unit.
    pub limit: f64,
    /// The limit as the user wrote it.
    limit_text: String,
}

/// A goal, and what meeting it may cost.
#[derive(Clone, PartialEq, Debug)]
pub struct Wish {
    /// What must hold.
    pub goal: Goal,
    /// Of what holds it, the best in this is chosen.
    pub cost: GroupMeasure,
}

/// Something that may be chosen, as it was observed.
#[derive(Clone, PartialEq, Debug)]
pub struct Observed {
    /// Its name.
    pub name: String,
    /// Of each seed, the statistics of each group, with their name at `/name`.
    pub seeds: Vec<(u64, Vec<Value>)>,
}

/// A mean over seeds with half of its 95 % interval, if there are several.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Half of the interval.
    pub half_width: Option<f64>,
}

/// One candidate of a decision.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// What is limited.
    pub goal: Mean,
    /// What it costs.
    pub cost: Mean,
    /// Whether the goal's mean is no more than a lower bound, since flows were under way at the end.
    pub is_bound: bool,
    /// Whether it meets the goal.
    pub meets: bool,
    /// Whether no other is at least as good in both and better in one.
    pub on_frontier: bool,
    #[serde(skip)]
    costs: Vec<f64>,
}

/// What follows from a wish.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// The wish.
    pub wish: Wish,
    /// Every candidate that has a value of both, in their order.
    pub candidates: Vec<Candidate>,
    /// The one that is chosen, unless none meets the goal.
    pub chosen: Option<usize>,
    /// Sentences about candidates that could not be looked at.
    pub left_out: Vec<String>,
}

impl GoalMeasure {
    /// Its value in the statistics of a group, and whether it is a lower bound.
    pub fn read(&self, group: &Value) -> Option<(f64, bool)> {
        let is_bound = group.pointer(self.bound_at).is_some_and(|bound| *bound == true);
        Some((group.pointer(self.at)?.as_f64()?, is_bound))
    }
}

impl GroupMeasure {
    /// Reads `GROUP.MEASURE`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let names = || GOAL_MEASURES.iter().map(|measure| measure.name);
        let Some((group, name)) = text.rsplit_once('.').filter(|(group, _)| !group.is_empty()) else {
            return Err(format!("`{text}` is not of the form GROUP.MEASURE, such as search.fct_p99"));
        };
        let measure = GOAL_MEASURES.iter().find(|measure| measure.name == name);
        let measure =
            measure.ok_or_else(|| format!("no measure is called `{name}`{}", suggest::hint(name, names())))?;
        Ok(Self { group: group.to_owned(), measure })
    }

    /// Its value under each seed, and whether one of them is a lower bound; the seed that has none otherwise.
    fn values(&self, observed: &Observed) -> Result<(Vec<f64>, bool), u64> {
        let mut is_bound = false;
        let mut values = Vec::new();
        for (seed, groups) in &observed.seeds {
            let group = groups.iter().find(|group| group["name"] == *self.group);
            let (value, bound) = group.and_then(|group| self.measure.read(group)).ok_or(*seed)?;
            is_bound |= bound;
            values.push(value);
        }
        Ok((values, is_bound))
    }
}

impl fmt::Display for GroupMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.group, self.measure.name)
    }
}

impl Goal {
    /// Reads `GROUP.MEASURE < LIMIT` or `>`; the limit has the measure's unit.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form = || format!("`{text}` is not of the form GROUP.MEASURE < LIMIT, such as search.fct_p99 < 20ms");
        let (at, is_most) = text.find(['<', '>']).map(|at| (at, &text[at..=at] == "<")).ok_or_else(form)?;
        let of = GroupMeasure::parse(&text[..at])?;
        let limit_text = text[at + 1..].trim_start_matches('=').trim().to_owned();
        let wrong = |what: &str| format!("the limit of {of} must be {what}, not \"{limit_text}\"");
        let number = || limit_text.parse::<f64>().ok().filter(|number| number.is_finite());
        let limit = match of.measure.unit {
            GoalUnit::Time => {
                let time = limit_text.parse::<Span>().map_err(|_| wrong("a time such as 20ms"))?;
                time.as_secs_f64() * 1e6
            }
            GoalUnit::Rate => {
                let rate = limit_text.parse::<Rate>().map_err(|_| wrong("a rate such as 5Gbit/s"))?;
                rate.bits_per_sec() as f64 / 1e9
            }
            GoalUnit::Ratio => {
                let percent = limit_text.strip_suffix('%').and_then(|text| text.trim().parse::<f64>().ok());
                let ratio = percent.map(|percent| percent / 100.0).or_else(number);
                ratio.ok_or_else(|| wrong("a share such as 0.8 or 80%"))?
            }
            GoalUnit::Number => number().ok_or_else(|| wrong("a number"))?,
        };
        Ok(Self { of, is_most, limit, limit_text })
    }

    /// Whether a mean meets it. A lower bound is not known to be below anything.
    fn is_met(&self, mean: f64, is_bound: bool) -> bool {
        if self.is_most { mean <= self.limit && !is_bound } else { mean >= self.limit }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.of, if self.is_most { "<" } else { ">" }, self.limit_text)
    }
}

impl Wish {
    /// Reads both; the error names the flag.
    pub fn parse(goal: &str, cost: &str) -> Result<Self, String> {
        Ok(Self {
            goal: Goal::parse(goal).map_err(|why| format!("--goal: {why}"))?,
            cost: GroupMeasure::parse(cost).map_err(|why| format!("--cost: {why}"))?,
        })
    }

    /// An error about a group that is none of `groups`.
    pub fn check<'g>(&self, groups: impl Iterator<Item = &'g str> + Clone) -> Result<(), String> {
        for (flag, of) in [("--goal", &self.goal.of), ("--cost", &self.cost)] {
            if !groups.clone().any(|group| group == of.group) {
                let hint = suggest::hint(&of.group, groups);
                return Err(format!("{flag}: no traffic group is called `{}`{hint}", of.group));
            }
        }
        Ok(())
    }

    /// What follows from it for these candidates.
    pub fn decide(&self, observed: &[Observed]) -> Decision {
        let (mut candidates, mut left_out) = (Vec::new(), Vec::new());
        for candidate in observed {
            let name = &candidate.name;
            let values = |of: &GroupMeasure| {
                of.values(candidate).map_err(|seed| format!("{name} has no {of} under seed {seed}: it is left out"))
            };
            match values(&self.goal.of).and_then(|goal| Ok((goal, values(&self.cost)?))) {
                Ok(((goals, is_bound), (costs, _))) if !goals.is_empty() => {
                    let (goal, cost) = (Mean::of(&goals), Mean::of(&costs));
                    let (name, meets) = (name.clone(), self.goal.is_met(goal.mean, is_bound));
                    candidates.push(Candidate { name, goal, cost, is_bound, meets, on_frontier: false, costs });
                }
                Ok(_) => left_out.push(format!("{name} has no whole run: it is left out")),
                Err(why) => left_out.push(why),
            }
        }
        mark_frontier(&mut candidates, self.goal.is_most, self.cost.measure.less_is_better);
        let chosen = self.best(&candidates, |_| true);
        Decision { wish: self.clone(), candidates, chosen, left_out }
    }

    /// Of those that meet the goal and are `allowed`, the one with the best cost; of several, that with the better goal.
    fn best(&self, candidates: &[Candidate], allowed: impl Fn(usize) -> bool) -> Option<usize> {
        let sign = |less: bool| if less { 1.0 } else { -1.0 };
        let key = |&at: &usize| {
            let Candidate { goal, cost, .. } = &candidates[at];
            (sign(self.cost.measure.less_is_better) * cost.mean, sign(self.goal.is_most) * goal.mean)
        };
        let meeting = (0..candidates.len()).filter(|&at| candidates[at].meets && allowed(at));
        meeting.min_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal))
    }
}

/// Marks the candidates that nothing dominates: by goal, the cost must improve on all before.
fn mark_frontier(candidates: &mut [Candidate], goal_less: bool, cost_less: bool) {
    let sign = |less: bool| if less { 1.0 } else { -1.0 };
    let key = |candidate: &Candidate| (sign(goal_less) * candidate.goal.mean, sign(cost_less) * candidate.cost.mean);
    let mut order: Vec<usize> = (0..candidates.len()).filter(|&at| !candidates[at].is_bound).collect();
    order.sort_by(|&a, &b| key(&candidates[a]).partial_cmp(&key(&candidates[b])).unwrap_or(std::cmp::Ordering::Equal));
    // The best cost so far, and the goal that it came with: equals of it are on the frontier, too.
    let mut best: Option<(f64, f64)> = None;
    for at in order {
        let (goal, cost) = key(&candidates[at]);
        if best.is_none_or(|(least_goal, least)| cost < least || (goal, cost) == (least_goal, least)) {
            candidates[at].on_frontier = true;
            best = Some((goal, cost));
        }
    }
}

impl Mean {
    fn of(values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Self { mean, half_width: half_interval(values) }
    }
}

impl Decision {
    /// The candidate that comes next if the chosen one's cost is not told apart from its own.
    pub fn rival(&self) -> Option<&Candidate> {
        let chosen = self.chosen?;
        let next = self.wish.best(&self.candidates, |at| at != chosen)?;
        let (first, second) = (&self.candidates[chosen], &self.candidates[next]);
        let differences: Vec<f64> =
            first.costs.iter().zip(&second.costs).map(|(first, second)| first - second).collect();
        let Mean { mean, half_width } = Mean::of(&differences);
        let is_told_apart = first.costs.len() == second.costs.len() && half_width.is_some_and(|half| mean.abs() > half);
        (!is_told_apart).then_some(second)
    }

    /// How many candidates meet the goal.
    pub fn meeting(&self) -> usize {
        self.candidates.iter().filter(|candidate| candidate.meets).count()
    }

    /// Of those that do not, the one that comes nearest.
    pub fn nearest(&self) -> Option<&Candidate> {
        let off = |candidate: &&Candidate| {
            let off = (candidate.goal.mean - self.wish.goal.limit).abs();
            // Unfinished flows tell that it is further.
            if candidate.is_bound { f64::MAX } else { off }
        };
        self.candidates.iter().min_by(|a, b| off(a).total_cmp(&off(b)))
    }
}

impl Observed {
    /// The variants of a comparison.
    pub fn of_repeated(repeated: &Repeated) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for (index, row) in repeated.rows().iter().enumerate() {
            let at = all.iter().position(|observed| observed.name == row.variant).unwrap_or_else(|| {
                let seeds = repeated.seeds().iter().map(|&seed| (seed, Vec::new())).collect();
                all.push(Self { name: row.variant.clone(), seeds });
                all.len() - 1
            });
            for ((_, groups), row) in all[at].seeds.iter_mut().zip(repeated.of_row(index)) {
                groups.push(serde_json::to_value(row).expect("a row is plain data"));
            }
        }
        all
    }

    /// Adds to each group what it keeps of its rate in `first` under the same seed.
    pub fn add_shares_kept(&mut self, first: &Self) {
        let rate = |group: &Value| group.pointer("/all/flow_rate_gbit_per_s").and_then(Value::as_f64);
        for (seed, groups) in &mut self.seeds {
            let Some((_, before)) = first.seeds.iter().find(|(other, _)| other == seed) else { continue };
            for group in groups {
                let before = before.iter().find(|before| before["name"] == group["name"]).and_then(rate);
                if let Some((now, before)) = rate(group).zip(before).filter(|(_, before)| *before > 0.0) {
                    group[SHARE_KEPT] = (now / before).into();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn wish() -> Wish {
        Wish::parse("search.fct_p99 < 20ms", "copies.share_kept").unwrap()
    }

    /// A candidate with the 99th percentile in milliseconds and the share under each seed.
    fn observed(name: &str, seeds: &[(f64, f64)]) -> Observed {
        let groups = |&(ms, kept): &(f64, f64)| {
            let fct = json!({ "p99": { "value": ms * 1e3, "lower_bound": false } });
            vec![json!({ "name": "search", "all": { "fct_us": fct } }), json!({ "name": "copies", "share_kept": kept })]
        };
        Observed { name: name.to_owned(), seeds: (1..).zip(seeds.iter().map(groups)).collect() }
    }

    #[test]
    fn goals_are_read_and_printed() {
        let goal = wish().goal;
        assert_eq!((goal.limit, goal.is_most, goal.to_string()), (20_000.0, true, "search.fct_p99 < 20ms".to_owned()));
        assert_eq!(Goal::parse("a.b.goodput>=2.5Gbit/s").unwrap().limit, 2.5);
        assert_eq!(Goal::parse("a.share_kept > 80 %").unwrap().limit, 0.8);
        assert_eq!(Goal::parse("a.drops < 0").unwrap().limit, 0.0);
        for (text, why) in [
            ("search.fct_p99", "is not of the form GROUP.MEASURE < LIMIT"),
            ("fct_p99 < 20ms", "is not of the form GROUP.MEASURE,"),
            ("search.fct_p9 < 20ms", "no measure is called `fct_p9`, did you mean `fct_p9"),
            ("search.fct_p99 < 20", "must be a time such as 20ms, not \"20\""),
            ("search.goodput > fast", "must be a rate"),
            ("search.share_kept > half", "must be a share such as 0.8 or 80%"),
            ("search.drops < ", "must be a number"),
        ] {
            let error = Goal::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(Wish::parse("search.fct_p99 < 20ms", "copies").unwrap_err().starts_with("--cost: `copies` is not"));
        let error = wish().check(["serch", "copies"].into_iter()).unwrap_err();
        assert_eq!(error, "--goal: no traffic group is called `search`, did you mean `serch`?");
    }

    /// Strict priority is fastest and keeps least; of the two that meet the goal the one that keeps more is chosen.
    #[test]
    fn the_cheapest_that_meets_the_goal_is_chosen() {
        let all = [
            observed("shared", &[(40.0, 1.0), (44.0, 1.0)]),
            observed("strict", &[(10.0, 0.5), (12.0, 0.52)]),
            observed("dwrr", &[(15.0, 0.70), (17.0, 0.70)]),
            observed("worse", &[(19.0, 0.6), (18.0, 0.6)]),
        ];
        let decision = wish().decide(&all);
        assert_eq!(decision.chosen, Some(2));
        assert_eq!((decision.meeting(), decision.rival().map(|rival| rival.name.as_str())), (3, None));
        let frontier: Vec<bool> = decision.candidates.iter().map(|candidate| candidate.on_frontier).collect();
        assert_eq!(frontier, [true, true, true, false]);
        // 12.706 is Student's quantile of one degree of freedom; the standard error of 15 and 17 is 1.
        assert!((decision.candidates[2].goal.half_width.unwrap() - 12_706.0).abs() < 1e-6);
        let none = Wish::parse("search.fct_p99 < 1ms", "copies.share_kept").unwrap().decide(&all);
        assert_eq!((none.chosen, none.nearest().unwrap().name.as_str()), (None, "strict"));
    }

    /// What the seeds do not tell apart is no clear winner; what lacks a value is named; a bound meets no limit from above.
    #[test]
    fn doubts_are_named() {
        let close = [observed("a", &[(10.0, 0.70), (10.0, 0.60)]), observed("b", &[(11.0, 0.65), (11.0, 0.66)])];
        let decision = wish().decide(&close);
        assert!(decision.chosen.is_some() && decision.rival().is_some());
        let mut lacking = observed("c", &[(10.0, 0.9), (10.0, 0.9)]);
        lacking.seeds[1].1.pop();
        let decision = wish().decide(&[close[0].clone(), lacking]);
        assert_eq!(decision.left_out, ["c has no copies.share_kept under seed 2: it is left out"]);
        let mut bound = observed("d", &[(10.0, 0.9)]);
        bound.seeds[0].1[0]["all"]["fct_us"]["p99"]["lower_bound"] = json!(true);
        assert_eq!(wish().decide(&[bound]).chosen, None);
    }

    #[test]
    fn shares_are_kept_of_the_first() {
        let rates = |rate: f64| Observed {
            name: String::new(),
            seeds: vec![(1, vec![json!({ "name": "copies", "all": { "flow_rate_gbit_per_s": rate } })])],
        };
        let mut second = rates(3.0);
        second.add_shares_kept(&rates(4.0));
        assert_eq!(second.seeds[0].1[0]["share_kept"], 0.75);
    }

    proptest! {
        /// Frontier and choice are those of brute force.
        #[test]
        fn the_choice_is_that_of_brute_force(points in proptest::collection::vec((1u32..60, 1u32..20), 1..40)) {
            let all: Vec<Observed> = points.iter().enumerate().map(|(at, &(ms, kept))| {
                observed(&at.to_string(), &[(f64::from(ms), f64::from(kept) / 20.0)])
            }).collect();
            let decision = wish().decide(&all);
            for (at, &(ms, kept)) in points.iter().enumerate() {
                let dominated = points.iter().any(|&(other_ms, other_kept)| {
                    other_ms <= ms && other_kept >= kept && (other_ms < ms || other_kept > kept)
                });
                prop_assert_eq!(decision.candidates[at].on_frontier, !dominated, "{}", at);
            }
            let best = points.iter().filter(|(ms, _)| *ms <= 20).map(|&(ms, kept)| (kept, std::cmp::Reverse(ms))).max();
            let chosen = decision.chosen.map(|at| (points[at].1, std::cmp::Reverse(points[at].0)));
            prop_assert_eq!(chosen, best);
            if let Some(at) = decision.chosen {
                prop_assert!(decision.candidates[at].on_frontier);
            }
        }
    }
}
