//! Settings in the tables of scenario files.

use std::collections::BTreeMap;

use pliant_proto::settings::{AnySettings, ReadError, Settings, Value};
use toml::Table;

use crate::suggest;

/// What is wrong with a table: the key below it, and why.
pub type KeyError = (String, String);

/// The tables of settings below one traffic group, by name.
pub type Tables = BTreeMap<String, Table>;

/// Lays the keys of `table` over `settings`. Ranges are checked apart.
///
/// # Errors
///
/// The first key that is not known, with the nearest that is, or whose value is of the wrong kind.
pub fn read_over(settings: &mut dyn AnySettings, table: &Table) -> Result<(), KeyError> {
    for (key, value) in table {
        match settings.set_value(key, &from_toml(value)) {
            Some(result) => result.map_err(|why| (key.clone(), in_words(why)))?,
            None => return Err((key.clone(), unknown_key(key, &keys(settings)))),
        }
    }
    Ok(())
}

/// The settings of `table`, checked; the defaults if there is no table.
pub fn read<T: Settings>(table: Option<&Table>) -> Result<T, KeyError> {
    let mut settings = T::default();
    if let Some(table) = table {
        read_over(&mut settings, table)?;
    }
    check(&settings)?;
    Ok(settings)
}

/// The same of the table `name` of a group; errors name the table.
pub fn read_table<T: Settings>(tables: &Tables, name: &str) -> Result<T, KeyError> {
    read(tables.get(name)).map_err(|error| below(name, error))
}

/// Refuses what lies outside its range.
pub fn check(settings: &dyn AnySettings) -> Result<(), KeyError> {
    settings.check_all().map_err(|out| (out.key.to_owned(), out.why))
}

/// Every setting that has a value.
pub fn write(settings: &dyn AnySettings) -> Table {
    let value = |key: &str| settings.get_value(key).flatten().map(|value| (key.to_owned(), to_toml(value)));
    keys(settings).iter().filter_map(|key| value(key)).collect()
}

/// The keys of settings.
pub fn keys(settings: &dyn AnySettings) -> Vec<String> {
    settings.describe_all().iter().map(|setting| setting.key.to_owned()).collect()
}

/// An error of a table below which it stands.
pub fn below(table: &str, (key, why): KeyError) -> KeyError {
    (if key.is_empty() { table.to_owned() } else { format!("{table}.{key}") }, why)
}

pub(crate) fn unknown_key(key: &str, known: &[String]) -> String {
    suggest::unknown("key", key, known)
}

/// What was wrong with a value, for a user.
pub(crate) fn in_words(why: ReadError) -> String {
    match why {
        ReadError::Wrong(why) => why,
        ReadError::Unknown { given, known } => {
            suggest::unknown("value", &given, &known.into_iter().map(str::to_owned).collect::<Vec<_>>())
        }
    }
}

pub(crate) fn from_toml(value: &toml::Value) -> Value {
    match value {
        toml::Value::Boolean(flag) => Value::Flag(*flag),
        toml::Value::Integer(number) => Value::Integer(*number),
        toml::Value::Float(number) => Value::Number(*number),
        toml::Value::String(text) => Value::Text(text.clone()),
        toml::Value::Datetime(time) => Value::Text(time.to_string()),
        toml::Value::Array(items) => Value::List(items.iter().map(from_toml).collect()),
        toml::Value::Table(_) => Value::Table,
    }
}

fn to_toml(value: Value) -> toml::Value {
    match value {
        Value::Flag(flag) => flag.into(),
        Value::Integer(number) => number.into(),
        Value::Number(number) => number.into(),
        Value::Text(text) => text.into(),
        Value::List(items) => items.into_iter().map(to_toml).collect::<Vec<_>>().into(),
        Value::Table => Table::new().into(),
    }
}
