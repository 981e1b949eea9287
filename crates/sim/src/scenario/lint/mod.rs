//! What a scenario can do but is hardly meant to, and what a run of it will take.

mod estimate;
mod odd_queues;
mod overload;
mod round_trips;
mod warnings;

pub use estimate::Estimate;
pub(super) use warnings::warnings;
