//! How a testbed runs a scenario, and how far it is.

use std::path::PathBuf;

use pliant_net::switch::FaultConfig;
use pliant_net::switch::ethernet::Mode;
use pliant_proto::time::Span;

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program that has the hidden commands `testbed host` and `testbed switch`.
    pub program: PathBuf,
    /// What the switch takes for a frame.
    pub mode: Mode,
    /// On loopback, in place of network namespaces.
    pub on_loopback: bool,
    /// All processes with real-time priority (SCHED_RR), the switch before hosts: for machines that have other work.
    pub real_time: bool,
    /// What the switch does to frames.
    pub faults: FaultConfig,
    /// The table of faults as text, for the switch's command line.
    pub fault_text: String,
}

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Time so far.
    pub now: Span,
    /// Time at which no more flows start.
    pub duration: Span,
}
