//! The table `traffic.NAME.udp`.

use pliant_proto::units::Rate;
use serde::{Deserialize, Serialize};

use crate::units_serde;

/// Settings of the transport `udp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpSpec {
    /// Rate at which a flow sends, on the wire; above zero.
    #[serde(with = "units_serde")]
    pub rate: Rate,
}
