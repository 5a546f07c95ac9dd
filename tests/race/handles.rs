//! The end of a queue during other calls: by `close`, by its last handle, and what a reader of
//! events sees of it.

use crate::disk::Disk;
use crate::{acked, below, explore, lone, secs, still, unless_closed};
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread::spawn;
use std::sync::Arc;
use tubewell::{Cause, Durability, Event, EventFilter, EventOptions, TubeOptions};

#[test]
fn close_while_takers_wait_and_put_and_transact_run() {
    explore(|| {
        let disk = Disk::new();
        let (queue, tube, _clock) = disk.serve(Durability::Durable);
        let taker = spawn({
            let tube = tube.clone();
            move || {
                let task = unless_closed(tube.take());
                task.is_some_and(|task| acked(task.ack()))
            }
        });
        let putter = spawn({
            let tube = tube.clone();
            move || unless_closed(tube.put(b"a")).is_some()
        });
        let transacting = spawn({
            let (queue, tube) = (queue.clone(), tube.clone());
            move || unless_closed(queue.transact(|tx| tube.put_in(tx, b"b"))).is_some()
        });
        let closing = spawn({
            let (queue, disk) = (queue.clone(), disk.clone());
            move || {
                queue.close().unwrap();
                assert!(disk.is_free());
            }
        });
        let acked = taker.join().unwrap();
        let put = putter.join().unwrap();
        let transacted = transacting.join().unwrap();
        closing.join().unwrap();
        assert!(unless_closed(tube.put(b"late")).is_none());
        drop((tube, queue));
        let left = disk.left() + u64::from(acked);
        assert_eq!(left, u64::from(put) + u64::from(transacted));
    });
}

#[test]
fn the_last_handle_goes_while_others_work() {
    explore(|| {
        let disk = Disk::new();
        let (queue, tube, clock) = disk.serve(Durability::Durable);
        // A callback may drop the last one, on a thread of the queue.
        let kept = Mutex::new(Some(tube.clone()));
        tube.on_task_change(Some(move |event: &Event| {
            if event.cause == Cause::Put {
                let kept = kept.lock().unwrap().take();
                drop(kept);
            }
        }))
        .unwrap();
        drop(queue);
        let putter = spawn({
            let tube = tube.clone();
            move || tube.put(b"a").map(drop).unwrap()
        });
        let taker = spawn(move || drop(tube.take().unwrap()));
        clock.advance(secs(1));
        putter.join().unwrap();
        taker.join().unwrap();
        disk.until_free();
        assert_eq!(disk.left(), 1);
    });
}

#[test]
fn a_reader_of_events_sees_all_of_them_and_then_the_end() {
    explore(|| {
        let (builder, _clock) = still();
        let queue = builder.by_hand(true).in_memory().unwrap();
        let events = queue.events();
        let tube = queue.tube("t").unwrap();
        let readers = spawn(move || events.collect::<Vec<Event>>());
        let putters: Vec<_> = [b"a", b"b"]
            .into_iter()
            .map(|name| {
                let tube = tube.clone();
                spawn(move || unless_closed(tube.put(name)).is_some())
            })
            .collect();
        queue.close().unwrap();
        let puts = putters.into_iter().map(|putter| putter.join().unwrap());
        let puts = puts.filter(|put| *put).count();
        let events = readers.join().unwrap();
        let seen: Vec<u64> = events.iter().map(|event| event.seq).collect();
        let whole: Vec<u64> = (1..=seen.len() as u64).collect();
        assert_eq!(seen, whole);
        assert_eq!(events.iter().filter(|event| event.cause == Cause::Put).count(), puts);
    });
}

/// An op that began without payloads may end before a subscriber that wants them.
#[test]
fn a_subscriber_with_payloads_gets_them_with_its_first_event() {
    explore(|| {
        let (builder, _clock) = still();
        let queue = builder.by_hand(true).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        let putter = spawn({
            let tube = tube.clone();
            move || (0..2).for_each(|_| tube.put(b"a").map(drop).unwrap())
        });
        let watcher = spawn({
            let tube = tube.clone();
            let watch = |event: &Event| assert_eq!(event.payload(), Some(&b"a"[..]));
            move || tube.on_task_change_with_payload(Some(watch)).unwrap()
        });
        let events = queue.events_with(EventOptions::new().payloads());
        putter.join().unwrap();
        watcher.join().unwrap();
        queue.tick().unwrap();
        queue.close().unwrap();
        assert!(events.into_iter().all(|event| event.payload() == Some(b"a")));
    });
}

#[test]
fn a_subscription_during_a_close_ends() {
    explore(|| {
        let (queue, tube, _clock) = lone();
        let reader = spawn({
            let queue = queue.clone();
            move || assert_eq!(queue.events().count(), 0)
        });
        // The callback's captured handle keeps the queue open until the callback is removed.
        let captured = Arc::new(queue.clone());
        let forgotten = Arc::downgrade(&captured);
        let watcher = spawn({
            let tube = tube.clone();
            let watch = move |_: &Event| assert!(!captured.is_closed());
            move || match below(2) {
                0 => unless_closed(tube.on_task_change(Some(watch))),
                _ => unless_closed(tube.on_task_change_with_payload(Some(watch))),
            }
        });
        queue.close().unwrap();
        reader.join().unwrap();
        watcher.join().unwrap();
        assert!(forgotten.upgrade().is_none(), "the callback is kept");
    });
}

