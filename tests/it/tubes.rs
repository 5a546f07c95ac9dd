//! Tubes: made, found, listed, emptied, dropped.

use crate::{counts, drain, kind, lone, next, secs, state, still};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tubewell::{Backoff, ErrorKind, Place, Placement, PutView};
use tubewell::{Queue, Retention, State, TaskId, Tube, TubeKind, TubeOptions};

fn queue() -> Queue {
    still().0.in_memory().unwrap()
}

#[test]
fn a_tube_is_made_by_its_first_use_and_found_by_the_next() {
    let queue = queue();
    let tube = queue.tube("mail").unwrap();
    assert_eq!((tube.name(), tube.info().unwrap().options), ("mail", TubeOptions::default()));
    tube.put(b"a").unwrap();
    assert_eq!(next(&queue.tube("mail").unwrap()), "a");
}

#[test]
fn find_never_makes_one() {
    let queue = queue();
    assert!(queue.find_tube("mail").unwrap().is_none());
    assert!(queue.tubes().unwrap().is_empty());
    queue.tube("mail").unwrap();
    assert!(queue.find_tube("mail").unwrap().is_some());
}

#[test]
fn tubes_are_listed_by_name() {
    let queue = queue();
    for name in ["b", "a", "c d", "日本"] {
        queue.tube(name).unwrap();
    }
    assert_eq!(queue.tubes().unwrap(), ["a", "b", "c d", "日本"]);
}

#[test]
fn a_second_create_is_refused() {
    let queue = queue();
    queue.create_tube("t", TubeOptions::default()).unwrap();
    let refused = queue.create_tube("t", TubeOptions::default());
    assert_eq!(kind(refused), ErrorKind::TubeExists);
}

#[test]
fn if_not_exists_shares_a_tube_that_is_the_same() {
    let queue = queue();
    let options = TubeOptions::new(TubeKind::FifoTtl).ttl(secs(60));
    queue.create_tube("t", options.clone()).unwrap().put(b"a").unwrap();
    assert_eq!(next(&queue.create_tube("t", options.if_not_exists()).unwrap()), "a");
}

#[test]
fn if_not_exists_refuses_another_kind_or_other_options() {
    let queue = queue();
    queue.create_tube("t", TubeOptions::new(TubeKind::FifoTtl).ttl(secs(60))).unwrap();
    for other in [
        TubeOptions::new(TubeKind::Fifo),
        TubeOptions::new(TubeKind::FifoTtl),
        TubeOptions::new(TubeKind::FifoTtl).ttl(secs(61)),
    ] {
        let refused = queue.create_tube("t", other.if_not_exists());
        assert_eq!(kind(refused), ErrorKind::TubeMismatch);
    }
}

/// Regression: times are stored as whole microseconds, and longer ones as without end: such options
/// did not match themselves.
#[test]
fn if_not_exists_matches_options_that_are_stored_rounded() {
    let queue = queue();
    for (name, options) in [
        ("nanos", TubeOptions::default().ttl(Duration::from_nanos(1_500))),
        ("ever", TubeOptions::default().ttr(Duration::MAX)),
        ("most", TubeOptions::default().backoff(Backoff::doubling(secs(1)).at_most(Duration::MAX))),
    ] {
        queue.create_tube(name, options.clone()).unwrap();
        queue.create_tube(name, options.if_not_exists()).unwrap();
    }
}

#[test]
fn tube_opens_a_tube_of_any_kind() {
    let queue = queue();
    queue.create_tube("t", TubeOptions::new(TubeKind::Utube)).unwrap();
    assert_eq!(queue.tube("t").unwrap().info().unwrap().options, TubeOptions::new(TubeKind::Utube));
}

#[test]
fn a_dropped_tube_is_gone_with_its_tasks() {
    let queue = queue();
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    queue.drop_tube("t").unwrap();
    assert!(queue.tubes().unwrap().is_empty());
    assert_eq!(kind(tube.put(b"b")), ErrorKind::TubeNotFound);
    assert_eq!(kind(tube.try_take()), ErrorKind::TubeNotFound);
    assert_eq!(queue.tube("t").unwrap().len().unwrap(), 0, "a new one of this name is empty");
    assert_eq!(kind(tube.put(b"b")), ErrorKind::TubeNotFound, "old handles refer to the old one");
}

