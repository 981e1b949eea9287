//! The topologies that scenarios can name: one list makes the table `topology`, its kinds and its builder.

use serde::{Deserialize, Serialize};

use super::spec::TopologyKind;
use super::{Topology, TopologyError};

/// Makes the table `topology`, the list of its kinds and its builder from one list.
macro_rules! topologies {
    ($($(#[$meta:meta])* $name:ident in $module:ident),* $(,)?) => {
        /// Which topology, and its sizes: the table `topology` of a scenario, told apart by `kind`.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        pub enum TopologySpec {
            $($(#[$meta])* $name(super::$name),)*
        }

        /// Every topology that scenarios can name.
        pub const TOPOLOGIES: &[TopologyKind] = &[$(super::$module::KIND),*];

        impl TopologySpec {
            /// Builds the topology.
            pub fn build(&self) -> Result<Topology, TopologyError> {
                match self {
                    $(Self::$name(spec) => spec.build(),)*
                }
            }
        }
    };
}

topologies! {
    /// Pairs of hosts across one bottleneck.
    Dumbbell in dumbbell,
    /// Hosts around one switch: "one big switch".
    #[serde(alias = "one-big-switch")]
    Star in star,
    /// A row of switches, one long pair and one pair per hop.
    ParkingLot in parking_lot,
    /// Two tiers: every leaf connects to every spine.
    LeafSpine in leaf_spine,
    /// Three tiers of equal k-port switches, nowhere oversubscribed.
    FatTree in fat_tree,
    /// Three tiers with pods, of any sizes.
    Clos in clos,
    /// Google's wide-area network, as far as it is known.
    B4 in b4,
    /// Cables listed in a CSV file.
    EdgeList in edge_list,
}
