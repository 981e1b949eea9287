//! Groups that refer to others.

use super::context::Context;
use super::duplicates::DuplicatesSpec;
use super::environment::Environment;
use super::error::TrafficError;
use super::poisson::PoissonSpec;
use super::remainder::RemainderSpec;
use super::spec::{TrafficGroup, TrafficSpec};
use crate::suggest;

/// One group, all groups, and what they run in.
#[derive(Clone, Copy)]
pub(super) struct GroupAmongOthers<'a> {
    pub(super) group: &'a TrafficGroup<'a>,
    /// All groups, this one among them.
    groups: &'a [TrafficGroup<'a>],
    environment: &'a Environment<'a>,
}

/// Each group in its surroundings.
pub(super) fn each<'a>(
    groups: &'a [TrafficGroup<'a>],
    environment: &'a Environment<'a>,
) -> impl Iterator<Item = GroupAmongOthers<'a>> {
    groups.iter().map(move |group| GroupAmongOthers { group, groups, environment })
}

impl<'a> GroupAmongOthers<'a> {
    pub(super) fn context(&self) -> Context<'a> {
        let TrafficGroup { name, packets, messages, .. } = *self.group;
        Context { name, packets, messages, environment: self.environment }
    }

    /// The group whose flows are sent again.
    pub(super) fn duplicated(&self, spec: &DuplicatesSpec) -> Result<Self, TrafficError> {
        let originals = self.other("of", &spec.of)?;
        if matches!(originals.group.spec, TrafficSpec::Duplicates(_)) {
            return Err(self.context().error("of", format!("{} is itself a group of duplicates", spec.of)));
        }
        Ok(originals)
    }

    /// The group that leaves flows out, and what it says.
    pub(super) fn whole(&self, remainder: &RemainderSpec) -> Result<(Self, &'a PoissonSpec), TrafficError> {
        let of = &remainder.of;
        let other = self.other("of", of)?;
        match other.group.spec {
            TrafficSpec::Poisson(spec) if spec.size_at_least.is_some() || spec.size_below.is_some() => {
                Ok((other, spec))
            }
            _ => {
                let why = format!("{of} is no poisson group with size_at_least or size_below");
                Err(self.context().error("of", why))
            }
        }
    }

    /// Another group by its name.
    fn other(&self, key: &'static str, name: &str) -> Result<Self, TrafficError> {
        let others = || self.groups.iter().filter(|group| group.name != self.group.name);
        if let Some(group) = others().find(|group| group.name == name) {
            return Ok(Self { group, ..*self });
        }
        let names: Vec<&str> = others().map(|group| group.name).collect();
        let hint = match names[..] {
            [] => ", there is none".to_owned(),
            _ => suggest::hint(name, names.iter().copied()),
        };
        Err(self.context().error(key, format!("no other group is called \"{name}\"{hint}")))
    }
}
