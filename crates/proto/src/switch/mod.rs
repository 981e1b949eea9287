//! What a port does to packets: one machine for the simulator and for the software switch.
//!
//! An arriving packet passes, in this order: the classifier ([`plan`]: traffic class to queue), the [shared
//! buffer](shared_buffer), the colour and queue limits ([`queue`]), the [`marker`]. Leaving, the [`scheduler`] picks the
//! queue, held back by its [`shaper`]. [`port`] puts them together, and [`link`] adds the wire. Every refused packet is
//! counted by its reason.

pub mod foreign;
pub mod link;
pub mod marker;
mod pfabric;
pub mod plan;
pub mod port;
pub mod queue;
pub mod scheduler;
pub mod shaper;
pub mod shared_buffer;
mod trim;

pub use foreign::{Enqueued, ForeignQueue};
pub use link::Link;
pub use plan::{Discipline, ForeignDiscipline, PlanError, QueueConfig, QueuePlan};
pub use port::{EgressPort, Next};
pub use queue::{Admission, DropReason, Queue};
pub use shared_buffer::SharedBuffer;
