//! From a load to a rate of arrivals.
//!
//! One flow puts E bytes on its source's link, on its destination's link and, between racks, on an uplink. With λ
//! arrivals per second, of which a share p uses a link of C bit/s, the load of the link is 8 λ p E / C. E is the exact
//! mean over the sampled distribution, headers and framing included unless the load counts payload.

use serde::{Deserialize, Serialize};

use super::context::Context;
use super::error::TrafficError;
use super::pairs::{LinkShares, Pairs};
use crate::workload::Distribution;

/// Which links a load refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadOn {
    /// The busiest host link. Between all hosts of equal racks every host link is equally busy, and
    /// λ = load · (sum of host rates) / (8 E).
    #[default]
    HostLinks,
    /// All links from racks upwards together: λ = load · (sum of uplink rates) / (8 E · share of pairs between racks).
    Uplinks,
}

/// Which bytes a load counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadCounts {
    /// Bytes on the wire, headers and framing included.
    #[default]
    Wire,
    /// Payload only.
    Payload,
}

/// A load of exactly one may exceed it by rounding.
pub(super) const ROUNDING: f64 = 1e-9;

/// What a scenario says of a load.
#[derive(Clone, Copy)]
pub(super) struct LoadSpec {
    pub(super) load: Option<f64>,
    pub(super) rate_per_s: Option<f64>,
    pub(super) load_on: LoadOn,
    pub(super) load_counts: LoadCounts,
}

/// Arrivals per second that `rate_per_s` or `load` asks for; at some time it is `peak` times that.
pub(super) fn arrivals_per_second(
    context: &Context<'_>,
    spec: &LoadSpec,
    peak: f64,
    pairs: &Pairs,
    sizes: &Distribution,
) -> Result<f64, TrafficError> {
    match (spec.load, spec.rate_per_s) {
        (None, Some(rate)) if rate > 0.0 && rate <= 1e12 => Ok(rate),
        (None, Some(rate)) => {
            Err(context.error("rate_per_s", format!("{rate} is not between 0 (excluded) and 1e12 flows per second")))
        }
        (Some(load), None) if load > 0.0 && load.is_finite() => from_load(context, spec, (load, peak), pairs, sizes),
        (Some(load), None) => Err(context.error("load", format!("{load} is not above 0 and at most 1"))),
        (None, None) => Err(context.error("load", "give either load or rate_per_s")),
        (Some(_), Some(_)) => Err(context.error("load", "give either load or rate_per_s, not both")),
    }
}

fn from_load(
    context: &Context<'_>,
    spec: &LoadSpec,
    (load, peak): (f64, f64),
    pairs: &Pairs,
    sizes: &Distribution,
) -> Result<f64, TrafficError> {
    let fabric = context.fabric();
    let shares = pairs.link_shares();
    let of_sizes = || (sizes.mean_bytes(), context.packets.mean_wire_bytes(sizes));
    let (payload_bytes, wire_bytes) = context.mean_flow_bytes().unwrap_or_else(of_sizes);
    let wire_bits = 8.0 * wire_bytes;
    let bits = match spec.load_counts {
        LoadCounts::Wire => wire_bits,
        LoadCounts::Payload => 8.0 * payload_bytes,
    };
    let host_rate = fabric.host_rate.bits_per_sec() as f64;
    let rate = match (spec.load_on, fabric.uplinks) {
        (LoadOn::HostLinks, _) => load * host_rate / (bits * shares.busiest_host),
        (LoadOn::Uplinks, None) => return Err(context.error("load_on", "this topology has no uplinks")),
        (LoadOn::Uplinks, Some(_)) if shares.inter_rack == 0.0 => {
            return Err(context.error("load_on", "no source and destination are in different racks"));
        }
        (LoadOn::Uplinks, Some(capacity)) => load * capacity.bits_per_sec() as f64 / (bits * shares.inter_rack),
    };
    refuse_overload(context, load * peak, peak * rate * wire_bits, &shares)?;
    Ok(rate)
}

/// A queue before a link that is offered more than it carries grows without end: no statistic of it means anything.
fn refuse_overload(
    context: &Context<'_>,
    load: f64,
    offered_bits_per_s: f64,
    shares: &LinkShares,
) -> Result<(), TrafficError> {
    let fabric = context.fabric();
    let direction = if shares.sends { "from" } else { "to" };
    let host_link = format!("the link {direction} host {}", shares.host);
    let host = (host_link, Some(fabric.host_rate), shares.busiest_host);
    let uplinks = ("the links above the racks together".to_owned(), fabric.uplinks, shares.inter_rack);
    for (link, capacity, share) in [host, uplinks] {
        let Some(capacity) = capacity else { continue };
        let offered = offered_bits_per_s * share;
        if offered > capacity.bits_per_sec() as f64 * (1.0 + ROUNDING) {
            let offered = offered / 1e9;
            let why = format!("{load} would put {offered:.3} Gbit/s on {link}, of {capacity}");
            return Err(context.error("load", format!("{why}; rate_per_s overloads on purpose")));
        }
    }
    Ok(())
}