/// Regression: a call that opens a tube read the tube's number and then its row. A drop between the
/// two failed the call with `TubeNotFound`.
#[test]
fn a_drop_at_the_same_time_fails_no_call_that_opens_the_tube() {
    let queue = Queue::in_memory().unwrap();
    let done = AtomicBool::new(false);
    let failed = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = queue.force_drop_tube("t");
            }
        });
        let shared = || queue.create_tube("t", TubeOptions::default().if_not_exists());
        let open = |_| queue.tube("t").and(shared()).and(queue.find_tube("t")).err();
        let failed = (0..3000).find_map(open);
        done.store(true, Ordering::Relaxed);
        failed
    });
    assert!(failed.is_none(), "{failed:?}");
}

#[test]
fn a_tube_in_use_is_not_dropped_unless_forced() {
    let queue = queue();
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    assert_eq!(kind(queue.drop_tube("t")), ErrorKind::TubeBusy);
    queue.force_drop_tube("t").unwrap();
    assert!(task.ack().is_err());
    assert_eq!(kind(queue.drop_tube("t")), ErrorKind::TubeNotFound);
}

#[test]
fn a_dropped_tube_with_buried_tasks_leaves_nothing_to_the_timer() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.task(b"a").ttr(secs(1)).ttl(secs(9)).put().unwrap();
    tube.bury(id, "").unwrap();
    queue.drop_tube("t").unwrap();
    clock.advance(secs(10));
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

#[test]
fn truncate_removes_tasks_in_every_state() {
    let (tube, _) = lone();
    tube.put(b"taken").unwrap();
    let task = tube.take().unwrap();
    tube.put(b"ready").unwrap();
    tube.task(b"delayed").delay(secs(1)).put().unwrap();
    let id = tube.put(b"buried").unwrap();
    tube.bury(id, "").unwrap();
    assert_eq!(tube.truncate().unwrap(), 4);
    assert_eq!(counts(&tube), [0, 0, 0, 0]);
    assert!(task.ack().unwrap_err().is_lease_lost());
    tube.put(b"new").unwrap();
    assert_eq!(drain(&tube), "new");
}

#[test]
fn a_truncated_tube_can_be_dropped() {
    let queue = queue();
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    let _task = tube.take().unwrap();
    tube.truncate().unwrap();
    queue.drop_tube("t").unwrap();
}

