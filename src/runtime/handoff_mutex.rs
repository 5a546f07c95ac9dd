//! The engine's lock: a mutex that wakes at most one sleeping waiter at a time. Work under the lock
//! takes a few microseconds, and waking a thread takes as long. A mutex that wakes a waiter at each
//! release does so in vain, because the releasing thread has taken the lock again before the waiter
//! runs; with such a mutex ten threads need twice as long for a task as one does. Waiters are woken
//! in the order in which they fell asleep, and a woken waiter cannot starve.

use crate::words::clock::machine_now;
use crate::words::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering};
use crate::words::sync::{fence, spin_loop, yield_now};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// How often a thread tries before it yields, with `PAUSES` spin hints before each try: together as
/// long as one or two ops take.
const SPINS: usize = if cfg!(shuttle) { 1 } else { 30 };
const PAUSES: usize = if cfg!(shuttle) { 0 } else { 8 };
/// How often it then yields and tries again: the holder of the lock may wait for a processor.
const YIELDS: usize = if cfg!(shuttle) { 1 } else { 10 };
/// How long all yields of a thread may take. If a third thread is busy on the same processor, each
/// yield is as long as that thread works. The lock is released and taken again meanwhile, but only
/// a sleeping thread is handed it: beside a checkpoint, calls took 1.2 ms for each op of another.
const YIELD_TIME_MAX: Duration = Duration::from_micros(50);
/// How often a thread yields so that a woken thread gets the lock before it: far longer than it
/// takes to wake a thread.
const HANDOFF_YIELDS: usize = if cfg!(shuttle) { 10 } else { 1000 };
/// How long a thread yields at most before it takes the lock for long: a woken thread has come by
/// then, unless a third one has the lock.
const GIVE_WAY_MAX: Duration = Duration::from_micros(500);

/// A value that one thread at a time may access.
pub(crate) struct HandoffMutex<T> {
    value: Mutex<T>,
    /// How many threads sleep and were not woken. Changes under `permits`, and is read without.
    sleeping: AtomicUsize,
    /// A thread is being woken, or was woken and does not have the lock yet. No other thread is
    /// woken in the meantime; the woken thread wakes the next one when it releases the lock.
    handoff_pending: AtomicBool,
    /// Wake-ups that no thread has consumed yet. Locked to fall asleep and to wake a thread, not to
    /// wait for `value`.
    permits: Mutex<usize>,
    condvar: Condvar,
}

/// The lock, held until this is dropped.
pub(crate) struct HandoffGuard<'a, T> {
    // Dropped in this order: the lock is free before the next thread is woken.
    value: MutexGuard<'a, T>,
    _next: WakeNext<'a, T>,
}

struct WakeNext<'a, T>(&'a HandoffMutex<T>);

