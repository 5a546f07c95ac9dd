//! The engine's lock. Of those who have fallen sleeping before it, one at most is woken at a time:
//! what is done behind it takes a few microseconds, and to wake somebody takes as long. A lock that
//! wakes a sleeper whenever it is released does so for nothing, since whoever released it is back
//! before the sleeper is up; under it ten threads take twice as long for a task as one does.
//! Sleepers are woken in the order in which they came, and one who is awake gets in at last.

use crate::words::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering};
use crate::words::sync::{fence, spin_loop, yield_now};
use std::ops::{Deref, DerefMut};

/// How often a thread looks before it sleeps, with so many pauses before each spin: as long as an
/// op or two take.
const SPINS: usize = if cfg!(shuttle) { 1 } else { 30 };
const PAUSES: usize = if cfg!(shuttle) { 0 } else { 8 };
/// How often it lets others run and looks again: who is inside may wait for a processor.
const YIELDS: usize = if cfg!(shuttle) { 1 } else { 10 };

/// What only one thread at a time may touch.
pub(crate) struct HandoffMutex<T> {
    value: Mutex<T>,
    /// How many sleep and were not called. Moves under `waiters`, and is read without.
    sleeping: AtomicUsize,
    /// Somebody is being called, or was called and is not inside yet. Nobody else is called
    /// meanwhile: who was called permits the next one as it leaves.
    handoff_pending: AtomicBool,
    /// Calls that nobody has heard yet. TicketHandle to fall sleeping and to wake_one, not to wait
    /// for `value`.
    waiters: Mutex<usize>,
    condvar: Condvar,
}

