//! Scenarios.

use std::path::{Path, PathBuf};

use pliant_cli::library;
use pliant_sim::scenario::{Override, Place, Resolved, Scenario as Document};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::controller;
use crate::errors::{failed, refused, refused_value};
use crate::values;

/// A scenario: topology, queues, traffic, transports, duration and seed. It does not change; `set` gives another one.
///
/// >>> import pliant
/// >>> s = pliant.Scenario.load("demo")
/// >>> s
/// Scenario("demo": 32 hosts, 2 groups, seed 1)
/// >>> s.set("seed", 2).seed, s.seed
/// (2, 1)
#[pyclass(module = "pliant", frozen, from_py_object)]
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) document: Document,
}

impl Scenario {
    pub(crate) fn resolve(&self, py: Python<'_>) -> PyResult<Resolved> {
        let before = controller::exceptions();
        let resolved = self.document.resolve();
        controller::raised_since(py, before)?;
        resolved.map_err(|error| refused(&error))
    }

    fn parsed(text: &str, file: &str) -> PyResult<Self> {
        let document = Document::parse(text, Path::new(file)).map_err(|error| refused(&error))?;
        Ok(Self { document })
    }

    fn with(&self, overrides: &[Override]) -> PyResult<Self> {
        Ok(Self { document: self.document.with(overrides).map_err(|error| refused(&error))? })
    }
}

#[pymethods]
impl Scenario {
    /// Reads a scenario file, or takes the built-in scenario of that name (`"demo"`).
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        Ok(Self { document: library::load(&path).map_err(|error| failed(&error))? })
    }

    /// The scenario that a dict describes, with the keys that a file has. A key with the value `None` counts as left out.
    ///
    /// >>> import pliant
    /// >>> link = {"rate": "10Gbit/s", "delay": "1us"}
    /// >>> search = {"kind": "poisson", "size": "20kB", "load": 0.4, "transport": "dctcp"}
    /// >>> pliant.Scenario.from_dict({
    /// ...     "duration": "1ms",
    /// ...     "topology": {"kind": "star", "hosts": 4, "link": link},
    /// ...     "traffic": {"search": search},
    /// ... }, "mine")
    /// Scenario("mine": 4 hosts, 1 groups, seed 1)
    #[staticmethod]
    #[pyo3(signature = (keys, name = "scenario"))]
    fn from_dict(keys: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        Ok(Self { document: Document::of_table(values::table(keys)?, name) })
    }

    /// The scenario of a text as a file has it. Relative paths start from the folder of `file`, which errors name.
    #[staticmethod]
    #[pyo3(signature = (text, file = "scenario.toml"))]
    fn from_toml(text: &str, file: &str) -> PyResult<Self> {
        Self::parsed(text, file)
    }

    /// The scenario with one key changed, as by `--set` on the command line: the last part of a key is enough where only
    /// one key ends so.
    ///
    /// >>> import pliant
    /// >>> pliant.Scenario.load("demo").set("search.load", 0.5).to_dict()["traffic"]["search"]["load"]
    /// 0.5
    fn set(&self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let place = Place::Flag(format!("set {key}"));
        self.with(&[Override { key: key.to_owned(), value: values::value(value, key, 0)?, place }])
    }

    /// The scenario as one of the variants that it names.
    fn variant(&self, name: &str) -> PyResult<Self> {
        let variants = self.document.variants().map_err(|error| refused(&error))?;
        if let Some((_, overrides)) = variants.iter().find(|(variant, _)| variant == name) {
            return self.with(overrides);
        }
        let names: Vec<String> = variants.into_iter().map(|(name, _)| name).collect();
        Err(refused_value("variants", &pliant_sim::suggest::unknown("variant", name, &names)))
    }

    /// The names of its variants.
    ///
    /// >>> import pliant
    /// >>> len(pliant.Scenario.load("demo").variants) > 1
    /// True
    #[getter]
    fn variants(&self) -> PyResult<Vec<String>> {
        let variants = self.document.variants().map_err(|error| refused(&error))?;
        Ok(variants.into_iter().map(|(name, _)| name).collect())
    }

    /// Its name.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.resolve(py)?.name().to_owned())
    }

    /// Its seed.
    #[getter]
    fn seed(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.resolve(py)?.spec.seed)
    }

    /// Every setting with its default filled in, as the text of a file. Raises what a run would.
    fn to_toml(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.resolve(py)?.to_toml())
    }

    /// The same as a dict.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let table = toml::Value::Table(self.resolve(py)?.to_table());
        Ok(values::to_python(py, &table)?.cast_into::<PyDict>()?)
    }

    /// Raises what a run would, and returns what is odd, as `pliant check` warns of it.
    fn check(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.resolve(py)?.warnings)
    }

    /// Seconds of a processor and bytes of memory that a run will take, about.
    fn estimate(&self, py: Python<'_>) -> PyResult<(f64, u64)> {
        let estimate = self.resolve(py)?.estimate();
        Ok((estimate.cpu_s(), estimate.memory_bytes))
    }

    fn __repr__(&self) -> String {
        match self.document.resolve() {
            Ok(resolved) => format!(
                "Scenario({:?}: {} hosts, {} groups, seed {})",
                resolved.name(),
                resolved.topology.hosts(),
                resolved.groups.len(),
                resolved.spec.seed
            ),
            Err(error) => format!("Scenario(not valid: {error})"),
        }
    }

    /// For `copy` and `pickle`: the resolved text, which stands for itself on another machine.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String, String))> {
        let resolved = slf.get().resolve(slf.py())?;
        let file = format!("{}.toml", resolved.name());
        Ok((slf.get_type().getattr("from_toml")?, (resolved.to_toml(), file)))
    }
}
