//! The order of tasks: smaller priority first, then put order, with the stated exceptions.

use crate::{drain, kind, listed, lone, secs, still};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc;
use std::time::SystemTime;
use tubewell::{
    Conflict, ErrorKind, Place, Placement, PutOutcome, PutView, Queue, Release, State, Tube,
    TubeOptions, Unique,
};

#[test]
fn put_order() {
    let (tube, _) = lone();
    for text in ["a", "b", "c"] {
        tube.put(text.as_bytes()).unwrap();
    }
    assert_eq!(drain(&tube), "a b c");
}

#[test]
fn smaller_priority_first_and_ties_in_put_order() {
    let (tube, _) = lone();
    for (text, priority) in [("c", 1), ("e", 2), ("a", -1), ("d", 1), ("b", 0)] {
        tube.task(text.as_bytes()).priority(priority).put().unwrap();
    }
    assert_eq!(drain(&tube), "a b c d e");
}

#[test]
fn both_ends_of_the_priorities_are_in_order() {
    let (tube, _) = lone();
    for (text, priority) in [("last", i64::MAX), ("middle", 0), ("first", i64::MIN)] {
        tube.task(text.as_bytes()).priority(priority).put().unwrap();
    }
    assert_eq!(drain(&tube), "first middle last");
}

#[test]
fn a_front_put_stands_before_earlier_front_puts_of_its_priority() {
    let (tube, _) = lone();
    tube.put(b"c").unwrap();
    tube.put_front(b"b").unwrap();
    tube.put_front(b"a").unwrap();
    tube.task(b"z").priority(1).front().put().unwrap();
    tube.put(b"d").unwrap();
    assert_eq!(drain(&tube), "a b c d z");
}

#[test]
fn a_released_task_keeps_its_place() {
    let (tube, _) = lone();
    tube.put(b"a").unwrap();
    tube.put(b"b").unwrap();
    tube.take().unwrap().release().unwrap();
    assert_eq!(drain(&tube), "a b");
}

#[test]
fn a_dropped_task_keeps_its_place() {
    let (tube, _) = lone();
    tube.put(b"a").unwrap();
    tube.put(b"b").unwrap();
    drop(tube.take().unwrap());
    assert_eq!(drain(&tube), "a b");
}

#[test]
fn a_release_to_the_back_goes_after_everything_put_so_far() {
    let (tube, _) = lone();
    tube.put(b"a").unwrap();
    tube.put(b"b").unwrap();
    tube.take().unwrap().release_with(Release::new().to_back()).unwrap();
    tube.put(b"c").unwrap();
    assert_eq!(drain(&tube), "b a c");
}

#[test]
fn a_release_may_change_the_priority() {
    let (tube, _) = lone();
    tube.put(b"a").unwrap();
    tube.put(b"b").unwrap();
    let task = tube.take().unwrap();
    let id = task.id();
    task.release_with(Release::new().priority(5)).unwrap();
    assert_eq!(tube.peek(id).unwrap().priority, 5);
    assert_eq!(drain(&tube), "b a");
}

#[test]
fn a_delayed_task_that_falls_due_stands_at_its_put_order() {
    let (tube, clock) = lone();
    tube.task(b"a").delay(secs(1)).put().unwrap();
    tube.put(b"b").unwrap();
    clock.advance(secs(1));
    assert_eq!(drain(&tube), "a b");
}

#[test]
fn a_kicked_task_stands_at_its_put_order() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    tube.put(b"b").unwrap();
    tube.bury(id, "").unwrap();
    tube.kick(1).unwrap();
    assert_eq!(drain(&tube), "a b");
}

#[test]
fn a_listing_is_in_the_order_of_taking() {
    let (tube, _) = lone();
    tube.put(b"b").unwrap();
    tube.put(b"c").unwrap();
    tube.task(b"a").priority(-1).put().unwrap();
    assert_eq!(listed(&tube, State::Ready), "a b c");
    let first = tube.peek_next(State::Ready).unwrap().unwrap();
    assert_eq!(first.payload, b"a");
}

/// The shortest first; a payload that begins with `@` goes into the group of its first letters.
struct Shortest;

