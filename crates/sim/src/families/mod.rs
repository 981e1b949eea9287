//! Transport families: everything that a scenario knows of a transport, a file for each family.
//!
//! A [`Family`] has [members](Member), the names that scenarios use. It tells which tables of settings a member has and
//! which traffic classes it needs, and makes from a group's settings its [`GroupTransport`]. That opens the two
//! endpoints of each flow. The registry lists the families that are built in; [`register`] and [`register_controller`]
//! add those of other crates.
//!
//! To add a family is to write its file, a line `mod` here, and a line in the registry.

mod atp;
mod credits;
mod dccp;
mod family;
mod homa;
mod kernel;
mod kernel_congestion;
mod ndp;
mod near_opt;
mod push;
mod registry;
mod scdp;
mod tcp;
mod two_class;
mod udp;

pub(crate) use credits::{CREDIT_BYTES, CREDIT_CLASS};
pub use credits::{EXPRESS_PASS, FLEX_PASS};
pub use family::{
    Endpoints, Facts, Family, FlowEndpoints, GroupSettings, GroupTransport, Member, NetworkSettings, RunSettings,
    SettingsTable, Traits, TransportName,
};
pub use kernel::KERNEL_TABLE;
pub use kernel_congestion::KernelCongestion;
pub use near_opt::{NEAR_OPT, OracleSpec};
pub(crate) use registry::check_shared_tcp;
pub use registry::{register, register_controller, tables};
pub use tcp::{ControllerDefaults, ForeignController, TCP_TABLE, TcpSettings};
