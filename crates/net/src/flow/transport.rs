//! The transports that sockets speak, and the protocols between their sides.

use std::fmt;
use std::str::FromStr;

use pliant_proto::congestion::Algorithm;
use pliant_proto::contract::{Field, reflex};
use pliant_proto::transport::{atp, express_pass, flex_pass, two_class};

/// How a flow is carried, as users name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SocketTransport {
    /// By a congestion window: any of the [`Algorithm`]s.
    Tcp(Algorithm),
    /// On credits (`expresspass`).
    ExpressPass,
    /// On credits and by a window (`flexpass`).
    FlexPass,
    /// In two classes, of which the low one gives way (`bounded-two-class`).
    TwoClass,
    /// As messages of which some may be missing (`atp`).
    Atp,
}

impl SocketTransport {
    /// Every transport.
    pub fn all() -> impl Iterator<Item = Self> {
        Algorithm::ALL.into_iter().map(Self::Tcp).chain([Self::ExpressPass, Self::FlexPass, Self::TwoClass, Self::Atp])
    }

    /// Its name, the same as in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp(algorithm) => algorithm.name(),
            Self::ExpressPass => "expresspass",
            Self::FlexPass => "flexpass",
            Self::TwoClass => "bounded-two-class",
            Self::Atp => "atp",
        }
    }

    /// What receivers must know to receive it.
    pub const fn protocol(self) -> Protocol {
        match self {
            Self::Tcp(_) => Protocol::Tcp,
            Self::ExpressPass => Protocol::ExpressPass,
            Self::FlexPass => Protocol::FlexPass,
            Self::TwoClass => Protocol::TwoClass,
            Self::Atp => Protocol::Atp,
        }
    }

    /// The contract fields that it honours. A window's sender asks REFLEX, which needs a fair share of the link to hold.
    pub fn honours(self) -> Vec<Field> {
        match self {
            Self::Tcp(algorithm) if algorithm.is_less_than_best_effort() || algorithm.keeps_min_share() => {
                algorithm.honours().to_vec()
            }
            Self::Tcp(algorithm) => [algorithm.honours(), reflex::HONOURS].concat(),
            Self::ExpressPass => express_pass::HONOURS.to_vec(),
            Self::FlexPass => flex_pass::HONOURS.to_vec(),
            Self::TwoClass => two_class::HONOURS.to_vec(),
            Self::Atp => atp::HONOURS.to_vec(),
        }
    }
}

impl fmt::Display for SocketTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for SocketTransport {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let name = if name == "weighted" { Algorithm::WeightedFair.name() } else { name };
        Self::all().find(|transport| transport.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::all().map(Self::name).collect();
            format!("\"{name}\" is no transport; known are {}", known.join(", "))
        })
    }
}

/// What a receiver must know to receive a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Protocol {
    /// Acknowledgements.
    Tcp = 1,
    /// Credits.
    ExpressPass = 2,
    /// Credits, and acknowledgements of two sub-flows.
    FlexPass = 3,
    /// Messages.
    Atp = 4,
    /// Acknowledgements of two sub-flows, each in a class of its own.
    TwoClass = 5,
}

impl Protocol {
    pub(super) fn from_octet(octet: u8) -> Option<Self> {
        let known = [Self::Tcp, Self::ExpressPass, Self::FlexPass, Self::Atp, Self::TwoClass];
        known.into_iter().find(|protocol| *protocol as u8 == octet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounds of delivery and share need a fair share to hold; only who shares by marks has a weight.
    #[test]
    fn transports_honour_what_their_machines_do() {
        let bounds = [Field::MinDelivery, Field::MinShare];
        for transport in SocketTransport::all() {
            let expected = match transport.name() {
                "weighted-fair" | "dctcp" => [&[Field::Weight, Field::MaxRate][..], &bounds].concat(),
                "cubic" | "reno" | "newreno" => [&[Field::MaxRate][..], &bounds].concat(),
                "atp" => vec![Field::MinDelivery, Field::MaxRate],
                "bounded-two-class" => vec![Field::MinShare, Field::MaxRate],
                "bounded" => vec![Field::MinShare, Field::MinRate, Field::DoneBy, Field::MaxRate],
                _ => vec![Field::MaxRate],
            };
            assert_eq!(transport.honours(), expected, "{transport}");
        }
    }
}
