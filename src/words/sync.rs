//! The only way to locks, channels and threads. No other file names their crates, so that a
//! schedule explorer can replace them: under `cfg(shuttle)` everything here except `plain` is the
//! explorer's.

#[cfg(shuttle)]
mod explored;

#[cfg(not(shuttle))]
use crossbeam_channel::select;
#[cfg(not(shuttle))]
pub(crate) use crossbeam_channel::{Receiver, Sender, bounded, never};
#[cfg(not(shuttle))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(shuttle))]
pub(crate) use std::hint::spin_loop;
#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};
#[cfg(not(shuttle))]
pub(crate) use std::thread::{Builder as ThreadBuilder, JoinHandle, LocalKey, current, yield_now};
#[cfg(not(shuttle))]
pub(crate) use std::thread_local;

#[cfg(shuttle)]
pub(crate) use explored::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, JoinHandle, LocalKey, Mutex, MutexGuard, Receiver,
    RwLock, Sender, ThreadBuilder, bounded, current, fence, first_of, has_ended, never, spin_loop,
    thread_local, yield_now,
};

pub(crate) use std::sync::atomic::Ordering;
pub(crate) use std::sync::{Arc, Weak};
#[cfg(not(shuttle))]
use std::time::Duration;

/// What the explorer does not replace: statics, which outlive a schedule; locks under redb's own
/// locks, which the explorer cannot see; and hints, which may be stale. No thread waits while it
/// holds one of these.
pub(crate) mod plain {
    pub(crate) use parking_lot::Mutex;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
    pub(crate) use std::thread::{park_timeout, yield_now};
}

/// Which of two receivers has a message, or is disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstReady {
    Left,
    Right,
    /// Neither within the time given.
    Neither,
}

/// Whether the thread has ended, so that a join would not wait.
#[cfg(not(shuttle))]
pub(crate) fn has_ended(thread: &JoinHandle<()>) -> bool {
    thread.is_finished()
}

/// Waits for the first of two receivers, at most for `most`, and takes its message.
#[cfg(not(shuttle))]
pub(crate) fn first_of(
    left: &Receiver<()>,
    right: &Receiver<()>,
    most: Option<Duration>,
) -> FirstReady {
    match most {
        Some(most) => select! {
            recv(left) -> _ => FirstReady::Left,
            recv(right) -> _ => FirstReady::Right,
            default(most) => FirstReady::Neither,
        },
        None => select! {
            recv(left) -> _ => FirstReady::Left,
            recv(right) -> _ => FirstReady::Right,
        },
    }
}
