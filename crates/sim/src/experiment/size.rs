//! The two sizes of an experiment.

use super::spec::{ExperimentSpec, SizeSpec};

/// The two sizes of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// Minutes for a whole paper.
    Quick,
    /// The paper's.
    Full,
}

impl Size {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }

    pub(super) fn of(self, spec: &ExperimentSpec) -> &SizeSpec {
        match self {
            Self::Quick => &spec.quick,
            Self::Full => &spec.full,
        }
    }
}
