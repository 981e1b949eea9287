//! The table `traffic.NAME.kernel`: TCP of the operating system.

use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::group::{GroupSpec, TransportName};
use super::queues::KeyError;
use super::resolve_group::{TcpParts, tcp_carrier};
use super::resolved::Carrier;
use super::tcp::TcpSpec;

/// Settings of the transport `kernel`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KernelSpec {
    /// Congestion control. Default: `"cubic"`.
    pub congestion: KernelCongestion,
}

/// Congestion control of the operating system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelCongestion {
    /// CUBIC.
    #[default]
    Cubic,
    /// Reno.
    Reno,
    /// BBR, of which the simulator has no model.
    Bbr,
}

impl KernelCongestion {
    /// What Linux calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }

    /// What stands for it in the simulator.
    const fn model(self) -> Option<TransportName> {
        match self {
            Self::Cubic => Some(TransportName::Cubic),
            Self::Reno => Some(TransportName::Reno),
            Self::Bbr => None,
        }
    }
}

/// What the simulator runs in place of the kernel: a member of the TCP family with Linux's settings, which the group's
/// own `tcp` may change.
pub(super) fn kernel_carrier(group: &mut GroupSpec, parts: TcpParts<'_>) -> Result<Carrier, KeyError> {
    let kernel = *group.kernel.get_or_insert_default();
    let Some(model) = kernel.congestion.model() else { return Ok(Carrier::Kernel) };
    group.tcp = Some(group.tcp.take().unwrap_or_default().over(&linux(model)));
    group.transport = model;
    let carrier = tcp_carrier(group, parts);
    group.transport = TransportName::Kernel;
    carrier.map(|carrier| Carrier::Tcp(Box::new(carrier)))
}

/// Linux's defaults where they differ from those of the RFCs.
fn linux(model: TransportName) -> TcpSpec {
    TcpSpec {
        initial_window: Some(10),
        min_rto: Some(Span::from_ms(200)),
        initial_rto: Some(Span::from_secs(1)),
        handshake: Some(true),
        rack: Some(true),
        prr: Some(true),
        delayed_ack: Some(Span::from_ms(40)),
        hystart: (model == TransportName::Cubic).then_some(true),
        ..TcpSpec::default()
    }
}
