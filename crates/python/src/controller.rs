//! Congestion controllers that are written in Python. They are for trying an idea out: each acknowledgement takes the
//! interpreter's lock and calls a method, which is about a hundred times slower than a built-in controller.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use pliant_proto::congestion::{
    AckSample, AnyController, Cause, Congestion, CongestionControl, ControllerSettings, EcnMode,
};
use pliant_proto::contract::Contract;
use pliant_proto::settings::{AnySettings, Description, OutOfRange, ReadError, Settings, Value};
use pliant_proto::time::{Instant, Span};
use pliant_proto::units::Rate;
use pliant_sim::families::{ForeignController, TcpSettings, TransportName, register_controller};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// The setting that holds the hash of the class's code. A resolved scenario names it, so a stored point of a sweep is not
/// taken for one of changed code, and a worker with other code refuses the scenario.
const CODE: &str = "code";

/// A class that Python has registered.
#[derive(Debug)]
struct Kind {
    name: &'static str,
    class: Py<PyAny>,
    code: String,
    /// Keyword parameters of the class with their defaults.
    settings: Vec<(&'static str, f64)>,
    ecn: EcnMode,
    one_way_delay: bool,
    hold_time: bool,
}

/// The classes by their names. A class that is registered again replaces the earlier one, as a notebook does.
static KINDS: RwLock<BTreeMap<&'static str, Arc<Kind>>> = RwLock::new(BTreeMap::new());

/// Exceptions of controllers: how many there were, and the last. A transport cannot fail, so whoever waits for a run looks
/// here.
static EXCEPTIONS: Mutex<(u64, Option<PyErr>)> = Mutex::new((0, None));

/// How many exceptions controllers have raised so far.
pub(crate) fn exceptions() -> u64 {
    EXCEPTIONS.lock().unwrap_or_else(PoisonError::into_inner).0
}

/// An exception that a controller has raised after there were `before`. With several runs at once each of them sees it: none
/// of them can tell whose it was.
pub(crate) fn raised_since(py: Python<'_>, before: u64) -> PyResult<()> {
    let exceptions = EXCEPTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    match &exceptions.1 {
        Some(error) if exceptions.0 > before => Err(error.clone_ref(py)),
        _ => Ok(()),
    }
}

fn note(error: PyErr) {
    let mut exceptions = EXCEPTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    *exceptions = (exceptions.0 + 1, Some(error));
}

/// Lets scenarios name a controller. The package's `register_controller` has looked at the class.
#[pyfunction]
#[pyo3(signature = (name, class_, code, settings))]
pub(crate) fn add_controller(
    py: Python<'_>,
    name: &str,
    class_: Py<PyAny>,
    code: &str,
    settings: Vec<(String, f64)>,
) -> PyResult<()> {
    let well_formed = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_lowercase())
            && text
                .chars()
                .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_+".contains(letter))
    };
    if !well_formed(name) {
        let why = format!("the name {name:?} must have lower-case letters, digits, `-`, `_` and `+`, a letter first");
        return Err(PyValueError::new_err(why));
    }
    let of_tcp = TcpSettings::describe();
    if let Some((key, _)) = settings.iter().find(|(key, _)| key == CODE || of_tcp.iter().any(|of| of.key == key)) {
        return Err(PyValueError::new_err(format!("`{key}` is a setting of TCP: the parameter needs another name")));
    }
    let bound = class_.bind(py);
    let text: String = bound.getattr("ecn")?.extract()?;
    let ecn = match text.as_str() {
        "off" => EcnMode::Off,
        "classic" => EcnMode::Classic,
        "accurate" => EcnMode::Accurate,
        _ => {
            return Err(PyValueError::new_err(format!(
                "ecn = {text:?}: it must be \"off\", \"classic\" or \"accurate\""
            )));
        }
    };
    let one_way_delay = bound.getattr("needs_one_way_delay")?.extract()?;
    let hold_time = bound.getattr("needs_hold_time")?.extract()?;
    let known = KINDS.read().unwrap_or_else(PoisonError::into_inner).get(name).map(|kind| kind.name);
    if known.is_none() && TransportName::find(name).is_some() {
        return Err(PyValueError::new_err(format!("there is a transport `{name}` already")));
    }
    // Names and keys live as long as the process, as those of built-in controllers do.
    let forever = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    let name = known.unwrap_or_else(|| forever(name));
    let settings = settings.iter().map(|(key, default)| (forever(key), *default)).collect();
    let kind = Arc::new(Kind { name, class: class_, code: code.to_owned(), settings, ecn, one_way_delay, hold_time });
    // One flow's controller, to hear of mistakes before there is a run.
    let defaults: Vec<f64> = kind.settings.iter().map(|(_, default)| *default).collect();
    PythonController::construct(py, &kind, 1460, &defaults)?;
    KINDS.write().unwrap_or_else(PoisonError::into_inner).insert(name, kind);
    if known.is_none() {
        let settings = Box::leak(Box::new(move || -> Box<dyn ControllerSettings> {
            let kind = KINDS.read().unwrap_or_else(PoisonError::into_inner)[name].clone();
            let values = kind.settings.iter().map(|(_, default)| *default).collect();
            Box::new(PythonSettings { kind, values })
        }));
        register_controller(ForeignController { name, description: "written in Python", honours: &[], settings });
    }
    Ok(())
}

