use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use super::*;

/// Two short flows on one link, which the run `shared` does as they are, and `strict` by priority.
const FILE: &str = r#"
title = "Two flows"
section = "2"
setup = "Two flows on one link."
seeds = [1, 2]

[scenario]
duration = "1ms"
sample_interval = "100us"
topology = { kind = "star", hosts = 3, link = { rate = "10Gbit/s", delay = "1us" } }
traffic.web = { kind = "flows", flows = [{ source = 0, destination = 2, size = "300kB" }] }
traffic.bulk = { kind = "flows", class = 1, flows = [{ source = 1, destination = 2, size = "300kB" }] }

[axes.size]
key = ["web.flows.0.size", "bulk.flows.0.size"]
values = ["100kB", "300kB"]
default = "300kB"

[axes.burst]
default = "one"
points.one = {}
points.late = { "traffic.bulk.flows.0.start" = "50us" }

[runs.shared]
over = ["size", "burst"]

[runs.strict]
over = ["size"]
set = { queues.plan = "strict" }

[quick]
seeds = [1]
axes.size = ["300kB"]
scaled = "One seed, one size."

[[claims]]
claim = "priority makes the first flow faster"
paper = "faster"
ours = 'flows(run("strict"), "web").fct_us("mean") < flows(run("shared"), "web").fct_us("mean")'
scaled = ""

[[claims]]
claim = "two flows that share take twice as long"
paper = 2.0
ours = 'flows(run("shared"), "web").fct_us("mean") / flows(run("strict"), "web").fct_us("mean")'
sensitivity = "burst"

[[claims]]
claim = "there are 17"
paper = 17
ours = 'flows(run("shared")).count()'
why = { quick = "there are only two" }

[[plots]]
title = "by size"
x = { title = "size" }
series = [{ name = "web", over = "size", y = 'flows(run("shared"), "web").fct_us("mean")' }]

[[plots]]
title = "distribution"
kind = "cdf"
series = [{ name = "all", values = 'flows(run("shared")).fct_us()' }, { name = "theirs", points = [[1, 0.5], [2, 1]], paper = true }]

[[plots]]
title = "over time"
series = [{ name = "web", points = 'throughput_series(run("shared"), "web")' }]

[[plots]]
title = "bars"
kind = "bars"
categories = ["shared", "strict"]
series = [{ name = "web", y = 'flows(run(x), "web").fct_us("mean")' }, { name = "two", y = ["1 + 1", "x.len()"] }]
"#;

fn library(text: &str) -> Library {
    Library::embedded(&[("paper/fig1.toml", text)])
}

fn load(text: &str, size: Size) -> Result<Experiment, ScenarioError> {
    Experiment::load(&library(text), "paper", "fig1", size)
}

fn simulate(job: &Job) -> Result<RunResult, String> {
    let resolved = job.resolve().map_err(|error| error.to_string())?;
    crate::run::run(&resolved, &AtomicBool::new(false), &mut |_| {}).map_err(|error| error.to_string())
}

/// A folder of one test, removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pliant-experiment-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Axes and seeds span a grid, and runs that come to the same are one.
#[test]
fn runs_are_planned_once() {
    assert_eq!(load(FILE, Size::Full).unwrap().jobs().len(), (2 * 2 + 2) * 2);
    assert_eq!(load(FILE, Size::Quick).unwrap().jobs().len(), 3);
    let twice = FILE.replace("[runs.strict]", "[runs.again]\nover = [\"size\"]\n[runs.strict]");
    assert_eq!(load(&twice, Size::Full).unwrap().jobs().len(), (2 * 2 + 2) * 2, "`again` is `shared` with one burst");
    let other = FILE.replace("Two flows", "The same under another name");
    assert_eq!(load(&other, Size::Full).unwrap().jobs(), load(FILE, Size::Full).unwrap().jobs());
}

