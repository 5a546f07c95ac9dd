//! Tasks that are taken away from their holders by force.

use crate::{close_sound, counts, drain, home, killed, kind, lone, lone_with, next, open, secs};
use crate::{state, still, waiting};
use tubewell::{
    Cause, ErrorKind, Lapse, Place, Placement, PutView, Queue, Release, State, TubeOptions,
};

#[test]
fn tasks_are_taken_away_and_go_ahead_of_every_priority() {
    let (tube, _clock) = lone();
    let put = |name: &str, priority| tube.task(name.as_bytes()).priority(priority).put().unwrap();
    let (a, b) = (put("a", 5), put("b", 7));
    let held = [tube.take().unwrap(), tube.take().unwrap()];
    put("first", i64::MIN);
    tube.task(b"front").priority(i64::MIN).front().put().unwrap();
    tube.force_timeout(&[b, a, b]).unwrap();
    let info = tube.peek(b).unwrap();
    assert_eq!((info.state, info.priority, info.attempts), (State::Ready, 7, 0));
    for task in held {
        assert!(task.ack().unwrap_err().is_lease_lost());
    }
    let ahead = tube.peek_many(4).unwrap();
    let ahead: Vec<_> = ahead.iter().map(|task| String::from_utf8_lossy(&task.payload)).collect();
    assert_eq!(ahead, ["b", "a", "front", "first"]);
    let task = tube.take().unwrap();
    assert_eq!((&*task, task.priority(), task.attempt()), (&b"b"[..], 7, 1));
    // It was taken, so it has its own place again.
    task.release().unwrap();
    assert_eq!(drain(&tube), "a front first b");
    assert_eq!(tube.stats().unwrap().calls.timeout, 2);
}

#[test]
fn all_are_timed_out_or_none_and_the_error_names_the_task() {
    let (builder, _clock) = still();
    let queue = builder.in_memory().unwrap();
    let (tube, other) = (queue.tube("t").unwrap(), queue.tube("other").unwrap());
    let (a, b) = (tube.put(b"a").unwrap(), tube.put(b"b").unwrap());
    let elsewhere = other.put(b"c").unwrap();
    let gone = tube.put(b"d").unwrap();
    tube.delete(gone).unwrap();
    let task = tube.take().unwrap();
    for (id, why) in [
        (b, ErrorKind::WrongState),
        (elsewhere, ErrorKind::WrongTube),
        (gone, ErrorKind::TaskNotFound),
    ] {
        let refused = tube.force_timeout(&[a, id]).unwrap_err();
        assert_eq!((refused.kind(), refused.task()), (why, Some(id)));
        assert!(refused.to_string().contains(&format!("task {id}")), "{refused}");
        assert_eq!(counts(&tube), [1, 0, 1, 0]);
    }
    tube.force_timeout(&[]).unwrap();
    let many = vec![a; 65_537];
    assert_eq!(kind(tube.force_timeout(&many)), ErrorKind::Invalid);
    task.ack().unwrap();
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

#[test]
fn it_opens_the_group_and_wakes_a_taker() {
    let (tube, _clock) = lone();
    for name in ["a", "b"] {
        tube.task(name.as_bytes()).group("g").put().unwrap();
    }
    let task = tube.take().unwrap();
    let taker = waiting(&tube, |tube| tube.take().unwrap().to_vec());
    tube.force_timeout(&[task.id()]).unwrap();
    assert_eq!(taker.join().unwrap(), b"a");
    drop(task);
}

#[test]
fn in_its_group_it_is_first_and_then_at_its_place_again() {
    let (tube, _clock) = lone();
    for (name, group) in [("a", "g"), ("b", "g"), ("c", "h")] {
        tube.task(name.as_bytes()).group(group).put().unwrap();
    }
    let a = tube.take().unwrap();
    let c = tube.take().unwrap();
    a.release_with(Release::new().to_back()).unwrap();
    let b = tube.take().unwrap();
    assert_eq!((&*b, &*c), (&b"b"[..], &b"c"[..]));
    b.ack().unwrap();
    let a = tube.take().unwrap();
    tube.task(b"e").group("g").priority(-1).put().unwrap();
    tube.force_timeout(&[c.id(), a.id()]).unwrap();
    let (first, second) = (tube.take().unwrap(), tube.take().unwrap());
    assert_eq!((&*first, &*second), (&b"c"[..], &b"a"[..]));
    second.release().unwrap();
    assert_eq!(next(&tube), "e");
    first.release().unwrap();
    assert_eq!(drain(&tube), "c a");
}

#[test]
fn an_update_of_its_priority_or_its_delay_takes_it_back() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").priority(5).put().unwrap();
    tube.put(b"b").unwrap();
    let force = || {
        let task = tube.claim(id).unwrap();
        tube.force_timeout(&[id]).unwrap();
        drop(task);
    };
    force();
    tube.update(id).ttl(secs(600)).apply().unwrap();
    assert_eq!(tube.peek_next(State::Ready).unwrap().unwrap().id, id, "it still stands ahead");
    tube.update(id).priority(6).apply().unwrap();
    assert_eq!(tube.peek(id).unwrap().priority, 6);
    assert_ne!(tube.peek_next(State::Ready).unwrap().unwrap().id, id);
    force();
    tube.update(id).delay(secs(1)).apply().unwrap();
    clock.advance(secs(1));
    assert_eq!((state(&tube, id), tube.peek(id).unwrap().priority), (State::Ready, 6));
    assert_ne!(tube.peek_next(State::Ready).unwrap().unwrap().id, id);
    // A bury and a kick leave it ahead.
    force();
    tube.bury(id, "for now").unwrap();
    assert_eq!(tube.peek(id).unwrap().priority, 6);
    tube.kick_task(id).unwrap();
    assert_eq!(drain(&tube), "a b");
}

