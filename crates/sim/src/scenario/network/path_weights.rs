//! The key `path_weights`: how often links are taken that are as near as others.

use serde::{Deserialize, Serialize};

use crate::suggest;
use crate::tables::KeyError;
use crate::topology::Topology;

/// Greatest weight of a link.
const MAX_WEIGHT: u32 = 65_535;

/// How often links that are as near are taken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "must be \"equal\", \"rate\", or an array of tables with `link` and `weight`")]
pub enum PathWeights {
    /// By one rule for all.
    By(WeightRule),
    /// As these say; the others have weight 1.
    Of(Vec<LinkWeight>),
}

/// What a link's weight follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightRule {
    /// Nothing: all alike.
    Equal,
    /// Its rate.
    Rate,
}

/// The weight of one direction of a link.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkWeight {
    /// The link, as `ports.csv` names its port.
    pub link: String,
    /// How often it is taken against others, 1 to 65535.
    pub weight: u32,
}

impl Default for PathWeights {
    fn default() -> Self {
        Self::By(WeightRule::Equal)
    }
}

impl PathWeights {
    /// Whether all links are taken alike.
    pub fn are_equal(&self) -> bool {
        *self == Self::default()
    }

    /// The weight of each link, or the key that is wrong; empty if all are alike.
    pub(in super::super) fn resolve(&self, topology: &Topology) -> Result<Vec<u64>, KeyError> {
        let given = match self {
            Self::By(WeightRule::Equal) => return Ok(Vec::new()),
            Self::By(WeightRule::Rate) => {
                return Ok(topology.links().iter().map(|link| link.rate.bits_per_sec()).collect());
            }
            Self::Of(given) => given,
        };
        let mut weights: Vec<Option<u64>> = vec![None; topology.links().len()];
        for (index, LinkWeight { link: name, weight }) in given.iter().enumerate() {
            let refuse = |key: &str, why: String| Err((format!("path_weights.{index}.{key}"), why));
            let Some(link) = topology.link_named(name) else {
                let all: Vec<String> = topology.link_ids().map(|link| topology.link_name(link)).collect();
                return refuse("link", suggest::unknown("link", name, &all));
            };
            if !(1..=MAX_WEIGHT).contains(weight) {
                return refuse("weight", format!("must be between 1 and {MAX_WEIGHT}"));
            }
            if weights[link.index()].replace(u64::from(*weight)).is_some() {
                return refuse("link", format!("{name} has a weight already"));
            }
        }
        Ok(weights.into_iter().map(|weight| weight.unwrap_or(1)).collect())
    }
}
