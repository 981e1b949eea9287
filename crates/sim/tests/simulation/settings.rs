//! Every documented setting reaches the machine that it is of: a run with it set is another run.

use std::collections::BTreeSet;

use pliant_sim::reference;
use serde::Deserialize;

use crate::scenarios::run_with;

const DOCUMENT: &str = include_str!("../../../../docs/scenario.md");

/// Some of what reaches one host of five is lost, and some of what it answers.
const NETWORK: &str = r#"
duration = "3ms"
drain = "600s"
losses = [{ link = "switch 0 -> host 0", probability = 0.02 }, { link = "host 0 -> switch 0", probability = 0.02 }]
[topology]
kind = "star"
hosts = 5
link = { rate = "10Gbit/s", delay = "5us" }
"#;

/// Four hosts send to that one, thrice.
const INCAST: &str = r#"
[traffic.a]
kind = "incast"
receivers = 0
senders = 4
size = "200kB"
period = "1ms"
"#;

/// Every host sends to every other.
const MESH: &str = r#"
[traffic.a]
kind = "all-to-all"
size = "200kB"
"#;

/// Flows of many sizes to that host.
const SIZES: &str = r#"
[traffic.a]
kind = "flows"
flows = [
  { source = 1, destination = 0, size = "4kB" },
  { source = 1, destination = 0, size = "9kB" },
  { source = 2, destination = 0, size = "40kB" },
  { source = 3, destination = 0, size = "300kB" },
  { source = 4, destination = 0, size = "3MB" },
]
"#;

/// Two objects, each at two hosts that send it.
const OBJECTS: &str = r#"
[traffic.a]
kind = "objects"
transport = "push"
receivers = [0]
fanout = 2
objects = 2
period = "0s"
size = "2MB"
"#;

/// Two long flows.
const BESIDE: &str = r#"
[traffic.beside]
kind = "flows"
transport = "reno"
flows = [{ source = 1, destination = 0, size = "3MB" }, { source = 2, destination = 0, size = "3MB" }]
"#;

/// What a run is like before a setting changes, and settings that each change it.
#[derive(Deserialize)]
struct Base {
    section: String,
    table: String,
    traffic: Vec<String>,
    changes: Vec<String>,
    settings: Vec<String>,
}

#[derive(Deserialize)]
struct Bases {
    base: Vec<Base>,
}

/// The keys of a table of settings, by its declaration; of other tables those in a section of the document.
fn documented(section: &str, table: &str) -> BTreeSet<&'static str> {
    if let Some(table) = reference::tables().into_iter().find(|known| known.name == table) {
        return table.keys().into_iter().collect();
    }
    let lines = DOCUMENT.lines().skip_while(|line| *line != section).skip(1);
    let rows = lines.take_while(|line| !line.starts_with('#')).filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split(" |").next()).filter(|cell| cell.starts_with('`'));
    cells.flat_map(|cell| cell.split(", ").map(|key| key.trim_matches('`'))).collect()
}

fn traffic(name: &str) -> &'static str {
    match name {
        "incast" => INCAST,
        "mesh" => MESH,
        "sizes" => SIZES,
        "objects" => OBJECTS,
        "beside" => BESIDE,
        _ => panic!("no traffic {name}"),
    }
}

/// The last part of a table's name; the tables of marking have two.
fn kind_of(table: &str) -> &str {
    table.rsplit('.').next().unwrap_or(table)
}

/// No setting is dead, and none is documented that is not tried here.
#[test]
fn every_setting_changes_a_run() {
    let Bases { base: bases } = toml::from_str(include_str!("settings.toml")).unwrap();
    let sections: BTreeSet<_> = bases.iter().map(|base| (base.section.as_str(), kind_of(&base.table))).collect();
    for (section, table) in sections {
        let of_table = |base: &&Base| base.section == section && kind_of(&base.table) == table;
        let settings = bases.iter().filter(of_table).flat_map(|base| &base.settings);
        let tried: BTreeSet<_> = settings.map(|setting| setting.split('=').next().unwrap()).collect();
        let documented = documented(section, table);
        let differ: Vec<_> = documented.symmetric_difference(&tried).collect();
        assert!(
            differ.is_empty(),
            "the settings of `{table}` and those that crates/sim/tests/simulation/settings.toml tries differ: {differ:?}"
        );
    }
    let mut dead = Vec::new();
    for base in &bases {
        let groups: String = base.traffic.iter().map(|name| traffic(name)).collect();
        let scenario = format!("{NETWORK}{groups}");
        let changes: Vec<&str> = base.changes.iter().map(String::as_str).collect();
        let plain = run_with(&scenario, &changes).digest;
        for setting in &base.settings {
            let setting = format!("{}.{setting}", base.table);
            if run_with(&scenario, &[&changes[..], &[&setting]].concat()).digest == plain {
                dead.push((&base.changes, setting));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}