/// What CI holds takes the runs of its claims only, at every value of their sensitivity, and finds the same of them.
#[test]
fn ci_takes_the_runs_of_its_claims() {
    let held = FILE.replace("sensitivity = \"burst\"", "sensitivity = \"burst\"\nci = true");
    let whole = load(&held, Size::Full).unwrap();
    let for_ci = whole.clone().for_ci().unwrap();
    assert_eq!(for_ci.jobs().len(), (2 + 1) * 2, "both bursts and strict, at one size, by two seeds");
    assert!(for_ci.jobs().is_subset(&whole.jobs()));
    let jobs = for_ci.jobs();
    let foreseen = move |job: &Job| if jobs.contains(job) { simulate(job) } else { Err("was not foreseen".to_owned()) };
    let outcome = for_ci.evaluate(foreseen).unwrap();
    assert_eq!(outcome.claims, [whole.evaluate(simulate).unwrap().claims[1].clone()]);
    assert!(outcome.plots.is_empty());
}

#[test]
fn a_figure_has_verdicts_and_plots() {
    let outcome = load(FILE, Size::Quick).unwrap().evaluate(simulate).unwrap();
    let [faster, twice, many] = &outcome.claims[..] else { panic!("three claims") };
    assert_eq!((faster.verdict, &faster.scaled), (Verdict::Agrees, &None), "an empty `scaled` does not depend on size");
    assert_eq!((twice.verdict, twice.scaled.as_deref()), (Verdict::Scaled, Some("One seed, one size.")));
    assert_eq!(twice.sensitivity.iter().map(|row| row.value.as_str()).collect::<Vec<_>>(), ["one", "late"]);
    assert_eq!(Quantity::of(&evaluate::Outcome::Number(1.0)), Some(Quantity::Number(Some(1.0))));
    assert_eq!((many.verdict, many.why.as_deref()), (Verdict::Differs, Some("there are only two")));
    let [by_size, distribution, time, bars] = &outcome.plots[..] else { panic!("four plots") };
    assert_eq!(by_size.series[0].points.len(), 1);
    let steps = &distribution.series[0].points;
    assert_eq!(steps.iter().map(|point| point.y).collect::<Vec<_>>(), [0.5, 1.0]);
    assert!(steps[0].x <= steps[1].x && distribution.series[1].paper);
    assert!(!time.series[0].points.is_empty());
    assert_eq!(bars.series[1].points.iter().map(|point| point.y).collect::<Vec<_>>(), [2.0, 6.0]);

    let full = load(FILE, Size::Full).unwrap().evaluate(simulate).unwrap();
    assert_eq!(full.claims[1].verdict, Verdict::Agrees);
    assert_eq!(full.claims[2].remark(), text::UNEXPLAINED, "the reason is one of the quick size");
    assert_eq!(full.plots[0].series[0].points.len(), 2);
    assert!(full.plots[0].series[0].points[0].spread.is_some(), "of two seeds");
    assert_eq!(full.plots[0].series[0].points[0].x, 0.0, "texts stand side by side");
}

/// What comes back from the cache is what the run gave, and a run that is there is not done again.
#[test]
fn a_cached_run_gives_the_same_numbers() {
    let scratch = Scratch::new("cache");
    let cache = Cache::new(&scratch.0);
    let experiment = load(FILE, Size::Quick).unwrap();
    let fresh = experiment.evaluate(simulate).unwrap();
    let jobs: Vec<_> = experiment.jobs().into_iter().collect();
    cache.write(&jobs[0], &simulate(&jobs[0]).unwrap()).unwrap();
    assert_eq!(jobs.iter().map(|job| cache.has(job)).collect::<Vec<_>>(), [true, false, false]);
    let ran = Rc::new(RefCell::new(0));
    let (count, own) = (Rc::clone(&ran), cache.clone());
    let resumed = experiment.evaluate(move |job| {
        if !own.has(job) {
            *count.borrow_mut() += 1;
            own.write(job, &simulate(job)?).map_err(|error| error.to_string())?;
        }
        own.read(job).map_err(|error| error.to_string())
    });
    assert_eq!((resumed.unwrap(), *ran.borrow()), (fresh, jobs.len() - 1));
    assert!(jobs.iter().all(|job| cache.has(job)));
}