impl<T> HandoffMutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            sleeping: AtomicUsize::new(0),
            handoff_pending: AtomicBool::new(false),
            permits: Mutex::new(0),
            condvar: Condvar::new(),
        }
    }

    /// Waits until the lock is free.
    #[inline]
    pub(crate) fn lock(&self) -> HandoffGuard<'_, T> {
        let value = self.value.try_lock().unwrap_or_else(|| self.wait());
        HandoffGuard { value, _next: WakeNext(self) }
    }

    /// Lets the thread that is being woken take the lock first, if there is one. For a caller that
    /// has just released the lock and wants it again. The wait is bounded: a third thread may have
    /// taken the lock, and may hold it for long.
    pub(crate) fn pass_on(&self) {
        yield_now();
        self.await_woken(Duration::MAX);
    }

    /// Lets the thread that is being woken take the lock first, if there is one. For a caller that
    /// holds the lock for longer than it takes to wake a thread. The wait is bounded, as that of
    /// [`pass_on`](Self::pass_on), and in time.
    pub(crate) fn give_way(&self) {
        self.await_woken(GIVE_WAY_MAX);
    }

    /// Yields until the thread that is being woken has the lock, if there is one: so often at most,
    /// and so long.
    fn await_woken(&self, most: Duration) {
        if !self.handoff_pending.load(Ordering::SeqCst) {
            return;
        }
        let began = machine_now();
        for _ in 0..HANDOFF_YIELDS {
            yield_now();
            let is_over = !self.handoff_pending.load(Ordering::SeqCst);
            if is_over || began.elapsed() > most {
                return;
            }
        }
    }

    /// Whether a thread sleeps, or was woken and does not have the lock yet.
    pub(crate) fn is_awaited(&self) -> bool {
        let sleeping = self.sleeping.load(Ordering::SeqCst);
        sleeping > 0 || self.handoff_pending.load(Ordering::SeqCst)
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, T> {
        if let Some(value) = self.spin().or_else(|| self.sleep()) {
            return value;
        }
        // Threads that did not sleep may always be faster, but parking_lot's mutex hands itself
        // over to a waiting thread from time to time.
        let value = self.spin().unwrap_or_else(|| self.value.lock());
        self.handoff_pending.store(false, Ordering::SeqCst);
        value
    }

    /// Tries for a while to take the lock.
    fn spin(&self) -> Option<MutexGuard<'_, T>> {
        for _ in 0..SPINS {
            (0..PAUSES).for_each(|_| spin_loop());
            if let Some(value) = self.value.try_lock() {
                return Some(value);
            }
        }
        let began = machine_now();
        for _ in 0..YIELDS {
            yield_now();
            if let Some(value) = self.value.try_lock() {
                return Some(value);
            }
            if began.elapsed() > YIELD_TIME_MAX {
                break;
            }
        }
        None
    }

    /// Sleeps until it is woken, unless the lock is free by now.
    fn sleep(&self) -> Option<MutexGuard<'_, T>> {
        let mut permits = self.permits.lock();
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        // A releasing thread first frees the lock and then reads `sleeping`; here the order is
        // reversed. One of the two always sees the other.
        fence(Ordering::SeqCst);
        if let Some(value) = self.value.try_lock() {
            self.sleeping.fetch_sub(1, Ordering::SeqCst);
            return Some(value);
        }
        // A wake-up that was not consumed yet is for a thread that fell asleep before.
        self.condvar.wait(&mut permits);
        while *permits == 0 {
            self.condvar.wait(&mut permits);
        }
        *permits -= 1;
        None
    }

    /// Wakes one sleeping thread, unless one is being woken.
    #[cold]
    fn wake_one(&self) {
        let handoff_pending = &self.handoff_pending;
        if handoff_pending.load(Ordering::SeqCst) || handoff_pending.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut permits = self.permits.lock();
        if self.sleeping.load(Ordering::SeqCst) == 0 {
            // The last sleeping thread has found the lock free.
            handoff_pending.store(false, Ordering::SeqCst);
            return;
        }
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
        *permits += 1;
        drop(permits);
        // Not before the unlock: the woken thread needs the mutex that was just released.
        self.condvar.notify_one();
    }
}

impl<T> Drop for WakeNext<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // See `sleep`.
        fence(Ordering::SeqCst);
        if self.0.sleeping.load(Ordering::SeqCst) != 0 {
            self.0.wake_one();
        }
    }
}