impl Placement for Shortest {
    fn place(&self, put: &PutView<'_>) -> Place {
        let place = Place::new(&(put.payload.len() as u64).to_be_bytes());
        match put.payload.first() {
            Some(b'@') => place.group("at"),
            Some(b'~') => place.not_before(SystemTime::UNIX_EPOCH + secs(4_000_000_000)),
            _ => place,
        }
    }
}

fn shortest() -> Queue {
    let queue = still().0.placement("shortest", Shortest).in_memory().unwrap();
    queue.create_tube("t", TubeOptions::default().placement("shortest")).unwrap();
    queue
}

#[test]
fn a_placement_orders_within_a_priority() {
    let tube = shortest().tube("t").unwrap();
    for text in ["ccc", "a", "bb", "x"] {
        tube.put(text.as_bytes()).unwrap();
    }
    tube.task(b"urgent").priority(-1).put().unwrap();
    assert_eq!(drain(&tube), "urgent a x bb ccc");
}

/// Returns a place by the number of its calls.
struct ByTurn(AtomicU8);

impl Placement for ByTurn {
    fn place(&self, _: &PutView<'_>) -> Place {
        Place::new(&[self.0.fetch_add(1, Ordering::Relaxed)])
    }
}

#[test]
fn a_placement_is_called_once() {
    let queue = still().0.placement("turn", ByTurn(AtomicU8::new(0))).in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().placement("turn")).unwrap();
    tube.put(b"a").unwrap();
    tube.put(b"bb").unwrap();
    tube.take().unwrap().release().unwrap();
    tube.bury(tube.peek_next(State::Ready).unwrap().unwrap().id, "").unwrap();
    tube.kick(1).unwrap();
    assert_eq!(drain(&tube), "a bb");
}

#[test]
fn a_placement_may_group_and_delay() {
    let tube = shortest().tube("t").unwrap();
    tube.put(b"@1").unwrap();
    tube.put(b"@2").unwrap();
    tube.put(b"~").unwrap();
    assert_eq!(crate::counts(&tube), [2, 1, 0, 0]);
    let _first = tube.take().unwrap();
    assert!(tube.try_take().unwrap().is_none(), "the group is locked");
}

/// By the requested priority, then by the name of the group; reports the properties that it was
/// given.
struct ByAsked(mpsc::Sender<(Option<i64>, Option<String>, Option<String>)>);

impl Placement for ByAsked {
    fn place(&self, put: &PutView<'_>) -> Place {
        let (group, key) = (put.group.map(str::to_owned), put.key.map(str::to_owned));
        let mut order = vec![u8::from(put.priority.is_none())];
        order.extend(put.group.unwrap_or_default().bytes());
        self.0.send((put.priority, group, key)).unwrap();
        Place::new(&order)
    }
}

#[test]
fn a_placement_sees_the_priority_group_and_key_that_were_asked_for() {
    let (reported, shown) = mpsc::channel();
    let queue = still().0.placement("asked", ByAsked(reported)).in_memory().unwrap();
    let options = TubeOptions::default().priority(5).placement("asked");
    let tube = queue.create_tube("t", options).unwrap();
    tube.task(b"e").group("z").put().unwrap();
    tube.task(b"d").group("y").key("k").put().unwrap();
    tube.task(b"c").put().unwrap();
    tube.task(b"b").priority(5).group("z").put().unwrap();
    tube.task(b"a").priority(5).put().unwrap();
    tube.task(b"f").priority(6).put().unwrap();
    tube.batch([b"g".to_vec()]).priority(7).group("x").put().unwrap();
    let text = |text: &str| Some(text.to_owned());
    let shown: Vec<_> = shown.try_iter().collect();
    assert_eq!(
        shown,
        [
            (None, text("z"), None),
            (None, text("y"), text("k")),
            (None, None, None),
            (Some(5), text("z"), None),
            (Some(5), None, None),
            (Some(6), None, None),
            (Some(7), text("x"), None),
        ]
    );
    assert_eq!(drain(&tube), "a b c d e f g");
}

