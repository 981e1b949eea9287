//! Signals: the first Ctrl-C asks what runs to stop, the second ends the process.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// What Ctrl-C leaves behind of simulations.
pub(crate) const FINISHED_IS_KEPT: &str = "; what finished is kept";

/// What Ctrl-C leaves behind of a single run.
pub(crate) const SO_FAR_IS_THE_RESULT: &str = "; what it has so far is the result";

/// The flag that Ctrl-C raises, from now on, as do a request to terminate and a hangup; `kept` is told then, behind
/// "stopping".
pub(crate) fn listen(kept: &'static str) -> &'static AtomicBool {
    catch(kept, &[SIGINT, SIGTERM, SIGHUP], || ())
}

/// As [`listen`], but a hangup does `this`: it asks a process that runs for long to read its files again.
pub(crate) fn listen_and_on_hangup(kept: &'static str, this: impl FnMut() + Send + 'static) -> &'static AtomicBool {
    catch(kept, &[SIGINT, SIGTERM], this)
}

/// Where signals cannot be caught, they end the process as they would.
fn catch(kept: &'static str, ends: &'static [i32], mut hangup: impl FnMut() + Send + 'static) -> &'static AtomicBool {
    if let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) {
        std::thread::spawn(move || {
            for signal in signals.forever() {
                if !ends.contains(&signal) {
                    hangup();
                    continue;
                }
                if INTERRUPTED.load(Ordering::Relaxed) {
                    std::process::exit(130);
                }
                // At once, and before the process can end because of it: otherwise half of the line may be all that is seen.
                // Nobody may read it any more: `eprint!` would panic, and this thread with it.
                let line = format!("\ninterrupted: stopping{kept} (again to stop at once)\n");
                let _ = std::io::stderr().write_all(line.as_bytes());
                INTERRUPTED.store(true, Ordering::Relaxed);
            }
        });
    }
    &INTERRUPTED
}
