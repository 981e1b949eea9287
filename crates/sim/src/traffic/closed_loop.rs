//! Closed loops: each asks again once it has its answer, so their load follows from the network's speed.

use pliant_proto::time::{Instant, Span};
use pliant_proto::units::Bytes;
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::error::TrafficError;
use super::flow_spec::{Again, Arrival, UNLIMITED_BYTES};

/// Loops between two hosts. A flow is an answer: it starts when the one before it in its loop is acknowledged, as the
/// acknowledgement takes the way of the next request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedLoopSpec {
    /// Host that answers.
    pub source: u32,
    /// Host that asks, another one.
    pub destination: u32,
    /// Loops at the same time, at least 1. Default: 1.
    #[serde(default = "one")]
    pub loops: u32,
    /// Size of each answer, from 1B to 1 PiB.
    #[serde(with = "crate::units_serde")]
    pub size: Bytes,
    /// Time from an answer to the next request. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub pause: Option<Span>,
    /// Each loop starts so much behind the one before it. Default: 0s, all at once.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub stagger: Option<Span>,
    /// When the first loop starts. Default: 0s.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub start: Option<Span>,
    /// Answers start before this. Default: the run's duration.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub stop: Option<Span>,
}

fn one() -> u32 {
    1
}

pub(super) fn flows(spec: &ClosedLoopSpec, context: &Context<'_>) -> Result<Vec<Arrival>, TrafficError> {
    let window = context.window(spec.start, spec.stop)?;
    let pair = (context.host("source", spec.source)?, context.host("destination", spec.destination)?);
    if pair.0 == pair.1 {
        return Err(context.error("destination", format!("host {} would send to itself", pair.0)));
    }
    if spec.loops == 0 {
        return Err(context.error("loops", "is at least 1"));
    }
    if spec.size.0 == 0 || spec.size.0 > UNLIMITED_BYTES {
        return Err(context.error("size", format!("a flow of {} bytes: sizes are 1B to 1 PiB", spec.size.0)));
    }
    if context.mean_flow_bytes().is_some() {
        return Err(context.error("size", "messages.count decides the size of a flow"));
    }
    let again = Again { pause: spec.pause.unwrap_or(Span::ZERO), until: Instant::from_ps(window.end) };
    let stagger = spec.stagger.unwrap_or(Span::ZERO).as_ps();
    let starts = (0..u64::from(spec.loops)).map(|number| window.start.saturating_add(number.saturating_mul(stagger)));
    let first = |start| Arrival { again: Some(again), ..Arrival::new(start, pair, spec.size.0) };
    Ok(starts.filter(|&start| start < window.end).map(first).collect())
}
