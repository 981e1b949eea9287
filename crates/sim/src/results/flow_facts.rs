//! What is said of a flow beside numbers.

use serde::{Deserialize, Serialize};

/// How a flow stood when the run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum FlowState {
    /// The receiver has every byte it needs.
    Completed,
    /// The flow is still under way.
    #[default]
    Unfinished,
    /// The sender is done, bytes were lost, and the transport repairs nothing (UDP).
    SentWithLoss,
    /// The flow has no end. It ran as long as the run did.
    RanToEnd,
}

impl FlowState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Completed, Self::Unfinished, Self::SentWithLoss, Self::RanToEnd];

    /// The state of a flow with an end, by whether everything it needs has arrived and whether its sender is done.
    pub const fn of(all_arrived: bool, sender_finished: bool) -> Self {
        match (all_arrived, sender_finished) {
            (true, _) => Self::Completed,
            (false, true) => Self::SentWithLoss,
            (false, false) => Self::Unfinished,
        }
    }

    /// Its name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Unfinished => "unfinished",
            Self::SentWithLoss => "sent_with_loss",
            Self::RanToEnd => "ran_to_end",
        }
    }

    /// The state with this [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// How many messages a flow had, and how many of them arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MessageCounts {
    /// Messages of the flow; of a flow without an end, those handed over.
    pub total: u32,
    /// Messages that must arrive under the contract of the flow.
    pub needed: u32,
    /// Messages that arrived whole.
    pub delivered: u32,
}

/// A share of a fair rate, or none. It takes half the memory of an `Option`; every flow has several.
#[derive(Clone, Copy, Debug)]
pub struct Share(f64);

impl Default for Share {
    /// [`NONE`](Self::NONE).
    fn default() -> Self {
        Self::NONE
    }
}

impl Share {
    /// No share is known.
    pub const NONE: Self = Self(f64::NAN);

    /// The share, which must be a number.
    pub fn new(share: Option<f64>) -> Self {
        assert!(share.is_none_or(|share| !share.is_nan()), "a share is a number");
        share.map_or(Self::NONE, Self)
    }

    /// The share, if there is one.
    pub fn get(self) -> Option<f64> {
        (!self.0.is_nan()).then_some(self.0)
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

/// What a flow has of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectPart {
    /// Number of the object within the flow's group.
    pub number: u64,
    /// Whether the flow's bytes are all those of the object, which its flows share.
    pub shares: bool,
}
