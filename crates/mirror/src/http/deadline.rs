//! When content is to have come.
//!
//! The library gives each read of a connection its own time. A server that sends the sizes of chunks, or the records of TLS,
//! byte by byte is late for none of them. So the time is also kept below TLS. The library reads in the thread of its caller,
//! which keeps its deadline there.

use std::cell::Cell;
use std::time::Instant;

use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};
use ureq::{Error, Timeout};

thread_local! {
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Does work whose reads end at the latest then.
pub(super) fn before<T>(deadline: Instant, work: impl FnOnce() -> T) -> T {
    DEADLINE.set(Some(deadline));
    let done = work();
    DEADLINE.set(None);
    done
}

/// Makes connections keep the deadline.
#[derive(Debug)]
pub(super) struct WithDeadline;

impl<In: Transport> Connector<In> for WithDeadline {
    type Out = Kept<In>;

    fn connect(&self, _: &ConnectionDetails, chained: Option<In>) -> Result<Option<Kept<In>>, Error> {
        Ok(chained.map(Kept))
    }
}

/// A connection that keeps the deadline.
#[derive(Debug)]
pub(super) struct Kept<In>(In);

impl<In: Transport> Transport for Kept<In> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.0.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.0.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, mut timeout: NextTimeout) -> Result<bool, Error> {
        if let Some(deadline) = DEADLINE.get() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Error::Timeout(Timeout::RecvBody));
            }
            timeout.after = timeout.after.min(left.into());
        }
        self.0.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.0.is_open()
    }

    fn is_tls(&self) -> bool {
        self.0.is_tls()
    }
}
