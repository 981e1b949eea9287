//! `run(NAME)`: the way to everything that is measured.

use std::rc::Rc;

use rhai::{Dynamic, Engine, ImmutableString, Map};

use super::values::number;
use crate::experiment::axes::Scalar;
use crate::experiment::context::{Context, Failure};
use crate::results::RunResult;
use crate::suggest;

/// A run, with every seed in question.
#[derive(Clone)]
pub(in crate::experiment) struct RunRef {
    pub(in crate::experiment) context: Rc<Context>,
    pub(in crate::experiment) point: usize,
}

impl RunRef {
    /// Visits the result of each seed in question.
    pub(in crate::experiment) fn each(&self, visit: &mut dyn FnMut(&RunResult)) -> Result<(), Failure> {
        self.context.each_result(self.point, visit)
    }

    /// The index of a traffic group.
    pub(in crate::experiment) fn group(&self, name: &str) -> Result<u16, Failure> {
        let groups = &self.context.plan.points[self.point].groups;
        let found = groups.iter().position(|group| group == name);
        found.map(|index| index as u16).ok_or_else(|| suggest::unknown("traffic group", name, groups).as_str().into())
    }

    /// Payload bytes of a full packet.
    pub(in crate::experiment) fn mss(&self) -> u64 {
        u64::from(self.context.plan.points[self.point].mss)
    }

    pub(in crate::experiment) fn is_check(&self) -> bool {
        self.context.is_check
    }

    pub(in crate::experiment) fn label(&self) -> String {
        self.context.plan.label(self.point)
    }
}

/// Makes `run` known to the engine.
pub(in crate::experiment) fn register_run(engine: &mut Engine, context: &Rc<Context>) {
    let find = |context: &Rc<Context>, name: &str, named: &[(String, Scalar)]| {
        let point = context.point(name, named)?;
        Ok::<_, Failure>(RunRef { context: Rc::clone(context), point })
    };
    let own = Rc::clone(context);
    engine.register_fn("run", move |name: ImmutableString| find(&own, &name, &[]));
    let own = Rc::clone(context);
    engine.register_fn("run", move |name: ImmutableString, values: Map| {
        let scalar =
            |value: &Dynamic| number(value).map_or_else(|| Scalar::of_text(&value.to_string()), Scalar::Number);
        let named: Vec<_> = values.iter().map(|(axis, value)| (axis.to_string(), scalar(value))).collect();
        find(&own, &name, &named)
    });
}
