//! The operating system's TCP: on a testbed itself, in the simulator a member of the TCP family with Linux's settings.

use std::sync::Arc;

use pliant_proto::contract::policy::Policy;
use pliant_proto::settings;
use pliant_proto::settings::Settings;
use toml::Table;

use super::family::{
    Endpoints, Facts, Family, FlowEndpoints, GroupSettings, GroupTransport, Member, RunSettings, SettingsTable, Traits,
    TransportName,
};
use super::kernel_congestion::KernelCongestion;
use super::tcp::{self, TcpTransport, tcp_of};
use crate::tables::{KeyError, read_table, write};
use crate::topology::LinkId;
use crate::traffic::FlowSpec;

/// The table of a group's settings of the operating system's TCP.
pub const KERNEL_TABLE: &str = "kernel";

settings! {
    /// Settings of the transport `kernel`.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct KernelSettings {
        /// Congestion control. The simulator has no model of `"bbr"`.
        pub congestion: KernelCongestion = KernelCongestion::Cubic => [],
    }
}

/// Congestion controls of which the simulator has a model.
const MODELS: [KernelCongestion; 2] = [KernelCongestion::Cubic, KernelCongestion::Reno];

/// What stands for a congestion control of the operating system in the simulator.
fn model_of(congestion: KernelCongestion) -> Option<TransportName> {
    MODELS.contains(&congestion).then(|| tcp::built_in(congestion.name()))
}

/// Linux's defaults where they differ from those of the RFCs.
fn linux() -> Table {
    toml::toml! {
        initial_window = 10
        min_rto = "200ms"
        initial_rto = "1s"
        handshake = true
        rack = true
        adapt_to_reordering = true
        prr = true
        delayed_ack = "40ms"
        hystart = "linux"
        growth = "linux"
        reno_growth = "linux"
    }
}

pub(super) struct KernelFamily;

impl Family for KernelFamily {
    fn members(&self) -> &'static [Member] {
        &[Member {
            name: "kernel",
            description: "the operating system's TCP on a testbed, and a model of it in the simulator",
            honours: &[],
            traits: Traits { fills_queues: true, bundles: true, ..Traits::PLAIN },
        }]
    }

    fn tables(&self, _: TransportName) -> Vec<SettingsTable> {
        let defaults = write(&KernelSettings::default());
        let own = SettingsTable {
            name: KERNEL_TABLE,
            title: "the operating system",
            settings: KernelSettings::describe(),
            defaults,
        };
        vec![own, tcp_table()]
    }

    fn resolve(&self, group: &mut GroupSettings<'_>) -> Result<Arc<dyn GroupTransport>, KeyError> {
        let settings: KernelSettings = read_table(group.tables, KERNEL_TABLE)?;
        group.tables.insert(KERNEL_TABLE.to_owned(), write(&settings));
        let KernelSettings { congestion } = settings;
        let model = match model_of(congestion) {
            Some(model) => Some(tcp_of(group, model, &linux())?),
            None => None,
        };
        Ok(Arc::new(Kernel { congestion, model }))
    }
}

/// TCP's table with the settings of all models, and Linux's defaults.
fn tcp_table() -> SettingsTable {
    let mut models = MODELS.iter().flat_map(|model| tcp::built_in(model.name()).tables());
    let mut table = models.next().expect("TCP has a table");
    for model in models {
        let is_new = |key: &str| table.settings.iter().all(|setting| setting.key != key);
        let more: Vec<_> = model.settings.into_iter().filter(|setting| is_new(setting.key)).collect();
        table.settings.extend(more);
        for (key, value) in model.defaults {
            table.defaults.entry(key).or_insert(value);
        }
    }
    let own: Vec<(String, toml::Value)> =
        linux().into_iter().filter(|(key, _)| table.defaults.contains_key(key)).collect();
    table.defaults.extend(own);
    table
}

#[derive(Clone, Debug)]
struct Kernel {
    congestion: KernelCongestion,
    /// What stands for it in the simulator.
    model: Option<TcpTransport>,
}

impl GroupTransport for Kernel {
    fn endpoints<'a>(&'a self, run: RunSettings<'a>) -> Box<dyn Endpoints + 'a> {
        match &self.model {
            Some(model) => model.endpoints(run),
            None => Box::new(OnTestbed),
        }
    }

    fn facts(&self) -> Facts<'_> {
        let testbed_only = match self.model {
            Some(_) => None,
            None => Some(("kernel.congestion", "the simulator has no model of it, only a testbed runs it")),
        };
        Facts { is_plain_tcp: self.model.is_some(), testbed_only, kernel: Some(self.congestion), ..Facts::default() }
    }
}

/// Flows of which the simulator has no model: a testbed's kernel opens them.
struct OnTestbed;

impl Endpoints for OnTestbed {
    fn open(&mut self, _: &FlowSpec, _: &[LinkId], _: Option<Policy>) -> FlowEndpoints {
        unreachable!("the simulator refuses the scenario, and a testbed does not ask")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of Linux's settings is one of the models'.
    #[test]
    fn linux_has_settings_of_tcp() {
        let table = tcp_table();
        for key in linux().keys() {
            assert!(table.settings.iter().any(|setting| setting.key == key), "{key}");
        }
    }
}