/// The settings of a class.
#[derive(Debug)]
struct PythonSettings {
    kind: Arc<Kind>,
    values: Vec<f64>,
}

impl PythonSettings {
    fn index(&self, key: &str) -> Option<usize> {
        self.kind.settings.iter().position(|(known, _)| *known == key)
    }
}

impl AnySettings for PythonSettings {
    fn describe_all(&self) -> Vec<Description> {
        let describe = |key, kind: &str, default: String, meaning: &str| Description {
            key,
            meaning: meaning.to_owned(),
            kind: kind.to_owned(),
            default,
            range: String::new(),
            source: "",
        };
        let own = self.kind.settings.iter();
        own.map(|(key, default)| describe(key, "number", default.to_string(), "A parameter of the class."))
            .chain([describe(CODE, "text", self.kind.code.clone(), "The hash of the class's code.")])
            .collect()
    }

    fn get_value(&self, key: &str) -> Option<Option<Value>> {
        if key == CODE {
            return Some(Some(Value::Text(self.kind.code.clone())));
        }
        Some(Some(Value::Number(self.values[self.index(key)?])))
    }

    #[allow(clippy::cast_precision_loss, reason = "whole numbers that people write are small")]
    fn set_value(&mut self, key: &str, value: &Value) -> Option<Result<(), ReadError>> {
        if key == CODE {
            if *value == Value::Text(self.kind.code.clone()) {
                return Some(Ok(()));
            }
            let (name, code) = (self.kind.name, &self.kind.code);
            let why = format!("the controller `{name}` of this process has other code: \"{code}\"");
            return Some(Err(ReadError::Wrong(why)));
        }
        let index = self.index(key)?;
        self.values[index] = match value {
            Value::Integer(number) => *number as f64,
            Value::Number(number) => *number,
            other => return Some(Err(ReadError::Wrong(format!("`{other}` where a number should be")))),
        };
        Some(Ok(()))
    }

    fn check_all(&self) -> Result<(), OutOfRange> {
        let odd = self.kind.settings.iter().zip(&self.values).find(|(_, value)| !value.is_finite());
        odd.map_or(Ok(()), |((key, _), _)| Err(OutOfRange { key, why: "must be finite".to_owned() }))
    }
}

impl ControllerSettings for PythonSettings {
    fn controller(&self, mss: u16, _: &Contract) -> AnyController {
        AnyController::foreign(PythonController::new(&self.kind, mss, self.values.clone()))
    }
}