/// Leave to be inside, until it is dropped.
pub(crate) struct HandoffGuard<'a, T> {
    // Dropped in this order: nobody is inside when somebody is called.
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
            waiters: Mutex::new(0),
            condvar: Condvar::new(),
        }
    }

    /// Waits until nobody is inside.
    #[inline]
    pub(crate) fn lock(&self) -> HandoffGuard<'_, T> {
        let value = self.value.try_lock().unwrap_or_else(|| self.wait());
        HandoffGuard { value, _next: WakeNext(self) }
    }

    /// Lets the one that is being woken in first, if there is one. For a caller that has just
    /// released the lock and wants it again.
    pub(crate) fn pass_on(&self) {
        yield_now();
        while self.handoff_pending.load(Ordering::SeqCst) {
            yield_now();
        }
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, T> {
        if let Some(value) = self.spin().or_else(|| self.sleep()) {
            return value;
        }
        // Those who never slept may always come first, but parking_lot's lock hands itself over to
        // whoever waits, every now and then.
        let value = self.spin().unwrap_or_else(|| self.value.lock());
        self.handoff_pending.store(false, Ordering::SeqCst);
        value
    }

    /// Looks for a while whether anybody is inside.
    fn spin(&self) -> Option<MutexGuard<'_, T>> {
        for spin in 0..SPINS + YIELDS {
            if spin < SPINS {
                (0..PAUSES).for_each(|_| spin_loop());
            } else {
                yield_now();
            }
            if let Some(value) = self.value.try_lock() {
                return Some(value);
            }
        }
        None
    }

    /// Sleeps until it is called, unless nobody is inside by now.
    fn sleep(&self) -> Option<MutexGuard<'_, T>> {
        let mut permits = self.waiters.lock();
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        // Who leaves lets go and then asks who sleeps; here it is the other way round. One of the
        // two always sees the other.
        fence(Ordering::SeqCst);
        if let Some(value) = self.value.try_lock() {
            self.sleeping.fetch_sub(1, Ordering::SeqCst);
            return Some(value);
        }
        // A wake_one that has not been heard is for somebody who fell sleeping before.
        self.condvar.wait(&mut permits);
        while *permits == 0 {
            self.condvar.wait(&mut permits);
        }
        *permits -= 1;
        None
    }

    /// Calls one who sleeps, unless one is on the way.
    #[cold]
    fn wake_one(&self) {
        let handoff_pending = &self.handoff_pending;
        if handoff_pending.load(Ordering::SeqCst) || handoff_pending.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut permits = self.waiters.lock();
        if self.sleeping.load(Ordering::SeqCst) == 0 {
            // The last of them has found nobody inside.
            handoff_pending.store(false, Ordering::SeqCst);
            return;
        }
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
        *permits += 1;
        drop(permits);
        // Not before: who wakes wants what was just dropped.
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

    fn wait_until_asleep<T>(door: &HandoffMutex<T>, threads: usize) {
        while door.sleeping.load(Ordering::SeqCst) != threads {
            yield_now();
        }
    }

    fn is_at_rest<T>(door: &HandoffMutex<T>) {
        assert_eq!(door.sleeping.load(Ordering::SeqCst), 0);
        assert!(!door.handoff_pending.load(Ordering::SeqCst), "nobody is on the way");
        assert_eq!(*door.waiters.lock(), 0, "every wake_one was heard");
    }

    /// Threads that sleep before the door while somebody inside does this; all get in afterwards.
    fn with_sleepers(meanwhile: impl FnOnce(&HandoffMutex<usize>)) {
        let door = HandoffMutex::new(0);
        thread::scope(|scope| {
            let inside = door.lock();
            for _ in 0..THREADS {
                scope.spawn(|| *door.lock() += 1);
            }
            wait_until_asleep(&door, THREADS);
            meanwhile(&door);
            drop(inside);
        });
        assert_eq!(*door.lock(), THREADS);
        is_at_rest(&door);
    }

    #[test]
    fn everyone_who_slept_gets_in() {
        with_sleepers(|_| {});
    }

    #[test]
    fn one_at_most_is_called_at_a_time() {
        with_sleepers(|door| {
            // The one who is called finds somebody inside again and again.
            for _ in 0..THREADS {
                door.wake_one();
                assert_eq!(door.sleeping.load(Ordering::SeqCst), THREADS - 1);
            }
        });
    }

    /// A newcomer does not hear a wake_one that was made before it fell sleeping; it would take it
    /// away from whoever sleeps longest.
    #[test]
    fn a_call_is_for_whoever_sleeps_longest() {
        let door = HandoffMutex::new(Vec::new());
        thread::scope(|scope| {
            let inside = door.lock();
            for name in 0..THREADS {
                scope.spawn({
                    let door = &door;
                    move || door.lock().push(name)
                });
                wait_until_asleep(&door, name + 1);
            }
            // A wake_one up to the condvar, which rings only when one more has fallen sleeping.
            door.handoff_pending.store(true, Ordering::SeqCst);
            let mut permits = door.waiters.lock();
            door.sleeping.fetch_sub(1, Ordering::SeqCst);
            *permits += 1;
            drop(permits);
            scope.spawn(|| door.lock().push(THREADS));
            wait_until_asleep(&door, THREADS);
            assert_eq!(*door.waiters.lock(), 1, "it is not the newcomer's");
            door.condvar.notify_one();
            drop(inside);
        });
        assert_eq!(*door.lock(), (0..=THREADS).collect::<Vec<_>>());
        is_at_rest(&door);
    }

    #[test]
    fn a_call_that_meets_nobody_leaves_the_next_one_free() {
        let door = HandoffMutex::new(0);
        door.wake_one();
        is_at_rest(&door);
    }

    #[test]
    fn a_panic_inside_lets_the_next_one_in() {
        let door = HandoffMutex::new(0);
        thread::scope(|scope| {
            let inside = door.lock();
            let waits = scope.spawn(|| *door.lock() += 1);
            wait_until_asleep(&door, 1);
            let fell = catch_unwind(AssertUnwindSafe(|| {
                let _inside = inside;
                panic!("planned");
            }));
            assert!(fell.is_err());
            waits.join().unwrap();
        });
        assert_eq!(*door.lock(), 1);
    }

    #[test]
    fn nothing_is_lost_between_threads_that_come_and_go() {
        const TIMES: usize = 5_000;
        let door = HandoffMutex::new(0);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for time in 0..TIMES {
                        let mut inside = door.lock();
                        *inside += 1;
                        if time % 16 == 0 {
                            // Long enough for others to fall sleeping.
                            (0..YIELDS).for_each(|_| yield_now());
                        }
                    }
                });
            }
        });
        assert_eq!(*door.lock(), THREADS * TIMES);
        is_at_rest(&door);
    }
}
