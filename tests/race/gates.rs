//! Gates that open and close beside takers: none of those that wait misses an opening, and none
//! gets a task behind a gate that was closed before its take.

use crate::quiet::quiet;
use crate::{below, explore, relaxed, secs, sound};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::sync::mpsc::channel;
use shuttle::thread::spawn;
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use tubewell::{Queue, Rate, Tube, TubeOptions};

/// A tube whose tasks require the condition `online`: by an option of the tube, or each of them.
fn requiring() -> (Queue, Tube, impl Fn(&Tube) + Clone + Send + 'static) {
    let (queue, _clock) = relaxed();
    let by_tube = below(2) == 0;
    let options = TubeOptions::default();
    let options = if by_tube { options.require("online") } else { options };
    let tube = queue.create_tube("t", options).unwrap();
    let put = move |tube: &Tube| {
        let task = tube.task(b"x");
        let task = if by_tube { task } else { task.require("online") };
        task.put().map(drop).unwrap();
    };
    (queue, tube, put)
}

#[test]
fn a_condition_that_is_set_is_missed_by_no_taker() {
    explore(|| {
        let (queue, tube, put) = requiring();
        put(&tube);
        let takers = [tube.clone(), tube.clone()]
            .map(|tube| spawn(move || tube.take().unwrap().ack().unwrap()));
        let putter = spawn({
            let tube = tube.clone();
            move || put(&tube)
        });
        let toggling = spawn({
            let queue = queue.clone();
            move || {
                assert!(queue.set_condition("online", true).unwrap());
                queue.set_condition("online", false).unwrap();
            }
        });
        toggling.join().unwrap();
        queue.set_condition_for_run("online", true).unwrap();
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        putter.join().unwrap();
        assert!(tube.is_empty().unwrap());
        sound(&queue);
        queue.close().unwrap();
    });
}

/// One looks again and again, of which the first looks may be served. One that begins to wait after
/// the condition was cleared gets nothing until it is set again.
#[test]
fn a_condition_that_was_cleared_holds_back_all_later_takes() {
    explore(|| {
        let (queue, tube, put) = requiring();
        queue.set_condition("online", true).unwrap();
        put(&tube);
        put(&tube);
        let is_cleared = Arc::new(AtomicBool::new(false));
        let several = queue.tubes_of(["t"]).unwrap();
        let looking = spawn({
            let (tube, is_cleared) = (tube.clone(), is_cleared.clone());
            move || {
                let look = |turn: u32| {
                    let was_cleared = is_cleared.load(Ordering::SeqCst);
                    let found = match turn % 2 {
                        0 => tube.try_take().unwrap().map(|task| task.ack().unwrap()),
                        _ => several.try_take().unwrap().map(|task| task.ack().unwrap()),
                    };
                    assert!(!was_cleared || found.is_none());
                    found.is_some()
                };
                (0..3).map(look).filter(|found| *found).count()
            }
        });
        assert!(queue.set_condition("online", false).unwrap());
        is_cleared.store(true, Ordering::SeqCst);
        let waiting = spawn({
            let tube = tube.clone();
            move || tube.take().unwrap().ack().unwrap()
        });
        let found = looking.join().unwrap();
        let stats = tube.stats().unwrap();
        assert_eq!((stats.taken, stats.ready as usize), (0, 2 - found));
        if found == 2 {
            put(&tube);
        }
        assert!(queue.set_condition("online", true).unwrap());
        waiting.join().unwrap();
        assert_eq!(tube.len().unwrap(), u64::from(found == 0));
        sound(&queue);
        queue.close().unwrap();
    });
}

/// Two takers sleep, or begin to, while time passes: the one comes after the other.
#[test]
fn a_rate_lets_one_taker_go_on_for_each_interval() {
    explore(|| {
        let (queue, clock) = quiet(UNIX_EPOCH + secs(3600));
        let options = TubeOptions::default().rate(Rate::new(1).per(secs(60)));
        let tube = queue.create_tube("t", options).unwrap();
        tube.put_many([*b"a", *b"b"]).unwrap();
        tube.take().unwrap().ack().unwrap();
        let (reported, received) = channel();
        let takers = [tube.clone(), tube.clone()].map(|tube| {
            let reported = reported.clone();
            spawn(move || {
                tube.take().unwrap().ack().unwrap();
                reported.send(()).unwrap();
            })
        });
        let putter = spawn({
            let tube = tube.clone();
            move || tube.put(b"c").map(drop).unwrap()
        });
        for _ in 0..2 {
            assert!(received.try_recv().is_err());
            clock.advance(secs(60));
            queue.tick().unwrap();
            received.recv().unwrap();
        }
        takers.into_iter().for_each(|taker| taker.join().unwrap());
        putter.join().unwrap();
        assert!(tube.is_empty().unwrap());
        sound(&queue);
        queue.close().unwrap();
    });
}

#[test]
fn hours_that_begin_are_missed_by_no_taker() {
    explore(|| {
        // A Thursday, 08:00.
        let (queue, clock) = quiet(UNIX_EPOCH + secs(8 * 3600));
        let office = "Mon-Fri 09:00-17:00".parse().unwrap();
        let tube = queue.create_tube("t", TubeOptions::default().hours(office)).unwrap();
        tube.put(b"a").unwrap();
        let takers = [tube.clone(), tube.clone()].map(|tube| {
            let clock = clock.clone();
            spawn(move || {
                tube.take().unwrap().ack().unwrap();
                clock.since_start()
            })
        });
        let putter = spawn({
            let tube = tube.clone();
            move || tube.put(b"b").map(drop).unwrap()
        });
        clock.advance(secs(3600));
        queue.tick().unwrap();
        takers.into_iter().for_each(|taker| assert_eq!(taker.join().unwrap(), secs(3600)));
        putter.join().unwrap();
        assert!(tube.is_empty().unwrap());
        sound(&queue);
        queue.close().unwrap();
    });
}