#[test]
fn truncating_many_is_swept_up_and_sound() {
    let (builder, _) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put_many((0..1000).map(|_| b"x".to_vec())).unwrap();
    tube.truncate().unwrap();
    assert_eq!(tube.len().unwrap(), 0);
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_pause_is_kept_over_a_reopen() {
    let (_home, path) = crate::home();
    let queue = crate::open(&path);
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    tube.pause().unwrap();
    drop(tube);
    crate::close_sound(queue);
    let queue = crate::open(&path);
    let tube = queue.tube("t").unwrap();
    assert!(tube.info().unwrap().paused);
    assert!(tube.try_take().unwrap().is_none());
    tube.resume().unwrap();
    assert_eq!(next(&tube), "a");
}

#[test]
fn a_tubes_kind_and_options_are_kept_over_a_reopen() {
    let (_home, path) = crate::home();
    let options = TubeOptions::default()
        .priority(-3)
        .ttl(secs(5))
        .ttr(secs(6))
        .capacity(7)
        .max_attempts(8)
        .backoff(tubewell::Backoff::doubling(secs(9)).factor(10).at_most(secs(11)))
        .in_flight(12)
        .hold_group_while_delayed(true)
        .ttl_spares_buried(true);
    let queue = crate::open(&path);
    queue.create_tube("t", options.clone()).unwrap();
    crate::close_sound(queue);
    assert_eq!(crate::open(&path).tube("t").unwrap().info().unwrap().options, options);
}

#[test]
fn what_a_tube_was_made_with_is_read_back_option_by_option() {
    let (builder, _) = still();
    let queue = builder.placement("p", Anywhere).in_memory().unwrap();
    let backoff = Backoff::doubling(secs(9)).factor(10).at_most(secs(11));
    let options = TubeOptions::new(TubeKind::General)
        .temporary(true)
        .priority(-3)
        .ttl(secs(5))
        .ttr(secs(6))
        .capacity(7)
        .max_attempts(8)
        .backoff(backoff)
        .in_flight(12)
        .hold_group_while_delayed(true)
        .ttl_spares_buried(true)
        .placement("p");
    let made = queue.create_tube("t", options).unwrap().info().unwrap().options;
    assert_eq!((made.get_kind(), made.get_temporary()), (TubeKind::General, true));
    assert_eq!((made.get_priority(), made.get_capacity()), (-3, Some(7)));
    assert_eq!((made.get_ttl(), made.get_ttr()), (Some(secs(5)), Some(secs(6))));
    assert_eq!((made.get_max_attempts(), made.get_in_flight()), (Some(8), 12));
    assert!(made.get_hold_group_while_delayed() && made.get_ttl_spares_buried());
    assert_eq!(made.get_placement(), Some("p"));
    let made = made.get_backoff();
    assert_eq!((made.get_first(), made.get_factor(), made.get_most()), (secs(9), 10, secs(11)));

    let plain = TubeOptions::new(TubeKind::Fifo);
    assert_eq!((plain.get_kind(), plain.get_temporary()), (TubeKind::Fifo, false));
    assert_eq!((plain.get_priority(), plain.get_capacity()), (0, None));
    assert_eq!((plain.get_ttl(), plain.get_ttr()), (None, None));
    assert_eq!((plain.get_max_attempts(), plain.get_in_flight()), (None, 1));
    assert!(!plain.get_hold_group_while_delayed() && !plain.get_ttl_spares_buried());
    assert_eq!((plain.get_placement(), plain.get_backoff()), (None, Backoff::NONE));
}

struct Anywhere;

impl Placement for Anywhere {
    fn place(&self, _put: &PutView<'_>) -> Place {
        Place::new(&[])
    }
}

#[test]
fn a_name_is_text_of_1_to_255_bytes() {
    let queue = queue();
    let longest = "n".repeat(255);
    for name in ["a", "with: any/separator.at|all 日本", &longest] {
        assert_eq!(queue.tube(name).unwrap().name(), name);
    }
    for name in ["", "line\nbreak", "nul\0", "\u{7f}", "\u{85}", &"n".repeat(256), &"é".repeat(128)]
    {
        assert_eq!(kind(queue.tube(name)), ErrorKind::Invalid, "{name:?}");
        let created = queue.create_tube(name, TubeOptions::default());
        assert_eq!(kind(created), ErrorKind::Invalid, "{name:?}");
        assert_eq!(kind(queue.find_tube(name)), ErrorKind::Invalid, "{name:?}");
        assert_eq!(kind(queue.drop_tube(name)), ErrorKind::Invalid, "{name:?}");
        assert_eq!(kind(queue.force_drop_tube(name)), ErrorKind::Invalid, "{name:?}");
    }
    assert_eq!(queue.tubes().unwrap().len(), 3);
}

#[test]
fn a_tube_is_dropped_if_empty_only_without_any_task() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"a").unwrap();
    let states: [fn(&Tube, TaskId); 3] = [
        |_, _| (),
        |tube, id| tube.update(id).delay(secs(9)).apply().unwrap(),
        |tube, id| tube.bury(id, "no").unwrap(),
    ];
    for state in states {
        state(&tube, id);
        assert_eq!(kind(queue.drop_tube_if_empty("t")), ErrorKind::TubeBusy);
    }
    let task = tube.claim(id).unwrap();
    assert_eq!(kind(queue.drop_tube_if_empty("t")), ErrorKind::TubeBusy);
    task.ack().unwrap();
    queue.drop_tube_if_empty("t").unwrap();
    assert_eq!(kind(queue.drop_tube_if_empty("t")), ErrorKind::TubeNotFound);
}

#[test]
fn handles_are_equal_if_they_are_of_one_tube() {
    let (queue, other) = (still().0.in_memory().unwrap(), Queue::in_memory().unwrap());
    let (tube, same) = (queue.tube("t").unwrap(), queue.tube("t").unwrap());
    assert_eq!(tube, same.durability(tubewell::Durability::Relaxed));
    assert_ne!(tube, queue.tube("u").unwrap());
    assert_ne!(tube, other.tube("t").unwrap());
    queue.drop_tube("t").unwrap();
    assert_ne!(tube, queue.tube("t").unwrap(), "another tube of the same name");
}

#[test]
fn a_pause_ends_at_its_time_also_after_a_truncate_and_a_new_opening() {
    let (_home, path) = crate::home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    tube.pause_for(secs(60)).unwrap();
    tube.truncate().unwrap();
    tube.put(b"a").unwrap();
    let left = |tube: &Tube| (tube.info().unwrap().paused, tube.info().unwrap().pause_left);
    clock.advance(secs(20));
    assert_eq!(left(&tube), (true, Some(secs(40))));
    queue.close().unwrap();
    clock.advance(secs(39));
    let queue = Queue::builder().clock(clock.clone()).by_hand(true).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    assert_eq!(left(&tube), (true, Some(secs(1))));
    assert!(tube.try_take().unwrap().is_none());
    clock.advance(secs(1));
    assert_eq!(crate::next(&tube), "a");
    assert_eq!(left(&tube), (false, None));
}

