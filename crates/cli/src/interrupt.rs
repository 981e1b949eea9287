//! Ctrl-C: the first asks what runs to stop, the second ends the process.

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// What Ctrl-C leaves behind of simulations.
pub(crate) const FINISHED_IS_KEPT: &str = "; what finished is kept";

/// What Ctrl-C leaves behind of a single run.
pub(crate) const SO_FAR_IS_THE_RESULT: &str = "; what it has so far is the result";

/// The flag that Ctrl-C raises, from now on; `kept` is told then, behind "stopping".
pub(crate) fn listen(kept: &'static str) -> &'static AtomicBool {
    // An error means that a handler is there already, or that signals cannot be caught: runs then end as they would.
    let _ = ctrlc::set_handler(move || {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        eprintln!("\ninterrupted: stopping{kept} (again to stop at once)");
    });
    &INTERRUPTED
}

/// Ends when the flag is raised.
pub(crate) async fn wait(flag: &AtomicBool) {
    while !flag.load(Ordering::Relaxed) {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
