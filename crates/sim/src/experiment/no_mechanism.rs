//! Why a claim has no mechanism that could be switched off.

use serde::{Deserialize, Serialize};

/// Why a claim has no mechanism that could be switched off.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoMechanism {
    /// The claim compares a run with the mechanism and one without.
    Compared,
    /// Nothing is simulated.
    Calculated,
    /// Programs were measured, nothing is simulated.
    Measured,
    /// It is about what the paper's mechanisms are compared with.
    Baseline,
    /// It is about the traffic or the network, and not about what a mechanism makes of them.
    SetUp,
    /// The paper gives no cause.
    NotGiven,
}

impl NoMechanism {
    /// Every reason.
    pub const ALL: [Self; 6] =
        [Self::Compared, Self::Calculated, Self::Measured, Self::Baseline, Self::SetUp, Self::NotGiven];

    /// What a claim is that has this reason.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Compared => "compares with and without it",
            Self::Calculated => "calculated",
            Self::Measured => "measured with programs",
            Self::Baseline => "about a baseline",
            Self::SetUp => "about the set-up",
            Self::NotGiven => "the paper gives no cause",
        }
    }

    /// What so many claims are that have this reason.
    pub fn count(self, claims: usize) -> String {
        let (one, many) = match self {
            Self::Compared => ("compares with and without it", "compare with and without it"),
            Self::Calculated => ("is calculated", "are calculated"),
            Self::Measured => ("is measured with programs", "are measured with programs"),
            Self::Baseline => ("is about a baseline", "are about a baseline"),
            Self::SetUp => ("is about the set-up", "are about the set-up"),
            Self::NotGiven => ("has no cause in the paper", "have no cause in the paper"),
        };
        format!("{claims} {}", if claims == 1 { one } else { many })
    }
}
