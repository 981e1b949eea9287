//! `bounded` for networks with two traffic classes: a flow gives way and keeps a share of its fair rate, without
//! phases.
//!
//! One send buffer feeds two sub-flows. Their packets carry their place in the flow and their number in the sub-flow:
//!
//! - The **scavenger** takes what others leave, by a DCTCP window in the low class.
//! - The **guarantee** is paced, in the high class. It adds what the scavenger lacks of the promised share. It never
//!   stops: the flow
//!   measures the high class by a trickle of it.
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
//! **F is the greater of two estimates** of the rate that the flow would have if it did not give way. An estimate that
//! is too high costs regular flows a little. One that is too low breaks the promise.
//!
//! *By the marks of the high class* (`FairRate`). The marks of the guarantee's packets drive a virtual DCTCP window.
//! Its rate x is that of a DCTCP flow in the high class as it is now. With line rate C and the guarantee's own rate g,
//! the high class holds (C − g)/x such flows, so with one more each has `x·C / (C + x − g)`. This counts while the high
//! class is busy. For each packet of the guarantee the receiver reports whether it waited, at least half as long as
//! marked packets do; u is the fraction that did. While the high class is not busy, the fair rate is what the scavenger
//! gets:
//!
//! `u · x·C / (C + x − g) + min(scavenger, (1 − u) · C)`
//!
//! *By a count of competitors* (`Competitors`). The high class can leave little to the low one without a queue of its
//! own. A marked packet has the same queue before it whatever its class may send. So the low class has `L = C ·
//! marked_wait / wait`, where `marked_wait` is the wait of such a packet if its class has the line alone. `m = L /
//! scavenger` flows that give way share L evenly, and `n = (C − L − m·g) / x` others have the rest: `F = C / (m + n)`.
//!
//! *By what hosts tell each other* ([`fair_rates`](crate::host::fair_rates)). Where the hosts at both ends know which rate is fair on their links, and tell the flow
//! ([`Command::SetFairRate`](crate::transport::Command::SetFairRate)), that is F, and neither estimate counts. If they fall silent,
//! both count again.
//!
//! **The ledger** (`Ledger`) keeps the promise over the life of the flow, not at each instant: what arrived less the
//! promised share of F, with a margin. A flow whose end is known, because all of it is written, may owe a part of what
//! it can still earn.
//!
//! **The guarantee yields to overload.** It is never faster than `greatest_weight · x`, which each round trip of marked
//! packets lowers, and grows by at most `growth` in an interval. Without this, guarantees that begin together fill the
//! high class until it drops packets, acknowledgements of other flows among them.
//!
//! If one class loses everything, the flow lives on the other. Its packets are sent there too, and without the
//! scavenger the guarantee is a paced DCTCP flow.

mod competitors;
mod config;
mod estimator;
mod ledger;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use config::{Bounds, TwoClassConfig, TwoClassConfigError};
pub use receiver::TwoClassReceiver;
pub use sender::TwoClassSender;

use crate::contract::Field;

/// The contract fields that it honours.
pub const HONOURS: &[Field] = &[Field::MinShare, Field::MaxRate];
