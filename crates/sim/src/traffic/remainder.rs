//! The other part of a load that is split by size: shortest job first by size class, small and large flows under
//! different transports.

use serde::{Deserialize, Serialize};

/// The flows that a `poisson` group with `size_at_least` or `size_below` leaves out. Both groups together are exactly
/// the flows of that group without these keys.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemainderSpec {
    /// The group that leaves flows out.
    pub of: String,
}
