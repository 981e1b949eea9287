//! The reference pages of settings, made from their declarations. A test holds `docs/reference/` to them.

use std::fmt::Write as _;

use pliant_proto::settings::{Description, Settings};

use crate::cross_queue::{CROSS_QUEUE_TABLE, CrossQueueSettings};
use crate::families::TransportName;
use crate::scenario::ReflexSettings;

/// A table of settings with the transports that have it.
#[derive(Clone, Debug)]
pub struct TableReference {
    /// Its name below `[traffic.NAME]`.
    pub name: &'static str,
    /// What it sets.
    pub title: &'static str,
    /// Settings that all of its transports have alike.
    pub common: Vec<Description>,
    /// Settings that some have, with those transports.
    pub own: Vec<(Vec<&'static str>, Vec<Description>)>,
    /// The transports that have the table.
    pub transports: Vec<&'static str>,
}

impl TableReference {
    /// Every key, once.
    pub fn keys(&self) -> Vec<&'static str> {
        let all = self.common.iter().chain(self.own.iter().flat_map(|(_, settings)| settings));
        let mut keys: Vec<&str> = all.map(|setting| setting.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// A transport and its settings of one table.
type Owned = (&'static str, Vec<Description>);

/// Every table of settings below a traffic group that is built in, in the order of the transports.
pub fn tables() -> Vec<TableReference> {
    let mut by_table: Vec<(&'static str, &'static str, Vec<Owned>)> = Vec::new();
    for transport in TransportName::all_built_in() {
        for table in transport.tables() {
            let member = (transport.name(), table.settings);
            match by_table.iter_mut().find(|(name, ..)| *name == table.name) {
                Some((.., members)) => members.push(member),
                None => by_table.push((table.name, table.title, vec![member])),
            }
        }
    }
    let policies: Vec<TransportName> = TransportName::all_built_in().collect();
    let able = |can: fn(TransportName) -> bool, settings: Vec<Description>| {
        policies.iter().filter(|name| can(**name)).map(|name| (name.name(), settings.clone())).collect::<Vec<_>>()
    };
    let pauses = able(|name| name.traits().pauses, CrossQueueSettings::describe());
    let bends = able(|name| name.traits().bends, ReflexSettings::describe());
    by_table.push((CROSS_QUEUE_TABLE, "cross-queue congestion notification", pauses));
    by_table.push(("reflex", "REFLEX", bends));
    by_table.into_iter().map(|(name, title, members)| divide(name, title, &members)).collect()
}

/// Divides what all transports of a table have from what some have.
fn divide(name: &'static str, title: &'static str, members: &[Owned]) -> TableReference {
    let is_common = |setting: &Description| members.iter().all(|(_, settings)| settings.contains(setting));
    let (common, _): (Vec<_>, Vec<_>) = members[0].1.iter().cloned().partition(is_common);
    let mut own: Vec<(Vec<&'static str>, Vec<Description>)> = Vec::new();
    for (transport, settings) in members {
        let rest: Vec<Description> = settings.iter().filter(|setting| !common.contains(setting)).cloned().collect();
        if rest.is_empty() {
            continue;
        }
        match own.iter_mut().find(|(_, known)| *known == rest) {
            Some((transports, _)) => transports.push(transport),
            None => own.push((vec![transport], rest)),
        }
    }
    let transports = members.iter().map(|(transport, _)| *transport).collect();
    TableReference { name, title, common, own, transports }
}

/// The page of all settings: `docs/reference/settings.md`.
pub fn settings_page() -> String {
    let mut page = String::from(
        "# Settings of transports and policies\n\nThis page is made from the declarations in the code; a test holds it to \
         them. [Scenario files](../scenario.md) tells how tables are written. `pliant show NAME` prints the settings of one \
         transport at their defaults.\n",
    );
    for table in tables() {
        let TableReference { name, title, common, own, transports } = &table;
        let _ = write!(page, "\n## `{name}`: settings of {title}\n\nThe table `[traffic.NAME.{name}]`");
        let shared = if *name == "tcp" { " and, for all groups, `[transport]`" } else { "" };
        let _ = writeln!(page, "{shared}. Transports that have it: {}.", quoted(transports));
        rows(&mut page, common);
        for (transports, settings) in own {
            let _ = writeln!(page, "\nOnly {}:", quoted(transports));
            rows(&mut page, settings);
        }
    }
    page
}

/// The page of all transports: `docs/reference/transports.md`.
pub fn transports_page() -> String {
    let mut page = String::from(
        "# Transports\n\nThis page is made from the declarations in the code; a test holds it to them. A traffic group names \
         its transport by `transport = \"NAME\"`.\n\n| name | what it is | honours of the contract | with `reflex` | [bundles](../scenario.md#bundles) | tables of \
         [settings](settings.md) |\n|---|---|---|---|---|---|\n",
    );
    for transport in TransportName::all_built_in() {
        let honours: Vec<String> = transport.honours().iter().map(|field| format!("`{field}`")).collect();
        let traits = transport.traits();
        let reflex = match (traits.bends, traits.takes_messages) {
            (false, _) => "",
            (true, false) => "`min_share`",
            (true, true) => "`min_share`, `min_delivery`",
        };
        let mut tables: Vec<&str> = transport.tables().iter().map(|table| table.name).collect();
        tables.extend(traits.bends.then_some("reflex"));
        tables.extend(traits.pauses.then_some(CROSS_QUEUE_TABLE));
        let links: Vec<String> = tables.iter().map(|table| format!("`{table}`")).collect();
        let (name, description, honours) = (transport.name(), transport.description(), honours.join(", "));
        let bundles = if traits.bundles { "yes" } else { "" };
        let _ =
            writeln!(page, "| `{name}` | {description} | {honours} | {reflex} | {bundles} | {} |", links.join(", "));
    }
    page
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn rows(page: &mut String, settings: &[Description]) {
    if settings.is_empty() {
        return;
    }
    page.push_str("\n| key | meaning | value | default | range | source |\n|---|---|---|---|---|---|\n");
    for Description { key, meaning, kind, default, range, source } in settings {
        // Defaults in words stand as they are.
        let default = if default.starts_with('"') { format!("`{default}`") } else { default.clone() };
        let _ = writeln!(page, "| `{key}` | {meaning} | {kind} | {default} | {range} | {source} |");
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// The pages in the tree are those that the declarations make. `PLIANT_WRITE_DOCS=1 cargo test -p pliant-sim --lib
    /// reference` writes them.
    #[test]
    fn reference_pages_are_fresh() {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        for (name, page) in [("settings.md", settings_page()), ("transports.md", transports_page())] {
            let path = folder.join(name);
            if std::env::var_os("PLIANT_WRITE_DOCS").is_some() {
                std::fs::create_dir_all(&folder).unwrap();
                std::fs::write(&path, &page).unwrap();
            }
            let stands = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(stands == page, "{name} is stale: PLIANT_WRITE_DOCS=1 cargo test -p pliant-sim --lib reference");
        }
    }

    /// A key means one thing in a table, whichever transports have it, and says what it means.
    #[test]
    fn settings_are_described() {
        for table in tables() {
            for setting in table.common.iter().chain(table.own.iter().flat_map(|(_, settings)| settings)) {
                assert!(setting.meaning.ends_with('.'), "{}.{}: {}", table.name, setting.key, setting.meaning);
                assert!(!setting.meaning.contains('|') && !setting.default.contains('|'), "{}", setting.key);
            }
        }
    }
}
