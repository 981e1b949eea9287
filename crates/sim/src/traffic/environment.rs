//! What traffic runs in.

use std::path::Path;

use pliant_proto::time::Span;
use pliant_proto::units::Rate;

/// The facts of a topology that traffic depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fabric {
    /// The rack of each host, by host index.
    pub racks: Vec<u32>,
    /// Rate of every host's link.
    pub host_rate: Rate,
    /// Sum of the rates of all links from racks upwards, in one direction; `None` without such links.
    pub uplinks: Option<Rate>,
    /// Length of the run: no flow starts later.
    pub duration: Span,
}

impl Fabric {
    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.racks.len() as u32
    }
}

/// What all groups have in common.
#[derive(Clone, Copy, Debug)]
pub struct Environment<'a> {
    /// Where the traffic runs.
    pub fabric: &'a Fabric,
    /// The run's seed.
    pub seed: u64,
    /// Folder that relative paths in the scenario start from.
    pub directory: &'a Path,
    /// Names of the traffic classes by number, as traces may use them.
    pub classes: &'a [&'a str],
}
