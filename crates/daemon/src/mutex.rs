//! Mutexes whose holders leave nothing half done.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Its content, whatever became of who held it before.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