/// Also beside a close; no call begins after the drop, except the one that had begun.
#[test]
fn a_subscription_goes_while_its_callback_is_called() {
    explore(|| {
        let (queue, tube, _clock) = lone();
        let (captured, calls) = (Arc::new(queue.clone()), Arc::new(AtomicUsize::new(0)));
        let (forgotten, of_calls) = (Arc::downgrade(&captured), calls.clone());
        let watch = move |_: &Event| {
            let _ = &captured;
            of_calls.fetch_add(1, Ordering::SeqCst);
        };
        let subscription = queue.on_event(EventFilter::new().tasks_only(), watch).unwrap();
        let putter = spawn({
            let tube = tube.clone();
            move || (0..2).for_each(|_| _ = unless_closed(tube.put(b"a")))
        });
        let closer = spawn({
            let queue = queue.clone();
            move || {
                if below(2) == 0 {
                    queue.close().unwrap()
                }
            }
        });
        drop(subscription);
        let before = calls.load(Ordering::SeqCst);
        putter.join().unwrap();
        closer.join().unwrap();
        queue.close().unwrap();
        assert!(forgotten.upgrade().is_none(), "the callback is kept");
        assert!(calls.load(Ordering::SeqCst) <= before + 1);
    });
}

/// Each change is told to the one callback or to the other, and to none twice.
#[test]
fn a_callback_is_replaced_while_it_is_called() {
    explore(|| {
        let (queue, tube, _clock) = lone();
        let calls = [0, 1].map(|_| Arc::new(AtomicUsize::new(0)));
        let counts = |calls: &Arc<AtomicUsize>| {
            let calls = calls.clone();
            move |_: &Event| _ = calls.fetch_add(1, Ordering::SeqCst)
        };
        tube.on_task_change(Some(counts(&calls[0]))).unwrap();
        let putter = spawn({
            let tube = tube.clone();
            move || {
                for _ in 0..2 {
                    tube.put(b"a").unwrap();
                }
            }
        });
        let replaced = tube.on_task_change(Some(counts(&calls[1]))).unwrap();
        assert!(replaced.is_some());
        putter.join().unwrap();
        queue.close().unwrap();
        let [first, second] = calls.map(|calls| calls.load(Ordering::SeqCst));
        assert_eq!(first + second, 2, "{first} and {second}");
    });
}

/// Regression: `close` held the lock of the thread list while it joined the threads, and a callback
/// that set the first of the callbacks needed it to start a thread.
#[test]
fn close_beside_a_callback_that_sets_callbacks() {
    explore(|| {
        let (queue, tube, _clock) = lone();
        let again = tube.clone();
        let set = move |_: &Event| {
            let none = None::<fn(&Event)>;
            unless_closed(again.on_task_change(none));
            unless_closed(again.on_task_change(Some(|_: &Event| {})));
        };
        tube.on_task_change(Some(set)).unwrap();
        tube.put(b"a").unwrap();
        queue.close().unwrap();
    });
}

/// Regression: a close ended the session that another thread had just opened under the same name:
/// it was open, and all its takes returned `Closed`.
#[test]
fn a_consumer_is_closed_while_another_opens_it() {
    explore(|| {
        let (queue, tube, _clock) = lone();
        tube.put(b"a").unwrap();
        let first = queue.consumer("ada").unwrap();
        let closer = spawn(move || first.close().unwrap());
        let second = queue.consumer("ada").unwrap();
        closer.join().unwrap();
        if !second.is_closed() {
            tube.by(&second).try_take().unwrap().unwrap().ack().unwrap();
        }
        queue.close().unwrap();
    });
}

/// The look for the tube, the callback and the tube were three steps, of which another call could
/// come between any two: the callback of the one that was refused was told of the tasks.
#[test]
fn two_make_a_tube_with_a_callback_each() {
    explore(|| {
        let (builder, _clock) = still();
        let queue = builder.in_memory().unwrap();
        let makers = [(); 2].map(|()| {
            let queue = queue.clone();
            spawn(move || {
                let calls = Arc::new(AtomicUsize::new(0));
                let counted = calls.clone();
                let count = move |_: &Event| _ = counted.fetch_add(1, Ordering::SeqCst);
                let made = queue.create_tube_with("t", TubeOptions::default(), count);
                let is_made = made.map(|(tube, _)| _ = tube.put(b"a").unwrap()).is_ok();
                queue.tick().unwrap();
                (is_made, calls)
            })
        });
        let ended = makers.map(|maker| maker.join().unwrap());
        queue.tick().unwrap();
        queue.close().unwrap();
        for (is_made, calls) in ended {
            assert_eq!(calls.load(Ordering::SeqCst), usize::from(is_made), "made: {is_made}");
        }
    });
}

/// Of two that replace the callback of a tube at once each gets the one before its own: none is
/// lost, and none is returned twice.
#[test]
fn two_replace_a_callback_at_once() {
    explore(|| {
        let (queue, tube, _clock) = lone();
        let there = || TubeOptions::default().if_not_exists();
        let counted = || {
            let kept = Arc::new(());
            let weak = Arc::downgrade(&kept);
            (move |_: &Event| _ = &kept, weak)
        };
        let (first, first_kept) = counted();
        assert!(tube.on_task_change(Some(first)).unwrap().is_none());
        let (second, second_kept) = counted();
        let other = spawn({
            let queue = queue.clone();
            move || {
                queue
                    .create_tube_with("t", TubeOptions::default().if_not_exists(), second)
                    .unwrap()
                    .1
            }
        });
        let (third, third_kept) = counted();
        let mine = queue.create_tube_with("t", there(), third).unwrap().1;
        let returned = [mine, other.join().unwrap()];
        assert!(returned.iter().all(Option::is_some));
        let all = [first_kept, second_kept, third_kept];
        assert!(all.iter().all(|kept| kept.strong_count() > 0), "one was dropped");
        drop(returned);
        assert_eq!(all.iter().filter(|kept| kept.strong_count() > 0).count(), 1);
        assert_eq!(all[0].strong_count(), 0, "the first one was returned");
        queue.close().unwrap();
    });
}
