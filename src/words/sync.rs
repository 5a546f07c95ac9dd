//! The only way to locks, channels and threads. No file outside its folder names their crates, so
//! that a schedule explorer can replace them: under `cfg(shuttle)` everything here except `plain`
//! is the explorer's.

#[cfg(shuttle)]
mod explored;
mod latch;

pub(crate) use latch::Latch;

#[cfg(not(shuttle))]
use crossbeam_channel::select;
#[cfg(not(shuttle))]
pub(crate) use crossbeam_channel::{bounded, never};
#[cfg(not(shuttle))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(shuttle))]
pub(crate) use std::hint::spin_loop;
#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};
#[cfg(not(shuttle))]
pub(crate) use std::thread::{
    Builder as ThreadBuilder, JoinHandle, LocalKey, ThreadId, current, yield_now,
};
#[cfg(not(shuttle))]
pub(crate) use std::thread_local;

#[cfg(shuttle)]
pub(crate) use explored::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, JoinHandle, LocalKey, Mutex, MutexGuard, Receiver,
    RwLock, Sender, ThreadBuilder, ThreadId, bounded, current, fence, has_ended, never, spin_loop,
    thread_local, wait_or_stop, yield_now,
};

/// The ends of a channel of wake-ups.
#[cfg(not(shuttle))]
pub(crate) type Sender = crossbeam_channel::Sender<()>;
#[cfg(not(shuttle))]
pub(crate) type Receiver = crossbeam_channel::Receiver<()>;

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

/// Whether the thread has ended, so that a join would not wait.
#[cfg(not(shuttle))]
pub(crate) fn has_ended(thread: &JoinHandle<()>) -> bool {
    thread.is_finished()
}

/// Waits for a signal, or until the other receiver is disconnected, at most for `most`. Returns
/// whether it was the other.
#[cfg(not(shuttle))]
pub(crate) fn wait_or_stop(signal: &Receiver, stopped: &Receiver, most: Option<Duration>) -> bool {
    match most {
        Some(most) => select! {
            recv(signal) -> _ => false,
            recv(stopped) -> _ => true,
            default(most) => false,
        },
        None => select! {
            recv(signal) -> _ => false,
            recv(stopped) -> _ => true,
        },
    }
}
