//! Why traffic was refused.

use std::io;

use thiserror::Error;

use crate::workload::DistributionError;

/// Why traffic was refused.
#[derive(Debug, Error)]
pub enum TrafficError {
    /// A key has a value that cannot be.
    #[error("`traffic.{group}.{key}`: {why}")]
    Key {
        /// Name of the traffic group.
        group: String,
        /// The key.
        key: &'static str,
        /// What is wrong and what would be right.
        why: String,
    },
    /// A distribution of sizes was refused.
    #[error("`traffic.{group}.{key}`: {source}")]
    Sizes {
        /// Name of the traffic group.
        group: String,
        /// The key.
        key: &'static str,
        /// Why.
        source: DistributionError,
    },
    /// A trace cannot be opened or read.
    #[error("`traffic.{group}.path`: {path}: {source}")]
    Unreadable {
        /// Name of the traffic group.
        group: String,
        /// The trace.
        path: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// A line of a trace does not say what it must.
    #[error("`traffic.{group}.path`: {path}:{line}: {why}")]
    TraceLine {
        /// Name of the traffic group.
        group: String,
        /// The trace.
        path: String,
        /// Line number, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
}

impl TrafficError {
    /// The key with its tables, dotted.
    pub fn key(&self) -> String {
        let (group, key) = match self {
            Self::Key { group, key, .. } | Self::Sizes { group, key, .. } => (group, *key),
            Self::Unreadable { group, .. } | Self::TraceLine { group, .. } => (group, "path"),
        };
        format!("traffic.{group}.{key}")
    }
}
