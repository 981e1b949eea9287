//! `bounded` where the network has two traffic classes: a flow gives way and keeps a share of its fair rate, without phases.
//!
//! One send buffer feeds two sub-flows, whose packets carry their place in the flow and their number in the sub-flow:
//!
//! - The **scavenger** takes by a window of DCTCP, in the low class, what others leave.
//! - The **guarantee** is paced, in the high class. It adds what the scavenger does not bring of the share that was promised.
//!   It never stops: a trickle of it is what the flow knows the high class by.
//!
//! ```text
//!               ┌──────────┐  packets, low class    ┌──────────┐
//!  send buffer ─┤scavenger ├───────────────────────►│          │
//!               ├──────────┤  packets, high class   │ receiver ├─ in order
//!              ─┤guarantee ├───────────────────────►│          │
//!               └────▲─────┘                        └────┬─────┘
//!     rate = share · F − scavenger   marks, waiting, what arrived
//!               ┌────┴─────┐                             │
//!               │ estimator│◄────────────────────────────┘
//!               └──────────┘
//! ```
//!
//! **F is the greater of two estimates** of the rate that the flow would have if it did not give way. Too much costs
//! regular flows a little, too little breaks the promise.
//!
//! *By the marks of the high class* (`FairRate`). A virtual window of DCTCP is driven by the marks of the
//! guarantee's packets: x is the rate that a DCTCP flow would have in the high class as it is now. With line rate C and the
//! guarantee's own rate g, the high class holds (C − g)/x such flows, so with one more each has `x·C / (C + x − g)`. That
//! counts while the high class is busy. The receiver tells for each packet of the guarantee whether it waited, at least half as
//! long as marked packets do; u is the part of those that did. While the high class is not busy, the fair rate is what
//! the scavenger gets:
//!
//! `u · x·C / (C + x − g) + min(scavenger, (1 − u) · C)`
//!
//! *By a count of competitors* (`Competitors`). The high class can leave the low one little without a
//! queue of its own. A packet that is marked has the same queue before it whatever its class may send. So the low class has
//! `L = C · marked_wait / wait`, where `marked_wait` is such a packet's wait if its class has the line alone. Flows that give way
//! share L evenly, `m = L / scavenger` of them, and `n = (C − L − m·g) / x` others have the rest: `F = C / (m + n)`.
//!
//! **The ledger** (`Ledger`) keeps the promise over the life of the flow, not at each instant: what arrived less
//! the promised share of F, with a margin. A flow whose end is known, because all of it is written, may go into debt for a part
//! of what it can still earn.
//!
//! **The guarantee yields to overload.** It is never faster than `greatest_weight · x`, which each round trip of marked packets
//! lowers, and grows by no more than `growth` in an interval. Without that, guarantees that begin together fill the high class until it
//! drops, acknowledgements of others among the rest.
//!
//! If all that one class carries is lost, the flow lives on the other: its packets are sent there, too, and without the
//! scavenger the guarantee is a paced DCTCP flow.

mod competitors;
mod config;
mod estimator;
mod ledger;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use config::{TwoClassConfig, TwoClassConfigError};
pub use receiver::TwoClassReceiver;
pub use sender::TwoClassSender;

use crate::contract::Field;

/// The contract fields that it honours.
pub const HONOURS: &[Field] = &[Field::MinShare, Field::MaxRate];