/// A put again asks the placement as every put does, for what was given.
#[test]
fn a_put_again_has_a_new_place_by_the_placement_of_its_own_tube() {
    for conflict in [Conflict::Replace, Conflict::Debounce] {
        let queue = shortest();
        let tube = queue.tube("t").unwrap();
        for text in ["ccc", "a", "bb"] {
            tube.task(text.as_bytes()).key(text).priority(3).put().unwrap();
        }
        let again = |key: &str, payload: &[u8]| {
            tube.task(payload).key(key).on_conflict(conflict).put_outcome().unwrap().outcome
        };
        assert_eq!(again("a", b"dddd"), PutOutcome::Replaced);
        assert_eq!(again("ccc", b"e"), PutOutcome::Replaced);
        assert_eq!(tube.peek_next(State::Ready).unwrap().unwrap().priority, 3, "it is kept");
        assert_eq!(drain(&tube), "e bb dddd");
        let id = tube.put(b"x").unwrap();
        let grouped = tube.task(b"@y").key("g").put().unwrap();
        assert_eq!(again("g", b"z"), PutOutcome::Replaced);
        assert_eq!(tube.peek(grouped).unwrap().group.as_deref(), Some("at"), "kept, too");
        assert_eq!(tube.take().unwrap().id(), id);
        assert_eq!(queue.check().unwrap(), [""; 0]);
    }
}

/// As no verb brings a task into a tube with a placement, so does no put of its key.
#[test]
fn no_put_brings_a_task_of_another_tube_into_one_with_a_placement() {
    let queue = still().0.placement("shortest", Shortest).in_memory().unwrap();
    let options = TubeOptions::default().unique(Unique::new().in_queue(true));
    let plain = queue.create_tube("plain", options.clone()).unwrap();
    let placed = queue.create_tube("placed", options.placement("shortest")).unwrap();
    let id = plain.task(b"x").key("k").put().unwrap();
    let again = |tube: &Tube, conflict| {
        tube.task(b"y").key("k").on_conflict(conflict).put_outcome().map(|put| put.id)
    };
    for conflict in [Conflict::Replace, Conflict::Debounce] {
        let refused = again(&placed, conflict).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.to_string().contains("a tube with a placement"), "{refused}");
        assert_eq!((&plain.peek(id).unwrap().payload[..], placed.len().unwrap()), (&b"x"[..], 0));
    }
    assert_eq!(again(&placed, Conflict::Keep).unwrap(), id);
    // Out of it they go.
    plain.delete(id).unwrap();
    let id = again(&placed, Conflict::Replace).unwrap();
    assert_eq!(again(&placed, Conflict::Replace).unwrap(), id);
    assert_eq!(again(&plain, Conflict::Replace).unwrap(), id);
    assert_eq!((plain.len().unwrap(), placed.len().unwrap()), (1, 0));
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

#[test]
fn a_placement_whose_order_is_too_long_is_refused() {
    struct Long;
    impl Placement for Long {
        fn place(&self, put: &PutView<'_>) -> Place {
            Place::new(put.payload)
        }
    }
    let queue = still().0.placement("long", Long).in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().placement("long")).unwrap();
    tube.put(&[7; 16]).unwrap();
    assert_eq!(kind(tube.put(&[7; 17])), ErrorKind::Invalid);
}

#[test]
fn without_its_placement_a_tube_serves_everything_but_puts() {
    let (_home, path) = crate::home();
    let queue = still().0.placement("shortest", Shortest).open(&path).unwrap();
    let options = TubeOptions::default().placement("shortest");
    let tube = queue.create_tube("t", options).unwrap();
    for text in ["bb", "a", "ccc"] {
        tube.put(text.as_bytes()).unwrap();
    }
    drop(tube);
    crate::close_sound(queue);

    let tube = crate::open(&path).tube("t").unwrap();
    assert_eq!(kind(tube.put(b"x")), ErrorKind::DriverMissing);
    tube.take().unwrap().release().unwrap();
    let id = tube.peek_next(State::Ready).unwrap().unwrap().id;
    tube.bury(id, "").unwrap();
    tube.kick(1).unwrap();
    assert_eq!(drain(&tube), "a bb ccc");
}
