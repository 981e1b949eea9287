//! The array `outages`: hosts that are down, or send badly, for a while.

use pliant_proto::time::{Instant, Span};
use serde::{Deserialize, Serialize};

use crate::engine::{LinkLoss, LossKind};
use crate::tables::KeyError;
use crate::topology::{NodeId, Topology};
use crate::traffic::HostSet;
use crate::units_serde;

/// Hosts that are down for a while, or whose packets are lost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutageSpec {
    /// The hosts.
    pub hosts: HostSet,
    /// From when on. Default: 0s.
    #[serde(default, with = "units_serde")]
    pub from: Span,
    /// Until when. Default: to the end.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub until: Option<Span>,
    /// The probability with which each packet that they send is lost, in (0, 1]; they hear everything. Default: they are
    /// down, and neither send nor receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
}

/// What the links of these hosts lose, or the first key that is wrong.
pub(in super::super) fn resolve(specs: &[OutageSpec], topology: &Topology) -> Result<Vec<LinkLoss>, KeyError> {
    let mut losses = Vec::new();
    for (index, spec) in specs.iter().enumerate() {
        let refuse = |key: &str, why: String| (format!("outages.{index}.{key}"), why);
        let hosts = spec.hosts.resolve(topology.hosts()).map_err(|why| refuse("hosts", why))?;
        let until = spec.until.unwrap_or(Span::MAX);
        if until <= spec.from {
            return Err(refuse("until", "must be after `from`".to_owned()));
        }
        let probability = spec.loss.unwrap_or(1.0);
        if !(probability > 0.0 && probability <= 1.0) {
            return Err(refuse("loss", "must be above 0 and at most 1".to_owned()));
        }
        let kind =
            LossKind::Within { from: Instant::ZERO.after(spec.from), until: Instant::ZERO.after(until), probability };
        for host in hosts {
            let uplink = topology.uplink(NodeId(host));
            losses.push(LinkLoss { link: uplink.0, kind });
            if spec.loss.is_none() {
                losses.push(LinkLoss { link: uplink.reverse().0, kind });
            }
        }
    }
    Ok(losses)
}