#[test]
fn a_pause_is_moved_and_may_not_end_in_the_past() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().temporary(true)).unwrap();
    let now = std::time::SystemTime::UNIX_EPOCH;
    assert_eq!(kind(tube.pause_until(now)), ErrorKind::Invalid);
    assert_eq!(kind(tube.pause_for(std::time::Duration::ZERO)), ErrorKind::Invalid);
    assert!(!tube.info().unwrap().paused);
    tube.pause().unwrap();
    tube.pause_for(secs(5)).unwrap();
    assert_eq!(tube.info().unwrap().pause_left, Some(secs(5)));
    tube.pause_for(std::time::Duration::MAX).unwrap();
    assert_eq!((tube.info().unwrap().paused, tube.info().unwrap().pause_left), (true, None));
    tube.resume().unwrap();
    assert!(!tube.info().unwrap().paused);
}

#[test]
fn a_waiting_taker_is_woken_by_the_end_of_a_pause() {
    let clock = tubewell::ManualClock::new();
    let queue = Queue::builder().clock(clock.clone()).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    tube.pause_for(secs(60)).unwrap();
    let taker = std::thread::spawn({
        let tube = tube.clone();
        move || tube.take().unwrap().id()
    });
    crate::until_waiting(&tube, 1);
    clock.advance(secs(60));
    assert_eq!(tube.peek(taker.join().unwrap()).unwrap().payload, b"a");
}

/// They are read in steps, which end within a prefix and within the names that begin with others.
#[test]
fn the_names_of_many_tubes_are_listed_in_order() {
    let queue = still().0.in_memory().unwrap();
    let mut names: Vec<String> = Vec::new();
    for number in 0..200 {
        for name in [format!("{number}"), format!("shop:{number}"), format!("shop:{number}:x")] {
            queue.tube(&name).unwrap();
            names.push(name);
        }
    }
    names.sort();
    assert_eq!(queue.tubes().unwrap(), names);
    let in_shop: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix("shop:")).collect();
    assert_eq!(queue.scope("shop:").tubes().unwrap(), in_shop);
    assert_eq!(queue.scope("none").tubes().unwrap(), [""; 0]);
    let numbers: Vec<String> = queue.stats().unwrap().into_iter().map(|tube| tube.tube).collect();
    assert_eq!(numbers.len(), names.len());
}

/// Each alone: a ready task beside it would refuse the drop as well.
#[test]
fn a_task_that_waits_or_has_ended_or_is_in_the_trash_is_one_too() {
    let queue = queue();
    let kept = TubeOptions::default().keep_finished(Retention::new());
    let (tube, other) = (queue.create_tube("t", kept).unwrap(), queue.tube("other").unwrap());
    let parent = other.put(b"p").unwrap();
    let id = tube.task(b"a").after([parent]).put().unwrap();
    let refused = |in_state| {
        assert_eq!(state(&tube, id), in_state);
        let error = queue.drop_tube_if_empty("t").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TubeBusy, "{in_state:?}: {error}");
    };
    refused(State::Blocked);
    tube.undepend_all(id).unwrap();
    tube.trash(id, "torn").unwrap();
    assert!(tube.is_empty().unwrap(), "the trash is not at work");
    refused(State::Buried);
    tube.restore(id).unwrap();
    tube.take().unwrap().ack().unwrap();
    refused(State::Done);
    tube.delete(id).unwrap();
    queue.drop_tube_if_empty("t").unwrap();
    assert!(queue.find_tube("t").unwrap().is_none());
}

#[test]
fn a_pause_that_is_refused_leaves_the_one_before() {
    let (tube, clock) = lone();
    tube.put(b"a").unwrap();
    tube.pause_for(secs(60)).unwrap();
    assert_eq!(kind(tube.pause_until(std::time::SystemTime::UNIX_EPOCH)), ErrorKind::Invalid);
    assert_eq!(kind(tube.pause_for(Duration::ZERO)), ErrorKind::Invalid);
    assert_eq!(tube.info().unwrap().pause_left, Some(secs(60)));
    assert!(tube.try_take().unwrap().is_none());
    clock.advance(secs(60));
    assert_eq!(next(&tube), "a");
}
