//! Policies: what a window transport asks how far its flow bends just now.
//!
//! A policy is a value inside a sender. It hears when the flow starts and when its own deadline has come, and answers
//! with a [`Directive`]; it sends nothing and touches no window itself. A flow without one does not notice that there
//! are any.

mod directive;

pub use directive::{Directive, PolicyCounts, Progress};

use super::reflex::Reflex;
use crate::time::Instant;

/// One of the policies.
#[derive(Clone, Debug)]
pub enum Policy {
    /// Bounded degradation (REFLEX).
    Reflex(Reflex),
    /// Directives by time.
    #[cfg(test)]
    Scripted(alloc::collections::VecDeque<(Instant, Directive)>),
}

impl From<Reflex> for Policy {
    fn from(policy: Reflex) -> Self {
        Self::Reflex(policy)
    }
}

impl Policy {
    /// The application has given its first bytes.
    pub fn on_start(&mut self, now: Instant) {
        match self {
            Self::Reflex(policy) => policy.on_start(now),
            #[cfg(test)]
            Self::Scripted(_) => {}
        }
    }

    /// The deadline has come. Called early it does nothing.
    pub fn on_deadline(&mut self, now: Instant, progress: Progress) -> Directive {
        match self {
            Self::Reflex(policy) => policy.on_deadline(now, progress),
            #[cfg(test)]
            Self::Scripted(script) => script.pop_front().map_or(Directive::default(), |(_, directive)| directive),
        }
    }

    /// When it wants to be asked next.
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Reflex(policy) => policy.deadline(),
            #[cfg(test)]
            Self::Scripted(script) => script.front().map(|(at, _)| *at),
        }
    }

    /// No byte from here on will ever be sent, whatever the application writes; `u64::MAX` if none is given up.
    pub fn stream_end(&self) -> u64 {
        match self {
            Self::Reflex(policy) => policy.stream_end(),
            #[cfg(test)]
            Self::Scripted(_) => u64::MAX,
        }
    }

    /// What it counted up to `now`, with the flow standing at `progress`.
    pub fn counts(&self, now: Instant, progress: Progress) -> PolicyCounts {
        match self {
            Self::Reflex(policy) => policy.counts(now, progress),
            #[cfg(test)]
            Self::Scripted(_) => PolicyCounts::default(),
        }
    }
}
