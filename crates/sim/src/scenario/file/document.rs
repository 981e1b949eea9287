//! A scenario file before it has a meaning: its values, and where each came from.
//!
//! serde forgets where it stands inside tagged and flattened tables, and overrides stand in no file at all. So a
//! document keeps the place of every key by itself, and when serde refuses it, [`culprit`] finds the key by asking
//! again with ever smaller parts of the document.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::error::{Place, ScenarioError};
use super::words;
use crate::suggest;
use crate::workload::is_table;

/// A TOML file with the overrides that were laid over it.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    file: PathBuf,
    root: Value,
    /// Place of each key, by its dotted path; elements of arrays have their number as key.
    places: BTreeMap<String, Place>,
}

impl Document {
    pub(crate) fn parse(text: &str, file: &Path) -> Result<Self, ScenarioError> {
        let ends: Vec<usize> = text.match_indices('\n').map(|(end, _)| end).collect();
        let line = |offset: usize| ends.partition_point(|&end| end < offset) + 1;
        let place = |offset: usize| Place::Line { file: file.to_owned(), line: line(offset) };
        let syntax = |error: &toml::de::Error| {
            let span = error.span().unwrap_or_default();
            let why = error.message().replace('\n', " ");
            // The parser does not say which.
            let which = text.get(span.clone()).filter(|_| why == "duplicate key");
            let why = which.map_or(why.clone(), |which| format!("{why} `{}`", which.trim()));
            let why = words::in_words(&why);
            ScenarioError::Syntax { place: place(span.start), why }
        };
        let parsed = DeTable::parse(text).map_err(|error| syntax(&error))?;
        let table = text.parse::<Table>().map_err(|error| syntax(&error))?;
        let mut places = BTreeMap::new();
        note_places(parsed.get_ref(), "", &place, &mut places);
        Ok(Self { file: file.to_owned(), root: Value::Table(table), places })
    }

    /// The document that a program has as a table; `name` takes the place of a file's.
    pub(crate) fn of_table(table: Table, name: &str) -> Self {
        let (root, mut places) = (Value::Table(table), BTreeMap::new());
        let place = Place::Program(name.to_owned());
        note_given(&root, "", &place, &mut places);
        places.insert(String::new(), place);
        Self { file: PathBuf::from(name), root, places }
    }

    /// The whole document.
    pub(crate) fn root(&self) -> &Value {
        &self.root
    }

    /// The table at `key` as a document of its own, at the same lines of the same file.
    pub(crate) fn table_as_document(&self, key: &str) -> Option<Self> {
        let root = self.root.get(key).filter(|value| value.is_table())?.clone();
        let below = |(path, place): (&String, &Place)| {
            path.strip_prefix(key)?.strip_prefix('.').map(|path| (path.to_owned(), place.clone()))
        };
        let mut places: BTreeMap<String, Place> = self.places.iter().filter_map(below).collect();
        // What is missing in it is told where it begins.
        places.insert(String::new(), self.place(key));
        Some(Self { file: self.file.clone(), root, places })
    }

    /// Where `key` was given, or something below it; where the nearest table around it begins otherwise.
    pub(crate) fn place(&self, key: &str) -> Place {
        let below = format!("{key}.");
        let first_below = |below: &str| {
            let first = self.places.range(below.to_owned()..).next();
            first.filter(|(key, _)| key.starts_with(below)).map(|(_, place)| place)
        };
        let around = || {
            let mut tables = key.rmatch_indices('.').map(|(dot, _)| &key[..dot]);
            // A table that only the command line names has no place but that of its keys.
            tables.find_map(|table| self.places.get(table).or_else(|| first_below(&format!("{table}."))))
        };
        let place = self.places.get(key).or_else(|| first_below(&below)).or_else(around);
        let place = place.or_else(|| self.places.get(""));
        place.cloned().unwrap_or_else(|| Place::Line { file: self.file.clone(), line: 1 })
    }

