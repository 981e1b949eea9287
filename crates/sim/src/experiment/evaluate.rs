//! Expressions over runs.
//!
//! The language is Rhai with two changes: `/` of whole numbers does not cut off, and a function that is not known is
//! found before anything runs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rhai::packages::{
    BasicArrayPackage, BasicMapPackage, BasicMathPackage, CorePackage, LogicPackage, MoreStringPackage, Package,
};
use rhai::{Array, Dynamic, Engine, EvalAltResult, OptimizationLevel, ParseErrorType, Scope};

use super::axes::Scalar;
use super::measures;
use super::runs::{Job, Plan};
use super::spec::OverSeeds;
use crate::results::RunResult;
use crate::suggest;

/// Results kept in memory at once, in bytes; others are read again when they are needed.
const KEPT_BYTES: usize = 1 << 30;
/// Steps of one expression: more is a slip.
const MAX_OPERATIONS: u64 = 50_000_000;
/// How deep expressions may be nested, outside and inside closures. The engine's defaults are half of it in debug builds.
const MAX_DEPTHS: (usize, usize) = (64, 32);
/// Functions of the language that expressions may call beside the measures.
pub(super) const LANGUAGE: [&str; 34] = [
    "abs",
    "all",
    "atan",
    "ceiling",
    "concat",
    "contains",
    "cos",
    "exp",
    "filter",
    "find",
    "floor",
    "for_each",
    "index_of",
    "is_def_var",
    "is_nan",
    "len",
    "ln",
    "log",
    "map",
    "max",
    "min",
    "parse_float",
    "pop",
    "push",
    "range",
    "reduce",
    "round",
    "sin",
    "some",
    "sqrt",
    "tan",
    "to_float",
    "to_int",
    "to_string",
];

/// A measure's failure, told to the engine.
pub(super) type Failure = Box<EvalAltResult>;

/// The data lack what is asked of them. In a check, whose data are made up, that says nothing.
#[derive(Clone)]
struct Lacking(String);

/// A failure that depends on the data.
#[allow(clippy::unnecessary_box_returns, reason = "the engine boxes its errors")]
pub(super) fn lacking(why: impl Into<String>) -> Failure {
    Box::new(EvalAltResult::ErrorRuntime(Dynamic::from(Lacking(why.into())), rhai::Position::NONE))
}

/// What a run yields, or why it cannot be had.
pub(super) type Source<'s> = Box<dyn Fn(&Job) -> Result<RunResult, String> + 's>;

/// What an expression yields.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Outcome {
    /// A number.
    Number(f64),
    /// A list of numbers.
    List(Vec<f64>),
    /// True or false.
    Truth(bool),
    /// A list of pairs.
    Pairs(Vec<(f64, f64)>),
    /// Only the data could tell, and in a check there are none.
    Unknown,
}

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

/// Computes expressions of one experiment.
pub(super) struct Evaluator {
    engine: Engine,
    context: Rc<Context>,
    constants: Vec<(String, Dynamic)>,
}

/// What an expression came to, over all seeds.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Evaluated {
    pub(super) outcome: Outcome,
    /// What each seed came to, where each was computed alone.
    pub(super) by_seed: Vec<Outcome>,
    /// Whether flows still under way entered with the time they have taken so far.
    pub(super) lower_bound: bool,
}

impl Evaluator {
    pub(super) fn new(plan: Plan, parameters: &toml::Table, source: Source<'static>, is_check: bool) -> Self {
        let context = Rc::new(Context {
            plan,
            is_check,
            source,
            kept: RefCell::default(),
            bound: RefCell::default(),
            seeds: RefCell::default(),
            lower_bound: Cell::new(false),
        });
        let constants = parameters.iter().map(|(name, value)| (name.clone(), dynamic(value))).collect();
        Self { engine: engine(&context), context, constants }
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.context.plan
    }

