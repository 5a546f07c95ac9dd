//! Schedules: a fire makes one child, beside whatever is done with the schedule while it is due.

use crate::quiet::quiet;
use crate::{explore, relaxed, secs, sound};
use shuttle::thread::spawn;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tubewell::{Clock, ErrorKind, ManualClock, Missed, Queue, Result, Schedule, State, Tube};

/// A schedule that has made its first child, and when.
fn minutely() -> (Queue, Tube, ManualClock, Schedule, SystemTime) {
    let (queue, clock) = relaxed();
    let tube = queue.tube("t").unwrap();
    let every = queue.schedule("sweep").every(secs(60)).missed(Missed::CatchUp(u32::MAX));
    let sweep = every.to(&tube).make().unwrap();
    assert_eq!(sweep.info().unwrap().children, 1);
    let start = clock.wall();
    (queue, tube, clock, sweep, start)
}

/// The keys of the children, which are all ready, and their nominal times after the start.
fn children(tube: &Tube, start: SystemTime) -> (BTreeSet<String>, Vec<Duration>) {
    let ready: Vec<_> = tube.summaries(State::Ready).collect::<Result<_>>().unwrap();
    assert_eq!(ready.len() as u64, tube.len().unwrap());
    let keys: BTreeSet<_> = ready.iter().map(|child| child.key.clone().unwrap()).collect();
    assert_eq!(keys.len(), ready.len());
    let after = |nominal: SystemTime| nominal.duration_since(start).unwrap();
    let mut nominal: Vec<_> = ready.iter().map(|child| after(child.nominal.unwrap())).collect();
    nominal.sort_unstable();
    (keys, nominal)
}

fn numbered(to: u32) -> BTreeSet<String> {
    (1..=to).map(|number| format!("sweep-{number}")).collect()
}

#[test]
fn a_run_by_hand_beside_a_fire() {
    explore(|| {
        let (queue, tube, clock, sweep, start) = minutely();
        let running = spawn({
            let sweep = sweep.clone();
            move || sweep.run_now().unwrap()
        });
        let ticking = spawn({
            let queue = queue.clone();
            move || queue.tick().unwrap()
        });
        clock.advance(secs(60));
        let by_hand = running.join().unwrap();
        ticking.join().unwrap();
        let info = sweep.info().unwrap();
        assert_eq!((info.children, info.missed_fires, info.next), (3, 0, Some(start + secs(120))));
        let (keys, nominal) = children(&tube, start);
        assert_eq!(keys, numbered(3));
        // The one by hand was before the clock moved or after it.
        let hand = tube.peek(by_hand).unwrap().nominal.unwrap();
        let hand = hand.duration_since(start).unwrap();
        let mut expected = [secs(0), hand, secs(60)];
        expected.sort_unstable();
        assert_eq!(nominal, expected);
        sound(&queue);
        queue.close().unwrap();
    });
}

/// Half the interval from the last fire on: the one before the clock moves makes two fires due, the
/// one after it finds one, which was due before.
#[test]
fn an_update_beside_a_fire() {
    explore(|| {
        let (queue, tube, clock, sweep, start) = minutely();
        let updating = spawn({
            let sweep = sweep.clone();
            move || sweep.update(|it| it.every(secs(30))).unwrap()
        });
        clock.advance(secs(60));
        updating.join().unwrap();
        let info = sweep.info().unwrap();
        assert_eq!((info.missed_fires, info.next), (0, Some(start + secs(90))));
        let (keys, nominal) = children(&tube, start);
        assert_eq!(keys, numbered(info.children as u32));
        let possible = [vec![0, 30, 60], vec![0, 60]];
        let nominal: Vec<_> = nominal.iter().map(Duration::as_secs).collect();
        assert!(possible.contains(&nominal), "{nominal:?}");
        sound(&queue);
        queue.close().unwrap();
    });
}

#[test]
fn a_removal_beside_a_fire() {
    explore(|| {
        let (queue, tube, clock, sweep, start) = minutely();
        let removing =
            [sweep.clone(), sweep.clone()].map(|sweep| spawn(move || sweep.remove().unwrap()));
        clock.advance(secs(60));
        let removed = removing.map(|removing| removing.join().unwrap());
        assert!(removed[0] != removed[1]);
        let gone = sweep.info().unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::ScheduleNotFound);
        let made = tube.len().unwrap();
        clock.advance(secs(60));
        queue.tick().unwrap();
        let (keys, _) = children(&tube, start);
        assert!(made <= 2 && keys == numbered(made as u32));
        sound(&queue);
        queue.close().unwrap();
    });
}

/// Two takers sleep, or begin to: one gets the child of the fire, one that of the run.
#[test]
fn takers_wake_for_the_children() {
    explore(|| {
        let (queue, clock) = quiet(UNIX_EPOCH + secs(3600));
        let tube = queue.tube("t").unwrap();
        let later = queue.schedule("sweep").every(secs(60)).offset(secs(60));
        let sweep = later.to(&tube).make().unwrap();
        let takers = [tube.clone(), tube.clone()].map(|tube| {
            spawn(move || {
                let task = tube.take().unwrap();
                let id = task.id();
                task.ack().unwrap();
                id
            })
        });
        let running = spawn({
            let sweep = sweep.clone();
            move || sweep.run_now().unwrap()
        });
        clock.advance(secs(60));
        queue.tick().unwrap();
        let [first, second] = takers.map(|taker| taker.join().unwrap());
        let by_hand = running.join().unwrap();
        assert!(first != second && (first == by_hand || second == by_hand));
        let info = sweep.info().unwrap();
        assert_eq!((info.children, info.missed_fires), (2, 0));
        assert!(tube.is_empty().unwrap());
        sound(&queue);
        queue.close().unwrap();
    });
}
