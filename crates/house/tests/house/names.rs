//! One name for one thing: no two types of a crate that other files see have the same name.

use std::collections::BTreeMap;

use super::{CODE, none};

/// Names that mean two things still, by crate. The list only gets shorter.
const TWICE: &[(&str, &[&str])] = &[
    ("proto", &["Event", "Link", "Next", "Order", "Pacer", "Phase", "Queue", "Subflow"]),
    (
        "sim",
        &[
            "Context",
            "Distribution",
            "Estimate",
            "FluidFlow",
            "Flows",
            "Objects",
            "Outcome",
            "Records",
            "Size",
            "Variant",
        ],
    ),
    ("net", &["Arrival", "Datagram", "Node", "Output", "Stream"]),
    // The arguments of a subcommand are clap's, in a module for each, by design.
    ("cli", &["Arguments"]),
];

#[test]
fn no_name_is_that_of_two_types() {
    let mut findings = Vec::new();
    for (name, modules) in CODE.iter().filter(|(_, modules)| !modules.types.is_empty()) {
        let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for one in &modules.types {
            places.entry(&one.name).or_default().push(format!("{}:{}", one.file.display(), one.line));
        }
        places.retain(|_, places| places.len() > 1);
        let known = TWICE.iter().find(|(of, _)| of == name).map_or(&[][..], |(_, names)| names);
        for (twice, places) in places.iter().filter(|(twice, _)| !known.contains(twice)) {
            findings.push(format!("{}: `{twice}` is also the name of {}", places[0], places[1..].join(", ")));
        }
        for once in known.iter().filter(|once| !places.contains_key(*once)) {
            findings.push(format!("{}: `{once}` means one thing in {name}: remove it from the list", file!()));
        }
    }
    none(&findings);
}