    /// Computes `text` with `bound` axes, and `x` if it is given.
    pub(super) fn evaluate(
        &self,
        text: &str,
        over_seeds: OverSeeds,
        bound: &[(String, Scalar)],
        x: Option<&Scalar>,
    ) -> Result<Evaluated, String> {
        self.context.lower_bound.set(false);
        *self.context.bound.borrow_mut() = bound.to_vec();
        let all: Vec<usize> = (0..self.plan().seeds.len()).collect();
        let one = |seeds: &[usize]| {
            *self.context.seeds.borrow_mut() = seeds.to_vec();
            let seed = if let [only] = seeds { Some(self.plan().seeds[*only]) } else { None };
            self.compute(text, bound, x, seed)
        };
        let pooled = over_seeds == OverSeeds::Pooled && !self.context.is_check;
        let by_seed = all.iter().filter(|_| !pooled).map(|&seed| one(&[seed])).collect::<Result<Vec<_>, _>>()?;
        let outcome = if pooled { one(&all)? } else { mean(&by_seed)? };
        Ok(Evaluated { outcome, by_seed, lower_bound: self.context.lower_bound.get() })
    }

    /// Computes `text` for the first seed alone.
    pub(super) fn evaluate_first(&self, text: &str) -> Result<Outcome, String> {
        self.context.bound.borrow_mut().clear();
        *self.context.seeds.borrow_mut() = vec![0];
        self.compute(text, &[], None, self.plan().seeds.first().copied())
    }

    fn compute(
        &self,
        text: &str,
        bound: &[(String, Scalar)],
        x: Option<&Scalar>,
        seed: Option<u64>,
    ) -> Result<Outcome, String> {
        let mut scope = Scope::new();
        for (name, value) in &self.constants {
            scope.push_dynamic(name.as_str(), value.clone());
        }
        let x = x.map(|x| ("x".to_owned(), x.clone()));
        let seed = seed.map(|seed| ("seed".to_owned(), Scalar::Number(seed as f64)));
        for (name, value) in bound.iter().cloned().chain(x).chain(seed) {
            let value = match value {
                Scalar::Number(number) => Dynamic::from_float(number),
                Scalar::Text(text) => text.into(),
            };
            scope.push_dynamic(name, value);
        }
        check_functions(text)?;
        let compiled = self.engine.compile_with_scope(&scope, text).map_err(|error| match error.err_type() {
            ParseErrorType::VariableUndefined(name) => {
                let names: Vec<String> = scope.iter().map(|(name, ..)| name.to_owned()).collect();
                suggest::unknown("name", name, &names)
            }
            _ => error.to_string().replace('\n', " "),
        })?;
        match self.engine.eval_ast_with_scope::<Dynamic>(&mut scope, &compiled) {
            Ok(value) => outcome(&value),
            Err(error) if self.context.is_check && depends_on_data(&error) => Ok(Outcome::Unknown),
            Err(error) => Err(explain(*error)),
        }
    }
}

fn engine(context: &Rc<Context>) -> Engine {
    let mut engine = Engine::new_raw();
    CorePackage::new().register_into_engine(&mut engine);
    LogicPackage::new().register_into_engine(&mut engine);
    BasicMathPackage::new().register_into_engine(&mut engine);
    BasicArrayPackage::new().register_into_engine(&mut engine);
    BasicMapPackage::new().register_into_engine(&mut engine);
    MoreStringPackage::new().register_into_engine(&mut engine);
    engine
        .set_strict_variables(true)
        .set_optimization_level(OptimizationLevel::None)
        .set_fast_operators(false)
        .set_max_operations(MAX_OPERATIONS)
        .set_max_expr_depths(MAX_DEPTHS.0, MAX_DEPTHS.1)
        .disable_symbol("eval");
    engine.register_fn("/", |a: i64, b: i64| a as f64 / b as f64);
    measures::register_run(&mut engine, context);
    measures::register(&mut engine);
    engine
}

/// Why `name` cannot be a variable of expressions.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let compiles = || Engine::new_raw().compile(format!("let {name} = 0;")).is_ok();
    let taken = ["x", "seed"].contains(&name);
    if is_word && !taken && compiles() { Ok(()) } else { Err(format!("`{name}` cannot be a variable of expressions")) }
}

/// A constant of a file.
fn dynamic(value: &toml::Value) -> Dynamic {
    match value {
        toml::Value::Integer(number) => Dynamic::from_float(*number as f64),
        toml::Value::Float(number) => Dynamic::from_float(*number),
        toml::Value::Boolean(truth) => (*truth).into(),
        toml::Value::Array(items) => Dynamic::from_array(items.iter().map(dynamic).collect()),
        other => other.as_str().map_or_else(|| other.to_string(), str::to_owned).into(),
    }
}

