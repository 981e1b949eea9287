//! What share of its max-min fair rate each flow of a run got.
//!
//! Links carry what is left of their rate after the headers of full packets; acknowledgements count for nothing. The
//! time that a flow's packets take on its path in any case, its ideal completion time less its bytes at the rate of its
//! slowest link, is nobody's unfairness: a flow is taken to be open from so much after its start. A flow alone on its
//! path, with nothing lost, then has exactly its share.

use pliant_proto::time::{Instant, Span};

use crate::oracle::fair_rates::Paths;
use crate::oracle::ideal_fct::Segmentation;
use crate::oracle::shares::{FluidFlow, entitlements, fluid_completions};
use crate::results::{FlowRow, FlowState, Share};
use crate::scenario::Resolved;
use crate::traffic::UNLIMITED_BYTES;

/// Fills in `fair_share` and `fluid_share` of all `flows` of a run, which are by number as `paths` are.
pub(super) fn fill(flows: &mut [FlowRow], paths: &Paths, scenario: &Resolved, end: Instant) {
    let goodput = Segmentation { mss: scenario.mss(), wire: scenario.wire() }.goodput_ratio();
    // Bytes per picosecond.
    let capacity = |link: &crate::topology::Link| link.rate.bits_per_sec() as f64 / 8e12 * goodput;
    let capacities: Vec<f64> = scenario.topology.links().iter().map(capacity).collect();
    let arrival = |(number, flow): (usize, &FlowRow)| {
        let slowest = paths.of(number).iter().map(|&link| capacities[link as usize]).fold(f64::INFINITY, f64::min);
        let unavoidable = match flow.bytes {
            UNLIMITED_BYTES => 0.0,
            bytes => (flow.ideal_fct.as_ps() as f64 - bytes as f64 / slowest).max(0.0),
        };
        flow.start.as_ps() as f64 + unavoidable
    };
    let arrivals: Vec<f64> = flows.iter().enumerate().map(arrival).collect();

    let fluid = flows.iter().zip(&arrivals).map(|(flow, &arrival)| {
        let bytes = if flow.bytes == UNLIMITED_BYTES { f64::INFINITY } else { flow.bytes as f64 };
        FluidFlow { arrival, bytes }
    });
    let completions = fluid_completions(&capacities, paths, &fluid.collect::<Vec<_>>());
    let open: Vec<_> =
        flows.iter().zip(&arrivals).map(|(flow, &arrival)| Some((arrival, closes(flow, end)?))).collect();
    let entitled = entitlements(&capacities, paths, &open);

    for (number, flow) in flows.iter_mut().enumerate() {
        if flow.state == FlowState::SentWithLoss {
            continue;
        }
        flow.fair_share = Share::new((entitled[number] > 0.0).then(|| flow.delivered_bytes as f64 / entitled[number]));
        let fluid_fct = completions[number] - flow.start.as_ps() as f64;
        let taken = flow.fct().unwrap_or_else(|| end.since(flow.start));
        // An unfinished flow has at most this share, if its turn has come at all.
        let known = flow.completed.is_some() || fluid_fct <= taken.as_ps() as f64;
        flow.fluid_share = Share::new((known && taken > Span::ZERO).then(|| fluid_fct / taken.as_ps() as f64));
    }
}

/// When a flow no longer wants its share, in picoseconds; `None` of one that lost bytes for good, whose end nobody saw.
fn closes(flow: &FlowRow, end: Instant) -> Option<f64> {
    let lost = flow.state == FlowState::SentWithLoss;
    (!lost).then(|| flow.completed.unwrap_or(end).as_ps() as f64)
}