impl<T> Deref for HandoffGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for HandoffGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    const THREADS: usize = 8;

    fn wait_until_asleep<T>(mutex: &HandoffMutex<T>, threads: usize) {
        while mutex.sleeping.load(Ordering::SeqCst) != threads {
            yield_now();
        }
    }

    fn is_at_rest<T>(mutex: &HandoffMutex<T>) {
        assert_eq!(mutex.sleeping.load(Ordering::SeqCst), 0);
        assert!(!mutex.is_awaited(), "no thread is being woken");
        assert_eq!(*mutex.permits.lock(), 0, "every wake-up was consumed");
    }

    /// Threads sleep before the mutex while its holder runs `meanwhile`; all get the lock
    /// afterwards.
    fn with_sleepers(meanwhile: impl FnOnce(&HandoffMutex<usize>)) {
        let mutex = HandoffMutex::new(0);
        thread::scope(|scope| {
            let inside = mutex.lock();
            for _ in 0..THREADS {
                scope.spawn(|| *mutex.lock() += 1);
            }
            wait_until_asleep(&mutex, THREADS);
            meanwhile(&mutex);
            drop(inside);
        });
        assert_eq!(*mutex.lock(), THREADS);
        is_at_rest(&mutex);
    }

    #[test]
    fn every_sleeping_thread_gets_the_lock() {
        with_sleepers(|mutex| assert!(mutex.is_awaited()));
    }

    #[test]
    fn at_most_one_thread_is_woken_at_a_time() {
        with_sleepers(|mutex| {
            // The woken thread finds the lock taken again and again.
            for _ in 0..THREADS {
                mutex.wake_one();
                assert_eq!(mutex.sleeping.load(Ordering::SeqCst), THREADS - 1);
            }
        });
    }

    /// A new waiter does not consume a wake-up that was made before it fell asleep: that is for the
    /// thread that sleeps longest.
    #[test]
    fn a_wake_up_is_for_the_longest_sleeping_thread() {
        let mutex = HandoffMutex::new(Vec::new());
        thread::scope(|scope| {
            let inside = mutex.lock();
            for name in 0..THREADS {
                scope.spawn({
                    let mutex = &mutex;
                    move || mutex.lock().push(name)
                });
                wait_until_asleep(&mutex, name + 1);
            }
            // The steps of `wake_one` before the notification, which follows after one more thread
            // sleeps.
            mutex.handoff_pending.store(true, Ordering::SeqCst);
            let mut permits = mutex.permits.lock();
            mutex.sleeping.fetch_sub(1, Ordering::SeqCst);
            *permits += 1;
            drop(permits);
            scope.spawn(|| mutex.lock().push(THREADS));
            wait_until_asleep(&mutex, THREADS);
            assert_eq!(*mutex.permits.lock(), 1, "the new waiter must not consume it");
            mutex.condvar.notify_one();
            drop(inside);
        });
        assert_eq!(*mutex.lock(), (0..=THREADS).collect::<Vec<_>>());
        is_at_rest(&mutex);
    }

    #[test]
    fn a_wake_up_without_waiters_does_not_block_the_next() {
        let mutex = HandoffMutex::new(0);
        mutex.wake_one();
        is_at_rest(&mutex);
    }

    /// Regression: a thread that passed the lock on yielded until the woken thread had the lock. If
    /// a third thread had taken it, for a transaction of seconds, that kept a processor busy.
    #[test]
    fn passing_on_does_not_wait_for_a_holder() {
        with_sleepers(|mutex| {
            mutex.wake_one();
            mutex.pass_on();
            mutex.give_way();
            assert!(mutex.handoff_pending.load(Ordering::SeqCst), "the lock is not free yet");
        });
    }

    #[test]
    fn a_panic_under_the_lock_releases_it() {
        let mutex = HandoffMutex::new(0);
        thread::scope(|scope| {
            let inside = mutex.lock();
            let waits = scope.spawn(|| *mutex.lock() += 1);
            wait_until_asleep(&mutex, 1);
            let fell = catch_unwind(AssertUnwindSafe(|| {
                let _inside = inside;
                panic!("planned");
            }));
            assert!(fell.is_err());
            waits.join().unwrap();
        });
        assert_eq!(*mutex.lock(), 1);
    }

    #[test]
    fn no_update_is_lost_between_threads() {
        const TIMES: usize = 5_000;
        let mutex = HandoffMutex::new(0);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for time in 0..TIMES {
                        let mut inside = mutex.lock();
                        *inside += 1;
                        if time % 16 == 0 {
                            // Long enough for others to fall asleep.
                            (0..YIELDS).for_each(|_| yield_now());
                        }
                    }
                });
            }
        });
        assert_eq!(*mutex.lock(), THREADS * TIMES);
        is_at_rest(&mutex);
    }
}
