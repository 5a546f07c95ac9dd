//! The engine's lock. Of those who have fallen asleep before it, one at most is woken at a time:
//! what is done behind it takes a few microseconds, and to wake somebody takes as long. A lock that
//! wakes a sleeper whenever it is released does so for nothing, since whoever released it is back
//! before the sleeper is up; under it ten threads take twice as long for a task as one does.
//! Sleepers are woken in the order in which they came, and one who is awake gets in at last.

use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering};
use crate::sync::{fence, spin_loop, yield_now};
use std::ops::{Deref, DerefMut};

/// How often a thread looks before it sleeps, with so many pauses before each look: as long as an
/// op or two take.
const LOOKS: usize = if cfg!(shuttle) { 1 } else { 30 };
const PAUSES: usize = if cfg!(shuttle) { 0 } else { 8 };
/// How often it lets others run and looks again: who is inside may wait for a processor.
const YIELDS: usize = if cfg!(shuttle) { 1 } else { 10 };

/// What only one thread at a time may touch.
pub(crate) struct Door<T> {
    kept: Mutex<T>,
    /// How many sleep and were not called. Moves under `bed`, and is read without.
    asleep: AtomicUsize,
    /// Somebody is being called, or was called and is not inside yet. Nobody else is called
    /// meanwhile: who was called calls the next one as it leaves.
    on_the_way: AtomicBool,
    /// Calls that nobody has heard yet. Held to fall asleep and to call, not to wait for `kept`.
    bed: Mutex<usize>,
    bell: Condvar,
}

/// Leave to be inside, until it is dropped.
pub(crate) struct Entered<'a, T> {
    // Dropped in this order: nobody is inside when somebody is called.
    kept: MutexGuard<'a, T>,
    _next: CallsNext<'a, T>,
}

struct CallsNext<'a, T>(&'a Door<T>);

impl<T> Door<T> {
    pub(crate) fn new(kept: T) -> Self {
        Self {
            kept: Mutex::new(kept),
            asleep: AtomicUsize::new(0),
            on_the_way: AtomicBool::new(false),
            bed: Mutex::new(0),
            bell: Condvar::new(),
        }
    }

    /// Waits until nobody is inside.
    #[inline]
    pub(crate) fn lock(&self) -> Entered<'_, T> {
        let kept = self.kept.try_lock().unwrap_or_else(|| self.wait());
        Entered { kept, _next: CallsNext(self) }
    }

    /// Lets the one that is being woken in first, if there is one. For a caller that has just
    /// released the lock and wants it again.
    pub(crate) fn pass_on(&self) {
        yield_now();
        while self.on_the_way.load(Ordering::SeqCst) {
            yield_now();
        }
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, T> {
        if let Some(kept) = self.look().or_else(|| self.sleep()) {
            return kept;
        }
        // Those who never slept may always come first, but parking_lot's lock hands itself over to
        // whoever waits, every now and then.
        let kept = self.look().unwrap_or_else(|| self.kept.lock());
        self.on_the_way.store(false, Ordering::SeqCst);
        kept
    }

    /// Looks for a while whether anybody is inside.
    fn look(&self) -> Option<MutexGuard<'_, T>> {
        for look in 0..LOOKS + YIELDS {
            if look < LOOKS {
                (0..PAUSES).for_each(|_| spin_loop());
            } else {
                yield_now();
            }
            if let Some(kept) = self.kept.try_lock() {
                return Some(kept);
            }
        }
        None
    }

    /// Sleeps until it is called, unless nobody is inside by now.
    fn sleep(&self) -> Option<MutexGuard<'_, T>> {
        let mut calls = self.bed.lock();
        self.asleep.fetch_add(1, Ordering::SeqCst);
        // Who leaves lets go and then asks who sleeps; here it is the other way round. One of the
        // two always sees the other.
        fence(Ordering::SeqCst);
        if let Some(kept) = self.kept.try_lock() {
            self.asleep.fetch_sub(1, Ordering::SeqCst);
            return Some(kept);
        }
        // A call that has not been heard is for somebody who fell asleep before.
        self.bell.wait(&mut calls);
        while *calls == 0 {
            self.bell.wait(&mut calls);
        }
        *calls -= 1;
        None
    }

    /// Calls one who sleeps, unless one is on the way.
    #[cold]
    fn call(&self) {
        let on_the_way = &self.on_the_way;
        if on_the_way.load(Ordering::SeqCst) || on_the_way.swap(true, Ordering::SeqCst) {
            return;
        }
        let mut calls = self.bed.lock();
        if self.asleep.load(Ordering::SeqCst) == 0 {
            // The last of them has found nobody inside.
            on_the_way.store(false, Ordering::SeqCst);
            return;
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
        *calls += 1;
        drop(calls);
        // Not before: who wakes wants what was just dropped.
        self.bell.notify_one();
    }
}

impl<T> Drop for CallsNext<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // See `sleep`.
        fence(Ordering::SeqCst);
        if self.0.asleep.load(Ordering::SeqCst) != 0 {
            self.0.call();
        }
    }
}

impl<T> Deref for Entered<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.kept
    }
}

impl<T> DerefMut for Entered<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    const THREADS: usize = 8;

    fn wait_until_asleep<T>(door: &Door<T>, threads: usize) {
        while door.asleep.load(Ordering::SeqCst) != threads {
            yield_now();
        }
    }

    fn is_at_rest<T>(door: &Door<T>) {
        assert_eq!(door.asleep.load(Ordering::SeqCst), 0);
        assert!(!door.on_the_way.load(Ordering::SeqCst), "nobody is on the way");
        assert_eq!(*door.bed.lock(), 0, "every call was heard");
    }

    /// Threads that sleep before the door while somebody inside does this; all get in afterwards.
    fn with_sleepers(meanwhile: impl FnOnce(&Door<usize>)) {
        let door = Door::new(0);
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
                door.call();
                assert_eq!(door.asleep.load(Ordering::SeqCst), THREADS - 1);
            }
        });
    }

    /// A newcomer does not hear a call that was made before it fell asleep; it would take it away
    /// from whoever sleeps longest.
    #[test]
    fn a_call_is_for_whoever_sleeps_longest() {
        let door = Door::new(Vec::new());
        thread::scope(|scope| {
            let inside = door.lock();
            for name in 0..THREADS {
                scope.spawn({
                    let door = &door;
                    move || door.lock().push(name)
                });
                wait_until_asleep(&door, name + 1);
            }
            // A call up to the bell, which rings only when one more has fallen asleep.
            door.on_the_way.store(true, Ordering::SeqCst);
            let mut calls = door.bed.lock();
            door.asleep.fetch_sub(1, Ordering::SeqCst);
            *calls += 1;
            drop(calls);
            scope.spawn(|| door.lock().push(THREADS));
            wait_until_asleep(&door, THREADS);
            assert_eq!(*door.bed.lock(), 1, "it is not the newcomer's");
            door.bell.notify_one();
            drop(inside);
        });
        assert_eq!(*door.lock(), (0..=THREADS).collect::<Vec<_>>());
        is_at_rest(&door);
    }

    #[test]
    fn a_call_that_meets_nobody_leaves_the_next_one_free() {
        let door = Door::new(0);
        door.call();
        is_at_rest(&door);
    }

    #[test]
    fn a_panic_inside_lets_the_next_one_in() {
        let door = Door::new(0);
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
        let door = Door::new(0);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for time in 0..TIMES {
                        let mut inside = door.lock();
                        *inside += 1;
                        if time % 16 == 0 {
                            // Long enough for others to fall asleep.
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
