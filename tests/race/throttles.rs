//! Slots of throttles: each that is left comes to a call that can use it, and no more are held than
//! there are.

use crate::{explore, still};
use shuttle::thread::spawn;
use tubewell::{Durability, Queue, Stop, Tube, TubeOptions};

/// Three tubes with a task each that share a throttle with one slot.
fn shared() -> (Queue, [Tube; 3]) {
    let queue = still().0.durability(Durability::Relaxed).in_memory().unwrap();
    queue.set_throttle("api", 1).unwrap();
    let options = TubeOptions::default().throttle("api");
    let tubes = ["a", "b", "c"].map(|name| queue.create_tube(name, options.clone()).unwrap());
    tubes.iter().for_each(|tube| _ = tube.put(b"x").unwrap());
    (queue, tubes)
}

fn is_free(queue: &Queue) -> bool {
    queue.throttle("api").unwrap().unwrap().in_flight == 0
}

/// The slot may be kept for the call that stops, before it has looked or after.
#[test]
fn a_slot_that_is_kept_for_a_call_that_stops_goes_on() {
    explore(|| {
        let (queue, [a, b, c]) = shared();
        let (held, stop) = (c.take().unwrap(), Stop::new());
        let leaving = spawn({
            let stop = stop.clone();
            move || b.take_until(&stop).unwrap().map(|task| task.ack().unwrap()).is_some()
        });
        let staying = spawn(move || a.take().unwrap().ack().unwrap());
        let stopper = spawn(move || stop.stop());
        held.ack().unwrap();
        staying.join().unwrap();
        let _ = leaving.join().unwrap();
        stopper.join().unwrap();
        assert!(is_free(&queue) && queue.check().unwrap().is_empty());
        queue.close().unwrap();
    });
}

/// The slot is left by a step that brings a task to one tube of a call, and may be kept for it in
/// the other.
#[test]
fn a_slot_that_a_call_on_several_does_not_use_goes_on() {
    explore(|| {
        let (queue, [a, b, c]) = shared();
        let free = queue.tube("free").unwrap();
        let (several, held) = (queue.tubes_of(["free", "b"]).unwrap(), c.take().unwrap());
        let on_both = spawn(move || several.take().unwrap().ack().unwrap());
        let alone = [a, b].map(|tube| spawn(move || tube.take().unwrap().ack().unwrap()));
        let putter = spawn(move || free.put(b"x").map(drop).unwrap());
        c.put(b"y").unwrap();
        held.ack().unwrap();
        let [of_a, of_b] = alone;
        of_a.join().unwrap();
        putter.join().unwrap();
        on_both.join().unwrap();
        // One of the two has the task of b, the other one that of the free tube or the next.
        queue.tube("b").unwrap().put(b"z").unwrap();
        of_b.join().unwrap();
        assert!(is_free(&queue) && queue.check().unwrap().is_empty());
        queue.close().unwrap();
    });
}

/// Two slots, and takers that come again at once: no more tasks are in hand than there are slots.
#[test]
fn takers_that_come_again_hold_no_more_slots_than_there_are() {
    explore(|| {
        let (queue, tubes) = shared();
        queue.set_throttle("api", 2).unwrap();
        tubes.iter().for_each(|tube| _ = tube.put(b"y").unwrap());
        let takers = tubes.map(|tube| {
            let queue = queue.clone();
            spawn(move || {
                for _ in 0..2 {
                    let task = tube.take().unwrap();
                    assert!(queue.throttle("api").unwrap().unwrap().in_flight <= 2);
                    task.ack().unwrap();
                }
            })
        });
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        assert!(is_free(&queue) && queue.check().unwrap().is_empty());
        queue.close().unwrap();
    });
}
