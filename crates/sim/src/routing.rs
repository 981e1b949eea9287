//! Shortest paths.