/// Finds calls of functions that do not exist: the engine itself would only notice where it comes by.
fn check_functions(text: &str) -> Result<(), String> {
    let names: Vec<String> =
        measures::names().into_iter().chain(["run"].into_iter().chain(LANGUAGE).map(str::to_owned)).collect();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut quote, mut word) = (None, String::new());
    for c in text.chars() {
        match quote {
            Some(open) => {
                if c == open {
                    quote = None;
                }
            }
            None if "\"'`".contains(c) => {
                (quote, word) = (Some(c), String::new());
            }
            None if is_word(c) => word.push(c),
            None => {
                let is_call = c == '(' && word.starts_with(|c: char| c.is_ascii_alphabetic());
                if is_call
                    && !["if", "while", "in", "return", "switch"].contains(&word.as_str())
                    && !names.contains(&word)
                {
                    return Err(suggest::unknown("function", &word, &names));
                }
                word.clear();
            }
        }
    }
    Ok(())
}

fn depends_on_data(error: &EvalAltResult) -> bool {
    match error {
        EvalAltResult::ErrorInFunctionCall(_, _, inner, _) => depends_on_data(inner),
        EvalAltResult::ErrorRuntime(value, _) => value.is::<Lacking>(),
        EvalAltResult::ErrorArrayBounds(..) | EvalAltResult::ErrorArithmetic(..) => true,
        _ => false,
    }
}

/// One line about what went wrong.
fn explain(error: EvalAltResult) -> String {
    let text = match error {
        EvalAltResult::ErrorInFunctionCall(_, _, inner, _) => return explain(*inner),
        EvalAltResult::ErrorRuntime(value, _) => match value.try_cast_result::<Lacking>() {
            Ok(Lacking(why)) => why,
            Err(value) => value.to_string(),
        },
        EvalAltResult::ErrorFunctionNotFound(signature, _) => {
            format!("no function takes these: {}", signature.replace("rust::", "").replace(measures::TYPE_PREFIX, ""))
        }
        other => other.to_string(),
    };
    text.replace('\n', " ")
}

fn outcome(value: &Dynamic) -> Result<Outcome, String> {
    if let Some(number) = measures::number(value) {
        return Ok(Outcome::Number(number));
    }
    if let Ok(truth) = value.as_bool() {
        return Ok(Outcome::Truth(truth));
    }
    let kind = value.type_name();
    let refuse = || format!("gives {kind}, not a number, a list of numbers, or true or false");
    let items = value.read_lock::<Array>().ok_or_else(refuse)?;
    if let Some(numbers) = items.iter().map(measures::number).collect() {
        return Ok(Outcome::List(numbers));
    }
    let pair = |item: &Dynamic| {
        let pair = item.read_lock::<Array>()?;
        let [x, y] = &pair[..] else { return None };
        Some((measures::number(x)?, measures::number(y)?))
    };
    items.iter().map(pair).collect::<Option<Vec<_>>>().map(Outcome::Pairs).ok_or_else(refuse)
}

/// The mean of what the seeds came to; a truth must hold for each.
fn mean(outcomes: &[Outcome]) -> Result<Outcome, String> {
    let seeds = outcomes.len() as f64;
    match &outcomes[0] {
        _ if outcomes.len() == 1 => Ok(outcomes[0].clone()),
        _ if outcomes.contains(&Outcome::Unknown) => Ok(Outcome::Unknown),
        Outcome::Number(_) => {
            let numbers = outcomes.iter().map(|outcome| if let Outcome::Number(n) = outcome { Some(*n) } else { None });
            let sum: Option<f64> = numbers.sum();
            sum.map(|sum| Outcome::Number(sum / seeds)).ok_or_else(unlike)
        }
        Outcome::Truth(_) => Ok(Outcome::Truth(outcomes.iter().all(|outcome| *outcome == Outcome::Truth(true)))),
        Outcome::List(first) => {
            let mut sums = vec![0.0; first.len()];
            for outcome in outcomes {
                let Outcome::List(list) = outcome else { return Err(unlike()) };
                if list.len() != sums.len() {
                    return Err(
                        "gives lists of different lengths for different seeds: use over_seeds = \"pooled\"".into()
                    );
                }
                sums.iter_mut().zip(list).for_each(|(sum, value)| *sum += value);
            }
            Ok(Outcome::List(sums.into_iter().map(|sum| sum / seeds).collect()))
        }
        Outcome::Pairs(_) | Outcome::Unknown => Ok(outcomes[0].clone()),
    }
}

fn unlike() -> String {
    "gives different kinds of values for different seeds".to_owned()
}
