//! How commands end.

use pliant_sim::results::RunResult;

/// How a command ended, if not by an error.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ExitStatus {
    /// It did what it was asked to.
    Done,
    /// A testbed was too slow for what ran on it: what is no result is no success.
    Overloaded,
    /// Its user stopped it.
    Interrupted,
}

impl ExitStatus {
    /// That of a run.
    pub(crate) fn of(result: &RunResult) -> Self {
        if result.interrupted {
            Self::Interrupted
        } else if result.overloaded.is_some() {
            Self::Overloaded
        } else {
            Self::Done
        }
    }
}
