//! The one door to locks, channels and threads. Nothing else in the crate names their crates, so
//! that a schedule explorer can stand in for them.

pub(crate) use crossbeam_channel::{Receiver, Sender, bounded, never, select};
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Arc, Weak};
pub(crate) use std::thread::{Builder as ThreadBuilder, JoinHandle};
