//! What kind of reason a claim has that differs.

use serde::{Deserialize, Serialize};

/// What a figure's `section` says of claims that no paper makes.
pub(super) const BEYOND: &str = "beyond the paper";

/// Why a claim differs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It hangs on a parameter that the paper does not give.
    UnstatedParameter,
    /// The paper's simulator does not do what the paper says.
    PapersSimulator,
    /// The paper contradicts itself, or a bound that nothing can pass.
    PaperInconsistent,
    /// The claim is our own expectation, which no paper states. It was wrong, and the reason is known.
    OwnExpectation,
    /// The reason is in Pliant, or is not known.
    Ours,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 5] =
        [Self::UnstatedParameter, Self::PapersSimulator, Self::PaperInconsistent, Self::OwnExpectation, Self::Ours];

    /// Its name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::UnstatedParameter => "unstated parameter",
            Self::PapersSimulator => "paper's simulator",
            Self::PaperInconsistent => "paper inconsistent",
            Self::OwnExpectation => "own expectation",
            Self::Ours => "ours",
        }
    }
}
