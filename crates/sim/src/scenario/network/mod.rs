//! The network of a scenario: queues, marking, named plans, losses.

pub(crate) mod direction;
pub(crate) mod disciplines;
mod expansion;
pub(crate) mod limit;
pub(crate) mod losses;
pub(crate) mod marking;
pub(crate) mod outages;
pub(crate) mod path_weights;
pub(crate) mod ports;
pub(crate) mod presets;
pub(crate) mod queues;
