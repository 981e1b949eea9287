//! Expressions over runs.
//!
//! The language is Rhai with two changes: `/` of whole numbers does not cut off, and a function that is not known is
//! found before anything runs.

use std::rc::Rc;

use rhai::packages::{
    BasicArrayPackage, BasicMapPackage, BasicMathPackage, CorePackage, LogicPackage, MoreStringPackage, Package,
};
use rhai::{Array, Dynamic, Engine, EvalAltResult, OptimizationLevel, ParseErrorType, Scope};

use super::axes::Scalar;
use super::context::{Context, Lacking, Source};
use super::measures::{self, number};
use super::runs::Plan;
use super::spec::OverSeeds;
use crate::suggest;

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
        let context = Rc::new(Context::new(plan, source, is_check));
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
        self.context.take_lower_bound();
        let all: Vec<usize> = (0..self.plan().seeds.len()).collect();
        let one = |seeds: &[usize]| {
            self.context.look_at(seeds, bound);
            let seed = if let [only] = seeds { Some(self.plan().seeds[*only]) } else { None };
            self.compute(text, bound, x, seed)
        };
        let pooled = over_seeds == OverSeeds::Pooled && !self.context.is_check;
        let by_seed = all.iter().filter(|_| !pooled).map(|&seed| one(&[seed])).collect::<Result<Vec<_>, _>>()?;
        let outcome = if pooled { one(&all)? } else { mean(&by_seed)? };
        Ok(Evaluated { outcome, by_seed, lower_bound: self.context.take_lower_bound() })
    }

    /// Computes `text` for the first seed alone.
    pub(super) fn evaluate_first(&self, text: &str) -> Result<Outcome, String> {
        self.context.look_at(&[0], &[]);
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
            format!("no function takes these: {}", without_modules(signature))
        }
        other => other.to_string(),
    };
    text.replace('\n', " ")
}

/// Names of types without the modules that they are in.
fn without_modules(mut signature: String) -> String {
    while let Some(at) = signature.find("::") {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let start = signature[..at].rfind(|c| !is_word(c)).map_or(0, |before| before + 1);
        signature.replace_range(start..at + 2, "");
    }
    signature
}

fn outcome(value: &Dynamic) -> Result<Outcome, String> {
    if let Some(number) = number(value) {
        return Ok(Outcome::Number(number));
    }
    if let Ok(truth) = value.as_bool() {
        return Ok(Outcome::Truth(truth));
    }
    let kind = value.type_name();
    let refuse = || format!("gives {kind}, not a number, a list of numbers, or true or false");
    let items = value.read_lock::<Array>().ok_or_else(refuse)?;
    if let Some(numbers) = items.iter().map(number).collect() {
        return Ok(Outcome::List(numbers));
    }
    let pair = |item: &Dynamic| {
        let pair = item.read_lock::<Array>()?;
        let [x, y] = &pair[..] else { return None };
        Some((number(x)?, number(y)?))
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

/// The smallest and largest number of several seeds.
pub(super) fn spread(by_seed: &[Outcome]) -> Option<(f64, f64)> {
    let numbers =
        by_seed.iter().map(|outcome| if let Outcome::Number(number) = outcome { Some(*number) } else { None });
    let numbers = numbers.collect::<Option<Vec<f64>>>().filter(|numbers| numbers.len() > 1)?;
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    Some(numbers.into_iter().fold(ends, |(least, most), number| (least.min(number), most.max(number))))
}
