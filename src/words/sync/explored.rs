//! Replacements for the locks, channels and threads of `sync.rs`, with the same interface, built on
//! those of the schedule explorer. There is no time: a bounded wait ends when the explorer next
//! runs the waiting thread, as if its bound had passed. Only tests build this file.
#![allow(clippy::expect_used)]

use shuttle::rand::{RngCore, thread_rng};
use shuttle::sync as explorer;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::{Duration, Instant};

pub(crate) use shuttle::hint::spin_loop;
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, fence};
pub(crate) use shuttle::thread::LocalKey;
pub(crate) use shuttle::thread::{
    Builder as ThreadBuilder, JoinHandle, ThreadId, current, yield_now,
};
pub(crate) use shuttle::thread_local;

/// The explorer does not know it.
pub(crate) fn has_ended(_: &JoinHandle<()>) -> bool {
    false
}

/// A lock that a panic does not poison.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(explorer::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(explorer::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard { lock: &self.0, held: Some(held) }
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = match self.0.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { lock: &self.0, held: Some(held) })
    }
}

/// A reader-writer lock that a panic does not poison.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(explorer::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(explorer::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> explorer::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> explorer::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A held lock.
pub(crate) struct MutexGuard<'a, T> {
    lock: &'a explorer::Mutex<T>,
    /// `None` only inside a wait.
    held: Option<explorer::MutexGuard<'a, T>>,
}

const HELD: &str = "a guard outside of a wait holds its lock";

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect(HELD)
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect(HELD)
    }
}

/// Where threads that hold the lock wait.
#[derive(Debug, Default)]
pub(crate) struct Condvar(explorer::Condvar);

/// How a bounded wait ended.
pub(crate) struct WaitTimeoutResult(());

impl WaitTimeoutResult {
    pub(crate) fn timed_out(&self) -> bool {
        true
    }
}

impl Condvar {
    pub(crate) const fn new() -> Self {
        Self(explorer::Condvar::new())
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect(HELD);
        guard.held = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn wait_while<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut waits: impl FnMut(&mut T) -> bool,
    ) {
        while waits(guard) {
            self.wait(guard);
        }
    }

    pub(crate) fn wait_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        _most: Duration,
    ) -> WaitTimeoutResult {
        drop(guard.held.take());
        shuttle::thread::yield_now();
        guard.held = Some(guard.lock.lock().unwrap_or_else(PoisonError::into_inner));
        WaitTimeoutResult(())
    }

    pub(crate) fn wait_until<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        _until: Instant,
    ) -> WaitTimeoutResult {
        self.wait_for(guard, Duration::ZERO)
    }
}

/// What the two ends of a channel share.
#[derive(Debug)]
struct Pipe {
    room: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How many messages are kept.
    kept: usize,
    /// Whether the sender was dropped.
    ended: bool,
    listeners: Vec<Arc<Listener>>,
}

/// Where a receiver waits, possibly for several channels at once.
#[derive(Debug, Default)]
struct Listener {
    rung: Mutex<bool>,
    bell: Condvar,
}

impl Listener {
    fn ring(&self) {
        *self.rung.lock() = true;
        self.bell.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock();
        self.bell.wait_while(&mut rung, |rung| !*rung);
        *rung = false;
    }
}

impl Pipe {
    fn new(room: usize) -> Arc<Self> {
        Arc::new(Self { room, state: Mutex::default() })
    }

    /// Changes the state and wakes the receivers that wait for it.
    fn turn<R>(&self, turn: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let turned = turn(&mut state);
        let listeners = state.listeners.clone();
        drop(state);
        listeners.iter().for_each(|listener| listener.ring());
        turned
    }
}

/// The only sender; its drop disconnects.
#[derive(Debug)]
pub(crate) struct Sender(Arc<Pipe>);

impl Sender {
    /// `Err` if the channel is full.
    pub(crate) fn try_send(&self, signal: ()) -> Result<(), ()> {
        self.0.turn(|state| {
            let has_room = state.kept < self.0.room;
            state.kept += usize::from(has_room);
            has_room.then_some(signal).ok_or(signal)
        })
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.turn(|state| state.ended = true);
    }
}

/// A receiver.
#[derive(Clone, Debug)]
pub(crate) struct Receiver(Arc<Pipe>);

impl Receiver {
    /// Takes a message. Returns whether there was one, or the sender was dropped.
    fn take_message(&self) -> bool {
        let mut state = self.0.state.lock();
        let has_one = state.kept > 0;
        state.kept -= usize::from(has_one);
        has_one || state.ended
    }

    fn listen(&self, listener: &Arc<Listener>) {
        self.0.state.lock().listeners.push(listener.clone());
    }

    fn leave(&self, listener: &Arc<Listener>) {
        self.0.state.lock().listeners.retain(|other| !Arc::ptr_eq(other, listener));
    }
}

/// A channel that holds up to `room` messages.
pub(crate) fn bounded(room: usize) -> (Sender, Receiver) {
    let pipe = Pipe::new(room);
    (Sender(pipe.clone()), Receiver(pipe))
}

/// The receiver of a channel that never carries a message.
pub(crate) fn never() -> Receiver {
    Receiver(Pipe::new(0))
}

/// Like `sync::wait_or_stop`. When both have a message, the explorer chooses; the original chooses
/// at random.
pub(crate) fn wait_or_stop(signal: &Receiver, stopped: &Receiver, most: Option<Duration>) -> bool {
    let listener = Arc::new(Listener::default());
    let mut ends = [(signal, false), (stopped, true)];
    ends.iter().for_each(|(end, _)| end.listen(&listener));
    let has_stopped = loop {
        if thread_rng().next_u32().is_multiple_of(2) {
            ends.reverse();
        }
        if let Some((_, is_stop)) = ends.iter().find(|(end, _)| end.take_message()) {
            break *is_stop;
        }
        if most.is_some() {
            shuttle::thread::yield_now();
            let ready = ends.iter().find(|(end, _)| end.take_message());
            break ready.is_some_and(|(_, is_stop)| *is_stop);
        }
        listener.wait();
    };
    ends.iter().for_each(|(end, _)| end.leave(&listener));
    has_stopped
}
