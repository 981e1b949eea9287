//! Values of Python as values of a scenario.

use pliant_cli::library::Axis;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyString, PyTuple};
use toml::{Table, Value};

use crate::errors::{failed, refused_value};

/// Tables and lists within each other; more are a table that holds itself.
const DEEPEST: usize = 64;

/// A table with all that is in it. Errors name the path of keys.
pub(crate) fn table(given: &Bound<'_, PyAny>) -> PyResult<Table> {
    match value(given, "", 0)? {
        Value::Table(table) => Ok(table),
        _ => Err(refused_value("", "a scenario is a table of keys and values")),
    }
}

/// A value that stands at `path`, within so many tables and lists.
pub(crate) fn value(given: &Bound<'_, PyAny>, path: &str, depth: usize) -> PyResult<Value> {
    if depth > DEEPEST {
        return Err(refused_value(path, "tables and lists are nested too deep, or hold themselves"));
    }
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(Value::String(text.to_str()?.to_owned()));
    }
    if given.is_instance_of::<PyBool>() {
        return Ok(Value::Boolean(given.extract()?));
    }
    if given.is_instance_of::<PyInt>() {
        return integer(given, path);
    }
    if given.is_instance_of::<PyFloat>() {
        return Ok(Value::Float(given.extract()?));
    }
    if given.is_instance_of::<PyDict>() || given.cast::<PyMapping>().is_ok() {
        return mapping(given.cast::<PyMapping>()?, path, depth).map(Value::Table);
    }
    if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
        return list(given, path, depth);
    }
    // What numpy has: an array becomes lists, a scalar a number of Python's.
    if given.hasattr("tolist")? {
        return value(&given.call_method0("tolist")?, path, depth + 1);
    }
    if given.hasattr("__fspath__")? {
        return value(&given.call_method0("__fspath__")?, path, depth + 1);
    }
    let name = given.get_type().name()?;
    Err(refused_value(path, &format!("a value of type {} cannot stand in a scenario", name.to_str()?)))
}

fn integer(given: &Bound<'_, PyAny>, path: &str) -> PyResult<Value> {
    let number = given.extract::<i64>();
    number.map(Value::Integer).map_err(|_| refused_value(path, &format!("{} is too large", given_text(given))))
}

fn given_text(given: &Bound<'_, PyAny>) -> String {
    given.str().map_or_else(|_| "the number".to_owned(), |text| text.to_string_lossy().into_owned())
}

fn mapping(given: &Bound<'_, PyMapping>, path: &str, depth: usize) -> PyResult<Table> {
    let mut table = Table::new();
    for item in given.items()?.iter() {
        let (key, of_key): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        let Ok(key) = key.extract::<String>() else {
            return Err(refused_value(path, &format!("the key {} is not text", given_text(&key))));
        };
        // What a program leaves open is as if it were not there.
        if of_key.is_none() {
            continue;
        }
        let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let of_key = value(&of_key, &below, depth + 1)?;
        table.insert(key, of_key);
    }
    Ok(table)
}

fn list(given: &Bound<'_, PyAny>, path: &str, depth: usize) -> PyResult<Value> {
    let items = given.try_iter()?.enumerate().map(|(index, item)| value(&item?, &format!("{path}.{index}"), depth + 1));
    items.collect::<PyResult<Vec<_>>>().map(Value::Array)
}

/// The keys that vary with their values: a mapping of lists, or of texts as behind `--vary KEY=`.
pub(crate) fn axes(vary: &Bound<'_, PyAny>) -> PyResult<Vec<Axis>> {
    let Ok(vary) = vary.cast::<PyMapping>() else {
        return Err(refused_value("vary", "it must be a mapping of keys and lists of values"));
    };
    let mut axes = Vec::new();
    for item in vary.items()?.iter() {
        let (key, given): (String, Bound<'_, PyAny>) = item.extract()?;
        if let Ok(text) = given.cast::<PyString>() {
            let Axis { key, values } =
                Axis::parse(&format!("{key}={}", text.to_str()?)).map_err(|error| failed(&error))?;
            axes.push((key, values));
            continue;
        }
        let Ok(given) = given.try_iter() else {
            return Err(refused_value(&key, "what varies has a list of values"));
        };
        let texts = given.map(|item| Ok(flag_text(&value(&item?, &key, 0)?))).collect::<PyResult<Vec<_>>>()?;
        axes.push((key, texts));
    }
    Axis::all(axes).map_err(|error| failed(&error))
}

/// A value as it stands behind `--set KEY=`: text without quotes where it would be read as text all the same.
fn flag_text(value: &Value) -> String {
    match value {
        Value::String(text) if reads_as_text(text) => text.clone(),
        other => other.to_string(),
    }
}

fn reads_as_text(text: &str) -> bool {
    let plain = text.trim() == text && !text.is_empty() && !text.contains('\n');
    plain && text.parse::<Value>().is_err()
}

/// A value for Python.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::String(text) => text.into_pyobject(py)?.into_any(),
        Value::Integer(number) => number.into_pyobject(py)?.into_any(),
        Value::Float(number) => number.into_pyobject(py)?.into_any(),
        Value::Boolean(truth) => truth.into_pyobject(py)?.to_owned().into_any(),
        Value::Datetime(time) => time.to_string().into_pyobject(py)?.into_any(),
        Value::Array(items) => {
            let items = items.iter().map(|item| to_python(py, item)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        Value::Table(table) => {
            let dict = PyDict::new(py);
            for (key, value) in table {
                dict.set_item(key, to_python(py, value)?)?;
            }
            dict.into_any()
        }
    })
}
