//! No file imports itself in a circle: each can be understood with what it uses and no more.
//!
//! A file uses another if production code of it names something that the other defines. `mod` lines do not count, nor do
//! the `pub use` lines with which a module shows what its descendants define. Who takes a name from there uses the file
//! that defines it.

use std::path::PathBuf;

use pliant_house::cycles::circles;
use pliant_house::modules::{Uses, graph};

use super::{CODE, none};

#[test]
fn no_file_imports_itself_in_a_circle() {
    let mut findings = Vec::new();
    for (_, modules) in CODE.iter() {
        let uses = modules.uses();
        findings.extend(circles(graph(&uses)).iter().map(|circle| told(circle, &uses)));
    }
    none(&findings);
}

/// One line for a circle, with the first line of each use.
fn told(circle: &[PathBuf], uses: &Uses) -> String {
    let steps = circle.windows(2).map(|pair| {
        let line = uses[&(pair[0].clone(), pair[1].clone())];
        format!("{}:{line} uses", pair[0].display())
    });
    let steps: Vec<_> = steps.collect();
    format!("{} {}", steps.join(" "), circle[0].display())
}