    /// Whether `key` was given.
    pub(crate) fn gives(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// Whether a flag gave `key`.
    pub(in super::super) fn is_from_command_line(&self, key: &str) -> bool {
        matches!(self.places.get(key), Some(Place::Flag(_)))
    }

    /// An error about `key`.
    pub(crate) fn error(&self, key: &str, why: impl Into<String>) -> ScenarioError {
        ScenarioError::Key { place: self.place(key), key: key.to_owned(), why: why.into() }
    }

    /// Sets the value at a dotted path, making the tables on the way. An empty table leaves what is in one there.
    pub(in super::super) fn set(&mut self, path: &str, value: Value, place: &Place) -> Result<(), String> {
        let mut at = &mut self.root;
        for key in path.split('.') {
            at = entry(at, key).ok_or_else(|| format!("`{key}` in `{path}` leads nowhere"))?;
        }
        if at.is_table() && value.as_table().is_some_and(Table::is_empty) {
            self.places.entry(path.to_owned()).or_insert_with(|| place.clone());
            return Ok(());
        }
        *at = value;
        let below = format!("{path}.");
        self.places.retain(|key, _| !key.starts_with(&below));
        self.places.insert(path.to_owned(), place.clone());
        Ok(())
    }

    /// The table that the keys of `path` lead to.
    pub(in super::super) fn table_mut(&mut self, path: &[&str]) -> Option<&mut Table> {
        path.iter().try_fold(self.root.as_table_mut()?, |table, key| table.get_mut(*key)?.as_table_mut())
    }

    /// The file's name without folder and ending.
    pub(in super::super) fn file_stem(&self) -> String {
        self.file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
    }

    /// Makes the paths of other files absolute; relative ones start from this file's folder. The scenario then means
    /// the same wherever a copy of it is read.
    pub(in super::super) fn anchor_paths(&mut self) {
        let folder = self.file.parent().unwrap_or(Path::new("")).to_owned();
        let anchor = |value: Option<&mut Value>| {
            let Some(Value::String(text)) = value else { return };
            if let Ok(path) = std::path::absolute(folder.join(&*text)) {
                *text = path.to_string_lossy().into_owned();
            }
        };
        if let Some(topology) = self.table_mut(&["topology"]) {
            anchor(topology.get_mut("file"));
        }
        let Some(groups) = self.table_mut(&["traffic"]) else { return };
        for group in groups.iter_mut().filter_map(|(_, group)| group.as_table_mut()) {
            for key in ["path", "hosts_file", "profile"] {
                anchor(group.get_mut(key));
            }
            // Other names are built in, or are no names but the table itself.
            let is_path = |name: &&mut Value| {
                name.as_str().is_some_and(|name| name.contains(['/', '\\', '.']) && !is_table(name))
            };
            anchor(group.get_mut("workload").filter(is_path));
            let Some(messages) = group.get_mut("messages").and_then(Value::as_table_mut) else { continue };
            anchor(messages.get_mut("workload").filter(is_path));
            // The folder of a variable is known where the file is read.
            let is_plain = |name: &&mut Value| name.as_str().is_some_and(|name| !name.starts_with('$'));
            anchor(messages.get_mut("records").filter(is_plain));
        }
    }

    /// Removes the keys that do not go with a plan just chosen by name, or written out.
    pub(in super::super) fn forget_other_plan(&mut self, chosen: &str) {
        let Some((table, key)) = chosen.rsplit_once('.') else { return };
        let found = table.split('.').try_fold(&mut self.root, |at, key| match at {
            Value::Array(items) => items.get_mut(key.parse::<usize>().ok()?),
            at => at.get_mut(key),
        });
        let Some(queues) = found.and_then(Value::as_table_mut) else { return };
        let others: &[&str] = if key == "plan" { &["scheduler", "strict", "queue"] } else { &["plan", "limit", "ecn"] };
        queues.retain(|key, _| !others.contains(&key));
    }

    /// What the document means as a `T`.
    pub(crate) fn decode<T: DeserializeOwned>(&self) -> Result<T, ScenarioError> {
        let message = |value: Value| value.try_into::<T>().err().map(|error| error.message().to_owned());
        let error = match self.root.clone().try_into::<T>() {
            Ok(value) => return Ok(value),
            Err(error) => error.message().to_owned(),
        };
        // Only what has keys can miss one.
        let missing = error.starts_with(MISSING);
        let suspect = |part: &Value| !missing || part.is_table() || part.is_array();
        let path = culprit(&self.root, &suspect, &|part| message(part).as_ref() == Some(&error));
        Err(self.explain(&path.join("."), &error))
    }

    /// Turns serde's message about the key or table at `path` into ours.
    fn explain(&self, path: &str, message: &str) -> ScenarioError {
        let mut quoted = message.split('`').skip(1).step_by(2).map(str::to_owned);
        let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        if message.starts_with(MISSING) {
            return self.error(&join(&quoted.next().unwrap_or_default()), "is missing");
        }
        if message.starts_with("unknown field") {
            let name = quoted.next().unwrap_or_default();
            let names: Vec<_> = quoted.chain(words::keys_beside(path)).collect();
            return self.error(path, suggest::unknown("key", &name, &names));
        }
        if message.starts_with("unknown variant") {
            let name = quoted.next().unwrap_or_default();
            let kind = join("kind");
            let path = if self.places.contains_key(&kind) { &kind } else { path };
            return self.error(path, suggest::unknown("value", &name, &quoted.collect::<Vec<_>>()));
        }
        self.error(path, words::in_words(&message.replace('\n', " ")))
    }
}

/// How serde begins to say that a key is missing.
const MISSING: &str = "missing field";

/// The value at `key` of a table, made if it is missing, or at a number of an array.
fn entry<'v>(value: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    match value {
        Value::Table(table) if !key.is_empty() => Some(table.entry(key).or_insert_with(|| Value::Table(Table::new()))),
        Value::Array(items) => items.get_mut(key.parse::<usize>().ok()?),
        _ => None,
    }
}

