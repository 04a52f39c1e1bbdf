//! Locks that a panic elsewhere does not take away.

use std::sync::{Mutex, MutexGuard};

/// Takes the lock; what a thread that panicked left behind is still whole for every user here.
pub fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
