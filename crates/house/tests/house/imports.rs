//! No file imports itself in a circle: each can be understood with what it uses and no more.
//!
//! A file uses another if production code of it names something that the other defines. `mod` lines do not count, nor do
//! the `pub use` lines with which a module shows what its descendants define. Who takes a name from there uses the file
//! that defines it.

use std::path::{Path, PathBuf};

use pliant_house::cycles::{circles, path};
use pliant_house::modules::{Uses, graph};

use super::{CODE, none};

/// Uses that are part of a circle still: the first file should not need the second, or the second not the first. The list
/// only gets shorter.
const STILL_CIRCULAR: &[(&str, &str)] = &[
    ("crates/sim/src/engine/network.rs", "crates/sim/src/engine/mod.rs"),
    ("crates/sim/src/experiment/evaluate.rs", "crates/sim/src/experiment/measures/mod.rs"),
    ("crates/sim/src/experiment/measures/flows.rs", "crates/sim/src/experiment/measures/mod.rs"),
    ("crates/sim/src/experiment/measures/fluid.rs", "crates/sim/src/experiment/measures/mod.rs"),
    ("crates/sim/src/experiment/measures/lists.rs", "crates/sim/src/experiment/measures/mod.rs"),
    ("crates/sim/src/experiment/measures/objects.rs", "crates/sim/src/experiment/measures/mod.rs"),
    ("crates/sim/src/experiment/measures/queues.rs", "crates/sim/src/experiment/measures/mod.rs"),
    ("crates/sim/src/experiment/measures/sampled.rs", "crates/sim/src/experiment/measures/mod.rs"),
    ("crates/sim/src/experiment/measures/throughput.rs", "crates/sim/src/experiment/measures/mod.rs"),
    ("crates/sim/src/experiment/on_testbed.rs", "crates/sim/src/experiment/record.rs"),
    ("crates/sim/src/experiment/plots.rs", "crates/sim/src/experiment/mod.rs"),
    ("crates/sim/src/experiment/runs.rs", "crates/sim/src/experiment/mod.rs"),
    ("crates/sim/src/output/mod.rs", "crates/sim/src/output/folder.rs"),
    ("crates/sim/src/report/exchange.rs", "crates/sim/src/report/figures.rs"),
    ("crates/sim/src/report/page.rs", "crates/sim/src/report/figures.rs"),
    ("crates/sim/src/traffic/all_to_all.rs", "crates/sim/src/traffic/mod.rs"),
    ("crates/sim/src/traffic/context.rs", "crates/sim/src/traffic/mod.rs"),
    ("crates/sim/src/traffic/load.rs", "crates/sim/src/traffic/poisson.rs"),
    ("crates/sim/src/traffic/long_flows.rs", "crates/sim/src/traffic/mod.rs"),
    ("crates/sim/src/traffic/mod.rs", "crates/sim/src/traffic/duplicates.rs"),
    ("crates/sim/src/traffic/mod.rs", "crates/sim/src/traffic/incast.rs"),
    ("crates/sim/src/traffic/mod.rs", "crates/sim/src/traffic/merge.rs"),
    ("crates/sim/src/traffic/mod.rs", "crates/sim/src/traffic/objects.rs"),
    ("crates/sim/src/traffic/mod.rs", "crates/sim/src/traffic/poisson.rs"),
    ("crates/sim/src/traffic/mod.rs", "crates/sim/src/traffic/remainder.rs"),
    ("crates/sim/src/traffic/periodic.rs", "crates/sim/src/traffic/mod.rs"),
    ("crates/sim/src/traffic/permutation.rs", "crates/sim/src/traffic/mod.rs"),
    ("crates/sim/src/traffic/trace.rs", "crates/sim/src/traffic/mod.rs"),
    ("crates/sim/src/results/flow.rs", "crates/sim/src/engine/flows.rs"),
    ("crates/sim/src/results/mod.rs", "crates/sim/src/results/flow.rs"),
    ("crates/sim/src/scenario/network/queues.rs", "crates/sim/src/scenario/network/presets.rs"),
];

#[test]
fn no_file_imports_itself_in_a_circle() {
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    for (_, modules) in CODE.iter() {
        let uses = modules.uses();
        let all = graph(&uses);
        let mut rest = all.clone();
        for &(from, to) in STILL_CIRCULAR {
            let (from, to) = (PathBuf::from(from), PathBuf::from(to));
            if uses.contains_key(&(from.clone(), to.clone())) && path(&all, &to, &from).is_some() {
                rest.get_mut(&from).expect("it uses the other").remove(&to);
                seen.push((from, to));
            }
        }
        findings.extend(circles(rest).iter().map(|circle| told(circle, &uses)));
    }
    for (from, to) in STILL_CIRCULAR {
        if !seen.iter().any(|known| known.0 == Path::new(from) && known.1 == Path::new(to)) {
            let entry = format!("(\"{from}\", \"{to}\") is no longer part of a circle: remove it");
            findings.push(format!("{}:{}: {entry}", file!(), super::line_of(include_str!("imports.rs"), from)));
        }
    }
    none(&findings);
}

/// One line for a circle, with the first line of each use, and the entry that would allow it.
fn told(circle: &[PathBuf], uses: &Uses) -> String {
    let steps = circle.windows(2).map(|pair| {
        let line = uses[&(pair[0].clone(), pair[1].clone())];
        format!("{}:{line} uses", pair[0].display())
    });
    let steps: Vec<_> = steps.collect();
    let (first, last) = (circle[0].display(), circle[circle.len() - 2].display());
    format!("{} {first} (as an entry: (\"{last}\", \"{first}\"))", steps.join(" "))
}
