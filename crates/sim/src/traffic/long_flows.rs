//! Flows listed one by one, for small experiments: long flows that share a bottleneck, late starters.

use pliant_proto::time::Span;
use pliant_proto::units::Bytes;
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::error::TrafficError;
use super::flow_spec::{Arrival, UNLIMITED_BYTES};

/// A list of flows, in any order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongFlowsSpec {
    /// The flows, at least one.
    pub flows: Vec<LongFlow>,
}

/// One flow of the list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongFlow {
    /// Host that sends.
    pub source: u32,
    /// Host that receives, another one.
    pub destination: u32,
    /// When it starts. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub start: Option<Span>,
    /// Its size, from 1B to 1 PiB. Default: no end.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub size: Option<Bytes>,
}

pub(super) fn flows(spec: &LongFlowsSpec, context: &Context<'_>) -> Result<Vec<Arrival>, TrafficError> {
    if spec.flows.is_empty() {
        return Err(context.error("flows", "is empty"));
    }
    let mut arrivals = spec.flows.iter().map(|flow| arrival(flow, context)).collect::<Result<Vec<_>, _>>()?;
    arrivals.sort_by_key(|arrival| arrival.start);
    Ok(arrivals)
}

fn arrival(flow: &LongFlow, context: &Context<'_>) -> Result<Arrival, TrafficError> {
    let start = context.window(flow.start, None)?.start;
    let pair = (context.host("flows", flow.source)?, context.host("flows", flow.destination)?);
    if pair.0 == pair.1 {
        return Err(context.error("flows", format!("host {} would send to itself", pair.0)));
    }
    if flow.size.is_some() && context.mean_flow_bytes().is_some() {
        return Err(context.error("flows", "messages.count decides the size of a flow"));
    }
    let bytes = flow.size.map_or(UNLIMITED_BYTES, |size| size.0);
    if bytes == 0 || bytes > UNLIMITED_BYTES {
        return Err(context.error("flows", format!("a flow of {bytes} bytes: sizes are 1B to 1 PiB")));
    }
    Ok(Arrival::new(start, pair, bytes))
}
