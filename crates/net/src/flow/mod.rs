//! Which machines carry a flow on a real host, and what its two sides tell each other about it.

mod opening;
mod path;
mod send_deadline;
mod settings;
mod transport;

pub use opening::{Answer, Opening};
pub use path::{MIN_MTU, Path};
pub(crate) use send_deadline::{SendDeadline, lateness};
pub use settings::{Classes, FlowError, FlowSettings};
pub(crate) use settings::{WAITING_BUFFERS, check_class};
pub use transport::{Protocol, SocketTransport};
