//! The array `losses`: packets that links lose by themselves.

use pliant_proto::time::{Instant, Span};
use serde::{Deserialize, Serialize};

use crate::engine::{LinkLoss, LossKind};
use crate::suggest;
use crate::tables::KeyError;
use crate::topology::Topology;
use crate::units_serde;

/// What a link loses: each packet with a probability, or some in a row.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossSpec {
    /// The link, as `ports.csv` names its port: `"switch 0 -> host 1"`.
    pub link: String,
    /// The probability with which each packet is lost, in [0, 1). Either this, or `at` and `packets`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// From when on packets in a row are lost.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "units_serde::optional")]
    pub at: Option<Span>,
    /// How many of them, at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
}

/// The losses of links, or the first key that is wrong.
pub(in super::super) fn resolve(specs: &[LossSpec], topology: &Topology) -> Result<Vec<LinkLoss>, KeyError> {
    let resolve = |(index, spec): (usize, &LossSpec)| {
        let refuse = |key: &str, why: String| Err((format!("losses.{index}.{key}"), why));
        let Some(link) = topology.link_named(&spec.link) else {
            let all: Vec<String> = topology.link_ids().map(|link| topology.link_name(link)).collect();
            return refuse("link", suggest::unknown("link", &spec.link, &all));
        };
        let kind = match (spec.probability, spec.at, spec.packets) {
            (Some(probability), None, None) if (0.0..1.0).contains(&probability) => LossKind::Random(probability),
            (Some(_), None, None) => return refuse("probability", "must lie in [0, 1)".to_owned()),
            (None, Some(at), Some(packets)) if packets > 0 => LossKind::Burst { at: Instant::ZERO.after(at), packets },
            (None, Some(_), Some(_)) => return refuse("packets", "must be at least 1".to_owned()),
            _ => return refuse("probability", "give either probability, or at and packets".to_owned()),
        };
        Ok(LinkLoss { link: link.0, kind })
    };
    specs.iter().enumerate().map(resolve).collect()
}