/// A folder whose scenario is another one, or that was not written to its end, is no result.
#[test]
fn what_is_damaged_is_run_again() {
    let scratch = Scratch::new("damaged");
    let cache = Cache::new(&scratch.0);
    let job = load(FILE, Size::Quick).unwrap().jobs().into_iter().next().unwrap();
    cache.write(&job, &simulate(&job).unwrap()).unwrap();
    let folder = std::fs::read_dir(&scratch.0).unwrap().next().unwrap().unwrap().path();
    let scenario = folder.join("scenario.toml");
    let text = std::fs::read_to_string(&scenario).unwrap();
    std::fs::write(&scenario, text.replace("# simulator", "# another simulator")).unwrap();
    assert!(!cache.has(&job));
    cache.write(&job, &simulate(&job).unwrap()).unwrap();
    std::fs::remove_file(folder.join("summary.json")).unwrap();
    assert!(!cache.has(&job));
}

fn verdict(claim: &str) -> Result<Verdict, String> {
    let text = format!("title = \"t\"\nsection = \"1\"\nsetup = \"s\"\n[[claims]]\nclaim = \"c\"\n{claim}\n");
    let experiment = load(&text, Size::Full).map_err(|error| error.to_string())?;
    Ok(experiment.evaluate(|_| unreachable!("there is nothing to run")).map_err(|error| error.to_string())?.claims[0]
        .verdict)
}

/// Each tolerance on both sides of its end. No scenario is needed: these are calculations.
#[test]
fn tolerances() {
    use Verdict::{Agrees, Differs};
    for (claim, expected) in [
        ("paper = 10\nours = \"12\"", Agrees),
        ("paper = 10\nours = \"12.1\"", Differs),
        ("paper = 10\nours = \"7.9\"", Differs),
        ("paper = -10\nours = \"-8.5\"", Agrees),
        ("paper = 10\nours = \"10.4\"\ntolerance = 0.05", Agrees),
        ("paper = 10\nours = \"10.6\"\ntolerance = { relative = 0.05 }", Differs),
        ("paper = 0\nours = \"0.04\"\ntolerance = { absolute = 0.05 }", Agrees),
        ("paper = 0\nours = \"-0.06\"\ntolerance = { absolute = 0.05 }", Differs),
        ("paper = \"below 2\"\nours = \"2\"\ntolerance = { at_most = 2 }", Agrees),
        ("paper = \"below 2\"\nours = \"[1, 2.1]\"\ntolerance = { at_most = 2 }", Differs),
        ("paper = \"above 4\"\nours = \"4\"\ntolerance = { at_least = 4 }", Agrees),
        ("paper = \"4 to 5\"\nours = \"5.1\"\ntolerance = { between = [4, 5] }", Differs),
        ("paper = [1, 2]\nours = \"[1.1, 2.3]\"", Agrees),
        ("paper = [1, 2]\nours = \"[1.1, 2.5]\"", Differs),
        ("paper = \"it rises\"\nours = \"[1, 2, 3]\"\ntolerance = \"rising\"", Agrees),
        ("paper = \"it rises\"\nours = \"[1, 1]\"\ntolerance = \"rising\"", Differs),
        ("paper = \"it falls\"\nours = \"[3, 1]\"\ntolerance = \"falling\"", Agrees),
        ("paper = \"so\"\nours = \"1 < 2\"", Agrees),
        ("paper = \"so\"\nours = \"1 > 2\"", Differs),
        // A value that is none agrees with nothing.
        ("paper = 10\nours = \"0.0 / 0.0\"", Differs),
        ("paper = \"few\"\nours = \"0.0 / 0.0\"\ntolerance = { at_most = 2 }", Differs),
    ] {
        assert_eq!(verdict(claim), Ok(expected), "{claim}");
    }
    for (claim, why) in [
        ("paper = 0\nours = \"1\"", "give an absolute tolerance"),
        ("paper = \"so\"\nours = \"1\"", "give a `tolerance`"),
        ("paper = 1\nours = \"1 < 2\"", "neither a number"),
        ("paper = \"so\"\nours = \"1 < 2\"\ntolerance = 0.1", "must be a number"),
        ("paper = [1, 2]\nours = \"[1]\"", "has 1 values, the paper's 2"),
        ("paper = 1\nours = \"1\"\ntolerance = { at_mots = 2 }", "did you mean `at_most`?"),
        ("paper = 1\nours = \"1\"\ntolerance = { between = [2, 1] }", "the smaller first"),
        ("paper = 1\nours = \"1\"\ntolerance = 0", "above 0"),
        ("paper = 1\nours = \"1\"\ntolerance = \"up\"", "\"rising\""),
    ] {
        let error = verdict(claim).unwrap_err();
        assert!(error.contains(why) && error.starts_with("experiments/paper/fig1.toml:"), "{error}");
    }
}

