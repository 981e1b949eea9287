//! What stands in a scenario file: keys, values, overrides, and the errors that name them.

pub(crate) mod deployment;
pub(crate) mod document;
pub(crate) mod error;
pub(crate) mod group;
pub(crate) mod overrides;
pub(crate) mod range;
pub(crate) mod spec;
pub(crate) mod words;
