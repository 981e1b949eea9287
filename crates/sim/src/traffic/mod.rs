//! Traffic.
