//! Push: one object from many sources at once (PPUSH).

pub mod weights;