/// What the transport asks for before each packet, read after each call.
#[derive(Clone, Copy, Debug)]
struct Windows {
    window: u64,
    ssthresh: u64,
    pacing_rate: Option<Rate>,
}

/// The controller of one flow.
#[derive(Debug)]
struct PythonController {
    kind: Arc<Kind>,
    mss: u16,
    values: Vec<f64>,
    /// `None` after an exception: the flow keeps its window until the run ends.
    object: Option<Py<PyAny>>,
    /// Whether no method has been called yet.
    new: bool,
    windows: Windows,
}

impl PythonController {
    fn construct(py: Python<'_>, kind: &Kind, mss: u16, values: &[f64]) -> PyResult<(Py<PyAny>, Windows)> {
        let keywords = PyDict::new(py);
        for ((key, _), value) in kind.settings.iter().zip(values) {
            keywords.set_item(*key, *value)?;
        }
        let object = kind.class.bind(py).call((mss,), Some(&keywords))?;
        let windows = Windows::of(&object)?;
        Ok((object.unbind(), windows))
    }

    fn new(kind: &Arc<Kind>, mss: u16, values: Vec<f64>) -> Self {
        let made = Python::attach(|py| Self::construct(py, kind, mss, &values));
        let (object, windows) = match made {
            Ok((object, windows)) => (Some(object), windows),
            Err(error) => {
                note(error);
                (None, Windows { window: u64::from(mss), ssthresh: u64::MAX, pacing_rate: None })
            }
        };
        Self { kind: kind.clone(), mss, values, object, new: true, windows }
    }

    fn call(&mut self, act: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>) {
        self.new = false;
        let Some(object) = &self.object else { return };
        let called = Python::attach(|py| {
            let object = object.bind(py);
            act(object)?;
            Windows::of(object)
        });
        match called {
            Ok(windows) => self.windows = windows,
            Err(error) => {
                self.object = None;
                note(error);
            }
        }
    }
}

impl Windows {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let bytes = |name: &str| -> PyResult<Option<u64>> {
            let value = object.getattr(name)?;
            if value.is_none() {
                return Ok(None);
            }
            let number: f64 = value.extract().map_err(|_| PyTypeError::new_err(format!("{name} must be a number")))?;
            if number.is_nan() || number < 1.0 {
                return Err(PyValueError::new_err(format!("{name} is {number}: it must be at least 1")));
            }
            // A float beyond the largest integer becomes that integer.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 1, and saturating")]
            Ok(Some(value.extract().unwrap_or(number as u64)))
        };
        let window = bytes("window")?.ok_or_else(|| PyTypeError::new_err("window must be a number"))?;
        let ssthresh = bytes("ssthresh")?.unwrap_or(u64::MAX);
        let pacing_rate = bytes("pacing_rate")?.map(Rate::from_bits_per_sec);
        Ok(Self { window, ssthresh, pacing_rate })
    }
}

impl Clone for PythonController {
    fn clone(&self) -> Self {
        if self.new {
            return Self::new(&self.kind, self.mss, self.values.clone());
        }
        let copy = |py: Python<'_>| -> PyResult<Option<Py<PyAny>>> {
            let Some(object) = &self.object else { return Ok(None) };
            Ok(Some(py.import("copy")?.call_method1("deepcopy", (object,))?.unbind()))
        };
        let object = Python::attach(copy).unwrap_or_else(|error| {
            note(error);
            None
        });
        Self { kind: self.kind.clone(), mss: self.mss, values: self.values.clone(), object, ..*self }
    }
}

fn seconds(span: Span) -> f64 {
    span.as_secs_f64()
}

fn since_start(now: Instant) -> f64 {
    seconds(now.since(Instant::ZERO))
}

