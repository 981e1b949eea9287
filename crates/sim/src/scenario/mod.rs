//! Scenario files: topology, queues, traffic, transports, duration and seed, in TOML.
//!
//! A file becomes a run in three steps, and each has its errors, which name the file and the line or key:
//!
//! 1. [`Scenario::load`] reads the file and lays overrides over it (`--set`, `--vary`, a variant).
//! 2. [`Scenario::resolve`] fills in every default, builds topology, routing and queue plans, and checks everything
//!    against everything else.
//! 3. [`crate::run::run`] runs the [`Resolved`] scenario, and can find nothing wrong any more.
//!
//! The keys are documented at [`ScenarioSpec`] and the types below it. Quantities carry their unit: `"10Gbit/s"`,
//! `"5us"`, `"250MB"`.

mod atp;
mod credit;
mod credit_carrier;
mod cross_queue;
mod dccp;
mod deployment;
pub(crate) mod document;
mod error;
mod estimate;
mod group;
mod homa;
mod kernel;
mod keys;
mod limit;
mod losses;
mod marking;
mod ndp;
mod near_opt;
mod odd_queues;
mod outages;
mod overload;
mod presets;
mod push;
mod queues;
mod range;
mod reflex;
mod resolve;
mod resolve_group;
mod resolved;
mod scdp;
mod spec;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;
mod warnings;
mod words;

pub(crate) use atp::LINE_RATE;
pub use atp::{AtpSpec, OrderName, PFabricSpec, ProfileName, VariantName};
pub use credit::{CreditCarrier, CreditKind, CreditSpec, FeedbackName, LossCutName, SplittingName, Variant};
pub use cross_queue::CrossQueueSpec;
pub use dccp::{AckRatioBy, AckRatioSpec, DccpSpec};
pub use deployment::{DeploymentSpec, Order, Unit};
pub use error::{Place, ScenarioError};
pub use estimate::Estimate;
pub use group::{ContractSpec, GroupSpec, TransportName};
pub use homa::HomaSpec;
pub use kernel::{KernelCongestion, KernelSpec};
pub use keys::Override;
pub use limit::{Length, Limit};
pub use losses::LossSpec;
pub use marking::{At, EcnSpec, NotEct, Of, RedSpec, ThresholdSpec};
pub use ndp::NdpSpec;
pub use near_opt::{NearOptSpec, OracleSpec};
pub use outages::OutageSpec;
pub use presets::PRESETS;
pub use push::{PushCarrier, PushSpec, WeightsName};
pub use queues::{DisciplineName, QueueSpec, QueuesSpec, Reserve, ReserveBy, Scheduler, ShaperSpec, TrimSpec};
pub use range::number_range;
pub use reflex::{GiveWayName, ReflexGroup, ReflexSpec};
pub use resolved::{Carrier, Group, Legacy, Resolved, TcpCarrier};
pub use scdp::ScdpSpec;
pub use spec::{Framing, PacketsSpec, RoutingName, ScenarioSpec};
pub use tcp::{DelayExtremes, EcnEcho, TcpSpec};
pub use udp::UdpSpec;

use std::cell::LazyCell;
use std::path::Path;

use document::Document;

use crate::text_file;

/// A scenario as it stands in a file, with overrides laid over it.
#[derive(Clone, Debug)]
pub struct Scenario {
    document: Document,
}

impl Scenario {
    /// Reads a file.
    pub fn load(file: &Path) -> Result<Self, ScenarioError> {
        let text =
            text_file::read(file).map_err(|source| ScenarioError::Unreadable { file: file.to_owned(), source })?;
        Self::parse(&text, file)
    }

    /// The scenario in the table `key` of another document; errors tell the document's lines.
    pub(crate) fn within(document: &Document, key: &str) -> Option<Self> {
        let mut document = document.table_as_document(key)?;
        document.anchor_paths();
        Some(Self { document })
    }

    /// Reads the text of a file; `file` appears in errors, and relative paths start from its folder.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ScenarioError> {
        let mut document = Document::parse(text, file)?;
        document.anchor_paths();
        Ok(Self { document })
    }

    /// This scenario with overrides, in their order.
    pub fn with(&self, overrides: &[Override]) -> Result<Self, ScenarioError> {
        let mut scenario = self.clone();
        if !overrides.is_empty() {
            // They are those of the scenario resolved, which takes long if its network is large.
            let keys = LazyCell::new(|| keys::full_keys(self));
            for change in overrides {
                scenario.apply(change, || &keys)?;
            }
            scenario.document.anchor_paths();
        }
        Ok(scenario)
    }

    /// The overrides of each variant that the file names, in the file's order.
    pub fn variants(&self) -> Result<Vec<(String, Vec<Override>)>, ScenarioError> {
        let spec: ScenarioSpec = self.document.decode()?;
        let overrides =
            |name: &str, table: &toml::Table| Override::all_in(&self.document, &format!("variants.{name}"), table);
        Ok(spec.variants.iter().map(|(name, table)| (name.clone(), overrides(name, table))).collect())
    }

    /// Whether its seed decides more of [`Resolved::to_toml`] than the key `seed`: a reserved share that follows the
    /// traffic is written out.
    pub fn seed_decides_settings(&self) -> Result<bool, ScenarioError> {
        Ok(resolve::follows_traffic(&self.document.decode()?))
    }

    /// Every default filled in, everything built and checked.
    pub fn resolve(&self) -> Result<Resolved, ScenarioError> {
        resolve::resolve(&self.document)
    }
}
