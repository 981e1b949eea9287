//! `docs/conformance.md` says what `docs/conformance.json` holds, and that is of the cases of
//! `bench/conformance/cases.toml`. Ratios and verdicts are computed here anew from the recorded values.

use std::path::Path;

use serde_json::Value;

use super::{FILES, none, text};

const CASES: &str = "bench/conformance/cases.toml";
const RECORD: &str = "docs/conformance.json";
const PAGE: &str = "docs/conformance.md";

fn record() -> Value {
    serde_json::from_str(&text(RECORD)).unwrap()
}

fn array<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn word<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// The ratio of the means over the seeds. Nothing on both sides is the same.
fn ratio(values: &Value) -> f64 {
    let sum = |side: &str| array(values, side).iter().filter_map(Value::as_f64).sum::<f64>();
    let (ours, theirs) = (sum("pliant"), sum("peer"));
    if ours == 0.0 && theirs == 0.0 { 1.0 } else { ours / theirs }
}

/// The values of a measure in each switch that has it, with the switch's description.
fn switched<'v>(case: &'v Value, found: &'v Value, measure: &'v str) -> impl Iterator<Item = (&'v Value, &'v Value)> {
    let pairs = array(case, "switch").iter().zip(array(found, "switches"));
    pairs.filter_map(move |(switch, rows)| rows.get(measure).map(|values| (switch, values)))
}

fn verdict(case: &Value, found: &Value, measure: &str, tolerance: f64) -> &'static str {
    let agrees = |values: &Value| (ratio(values) - 1.0).abs() <= tolerance;
    if agrees(&found["measures"][measure]) {
        "agrees"
    } else if switched(case, found, measure).any(|(_, values)| agrees(values)) {
        "explained"
    } else {
        "not explained"
    }
}

#[test]
fn the_record_is_of_the_cases() {
    let (record, described) = (record(), toml::from_str::<toml::Value>(&text(CASES)).unwrap());
    let described = serde_json::to_value(described).unwrap();
    assert_eq!(record["description"], described, "{RECORD} is of other cases: `make conformance`");
    let seeds = usize::try_from(described["seeds"].as_u64().unwrap()).unwrap();
    assert!(seeds >= 5 && described["tolerance"].as_f64() == Some(0.1));
    let mut findings = Vec::new();
    for case in array(&described, "case") {
        let found = &record["cases"][word(case, "name")];
        let rows = |measures: &[Value], values: &Value, findings: &mut Vec<String>| {
            for name in measures.iter().filter_map(Value::as_str) {
                let recorded = |side| array(&values[name], side).iter().filter(|value| value.is_number()).count();
                if recorded("pliant") != seeds || recorded("peer") != seeds {
                    findings.push(format!("{RECORD}: {}: {name}: not {seeds} seeds", word(case, "name")));
                }
            }
        };
        rows(array(case, "measures"), &found["measures"], &mut findings);
        for (number, switch) in array(case, "switch").iter().enumerate() {
            rows(array(switch, "measures"), &found["switches"][number], &mut findings);
        }
    }
    none(&findings);
}

#[test]
fn the_page_is_of_the_record() {
    let (record, page) = (record(), text(PAGE));
    let tolerance = record["description"]["tolerance"].as_f64().unwrap();
    let (mut expected, mut counts) = (Vec::new(), [("agrees", 0), ("explained", 0), ("not explained", 0)]);
    for case in array(&record["description"], "case") {
        expected.push(format!("## {}", word(case, "name")));
        let found = &record["cases"][word(case, "name")];
        for measure in array(case, "measures").iter().filter_map(Value::as_str) {
            let said = verdict(case, found, measure, tolerance);
            counts.iter_mut().filter(|(name, _)| *name == said).for_each(|(_, count)| *count += 1);
            expected.push(format!("{measure}|{:.3}|{said}", ratio(&found["measures"][measure])));
            if said != "agrees" {
                let rows = switched(case, found, measure);
                expected.extend(rows.map(|(switch, values)| {
                    format!("– {measure}: {}|{:.3}|", word(switch, "mechanism"), ratio(values))
                }));
            }
        }
    }
    expected.push("## Held by tests".to_owned());
    // Of each row the measure without its unit, the ratio and the verdict.
    let shown = page.lines().filter_map(|line| {
        if line.starts_with("## ") {
            return Some(line.to_owned());
        }
        let cells: Vec<_> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [measure, _, _, ratio, said] = cells[..] else { return None };
        let (name, unit) = measure.split_once(", ").unwrap_or((measure, ""));
        let mechanism = unit.split_once(": ").map_or(String::new(), |(_, mechanism)| format!(": {mechanism}"));
        (ratio != "ratio" && !ratio.starts_with('-')).then(|| format!("{name}{mechanism}|{ratio}|{said}"))
    });
    let shown: Vec<_> = shown.collect();
    let differ = shown.iter().zip(&expected).find(|(shown, expected)| shown != expected);
    assert_eq!(differ, None, "{PAGE}: shown and recorded: `bench/conformance/conformance.py PLIANT --pages`");
    assert_eq!(shown.len(), expected.len(), "{PAGE}: rows");
    let total = counts.map(|(name, count)| format!("{count} {name}")).join(", ");
    assert!(page.contains(&format!("{total}.")), "{PAGE}: the record has {total}");
}

/// A test that the page names is in the file that it names.
#[test]
fn the_tests_of_the_page_are_there() {
    let page = text(PAGE);
    let (_, table) = page.split_once("## Held by tests").unwrap();
    let (mut findings, mut tests) = (Vec::new(), 0);
    for line in table.lines().filter(|line| line.ends_with(".rs` |")) {
        let cells: Vec<_> = line.split('`').collect();
        let (name, file) = (cells[1], cells[3]);
        tests += 1;
        if !FILES.iter().any(|known| known == Path::new(file)) || !text(file).contains(&format!("fn {name}(")) {
            findings.push(format!("{PAGE}: there is no {name} in {file}"));
        }
    }
    none(&findings);
    assert!(tests >= 30, "{tests} tests are named");
}

/// A ratio at the edge of the tolerance, beyond it, and beyond it with a switch that brings it back.
#[test]
fn verdicts_are_computed() {
    let values = |ours: f64| serde_json::json!({"pliant": [ours, ours], "peer": [2.0, 2.0]});
    let case = serde_json::json!({"switch": [{"mechanism": "m"}]});
    let found = |ours, other| serde_json::json!({"measures": {"a": values(ours)}, "switches": [{"a": values(other)}]});
    assert_eq!(verdict(&case, &found(2.1, 3.0), "a", 0.1), "agrees");
    assert_eq!(verdict(&case, &found(2.3, 2.1), "a", 0.1), "explained");
    assert_eq!(verdict(&case, &found(1.7, 1.6), "a", 0.1), "not explained");
    assert_eq!(ratio(&serde_json::json!({"pliant": [0.0], "peer": [0.0]})), 1.0);
}
