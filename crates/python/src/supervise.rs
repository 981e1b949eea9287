//! Work beside Python: it runs without the interpreter's lock, tells how far it is, and stops when Python wants.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pliant_cli::library::RunProgress;
use pyo3::prelude::*;

use crate::controller;

/// How often signals are looked for and progress is told.
const INTERVAL: Duration = Duration::from_millis(50);

/// How far the runs of some work are: what `tell` is called with.
pub(crate) struct Progress {
    /// From 0 to 1.
    pub(crate) done: f64,
    /// Runs that are over.
    pub(crate) runs_over: u64,
    /// Runs.
    pub(crate) runs: u64,
    /// Packet-hops so far.
    pub(crate) packet_hops: u64,
}

impl Progress {
    pub(crate) fn of(progress: &RunProgress) -> Self {
        let (runs_over, runs) = progress.runs();
        Self { done: progress.done(), runs_over, runs, packet_hops: progress.packet_hops() }
    }
}

/// Does `work` on a thread of its own, without Python's lock. Every so often `tell` is called with what `look` sees. An
/// exception of it, of a signal's handler or of a controller in Python raises the flag that the work looks at, and is raised
/// once the work has ended.
pub(crate) fn supervised<T: Send>(
    py: Python<'_>,
    tell: Option<&Py<PyAny>>,
    look: impl Fn() -> Option<Progress> + Send + Sync,
    work: impl FnOnce(&AtomicBool) -> T + Send,
) -> PyResult<T> {
    let interrupt = AtomicBool::new(false);
    let before = controller::exceptions();
    let (result, raised) = py.detach(|| {
        thread::scope(|scope| {
            let (over, is_over) = channel::<()>();
            let interrupt = &interrupt;
            let worker = scope.spawn(move || {
                // Dropped when the work ends, also by a panic.
                let _over = over;
                work(interrupt)
            });
            let mut raised = None;
            while is_over.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let attended = Python::attach(|py| {
                    controller::raised_since(py, before)?;
                    attend(py, tell.filter(|_| raised.is_none()), &look)
                });
                if let Err(error) = attended {
                    interrupt.store(true, Ordering::Relaxed);
                    raised.get_or_insert(error);
                }
            }
            (worker.join(), raised)
        })
    });
    match (result, raised) {
        (Err(panic), _) => std::panic::resume_unwind(panic),
        (Ok(_), Some(error)) => Err(error),
        (Ok(value), None) => controller::raised_since(py, before).map(|()| value),
    }
}

fn attend(py: Python<'_>, tell: Option<&Py<PyAny>>, look: impl Fn() -> Option<Progress>) -> PyResult<()> {
    py.check_signals()?;
    if let (Some(tell), Some(Progress { done, runs_over, runs, packet_hops })) = (tell, look()) {
        tell.call1(py, (done, runs_over, runs, packet_hops))?;
    }
    Ok(())
}
