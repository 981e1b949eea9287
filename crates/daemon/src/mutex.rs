//! Mutexes whose holders never leave their content half changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks it, even if an earlier holder has panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
