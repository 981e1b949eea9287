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

pub(crate) mod file;
mod lint;
mod network;
mod reflex;
mod resolve;
mod resolve_group;
mod resolved;
#[cfg(test)]
mod tests;

pub use file::deployment::{DeploymentSpec, Order, Unit};
pub use file::error::{Place, ScenarioError};
pub use file::group::{ContractSpec, GroupKeys, GroupSpec};
pub use file::overrides::Override;
pub use file::range::number_range;
pub use file::spec::{Framing, PacketsSpec, RoutingName, ScenarioSpec};
pub use lint::Estimate;
pub use network::direction::Direction;
pub use network::disciplines::{DisciplineName, register_discipline};
pub use network::limit::{Length, Limit};
pub use network::losses::LossSpec;
pub use network::marking::{At, EcnSpec, NotEct, Of, RedLength, RedSpec, ThresholdSpec};
pub use network::outages::OutageSpec;
pub use network::path_weights::{LinkWeight, PathWeights, WeightRule};
pub use network::presets::PRESETS;
pub use network::queues::{QueueSpec, QueuesSpec, Reserve, ReserveBy, Scheduler, ShaperSpec, TrimSpec};
pub use reflex::{GiveWayName, ReflexGroup, ReflexSettings};
pub use resolved::{Group, Legacy, Resolved};

use std::cell::LazyCell;
use std::path::Path;

use file::document::Document;
use file::overrides;

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

    /// The scenario that a program has as a table; `name` appears in errors in the place of a file and is the scenario's
    /// unless it has one. Relative paths start from the current folder.
    pub fn of_table(table: toml::Table, name: &str) -> Self {
        let mut document = Document::of_table(table, name);
        document.anchor_paths();
        Self { document }
    }

    /// This scenario with overrides, in their order.
    pub fn with(&self, overrides: &[Override]) -> Result<Self, ScenarioError> {
        let mut scenario = self.clone();
        if !overrides.is_empty() {
            // They are those of the scenario resolved, which takes long if its network is large.
            let keys = LazyCell::new(|| {
                let resolved = self.resolve().ok().map(|resolved| resolved.to_table());
                overrides::full_keys(&self.document, resolved.as_ref())
            });
            for change in overrides {
                scenario.document.apply(change, || &keys)?;
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