fn note_places(table: &DeTable<'_>, path: &str, place: &impl Fn(usize) -> Place, places: &mut BTreeMap<String, Place>) {
    for (key, value) in table {
        let path = if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
        note_value(value.get_ref(), &path, place, places);
        places.insert(path, place(key.span().start));
    }
}

/// Every key of a value that a program gave.
fn note_given(value: &Value, path: &str, place: &Place, places: &mut BTreeMap<String, Place>) {
    let mut note = |key: &str, value: &Value| {
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        note_given(value, &path, place, places);
        places.insert(path, place.clone());
    };
    match value {
        Value::Table(table) => table.iter().for_each(|(key, value)| note(key, value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(index, item)| note(&index.to_string(), item)),
        _ => {}
    }
}

fn note_value(value: &DeValue<'_>, path: &str, place: &impl Fn(usize) -> Place, places: &mut BTreeMap<String, Place>) {
    match value {
        DeValue::Table(table) => note_places(table, path, place, places),
        DeValue::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let path = format!("{path}.{index}");
                note_value(item.get_ref(), &path, place, places);
                places.insert(path, place(item.span().start));
            }
        }
        _ => {}
    }
}

/// The path to the part of `whole` that alone still `fails` alike; empty if no part does.
///
/// What fails even without any of its parts is at fault itself: something is missing in it. Only parts that are
/// `suspect` are asked.
fn culprit(whole: &Value, suspect: &dyn Fn(&Value) -> bool, fails: &dyn Fn(Value) -> bool) -> Vec<String> {
    match whole {
        Value::Table(table) => {
            // `kind` stays, because it decides what the other keys mean.
            let kind = table.get("kind").map(|kind| ("kind".to_owned(), kind.clone()));
            let beside_kind =
                |parts: Option<(String, Value)>| Value::Table(kind.clone().into_iter().chain(parts).collect());
            let alone = |key: &str, part: Value| fails(beside_kind(Some((key.to_owned(), part))));
            if fails(Value::Table(Table::new())) || fails(beside_kind(None)) {
                return Vec::new();
            }
            let mut parts = table.iter().filter(|(_, part)| suspect(part));
            let Some((key, part)) = parts.find(|(key, part)| alone(key, (*part).clone())) else {
                return Vec::new();
            };
            let deeper = culprit(part, suspect, &|smaller| alone(key, smaller));
            std::iter::once(key.clone()).chain(deeper).collect()
        }
        Value::Array(items) => {
            let alone = |item: Value| fails(Value::Array(vec![item]));
            if fails(Value::Array(Vec::new())) {
                return Vec::new();
            }
            let mut parts = items.iter().enumerate().filter(|(_, item)| suspect(item));
            let Some((index, item)) = parts.find(|(_, item)| alone((*item).clone())) else { return Vec::new() };
            std::iter::once(index.to_string()).chain(culprit(item, suspect, &alone)).collect()
        }
        _ => Vec::new(),
    }
}
