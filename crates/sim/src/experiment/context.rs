//! The runs that expressions look at.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rhai::{Dynamic, EvalAltResult};

use super::axes::Scalar;
use super::runs::{Job, Plan};
use crate::results::RunResult;

/// Results kept in memory at once, in bytes; others are read again when they are needed.
const KEPT_BYTES: usize = 256 << 20;

/// A measure's failure, told to the engine.
pub(super) type Failure = Box<EvalAltResult>;

/// The data lack what is asked of them. In a check, whose data are made up, that says nothing.
#[derive(Clone)]
pub(super) struct Lacking(pub(super) String);

/// A failure that depends on the data.
#[allow(clippy::unnecessary_box_returns, reason = "the engine boxes its errors")]
pub(super) fn lacking(why: impl Into<String>) -> Failure {
    Box::new(EvalAltResult::ErrorRuntime(Dynamic::from(Lacking(why.into())), rhai::Position::NONE))
}

/// What a run yields, or why it cannot be had.
pub(super) type Source<'s> = Box<dyn Fn(&Job) -> Result<RunResult, String> + 's>;

/// The runs that expressions look at, and for which seeds.
pub(super) struct Context {
    pub(super) plan: Plan,
    /// Runs are made up: only names and types are checked.
    pub(super) is_check: bool,
    source: Source<'static>,
    kept: RefCell<Vec<(*const Job, Rc<RunResult>)>>,
    bound: RefCell<Vec<(String, Scalar)>>,
    seeds: RefCell<Vec<usize>>,
    lower_bound: Cell<bool>,
}

impl Context {
    pub(super) fn new(plan: Plan, source: Source<'static>, is_check: bool) -> Self {
        let (kept, bound, seeds) = (RefCell::default(), RefCell::default(), RefCell::default());
        Self { plan, is_check, source, kept, bound, seeds, lower_bound: Cell::new(false) }
    }

    /// From now on expressions look at these seeds, by their place in the plan, with these axes bound.
    pub(super) fn look_at(&self, seeds: &[usize], bound: &[(String, Scalar)]) {
        *self.seeds.borrow_mut() = seeds.to_vec();
        *self.bound.borrow_mut() = bound.to_vec();
    }

    /// Whether a value that was taken since could be larger; asked once.
    pub(super) fn take_lower_bound(&self) -> bool {
        self.lower_bound.take()
    }

    /// The results of the run `point` for the seeds in question, one after the other.
    pub(super) fn each_result(&self, point: usize, visit: &mut dyn FnMut(&RunResult)) -> Result<(), Failure> {
        let seeds = self.seeds.borrow().clone();
        for seed in seeds {
            let job = &self.plan.points[point].jobs[seed];
            visit(&*self.result(job)?);
        }
        Ok(())
    }

    fn result(&self, job: &Job) -> Result<Rc<RunResult>, Failure> {
        let mut kept = self.kept.borrow_mut();
        let key = std::ptr::from_ref(job);
        if let Some(at) = kept.iter().position(|(other, _)| *other == key) {
            let found = kept.remove(at);
            kept.push(found);
        } else {
            let result = (self.source)(job).map_err(|why| Failure::from(why.as_str()))?;
            kept.push((key, Rc::new(result)));
            while kept.len() > 1 && kept.iter().map(|(_, result)| bytes(result)).sum::<usize>() > KEPT_BYTES {
                kept.remove(0);
            }
        }
        Ok(Rc::clone(&kept.last().expect("it was just put there").1))
    }

    /// A value that was just taken could be larger: flows were still under way.
    pub(super) fn note_lower_bound(&self) {
        self.lower_bound.set(true);
    }

    pub(super) fn point(&self, name: &str, named: &[(String, Scalar)]) -> Result<usize, Failure> {
        self.plan.point(name, named, &self.bound.borrow()).map_err(|why| why.as_str().into())
    }
}

fn bytes(result: &RunResult) -> usize {
    size_of_val(&result.flows[..])
        + size_of_val(&result.ports[..])
        + size_of_val(&result.queue_samples[..])
        + size_of_val(&result.throughput_samples[..])
        + size_of_val(&result.reflex_samples[..])
        + size_of_val(&result.window_samples[..])
}