/// Mistakes and what is said about them: each names the line and the key.
#[test]
fn mistakes_are_named() {
    let mut unexpected = Vec::new();
    for (right, wrong, expected) in [
        ("title = \"Two", "titel = \"Two", ":2: `titel`: unknown key `titel`, did you mean `title`?"),
        ("setup = \"Two flows on one link.\"", "", ":1: `setup`: is missing"),
        ("over = [\"size\"]", "over = [\"seize\"]", ": `runs.strict.over`: unknown axis `seize`, did you mean `size`?"),
        (
            "plan = \"strict\"",
            "plan = \"stritc\"",
            ": `queues.plan`: unknown queue plan `stritc`, did you mean `strict`?",
        ),
        ("kind = \"star\"", "kind = \"sta\"", ":10: `topology.kind`: unknown value `sta`, did you mean `star`?"),
        ("duration = \"1ms\"", "", ":7: `duration`: is missing"),
        ("default = \"300kB\"", "default = \"3kB\"", ":17: `axes.size.default`: is none of"),
        (
            "axes.size = [\"300kB\"]",
            "axes.sise = [1]",
            ": `quick.axes.sise`: unknown axis `sise`, did you mean `size`?",
        ),
        ("axes.size = [\"300kB\"]", "axes.burst = [\"two\"]", ": `quick.axes.burst`: unknown value `two`"),
        ("seeds = [1, 2]", "seeds = [1, 1]", ":5: `seeds`: names 1 twice"),
        ("seeds = [1, 2]", "seeds = []", ":5: `seeds`: names no seed"),
        (
            "sensitivity = \"burst\"",
            "sensitivity = \"brust\"",
            ": `claims.1.sensitivity`: unknown axis `brust`, did you mean `burst`?",
        ),
        (
            "run(\"strict\"), \"web\").fct_us(\"mean\") <",
            "run(\"stict\"), \"web\").fct_us(\"mean\") <",
            ": `claims.0.ours`: unknown run `stict`, did you mean `strict`?",
        ),
        (
            "claim = \"there are 17\"",
            "claim = \"priority makes the first flow faster\"",
            ": `claims.2.claim`: says the same",
        ),
        ("kind = \"cdf\"", "kind = \"cfd\"", ": `plots.1.kind`: unknown value `cfd`"),
        ("values = 'flows", "y = 'flows", ": `plots.1.series.0`: needs `values`"),
        ("over = \"size\", y", "y", ": `plots.0.series.0`: needs `over`"),
        ("\"x.len()\"", "\"x.len()\", \"3\"", ": `plots.3.series.1.y`: must be an expression, or a list"),
        ("[axes.size]", "[axes.case]", ": `axes.case`: `case` cannot be a variable"),
        ("[scenario]", "scenario = \"fig2.toml\"\n[other]", ": `other`: unknown key"),
    ] {
        assert!(FILE.contains(right), "{right}");
        let text = FILE.replacen(right, wrong, 1);
        let error = [Size::Quick, Size::Full].into_iter().find_map(|size| load(&text, size).err());
        let error = error.unwrap_or_else(|| panic!("{wrong}")).to_string();
        assert!(error.starts_with("experiments/paper/fig1.toml:") && !error.contains('\n'), "{error}");
        if !error.contains(expected) {
            unexpected.push(format!("{error}\nshould contain\n{expected}"));
        }
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
}

/// A claim about the run `strict` alone, with a limit in microseconds for the first flow, and its mechanism.
fn about_strict(limit: u32, mechanism: &str) -> String {
    format!(
        "[[claims]]\nclaim = \"below {limit}\"\npaper = \"below\"\nmechanism = {mechanism}\n\
         ours = 'flows(run(\"strict\"), \"web\").fct_us(\"mean\") < {limit}'\n"
    )
}

/// A mechanism is off where another run stands for the one that has it: a claim that needs it does not hold there, and one
/// that does not need it does.
#[test]
fn a_mechanism_is_switched_off_by_another_run() {
    let off = "{ name = \"priority\", instead = { strict = \"shared\" } }";
    let with = |claims: &[String]| FILE.replacen("[[claims]]", &format!("{}\n[[claims]]", claims.join("\n")), 1);
    let text = with(&[about_strict(9999, off), about_strict(400, off), about_strict(401, "{ none = \"baseline\" }")]);
    let outcome = load(&text, Size::Quick).unwrap().evaluate(simulate).unwrap();
    let [needless, needed] = [0, 1].map(|index| outcome.claims[index].mechanism.as_ref().unwrap());
    assert_eq!((needless.agrees, needed.agrees), (true, false));
    assert_eq!(needed.off, "shared instead of strict");
    let none = &outcome.claims[2];
    assert_eq!((&none.mechanism, none.no_mechanism), (&None, Some(NoMechanism::Baseline)));
    for (wrong, expected) in [
        ("{ name = \"n\", instead = { strict = \"sharde\" } }", "unknown run `sharde`, did you mean `shared`?"),
        (
            "{ name = \"n\", instead = { strcit = \"shared\" } }",
            "`claims.0.mechanism.instead`: `ours` has no run \"strcit\"",
        ),
        ("{ name = \"n\", instead = {} }", "`claims.0.mechanism`: needs `off`"),
        ("{ instead = { strict = \"shared\" } }", "`claims.0.mechanism`: needs a `name`"),
        ("{ none = \"baseline\", name = \"n\" }", "`claims.0.mechanism`: `none` stands alone"),
        ("{ none = \"base\" }", "unknown value `base`, did you mean `baseline`?"),
    ] {
        let error = load(&with(&[about_strict(400, wrong)]), Size::Quick).err().unwrap_or_else(|| panic!("{wrong}"));
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// Only a figure beyond a paper has expectations of our own: what a paper says is not one.
#[test]
fn an_expectation_of_our_own_is_beyond_a_paper() {
    let said = "claim = \"priority makes the first flow faster\"\n";
    let text = FILE.replace(said, &format!("{said}class = \"own-expectation\"\n"));
    let error = load(&text, Size::Quick).unwrap_err().to_string();
    assert!(error.contains(".class`: a figure of a paper has no expectation of our own"), "{error}");
    let section = text.lines().find(|line| line.starts_with("section = ")).unwrap();
    assert!(load(&text.replace(section, "section = \"6, beyond the paper\""), Size::Quick).is_ok());
}

/// A switch after which a claim compares a run with itself says nothing, whatever the run gives, and is refused.
#[test]
fn a_switch_that_leaves_one_run_to_compare_is_refused() {
    for claim in ["priority makes the first flow faster", "two flows that share take twice as long"] {
        let said = format!("claim = \"{claim}\"\n");
        let off = "mechanism = { name = \"priority\", instead = { strict = \"shared\" } }\n";
        let error = load(&FILE.replace(&said, &format!("{said}{off}")), Size::Quick).unwrap_err().to_string();
        assert!(error.contains(".mechanism.instead`: `ours` then compares a run with itself"), "{error}");
    }
}

/// An audit takes the runs of the claims whose mechanism is switched off, at no other setting, and finds the same of them; CI
/// does not ask.
#[test]
fn an_audit_takes_the_runs_of_its_claims() {
    let claim = about_strict(400, "{ name = \"priority\", instead = { strict = \"shared\" } }\nci = true");
    let text = FILE.replacen("[[claims]]", &format!("{claim}\n[[claims]]"), 1);
    let whole = load(&text, Size::Full).unwrap();
    assert!(whole.is_audited() && !load(FILE, Size::Full).unwrap().is_audited());
    let audit = whole.clone().for_audit().unwrap();
    assert_eq!(audit.jobs().len(), 2 * 2, "strict and shared, at one size, by two seeds");
    let outcome = audit.evaluate(simulate).unwrap();
    assert_eq!(outcome.claims, [whole.evaluate(simulate).unwrap().claims[0].clone()]);
    assert!(outcome.plots.is_empty());
    let for_ci = whole.for_ci().unwrap();
    assert_eq!(for_ci.jobs().len(), 2, "strict alone");
    assert_eq!(for_ci.evaluate(simulate).unwrap().claims[0].mechanism, None);
}

/// A scenario comes from another file: a scenario, or an experiment that has one.
#[test]
fn figures_share_a_scenario() {
    let start = FILE.find("[scenario]").unwrap();
    let end = FILE.find("[axes.size]").unwrap();
    let borrowing = |file: &str| format!("scenario = \"{file}\"\n{}{}", &FILE[..start], &FILE[end..]);
    let alone = FILE[start..end].replace("[scenario]", "");
    let (one, two, three) = (borrowing("fig1.toml"), borrowing("scenarios/base.toml"), borrowing("fig9.toml"));
    let files = [
        ("paper/fig1.toml", FILE),
        ("paper/fig2.toml", &one),
        ("paper/fig3.toml", &two),
        ("paper/fig4.toml", &three),
        ("paper/scenarios/base.toml", &alone),
    ];
    let library = Library::embedded(&files);
    let jobs = |figure| Experiment::load(&library, "paper", figure, Size::Full).map(|experiment| experiment.jobs());
    assert_eq!(jobs("fig1").unwrap(), jobs("fig2").unwrap());
    assert_eq!(jobs("fig1").unwrap(), jobs("fig3").unwrap());
    let error = jobs("fig4").unwrap_err().to_string();
    assert!(error.contains("fig4.toml:1: `scenario`: unknown file `paper/fig9.toml`"), "{error}");
}

/// Constants that were measured elsewhere come from a file of their own; a name means one thing.
#[test]
fn measured_constants_come_from_another_file() {
    let figure = |measured: &str, more: &str| {
        format!(
            "title = \"T\"\nsection = \"1\"\nsetup = \"S.\"\nmeasured = \"{measured}\"\n{more}\n[[claims]]\n\
             claim = \"half as long\"\npaper = 0.5\nours = 'seconds[1] / seconds[0]'\n"
        )
    };
    let load = |figure: &str| {
        let files = [("paper/fig1.toml", figure), ("paper/measured/fig1.toml", "seconds = [4, 2.0]\nby = \"hand\"\n")];
        Experiment::load(&Library::embedded(&files), "paper", "fig1", Size::Quick)
    };
    let outcome = load(&figure("measured/fig1.toml", "")).unwrap().evaluate(simulate).unwrap();
    assert_eq!(outcome.claims[0].verdict, Verdict::Agrees);
    for (measured, more, why) in [
        ("measured/fig2.toml", "", "unknown file `paper/measured/fig2.toml`"),
        ("measured/fig1.toml", "parameters = { seconds = 1 }", "`seconds` is a name of this file too"),
    ] {
        let error = load(&figure(measured, more)).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

/// Records keep what each size found, the document prefers the full one, and a round trip changes nothing.
#[test]
fn records_become_a_document() {
    let quick = load(FILE, Size::Quick).unwrap().evaluate(simulate).unwrap();
    let mut records = Records::default();
    records.insert(&quick, Size::Quick);
    assert_eq!(Records::parse(&records.to_json()).unwrap(), records);
    let document = records.to_markdown(&TestbedRecords::default());
    assert!(document.contains("| [paper](results/paper.md) | 1 | 1 | 1 | 1 | 0 | 0 |"), "{document}");
    let page = |records: &Records| {
        let [(name, page)] = &records.paper_pages(&TestbedRecords::default())[..] else { panic!("one paper") };
        assert_eq!(*name, "paper");
        page.clone()
    };
    let own = page(&records);
    for part in [
        "| [fig1](#fig1-two-flows): Two flows | 1 | 1 | 1 | 0 |",
        "## Not reproduced\n\n| figure | claim | paper | ours | why |\n|---|---|---|---|---|\n| fig1 | there are 17 | 17 | 2 | there",
        "## fig1: Two flows",
        "`pliant reproduce paper fig1`, one seed",
        "|---|---|---|---|---|\n| there are 17 | 17 | 2 | differs: not yet explained | there are only two |",
        "Scaled: One seed, one size.",
    ] {
        assert!(own.contains(part), "{part} in\n{own}");
    }
    records.insert(&load(FILE, Size::Full).unwrap().evaluate(simulate).unwrap(), Size::Full);
    assert!(page(&records).contains("`pliant reproduce paper fig1 --full`, 2 seeds"));
    let recorded = |size| records.verdict("paper", "fig1", size, "two flows that share take twice as long");
    assert_eq!((recorded(Size::Quick), recorded(Size::Full)), (Some(Verdict::Scaled), Some(Verdict::Agrees)));
    records.retain(|_, _| false);
    assert_eq!(records, Records::default());
}

/// A claim for which the paper has no value is a check of ours: counted apart, whatever came out.
#[test]
fn claims_without_a_value_of_the_paper_are_checks() {
    let claim = |text: &str, paper: &str, verdict: &str| {
        format!(
            r#"{{ "claim": "{text}", "paper": "{paper}", "ours": "1", "verdict": "{verdict}", "scaled": null, "why": null }}"#
        )
    };
    let claims =
        [claim("a", "2", "agrees"), claim("b", "not given", "agrees"), claim("c", "not given", "differs")].join(",");
    let figure = format!(
        r#"{{ "version": "1", "title": "T", "section": "2", "setup": "S.", "seeds": 1, "claims": [{claims}] }}"#
    );
    let records = Records::parse(&format!(r#"{{ "figures": {{ "p": {{ "f": {{ "full": {figure} }} }} }} }}"#)).unwrap();
    let testbed = TestbedRecords::default();
    assert!(records.to_markdown(&testbed).contains("| [p](results/p.md) | 1 | 1 | 0 | 0 | 2 | 0 |"));
    let pages = records.paper_pages(&testbed);
    assert!(pages[0].1.contains("| b | not given | 1 | check: agrees |"), "{}", pages[0].1);
}

#[test]
fn numbers_keep_four_digits() {
    let printed = [0.0, 0.96, 7.4, 4.8125, 12345.6, 0.000012, 1e9].map(|number| print_number(Some(number)));
    assert_eq!(printed, ["0", "0.96", "7.4", "4.812", "12346", "1.200e-5", "1.000e9"]);
    assert_eq!(print_number(None), "none");
}

/// The reference names every key of the files.
#[test]
fn every_key_is_documented() {
    let reference = include_str!("../../../../docs/experiments.md");
    let keys = |refused: toml::de::Error| {
        let message = refused.message().to_owned();
        message.split('`').skip(3).step_by(2).map(str::to_owned).collect::<Vec<_>>()
    };
    let unknown = || toml::Table::from_iter([("?".to_owned(), Value::from(0))]);
    let all = [
        keys(unknown().try_into::<ExperimentSpec>().unwrap_err()),
        keys(unknown().try_into::<spec::RunSpec>().unwrap_err()),
        keys(unknown().try_into::<spec::AxisSpec>().unwrap_err()),
        keys(unknown().try_into::<spec::SizeSpec>().unwrap_err()),
        keys(unknown().try_into::<ClaimSpec>().unwrap_err()),
        keys(unknown().try_into::<spec::PlotSpec>().unwrap_err()),
        keys(unknown().try_into::<spec::SeriesSpec>().unwrap_err()),
    ];
    for key in all.concat() {
        assert!(reference.contains(&format!("`{key}`")), "`{key}` is missing");
    }
    let start = reference.find("```toml\n").unwrap() + "```toml\n".len();
    let example = &reference[start..start + reference[start..].find("```").unwrap()];
    for size in [Size::Quick, Size::Full] {
        load(example, size).unwrap_or_else(|error| panic!("the example: {error}"));
    }
}
