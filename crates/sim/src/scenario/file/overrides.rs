//! Overrides: dotted keys and new values, and the short forms of keys.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::document::Document;
use super::error::{Place, ScenarioError};
use crate::suggest;

/// A key's new value, from the command line or a variant.
#[derive(Clone, PartialEq, Debug)]
pub struct Override {
    /// The key with its tables, dotted; the last part alone where only one key ends so.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Who wants it.
    pub place: Place,
}

/// Keys that may be set although no file gives them and no default stands for them.
const ALWAYS: [&str; 5] = ["queues.plan", "queues.limit", "queues.ecn", "sample_interval", "measure_until"];

/// Tables and keys at the top of a file, which need no search.
const TOP: [&str; 25] = [
    "name",
    "description",
    "seed",
    "duration",
    "drain",
    "warmup",
    "measure_until",
    "shares",
    "routing",
    "flowlet_gap",
    "flowlet_table",
    "path_weights",
    "sample_interval",
    "sample_windows",
    "losses",
    "outages",
    "host_jitter",
    "topology",
    "packets",
    "queues",
    "host_queues",
    "transport",
    "deployment",
    "oracle",
    "traffic",
];

impl Override {
    /// Reads `KEY=VALUE` as given to `flag`. The value is TOML; what is not is taken as text, so that units and names
    /// need no quotes.
    pub fn parse(flag: &str, text: &str) -> Result<Self, ScenarioError> {
        let given = format!("{flag} {text}");
        let Some((key, value)) = text.split_once('=').filter(|(key, _)| !key.trim().is_empty()) else {
            return Err(ScenarioError::Override { flag: given, why: "is not of the form KEY=VALUE".to_owned() });
        };
        Ok(Self { key: key.trim().to_owned(), value: parse_value(value), place: Place::Flag(given) })
    }

    /// The overrides of a table that stands at `path` of a document: every value below it. Tables are laid over what is
    /// there, arrays replace it.
    pub(crate) fn all_in(document: &Document, path: &str, table: &Table) -> Vec<Self> {
        let place = |key: &str| document.place(&format!("{path}.{key}"));
        let mut values = Vec::new();
        collect_values(table, "", false, &mut values);
        values.into_iter().map(|(key, value)| Self { place: place(&key), key, value }).collect()
    }
}

/// A value of the command line: TOML if it is, text otherwise.
pub(in super::super) fn parse_value(text: &str) -> Value {
    let text = text.trim();
    text.parse().unwrap_or_else(|_| Value::String(text.to_owned()))
}

impl Document {
    /// Lays one override over the document; `keys` are those there are, asked for only where a short key needs a search.
    pub(in super::super) fn apply<'k>(
        &mut self,
        change: &Override,
        keys: impl FnOnce() -> &'k BTreeSet<String>,
    ) -> Result<(), ScenarioError> {
        let refuse = |why: String| match &change.place {
            Place::Flag(flag) => ScenarioError::Override { flag: flag.clone(), why },
            place => ScenarioError::Key { place: place.clone(), key: change.key.clone(), why },
        };
        let key = full_key(&change.key, keys, |key| self.gives(key)).map_err(refuse)?;
        if let Some(group) = key.strip_prefix("traffic.").and_then(|rest| rest.split('.').next()) {
            let groups = self.groups();
            if !groups.iter().any(|name| name == group) {
                return Err(refuse(suggest::unknown("traffic group", group, &groups)));
            }
        }
        let table = key.rsplit_once('.').filter(|(_, last)| matches!(*last, "plan" | "queue")).map(|(table, _)| table);
        if table.is_some_and(|table| table == "queues" || table.starts_with("queues.ports.")) {
            self.forget_other_plan(&key);
        }
        if let Some(why) = self.not_written_out(&key) {
            return Err(refuse(why));
        }
        self.set(&key, change.value.clone(), &change.place).map_err(refuse)
    }

    /// Why `key`, of one of the queues, cannot be set where the file does not write them out.
    fn not_written_out(&self, key: &str) -> Option<String> {
        let mut parts = key.split('.');
        let table = parts.next().filter(|table| matches!(*table, "queues" | "host_queues"))?;
        parts.next().filter(|&part| part == "queue").and(parts.next())?;
        let queues = self.root().get(table);
        if queues.is_some_and(|queues| queues.get("queue").is_some()) {
            return None;
        }
        let plan = queues.and_then(|queues| queues.get("plan")?.as_str());
        let (whose, name) =
            plan.map_or(("of the default plan".to_owned(), "shared"), |plan| (format!("of the plan {plan}"), plan));
        Some(format!(
            "`{key}`: the queues {whose} are not written out in the file; write them as `[[{table}.queue]]` in place of \
             `{table}.plan`, as `pliant show {name}` prints them"
        ))
    }

    fn groups(&self) -> Vec<String> {
        let traffic = self.root().get("traffic").and_then(Value::as_table);
        traffic.map_or(Vec::new(), |groups| groups.keys().cloned().collect())
    }
}

