//! Calls that wait on several tubes: no wake-up is lost, and none is kept that another call needs.

use crate::{explore, lone, secs, still, unless_closed};
use shuttle::thread::spawn;
use tubewell::{Durability, Queue, Stop, Tube};

fn both() -> (Queue, [Tube; 2]) {
    let queue = still().0.durability(Durability::Relaxed).in_memory().unwrap();
    let tubes = ["a", "b"].map(|name| queue.tube(name).unwrap());
    (queue, tubes)
}

/// A task for each tube, and three calls: one on both, one on each. The one on both puts what it
/// has taken again. If it was woken by the one tube and served by the other, the first has still a
/// task for the call that waits there alone.
#[test]
fn a_wake_up_that_another_tube_has_served_goes_on() {
    explore(|| {
        let (queue, [a, b]) = both();
        let (several, stop) = (queue.tubes_of(["b", "a"]).unwrap(), Stop::new());
        let on_both = spawn({
            let (a, b, stop) = (a.clone(), b.clone(), stop.clone());
            move || {
                let Some(task) = several.take_until(&stop).unwrap() else { return };
                let tube = if task.tube() == "a" { a } else { b };
                task.ack().unwrap();
                tube.put(b"again").unwrap();
            }
        });
        let alone = [&a, &b].map(|tube| {
            let tube = tube.clone();
            spawn(move || tube.take().unwrap().ack().unwrap())
        });
        let putter = spawn({
            let b = b.clone();
            move || b.put(b"x").map(drop).unwrap()
        });
        a.put(b"x").unwrap();
        putter.join().unwrap();
        alone.into_iter().for_each(|call| call.join().unwrap());
        stop.stop();
        on_both.join().unwrap();
        assert_eq!((a.len().unwrap(), b.len().unwrap()), (0, 0));
        queue.close().unwrap();
    });
}

#[test]
fn a_call_on_several_that_stops_passes_its_wake_up_on() {
    explore(|| {
        let (queue, [a, b]) = both();
        let (several, stop) = (queue.tubes_of(["a", "b"]).unwrap(), Stop::new());
        let leaving = spawn({
            let stop = stop.clone();
            move || several.take_until(&stop).unwrap().map(|task| task.ack().unwrap()).is_some()
        });
        let staying = spawn({
            let b = b.clone();
            move || b.take().unwrap().ack().unwrap()
        });
        let stopper = spawn(move || stop.stop());
        b.put(b"x").unwrap();
        if leaving.join().unwrap() {
            b.put(b"y").unwrap();
        }
        staying.join().unwrap();
        stopper.join().unwrap();
        assert_eq!((a.len().unwrap(), b.len().unwrap()), (0, 0));
        queue.close().unwrap();
    });
}

#[test]
fn a_call_on_a_prefix_gets_the_task_of_a_tube_that_is_made_meanwhile() {
    explore(|| {
        let (queue, _tube, _clock) = lone();
        let several = queue.tubes_with_prefix("m/").unwrap().by_priority();
        let taker = spawn(move || several.take().unwrap().ack().unwrap());
        let makers = ["m/a", "m/b"].map(|name| {
            let queue = queue.clone();
            spawn(move || queue.tube(name).unwrap().put(b"x").map(drop).unwrap())
        });
        taker.join().unwrap();
        makers.into_iter().for_each(|maker| maker.join().unwrap());
        assert_eq!(queue.stats().unwrap().iter().map(|tube| tube.ready).sum::<u64>(), 1);
        queue.close().unwrap();
    });
}

/// The last tube of a list goes, the queue is closed, or a task comes: the call ends.
#[test]
fn a_call_on_a_list_ends_with_its_last_tube() {
    explore(|| {
        let (queue, [a, _b]) = both();
        let several = queue.tubes_of(["a", "b"]).unwrap().round_robin();
        let taker = spawn(move || several.take().map(|task| _ = task.detach()).is_ok());
        let dropper = spawn({
            let queue = queue.clone();
            move || queue.force_drop_tube("b").unwrap()
        });
        let put = a.put(b"x").is_ok();
        queue.force_drop_tube("a").unwrap();
        dropper.join().unwrap();
        let _ = taker.join().unwrap();
        assert!(put && queue.tubes().unwrap().is_empty());
        queue.close().unwrap();
    });
}

#[test]
fn close_and_time_end_a_call_on_several() {
    explore(|| {
        let (queue, _tube, clock) = lone();
        let several = queue.tubes_of(["t", "u"]).unwrap();
        let hasty = spawn({
            let several = several.clone();
            move || unless_closed(several.take_timeout(secs(1))).flatten().is_none()
        });
        let patient = spawn(move || unless_closed(several.take()).is_none());
        clock.advance(secs(1));
        queue.close().unwrap();
        assert!(hasty.join().unwrap() && patient.join().unwrap());
    });
}

/// A handle ends while another begins on the same tube: the one that stays is woken.
#[test]
fn a_handle_that_ends_takes_no_wake_up_of_another() {
    explore(|| {
        let (queue, [a, _b]) = both();
        let ending = queue.tubes_of(["a", "b"]).unwrap();
        assert!(ending.try_take().unwrap().is_none());
        let ends = spawn(move || drop(ending));
        let staying = spawn({
            let queue = queue.clone();
            move || {
                let several = queue.tubes_of(["a"]).unwrap();
                assert!(several.try_take().unwrap().is_none_or(|task| task.release().is_ok()));
                several.take().unwrap().ack().unwrap();
            }
        });
        a.put(b"x").unwrap();
        ends.join().unwrap();
        staying.join().unwrap();
        assert_eq!(a.len().unwrap(), 0);
        queue.close().unwrap();
    });
}
