//! The running generators of all kinds.

use super::all_to_all::AllToAll;
use super::duplicates::Duplicates;
use super::error::TrafficError;
use super::flow_spec::Arrival;
use super::groups::GroupAmongOthers;
use super::incast::Incast;
use super::objects::Objects;
use super::periodic::Periodic;
use super::poisson::Poisson;
use super::spec::TrafficSpec;
use super::trace::Trace;
use super::{closed_loop, long_flows, permutation};

/// The running generator of one group.
#[derive(Debug)]
pub(super) enum Generator {
    Poisson(Box<Poisson>),
    Incast(Box<Incast>),
    Periodic(Box<Periodic>),
    AllToAll(Box<AllToAll>),
    Listed(std::vec::IntoIter<Arrival>),
    Trace(Box<Trace>),
    Duplicates(Box<Duplicates<Generator>>),
    Objects(Box<Objects>),
}

impl Generator {
    /// Why it ended early.
    pub(super) fn error(&self) -> Option<&TrafficError> {
        match self {
            Self::Trace(trace) => trace.error(),
            Self::Duplicates(duplicates) => duplicates.originals().error(),
            _ => None,
        }
    }
}

impl Iterator for Generator {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        match self {
            Self::Poisson(generator) => generator.next(),
            Self::Incast(generator) => generator.next(),
            Self::Periodic(generator) => generator.next(),
            Self::AllToAll(generator) => generator.next(),
            Self::Listed(flows) => flows.next(),
            Self::Trace(generator) => generator.next(),
            Self::Duplicates(generator) => generator.next(),
            Self::Objects(generator) => generator.next(),
        }
    }
}

impl GroupAmongOthers<'_> {
    pub(super) fn generator(&self) -> Result<Generator, TrafficError> {
        let context = &self.context();
        Ok(match self.group.spec {
            TrafficSpec::Poisson(spec) => Generator::Poisson(Box::new(Poisson::new(spec, context)?)),
            TrafficSpec::Incast(spec) => Generator::Incast(Box::new(Incast::new(spec, context)?)),
            TrafficSpec::Periodic(spec) => Generator::Periodic(Box::new(Periodic::new(spec, context)?)),
            TrafficSpec::Permutation(spec) => Generator::Listed(permutation::flows(spec, context)?.into_iter()),
            TrafficSpec::AllToAll(spec) => Generator::AllToAll(Box::new(AllToAll::new(spec, context)?)),
            TrafficSpec::Flows(spec) => Generator::Listed(long_flows::flows(spec, context)?.into_iter()),
            TrafficSpec::ClosedLoop(spec) => Generator::Listed(closed_loop::flows(spec, context)?.into_iter()),
            TrafficSpec::Trace(spec) => Generator::Trace(Box::new(Trace::new(spec, context)?)),
            TrafficSpec::Duplicates(spec) => {
                let originals = self.duplicated(spec)?;
                let duplicates = Duplicates::new(spec, context, || originals.generator())?;
                Generator::Duplicates(Box::new(duplicates))
            }
            TrafficSpec::Remainder(spec) => {
                let (other, whole) = self.whole(spec)?;
                let remainder = Poisson::new(whole, &other.context())?.into_remainder();
                let why = || context.error("of", format!("{} leaves no flow out", spec.of));
                Generator::Poisson(Box::new(remainder.ok_or_else(why)?))
            }
            TrafficSpec::Objects(spec) => Generator::Objects(Box::new(Objects::new(spec, context)?)),
        })
    }
}
