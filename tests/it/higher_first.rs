//! Tubes that take higher priorities first. Every priority that a caller gives or gets is turned in
//! one place, so each way in and each way out is here.

use crate::{drain, kind, listed, lone_with, secs, still};
use std::collections::BTreeSet;
use tubewell::{
    Advance, Conflict, ErrorKind, Filter, Release, State, TaskId, TubeKind, TubeOptions, Urgency,
};

fn options() -> TubeOptions {
    TubeOptions::default().higher_first(true)
}

#[test]
fn higher_priorities_are_first_and_ties_in_put_order() {
    let (tube, _) = lone_with(options());
    let priorities = [0, 5, i64::MIN, -1, 5, i64::MAX, 0, i64::MIN + 1];
    for (at, priority) in priorities.into_iter().enumerate() {
        let id = tube.task(at.to_string().as_bytes()).priority(priority).put().unwrap();
        assert_eq!(tube.peek(id).unwrap().priority, priority);
    }
    tube.put_front(b"front").unwrap();
    assert_eq!(listed(&tube, State::Ready), "5 1 4 front 0 6 3 7 2");
    assert_eq!(drain(&tube), "5 1 4 front 0 6 3 7 2");
}

#[test]
fn each_verb_that_is_given_a_priority_turns_it() {
    let (tube, _) = lone_with(options().priority(3));
    let plain = tube.put(b"plain").unwrap();
    assert_eq!(tube.peek(plain).unwrap().priority, 3, "the tube's default");
    let task = tube.take().unwrap();
    assert_eq!(task.priority(), 3);
    task.release_with(Release::new().priority(7)).unwrap();
    assert_eq!(tube.peek(plain).unwrap().priority, 7);
    tube.update(plain).priority(-2).apply().unwrap();
    assert_eq!(tube.peek(plain).unwrap().priority, -2);
    tube.put(b"other").unwrap();
    assert_eq!(tube.peek_next(State::Ready).unwrap().unwrap().payload, b"other");
    tube.claim(plain).unwrap().bury_with_priority("no", 9).unwrap();
    tube.take().unwrap().bury("no").unwrap();
    assert_eq!(listed(&tube, State::Buried), "plain other");
    assert_eq!(tube.peek(plain).unwrap().priority, 9);
    tube.kick(1).unwrap();
    assert_eq!(tube.take().unwrap().priority(), 9);
}

#[test]
fn a_batch_a_schedule_a_move_and_an_advance_turn_the_priority_that_they_are_given() {
    let queue = still().0.in_memory().unwrap();
    let high = queue.create_tube("high", options()).unwrap();
    let plain = queue.tube("plain").unwrap();
    let of = |id: TaskId| queue.find(id).unwrap().priority;
    let batch = [high.task(b"c").priority(1), high.task(b"b").priority(2)];
    let ids = high.batch_of(batch).put().unwrap();
    assert_eq!((of(ids[0]), of(ids[1])), (1, 2));
    let moved = plain.task(b"a").priority(7).put().unwrap();
    plain.move_to(moved, &high).priority(3).apply().unwrap();
    assert_eq!(of(moved), 3);
    let kept = plain.task(b"e").priority(-1).put().unwrap();
    plain.move_to(kept, &high).apply().unwrap();
    assert_eq!(of(kept), -1, "the number, not the place");
    let advanced = plain.put(b"0").unwrap();
    plain.claim(advanced).unwrap().advance_with(&high, Advance::new().priority(9)).unwrap();
    assert_eq!(of(advanced), 9);
    queue.schedule("s").every(secs(5)).to(&high).payload(b"s").priority(4).make().unwrap();
    queue.tick().unwrap();
    let found = high.search(&Filter::new().priorities(3..=9), None, 10).unwrap();
    let found: BTreeSet<_> = found.tasks.iter().map(|task| task.priority).collect();
    assert_eq!(drain(&high), "0 s a b c e");
    assert_eq!(found, [3, 4, 9].into());
}

/// The rank of a plain task follows from its id and the default that the tube was made with.
#[test]
fn its_ranks_are_the_same_after_an_opening() {
    let (_home, path) = crate::home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.create_tube("t", options().priority(2)).unwrap();
    tube.put(b"b").unwrap();
    tube.task(b"a").priority(4).put().unwrap();
    tube.task(b"d").priority(-4).group("g").put().unwrap();
    tube.task(b"c").delay(secs(5)).put().unwrap();
    tube.task(b"e").priority(i64::MIN).key("k").on_conflict(Conflict::Reject).put().unwrap();
    queue.close().unwrap();
    let queue = still().0.clock(clock.clone()).open(&path).unwrap();
    assert_eq!(queue.check().unwrap(), [""; 0]);
    let tube = queue.find_tube("t").unwrap().unwrap();
    assert!(tube.info().unwrap().options.get_higher_first());
    clock.advance(secs(5));
    assert_eq!(drain(&tube), "a b c d e");
}

#[test]
fn it_is_an_option_of_the_tube_where_the_kind_has_priorities() {
    let queue = still().0.in_memory().unwrap();
    for (tube_kind, refused) in [
        (TubeKind::Fifo, true),
        (TubeKind::Utube, true),
        (TubeKind::FifoTtl, false),
        (TubeKind::LimFifoTtl, false),
        (TubeKind::UtubeTtl, false),
    ] {
        let options = TubeOptions::new(tube_kind).higher_first(true);
        let made = queue.create_tube(&format!("{tube_kind:?}"), options);
        match made {
            Err(error) => assert!(refused && error.kind() == ErrorKind::Unsupported, "{error}"),
            Ok(_) => assert!(!refused),
        }
    }
    queue.create_tube("t", options()).unwrap();
    queue.create_tube("t", options().if_not_exists()).unwrap();
    let other = queue.create_tube("t", TubeOptions::default().if_not_exists());
    assert_eq!(kind(other), ErrorKind::TubeMismatch);
}

#[test]
fn urgencies_are_priorities_of_a_tube_without_it() {
    let (tube, _) = lone_with(TubeOptions::default());
    for urgency in Urgency::ALL.into_iter().rev() {
        tube.task(urgency.to_string().as_bytes()).priority(urgency.into()).put().unwrap();
    }
    assert_eq!(drain(&tube), "VERY_HIGH HIGH NORMAL LOW VERY_LOW");
}
