//! Ctrl-C: the first asks runs to stop and keeps what finished, the second ends the process.

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The flag that Ctrl-C raises, from now on.
pub(crate) fn listen() -> &'static AtomicBool {
    // An error means that a handler is there already, or that signals cannot be caught: runs then end as they would.
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        eprintln!("\ninterrupted: stopping; what finished is kept (again to stop at once)");
    });
    &INTERRUPTED
}
