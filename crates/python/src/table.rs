//! Tables of a run, handed over by Arrow's C interface: no value is copied on the way.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Float64Array, Int32Array, RecordBatch, RecordBatchIterator};
use arrow_array::{RecordBatchOptions, StringArray, UInt64Array};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, Field, Schema};
use pliant_sim::output::{ColumnValues, FrameColumn};
use pyo3::exceptions::{PyImportError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

/// A table in Arrow's columns. Whatever reads the Arrow PyCapsule interface takes it as it is: `pyarrow.table(t)`,
/// `polars.DataFrame(t)`, `duckdb.from_arrow(t)`.
#[pyclass(module = "pliant", frozen)]
pub(crate) struct Table {
    batch: RecordBatch,
}

impl Table {
    pub(crate) fn new(columns: Vec<FrameColumn>) -> PyResult<Self> {
        let blank = Blank::default();
        let columns = columns.into_iter().map(|column| array(column, &blank));
        Self::of(columns.unzip())
    }

    fn of((fields, arrays): (Vec<Field>, Vec<ArrayRef>)) -> PyResult<Self> {
        let rows = arrays.first().map_or(0, Array::len);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options);
        Ok(Self { batch: batch.map_err(|error| not_arrow(&error))? })
    }

    /// The table as pandas has it: what is absent is not a number. So pandas reads the columns of numbers where they are.
    fn with_nan(&self) -> PyResult<Self> {
        let nothing = OnceCell::new();
        let rows = self.batch.num_rows();
        let columns = self.batch.schema_ref().fields().iter().zip(self.batch.columns()).map(|(field, array)| {
            let numbers = if rows > 0 && array.null_count() == rows {
                nothing.get_or_init(|| Arc::new(Float64Array::from(vec![f64::NAN; rows])) as ArrayRef).clone()
            } else if let Some(numbers) = array.as_any().downcast_ref::<Float64Array>() {
                Arc::new(Float64Array::new(numbers.values().clone(), None))
            } else {
                array.clone()
            };
            (Field::new(field.name(), numbers.data_type().clone(), numbers.null_count() > 0), numbers)
        });
        Self::of(columns.unzip())
    }
}

fn not_arrow(error: &ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Zeros that all blank columns of a table have as their values, and what says that none of them is present. They are
/// memory that nobody has written, so it is none until somebody reads it.
#[derive(Default)]
struct Blank {
    zeros: OnceCell<Buffer>,
    absent: OnceCell<NullBuffer>,
}

impl Blank {
    fn zeros(&self, rows: usize) -> Buffer {
        self.zeros.get_or_init(|| Buffer::from_vec(vec![0u64; rows])).clone()
    }

    fn absent(&self, rows: usize) -> Option<NullBuffer> {
        Some(self.absent.get_or_init(|| NullBuffer::new_null(rows)).clone()).filter(|_| rows > 0)
    }
}

/// A field with unit and meaning, and its array.
fn array(column: FrameColumn, blank: &Blank) -> (Field, ArrayRef) {
    let FrameColumn { description, values } = column;
    let (nullable, array): (bool, ArrayRef) = match values {
        ColumnValues::Integer(values) => (false, Arc::new(UInt64Array::from(values))),
        ColumnValues::Zeros(rows) => {
            (false, Arc::new(UInt64Array::new(ScalarBuffer::new(blank.zeros(rows), 0, rows), None)))
        }
        ColumnValues::OptionalInteger { values, present } => {
            (true, Arc::new(UInt64Array::new(values.into(), nulls(present))))
        }
        ColumnValues::AbsentIntegers(rows) => {
            let zeros = ScalarBuffer::new(blank.zeros(rows), 0, rows);
            (true, Arc::new(UInt64Array::new(zeros, blank.absent(rows))))
        }
        ColumnValues::OptionalNumber { values, present } => {
            (true, Arc::new(Float64Array::new(values.into(), nulls(present))))
        }
        ColumnValues::AbsentNumbers(rows) => {
            let zeros = ScalarBuffer::new(blank.zeros(rows), 0, rows);
            (true, Arc::new(Float64Array::new(zeros, blank.absent(rows))))
        }
        ColumnValues::Text { words, rows } => {
            let rows: Vec<i32> = rows.into_iter().map(u32::cast_signed).collect();
            let words: ArrayRef = Arc::new(StringArray::from(words));
            (false, Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(rows), words)))
        }
    };
    let metadata = [("unit", description.unit), ("meaning", description.meaning)];
    let metadata: HashMap<String, String> =
        metadata.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    (Field::new(description.name, array.data_type().clone(), nullable).with_metadata(metadata), array)
}

fn nulls(present: Vec<bool>) -> Option<NullBuffer> {
    Some(NullBuffer::from(present)).filter(|nulls| nulls.null_count() > 0)
}

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

#[pymethods]
impl Table {
    /// The table as a stream of Arrow's C interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer that wants other types converts by itself: the interface allows it.
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), STREAM)
    }

    /// Names and types in Arrow's C interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref()).map_err(|error| not_arrow(&error))?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// The names of its columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// What each column means: a dict of names, units and sentences.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for field in self.batch.schema().fields() {
            let metadata = field.metadata();
            let of = |key: &str| metadata.get(key).map_or("", String::as_str);
            columns.set_item(field.name(), (of("unit"), of("meaning")))?;
        }
        Ok(columns)
    }

    /// Only the columns of these names, in this order. Nothing is copied.
    ///
    /// >>> import pliant
    /// >>> flows = pliant.run(pliant.Scenario.load("demo").set("duration", "100us")).flows
    /// >>> flows.select(["group", "fct_us"]).column_names
    /// ['group', 'fct_us']
    fn select(&self, names: Vec<String>) -> PyResult<Self> {
        let known: Vec<String> = self.column_names();
        let index = |name: &String| {
            let unknown = || PyValueError::new_err(pliant_sim::suggest::unknown("column", name, &known));
            known.iter().position(|known| known == name).ok_or_else(unknown)
        };
        let indices = names.iter().map(index).collect::<PyResult<Vec<_>>>()?;
        Ok(Self { batch: self.batch.project(&indices).map_err(|error| not_arrow(&error))? })
    }

    /// As a `pyarrow.Table`.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        package(slf.py(), "pyarrow")?.call_method1("table", (slf,))
    }

    /// As a `pandas.DataFrame`. Text is categorical.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        package(slf.py(), "pandas")?;
        // A block for each column, which is then the column of Arrow itself and no copy of it.
        let options = PyDict::new(slf.py());
        options.set_item("split_blocks", true)?;
        let table = Bound::new(slf.py(), slf.get().with_nan()?)?;
        Self::to_arrow(&table)?.call_method("to_pandas", (), Some(&options))
    }

    /// As a `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        package(slf.py(), "polars")?.call_method1("DataFrame", (slf,))
    }

    fn __repr__(&self) -> String {
        format!("<Table of {} rows: {}>", self.batch.num_rows(), self.column_names().join(", "))
    }
}

/// A package that is an option of ours.
fn package<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    let missing = || PyImportError::new_err(format!("this needs the package {name}: `pip install {name}`"));
    py.import(name).map_err(|error| if error.is_instance_of::<PyImportError>(py) { missing() } else { error })
}
