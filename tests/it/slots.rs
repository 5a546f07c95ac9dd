//! Slots of throttles that are kept for takers, and what becomes of them.

use crate::{secs, still, until};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};
use tubewell::{Clock, ClockReading, ManualClock, Stop, Task};

/// A clock at which the thread "late" is held up before it looks, where it holds no lock: a call on
/// several tubes reads the lease time first while any consumer is in its grace.
#[derive(Clone, Default)]
struct Late {
    hands: ManualClock,
    /// Whether it holds the thread up, and whether the thread has come.
    held_up: Arc<(Mutex<(bool, bool)>, Condvar)>,
}

impl Clock for Late {
    fn monotonic(&self) -> Duration {
        if thread::current().name() == Some("late") {
            let (state, opened) = &*self.held_up;
            let mut state = state.lock().unwrap();
            while state.0 {
                state.1 = true;
                state = opened.wait(state).unwrap();
            }
        }
        self.hands.monotonic()
    }

    fn wall(&self) -> SystemTime {
        self.hands.wall()
    }

    fn boot_time(&self) -> Option<Duration> {
        self.hands.boot_time()
    }

    // What is read under the engine's lock.
    fn read(&self) -> ClockReading {
        self.hands.read()
    }

    fn nap(&self, _left: Duration) -> Option<Duration> {
        None
    }

    fn watch(&self, moved: Arc<dyn Fn() + Send + Sync>) {
        self.hands.watch(moved);
    }
}

/// Regression: a call on several tubes was woken for a slot that was kept for one of them, and that
/// tube was dropped before the call looked. The slot stayed kept, and no tube got it any more.
#[test]
fn a_slot_that_is_kept_for_a_tube_that_is_dropped_goes_to_the_others() {
    let clock = Late::default();
    let queue = still().0.clock(clock.clone()).in_memory().unwrap();
    drop(queue.consumer_with_grace("ada", secs(60)).unwrap());
    queue.set_throttle("gpu", 1).unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| queue.tube(name).unwrap());
    for tube in [&a, &b, &c] {
        tube.task(b"x").throttle("gpu").put().unwrap();
    }
    let held = c.take().unwrap();
    let (both, stop) = (queue.tubes_of(["a", "b"]).unwrap(), Stop::new());
    let own = stop.clone();
    let taker = thread::Builder::new().name("late".to_owned());
    let taker = taker.spawn(move || both.take_until(&own).unwrap().map(Task::detach)).unwrap();
    until(|| queue.waiters().unwrap().len() == 1);
    let (state, opened) = &*clock.held_up;
    state.lock().unwrap().0 = true;
    clock.hands.advance(Duration::ZERO); // it looks again
    until(|| state.lock().unwrap().1);

    held.ack().unwrap(); // the slot is kept for a, and the call is woken
    queue.force_drop_tube("a").unwrap();
    state.lock().unwrap().0 = false;
    opened.notify_all();
    // The task of b is taken by the call, or can be taken by another one.
    until(|| taker.is_finished() || b.try_take().unwrap().is_some());
    stop.stop();
    taker.join().unwrap();
}
