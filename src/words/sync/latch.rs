//! A value that is set once, and for which any number of threads wait. Its lock and its condition
//! are those of the standard library: there, one system call wakes all threads. With those of
//! `parking_lot`, each thread that is woken wakes the next one, a system call for each.

#[cfg(shuttle)]
use shuttle::sync::{Condvar, Mutex, MutexGuard};
use std::sync::PoisonError;
#[cfg(not(shuttle))]
use std::sync::{Condvar, Mutex, MutexGuard};

/// Made without its value, which is set once.
pub(crate) struct Latch<T> {
    state: Mutex<LatchState<T>>,
    condvar: Condvar,
}

struct LatchState<T> {
    value: Option<T>,
    /// A thread waits. The standard library makes the system call also if none does.
    awaited: bool,
}

impl<T> Default for Latch<T> {
    fn default() -> Self {
        let state = LatchState { value: None, awaited: false };
        Self { state: Mutex::new(state), condvar: Condvar::new() }
    }
}

impl<T: Copy> Latch<T> {
    /// Sets the value and wakes the threads that wait for it.
    pub(crate) fn set(&self, value: T) {
        let mut state = self.lock();
        state.value = Some(value);
        let awaited = state.awaited;
        drop(state);
        if awaited {
            self.condvar.notify_all();
        }
    }

    /// The value, after it is set.
    pub(crate) fn wait(&self) -> T {
        let mut state = self.lock();
        loop {
            if let Some(value) = state.value {
                return value;
            }
            state.awaited = true;
            state = self.condvar.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// No code that can panic runs under this lock.
    fn lock(&self) -> MutexGuard<'_, LatchState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
