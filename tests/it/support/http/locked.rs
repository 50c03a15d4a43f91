//! What the threads of a test share.
#![expect(clippy::disallowed_types, reason = "the tests have threads, which is what the daemon is spared")]

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value that several threads use.
#[derive(Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Locks the value, even after a panic of another thread.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