/// The key that `key` means: itself if it begins at the top, else the only one that ends so, or of several the only one
/// that is `written` and no default.
fn full_key<'k>(
    key: &str,
    keys: impl FnOnce() -> &'k BTreeSet<String>,
    written: impl Fn(&str) -> bool,
) -> Result<String, String> {
    let first = key.split('.').next().unwrap_or(key);
    if TOP.contains(&first) {
        return Ok(key.to_owned());
    }
    let keys = keys();
    let ending = format!(".{key}");
    let mut candidates: Vec<&String> = keys.iter().filter(|full| full.ends_with(&ending)).collect();
    if candidates.iter().filter(|full| written(full)).count() == 1 {
        candidates.retain(|full| written(full));
    }
    // A whole table is meant where no single value is.
    let tables: BTreeSet<String>;
    if candidates.is_empty() {
        let inside = format!("{ending}.");
        let table = |full: &String| full.find(&inside).map(|at| full[..at + ending.len()].to_owned());
        tables = keys.iter().filter_map(table).collect();
        candidates = tables.iter().collect();
    }
    match candidates[..] {
        [only] => Ok(only.clone()),
        [] => {
            let last_parts: BTreeSet<&str> =
                keys.iter().filter_map(|full| full.rsplit('.').next()).chain(TOP).collect();
            let near = suggest::nearest(key, last_parts);
            Err(near.map_or_else(
                || format!("no key of this scenario ends in `{key}`"),
                |near| format!("no key of this scenario ends in `{key}`, did you mean `{near}`?"),
            ))
        }
        _ => {
            let listed = candidates.iter().map(|full| format!("`{full}`")).collect::<Vec<_>>().join(", ");
            Err(format!("`{key}` may mean {listed}: give more of the key"))
        }
    }
}

/// The full keys that short ones are looked up among: those of the document, and those of the scenario `resolved` from it,
/// which have a default.
pub(in super::super) fn full_keys(document: &Document, resolved: Option<&Table>) -> BTreeSet<String> {
    let given = document.root().as_table().map(leaves).unwrap_or_default();
    let resolved = resolved.map(leaves).unwrap_or_default();
    // A named plan written out has keys that do not go with its name.
    let defaults =
        resolved.into_iter().filter(|(key, _)| !key.starts_with("queues.") && !key.starts_with("host_queues."));
    let all = given.into_iter().chain(defaults).map(|(key, _)| key).chain(ALWAYS.map(str::to_owned));
    all.filter(|key| !key.starts_with("variants.")).collect()
}

/// Every plain value below `table` with its dotted key, also in the tables of arrays.
fn leaves(table: &Table) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    collect_values(table, "", true, &mut found);
    found
}

/// Values that are not tables, and tables that are empty; arrays of tables are opened too if `open_arrays`.
fn collect_values(table: &Table, path: &str, open_arrays: bool, found: &mut Vec<(String, Value)>) {
    for (key, value) in table {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value {
            Value::Table(table) if !table.is_empty() => collect_values(table, &path, open_arrays, found),
            Value::Array(items) if open_arrays && !items.is_empty() && items.iter().all(Value::is_table) => {
                for (index, item) in items.iter().filter_map(Value::as_table).enumerate() {
                    collect_values(item, &format!("{path}.{index}"), open_arrays, found);
                }
            }
            value => found.push((path, value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::file::spec::ScenarioSpec;

    /// The keys at the top are those of the file: one that is new there is named here, or `--set` would not know it.
    #[test]
    fn keys_at_the_top_are_those_of_the_file() {
        let error = toml::from_str::<ScenarioSpec>("no_such_key = 1").unwrap_err();
        let (_, known) = error.message().split_once("expected one of").unwrap();
        let known: BTreeSet<&str> = known.split('`').skip(1).step_by(2).collect();
        // Variants are overrides themselves.
        assert_eq!(known, TOP.into_iter().chain(["variants"]).collect());
    }
}
