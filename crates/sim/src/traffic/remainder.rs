//! The other part of a load that is split by size: shortest job first by size class, small and large flows under
//! different transports.

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::poisson::Poisson;
use super::{PoissonSpec, TrafficError, TrafficSpec};

/// The flows that a `poisson` group with `size_at_least` or `size_below` leaves out. Both groups together are exactly
/// the flows of that group without these keys.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemainderSpec {
    /// The group that leaves flows out.
    pub of: String,
}

impl RemainderSpec {
    /// The group that leaves flows out, and what it says.
    pub(super) fn whole<'a>(&self, context: &Context<'a>) -> Result<(Context<'a>, &'a PoissonSpec), TrafficError> {
        let other = context.other("of", &self.of)?;
        match other.group.spec {
            TrafficSpec::Poisson(spec) if spec.size_at_least.is_some() || spec.size_below.is_some() => {
                Ok((other, spec))
            }
            _ => Err(context.error("of", format!("{} is no poisson group with size_at_least or size_below", self.of))),
        }
    }
}

pub(super) fn flows(spec: &RemainderSpec, context: &Context<'_>) -> Result<Poisson, TrafficError> {
    let (other, whole) = spec.whole(context)?;
    Poisson::new(whole, &other)?
        .into_remainder()
        .ok_or_else(|| context.error("of", format!("{} leaves no flow out", spec.of)))
}