/// What one acknowledgement says. Times are in seconds since the start of the run.
#[pyclass(module = "pliant", frozen, get_all)]
#[allow(clippy::struct_excessive_bools, reason = "as the transport tells them")]
pub(crate) struct Ack {
    /// When it arrived.
    now: f64,
    /// Bytes newly acknowledged in sequence; zero for a duplicate.
    acked: u64,
    /// First byte not yet acknowledged.
    unacked: u64,
    /// Next new byte to be sent.
    next: u64,
    /// Bytes in flight before this acknowledgement.
    flight: u64,
    /// Whether it echoes congestion.
    ece: bool,
    /// Round-trip time that it measured, or None.
    rtt: Option<f64>,
    /// One-way delay that it reports, or None; only with `needs_one_way_delay`. On a real network the two clocks differ, so
    /// only differences of delays mean something; it wraps after 4.29 seconds.
    delay: Option<f64>,
    /// How long the receiver held the packet, or None; only with `needs_hold_time`.
    hold: Option<f64>,
    /// Smoothed round-trip time (RFC 6298), zero before the first sample.
    smoothed_rtt: f64,
    /// Whether the window limited the sender. Only then may it grow (RFC 7661).
    window_limited: bool,
    /// Whether the sender is repairing a loss. Windows do not grow then.
    in_recovery: bool,
}

/// A congestion event.
#[pyclass(module = "pliant", name = "Congestion", frozen, get_all)]
pub(crate) struct CongestionEvent {
    /// When it was noticed, in seconds since the start of the run.
    now: f64,
    /// `"loss"`, `"ecn"` (at most once per window of data) or `"timeout"`.
    cause: &'static str,
    /// Bytes in flight when it was noticed.
    flight: u64,
    /// First byte not yet acknowledged.
    unacked: u64,
    /// Next new byte to be sent.
    next: u64,
    /// For a timeout: whether the segment times out for the first time.
    first: bool,
}

impl CongestionControl for PythonController {
    fn on_ack(&mut self, sample: &AckSample) {
        let ack = Ack {
            now: since_start(sample.now),
            acked: sample.acked,
            unacked: sample.unacked,
            next: sample.next,
            flight: sample.flight,
            ece: sample.ece,
            rtt: sample.rtt.map(seconds),
            delay: sample.delay.map(|delay| f64::from(delay.to_bits()) * 1e-9),
            hold: sample.hold.map(seconds),
            smoothed_rtt: seconds(sample.smoothed_rtt),
            window_limited: sample.window_limited,
            in_recovery: sample.in_recovery,
        };
        self.call(|object| object.call_method1("on_ack", (ack,)).map(drop));
    }

    fn on_congestion(&mut self, event: &Congestion) {
        let event = CongestionEvent {
            now: since_start(event.now),
            cause: match event.cause {
                Cause::Loss => "loss",
                Cause::Ecn => "ecn",
                Cause::Timeout => "timeout",
            },
            flight: event.flight,
            unacked: event.unacked,
            next: event.next,
            first: event.first,
        };
        self.call(|object| object.call_method1("on_congestion", (event,)).map(drop));
    }

    fn on_lost(&mut self, bytes: u64) {
        self.call(|object| object.call_method1("on_lost", (bytes,)).map(drop));
    }

    fn on_recovered(&mut self, flight: u64) {
        self.call(|object| object.call_method1("on_recovered", (flight,)).map(drop));
    }

    fn on_idle(&mut self) {
        self.call(|object| object.call_method1("on_idle", PyTuple::empty(object.py())).map(drop));
    }

    fn set_hops(&mut self, hops: u8) {
        self.call(|object| object.call_method1("set_hops", (hops,)).map(drop));
    }

    fn window(&self) -> u64 {
        self.windows.window
    }

    fn ssthresh(&self) -> u64 {
        self.windows.ssthresh
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.windows.pacing_rate
    }

    fn ecn_mode(&self) -> EcnMode {
        self.kind.ecn
    }

    fn needs_one_way_delay(&self) -> bool {
        self.kind.one_way_delay
    }

    fn needs_hold_time(&self) -> bool {
        self.kind.hold_time
    }
}
