//! Mistakes of callers, as errors.

use std::error::Error;
use std::io;

/// A mistake of the caller.
pub(super) fn invalid(why: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