#[test]
fn it_keeps_its_priority_through_a_move_and_a_claim() {
    let (builder, _clock) = still();
    let queue = builder.in_memory().unwrap();
    let made = |name: &str, higher| {
        queue.create_tube(name, TubeOptions::default().higher_first(higher)).unwrap()
    };
    let (from, to) = (made("from", false), made("to", true));
    let ids = [b"a", b"b"].map(|name| from.task(name).priority(5).put().unwrap());
    let held = ids.map(|id| from.claim(id).unwrap());
    from.force_timeout(&ids).unwrap();
    from.move_to(ids[0], &to).apply().unwrap();
    to.task(b"c").priority(6).put().unwrap();
    assert_eq!(to.peek(ids[0]).unwrap().priority, 5);
    assert_eq!(drain(&to), "c a");
    assert_eq!(from.claim(ids[1]).unwrap().priority(), 5);
    drop(held);
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

#[test]
fn a_stalled_task_is_timed_out_too_and_its_deadline_goes() {
    let options = TubeOptions::default().ttr(secs(10)).lapse(Lapse::new().grace(secs(5)));
    let (tube, clock) = lone_with(options);
    let id = tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    clock.advance(secs(12));
    tube.force_timeout(&[id]).unwrap();
    clock.advance(secs(60));
    assert_eq!((state(&tube, id), tube.stats().unwrap().calls.ttr), (State::Ready, 0));
    drop(task);
}

#[test]
fn a_task_stands_ahead_after_a_crash_and_in_a_tube_with_a_placement() {
    struct Any;
    impl Placement for Any {
        fn place(&self, put: &PutView<'_>) -> Place {
            Place::new(put.payload)
        }
    }
    let (_home, path) = home();
    let (builder, _clock) = still();
    let queue = builder.placement("any", Any).open(&path).unwrap();
    let placed = TubeOptions::default().placement("any");
    for (name, options) in [("plain", TubeOptions::default()), ("placed", placed)] {
        let tube = queue.create_tube(name, options).unwrap();
        let id = tube.task(b"m").priority(3).put().unwrap();
        let task = tube.take().unwrap();
        tube.task(b"a").priority(-3).put().unwrap();
        let events = queue.events();
        tube.force_timeout(&[id]).unwrap();
        let event = events.try_recv().unwrap();
        assert_eq!((event.task, event.cause), (Some(id), Cause::Timeout));
        assert_eq!((event.from, event.to), (Some(State::Taken), Some(State::Ready)));
        drop(task);
    }
    let (_copy, copy) = killed(&path);
    let again = open(&copy);
    for name in ["plain", "placed"] {
        let tube = again.find_tube(name).unwrap().unwrap();
        let task = tube.take().unwrap();
        assert_eq!((&*task, task.priority(), task.attempt()), (&b"m"[..], 3, 1));
        task.release().unwrap();
        assert_eq!(drain(&tube), "a m");
    }
    assert_eq!(again.check().unwrap(), [""; 0]);
    drop(again);
    close_sound(queue);
}

#[test]
fn its_use_enters_the_feature() {
    let (_home, path) = home();
    let queue: Queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    tube.force_timeout(&[id]).unwrap();
    drop(task);
    let journal = std::fs::read(path.join("journal")).unwrap();
    let is_named = journal[4096..12_288].windows(6).any(|name| name == b"lapses");
    assert!(is_named);
    assert_eq!(queue.check().unwrap(), [""; 0]);
}
