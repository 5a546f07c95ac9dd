//! The order of each listing.

use crate::{lone, lone_with, secs, still, waiting};
use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;
use tubewell::{
    Clock, Filter, Lapse, ManualClock, Queue, Release, Result, Retention, State, TaskId,
    TaskSummary, Tube, TubeKind, TubeOptions,
};

/// The payloads of a state as text, from both listings.
fn listed(tube: &Tube, state: State) -> String {
    let tasks: Vec<_> = tube.tasks(state).collect::<Result<_>>().unwrap();
    let ids: Vec<_> = tube.summaries(state).map(|task| task.unwrap().id).collect();
    assert_eq!(tasks.iter().map(|task| task.id).collect::<Vec<_>>(), ids);
    let texts = tasks.into_iter().map(|task| String::from_utf8(task.payload).unwrap());
    texts.collect::<Vec<_>>().join(" ")
}

/// The payload of the next task of a state.
fn first(tube: &Tube, state: State) -> String {
    String::from_utf8(tube.peek_next(state).unwrap().expect("one").payload).unwrap()
}

#[test]
fn ready_tasks_are_listed_as_they_are_taken_and_then_group_by_group() {
    let (tube, _) = lone();
    let put = |text: &str, priority, group: &str| {
        let task = tube.task(text.as_bytes()).priority(priority);
        if group.is_empty() { task.put() } else { tube.task(text.as_bytes()).group(group).put() }
    };
    put("longer1", 0, "longer").unwrap();
    put("b1", 0, "b").unwrap();
    put("plain2", 1, "").unwrap();
    put("a1", 0, "a").unwrap();
    put("plain1", 0, "").unwrap();
    put("b2", 0, "b").unwrap();
    put("plain3", 1, "").unwrap();
    tube.put_front(b"plain0").unwrap();
    assert_eq!(
        listed(&tube, State::Ready),
        "plain0 plain1 plain2 plain3 a1 b1 b2 longer1",
        "shorter names of groups first"
    );
    // A released task has a row of another kind than one that was never taken.
    let held = tube.take_many(3).unwrap();
    held.into_iter().rev().for_each(|task| task.release().unwrap());
    assert_eq!(listed(&tube, State::Ready), "plain0 plain1 plain2 plain3 a1 b1 b2 longer1");
}

#[test]
fn tasks_of_a_utube_without_a_group_are_listed_first() {
    let (tube, _) = lone_with(TubeOptions::new(TubeKind::Utube));
    tube.task(b"b").group("g").put().unwrap();
    tube.put(b"a").unwrap();
    assert_eq!(listed(&tube, State::Ready), "a b");
    assert_eq!(tube.summaries(State::Ready).next().unwrap().unwrap().group, None);
}

#[test]
fn taken_tasks_without_an_end_are_listed_by_id_and_buried_ones_as_they_are_kicked() {
    let (tube, _) = lone();
    let ids = [("a", 2), ("b", 1), ("c", 2), ("d", 0)]
        .map(|(text, priority)| tube.task(text.as_bytes()).priority(priority).put().unwrap());
    let held = tube.take_many(4).unwrap();
    assert_eq!(listed(&tube, State::Taken), "a b c d");
    assert_eq!(first(&tube, State::Taken), "a");
    drop(held);
    for id in [ids[3], ids[2], ids[1], ids[0]] {
        tube.bury(id, "").unwrap();
    }
    assert_eq!(listed(&tube, State::Buried), "d b a c");
    for wanted in ["d", "b", "a", "c"] {
        assert_eq!(first(&tube, State::Buried), wanted);
        assert_eq!(tube.kick(1).unwrap().kicked, 1);
        tube.take().unwrap().ack().unwrap();
        assert!(!listed(&tube, State::Buried).contains(wanted));
    }
}

#[test]
fn taken_tasks_are_listed_by_the_ends_of_their_leases() {
    let options = TubeOptions::default().lapse(Lapse::new().grace(secs(30)));
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.create_tube("t", options).unwrap();
    let put = |text: &str, ttr: Duration| tube.task(text.as_bytes()).ttr(ttr).put().unwrap();
    for (text, ttr) in [
        ("endless2", Duration::MAX),
        ("late", secs(60)),
        ("soon", secs(10)),
        ("soon2", secs(10)),
        ("between", secs(20)),
        ("endless1", Duration::MAX),
    ] {
        put(text, ttr);
    }
    let found = |filter: Filter, most| {
        let (mut found, mut next) = (Vec::new(), None);
        loop {
            let page = tube.search(&filter, next.as_ref(), most).unwrap();
            found.extend(page.tasks);
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        let text = |task: TaskSummary| tube.peek(task.id).unwrap().payload;
        let texts = found.into_iter().map(|task| String::from_utf8(text(task)).unwrap());
        texts.collect::<Vec<_>>().join(" ")
    };
    let is = |wanted: &str| {
        assert_eq!(listed(&tube, State::Taken), wanted);
        assert_eq!(first(&tube, State::Taken), wanted.split(' ').next().unwrap());
        let taken = Filter::new().state(State::Taken);
        assert_eq!([1, 99].map(|most| found(taken.clone(), most)), [wanted, wanted]);
    };
    let held = tube.take_many(6).unwrap();
    is("soon soon2 between late endless2 endless1");
    held[2].touch(secs(200)).unwrap();
    is("soon2 between late soon endless2 endless1");
    // In their grace the tasks stand by its end.
    clock.advance(secs(20));
    is("soon2 between late soon endless2 endless1");
    let stalled = Filter::new().stalled(true);
    assert_eq!([1, 99].map(|most| found(stalled.clone(), most)), ["soon2 between"; 2]);
    clock.advance(secs(30));
    is("late soon endless2 endless1");
    // Of one instant each, and tube by tube by id.
    let ids: Vec<_> = queue.taken().unwrap().iter().map(|task| task.id).collect();
    assert!(ids.is_sorted() && ids.len() == 4);
    // The tasks of many pages, of which one half has an end.
    for number in 0..1000 {
        put("x", if number % 2 == 0 { Duration::MAX } else { secs(5000 - number) });
    }
    tube.ack_many(held).ok();
    let many = tube.take_many(1010).unwrap();
    let ends: Vec<Option<Duration>> =
        tube.summaries(State::Taken).map(|task| task.unwrap().lease_left).collect();
    assert_eq!(ends.len(), many.len());
    assert!(ends.iter().map(|end| end.unwrap_or(Duration::MAX)).is_sorted());
    assert_eq!(ends.iter().filter(|end| end.is_none()).count(), 500);
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// Regression: the time of day was compared with queue time, which it differs from after the clock
/// was set.
#[test]
fn delayed_tasks_are_listed_by_the_time_that_is_left() {
    let (tube, clock) = lone();
    let hour = secs(3600);
    let delayed = |text: &str, length: Duration| tube.task(text.as_bytes()).delay(length).put();
    let at = |text: &str, left: Duration| {
        tube.task(text.as_bytes()).run_at(clock.wall() + left).put().unwrap()
    };
    for set in [clock.wall() + 9 * hour, clock.wall() - 9 * hour] {
        clock.set_wall(set);
        delayed("e", Duration::MAX).unwrap();
        at("d", 4 * hour);
        delayed("c", 3 * hour).unwrap();
        at("b", 2 * hour);
        at("a2", hour);
        let first_id = delayed("a", hour).unwrap();
        delayed("a1", hour).unwrap();
        delayed("f", Duration::MAX).unwrap();
        assert_eq!(listed(&tube, State::Delayed), "a a1 a2 b c d e f", "a delay before a time");
        assert_eq!(tube.peek_next(State::Delayed).unwrap().unwrap().id, first_id);
        clock.set_wall(set + hour / 2);
        assert_eq!(listed(&tube, State::Delayed), "a2 a a1 b c d e f");
        assert_eq!(first(&tube, State::Delayed), "a2");
        clock.advance(hour);
        assert_eq!(listed(&tube, State::Delayed), "b c d e f");
        clock.advance(9 * hour);
        assert_eq!(first(&tube, State::Delayed), "e", "only those without an end are left");
        tube.truncate().unwrap();
        assert_eq!(tube.peek_next(State::Delayed).unwrap().map(|task| task.id), None);
    }
}

#[test]
fn a_release_a_retry_and_an_update_go_to_their_places_in_that_order() {
    let (tube, clock) = lone();
    for text in ["release", "retry", "update", "placed"] {
        tube.put(text.as_bytes()).unwrap();
    }
    tube.take().unwrap().release_with(Release::new().delay(secs(4))).unwrap();
    tube.take().unwrap().retry_after("no", secs(2)).unwrap();
    let id = tube.peek_next(State::Ready).unwrap().unwrap().id;
    tube.update(id).run_at(clock.wall() + secs(3)).apply().unwrap();
    tube.take().unwrap().retry_after("no", secs(1)).unwrap();
    assert_eq!(listed(&tube, State::Delayed), "placed retry update release");
    tube.update(id).delay(secs(9)).apply().unwrap();
    assert_eq!(listed(&tube, State::Delayed), "placed retry release update");
}

/// So many tasks that each clock's have several pages, in a mixed order of ids: the time that each
/// waits, in seconds from 100 on. Every n-th waits for a time of day.
fn many(tube: &Tube, clock: &ManualClock, nth: usize) -> Vec<TaskId> {
    const TASKS: usize = 1_200;
    let mut due = vec![TaskId::new(0); TASKS];
    for put in 0..TASKS {
        // 7 has no factor in common with their number.
        let place = put * 7 % TASKS;
        let wait = secs(100 + place as u64);
        let task = tube.task(b"x");
        let task = if place.is_multiple_of(nth) {
            task.run_at(clock.wall() + wait)
        } else {
            task.delay(wait)
        };
        due[place] = task.put().unwrap();
    }
    due
}

#[test]
fn a_clock_that_is_set_between_pages_does_not_change_the_order() {
    for nth in [1, 2, 7] {
        for (read, forward) in [(1, false), (255, false), (256, true), (700, true)] {
            let (tube, clock) = lone();
            clock.set_wall(clock.wall() + secs(86_400));
            let due = many(&tube, &clock, nth);
            let mut listing = tube.summaries(State::Delayed).map(|task| task.unwrap().id);
            let mut seen: Vec<_> = listing.by_ref().take(read).collect();
            let wall = clock.wall();
            // No delay ends by it: that would make a task ready.
            clock.set_wall(if forward { wall + secs(99) } else { wall - secs(86_400) });
            seen.extend(listing);
            assert!(seen == due, "every {nth}th, after {read}");
        }
    }
}

#[test]
fn what_becomes_ready_between_pages_is_missed_and_the_others_are_listed_once() {
    for nth in [1, 2, 7] {
        let (tube, clock) = lone();
        let due = many(&tube, &clock, nth);
        let mut listing = tube.tasks(State::Delayed).map(|task| task.unwrap().id);
        let mut seen: Vec<_> = listing.by_ref().take(10).collect();
        clock.advance(secs(100 + 900));
        tube.put(b"a verb does the due work").unwrap();
        seen.extend(listing);
        let unique: BTreeSet<_> = seen.iter().collect();
        assert_eq!(unique.len(), seen.len());
        assert_eq!(seen[..10], due[..10]);
        assert!(seen[seen.len() - 299..] == due[901..]);
        let places = seen.iter().map(|id| due.iter().position(|other| other == id).unwrap());
        assert!(places.is_sorted());
    }
}

#[test]
fn a_delay_that_is_moved_between_pages_is_listed_at_its_place() {
    let (tube, clock) = lone();
    let due = many(&tube, &clock, 2);
    let mut listing = tube.summaries(State::Delayed).map(|task| task.unwrap().id);
    assert_eq!(listing.next(), Some(due[0]));
    tube.update(due[1_000]).delay(secs(1)).apply().unwrap();
    tube.update(due[1_001]).delay(secs(9_999)).apply().unwrap();
    tube.update(due[1_002]).delay(Duration::MAX).apply().unwrap();
    let rest: Vec<_> = listing.collect();
    let mut wanted: Vec<_> = due[1..].to_vec();
    wanted.retain(|id| !due[1_000..=1_002].contains(id));
    wanted.extend([due[1_001], due[1_002]]);
    assert!(rest == wanted, "the one that has moved before the page is missed");
}

#[test]
fn blocked_and_finished_tasks_are_listed_by_id() {
    let queue = Queue::in_memory().unwrap();
    let kept = TubeOptions::default().keep_finished(Retention::new().count(9));
    let tube = queue.create_tube("t", kept).unwrap();
    let first = tube.put(b"first").unwrap();
    // Neither by priority nor by the time of their ends.
    let blocked = [3, 1, 2]
        .map(|priority| tube.task(b"later").priority(priority).after([first]).put().unwrap());
    let listed = |state| tube.tasks(state).map(|task| task.unwrap().id).collect::<Vec<_>>();
    assert_eq!(listed(State::Blocked), blocked);
    tube.take().unwrap().ack().unwrap();
    (0..3).for_each(|_| tube.take().unwrap().ack().unwrap());
    assert_eq!(listed(State::Done), [&[first][..], &blocked].concat());
}

#[test]
fn tubes_are_listed_by_name_and_their_counts_as_they_were_made() {
    let queue = still().0.in_memory().unwrap();
    for name in ["b", "a", "ab"] {
        let tube = queue.tube(name).unwrap();
        tube.put(name.as_bytes()).unwrap();
        tube.take().unwrap().detach();
    }
    assert_eq!(queue.tubes().unwrap(), ["a", "ab", "b"]);
    let stats = queue.stats().unwrap();
    assert_eq!(stats.iter().map(|tube| &*tube.tube).collect::<Vec<_>>(), ["b", "a", "ab"]);
    let taken = queue.taken().unwrap();
    assert_eq!(taken.iter().map(|task| &*task.tube).collect::<Vec<_>>(), ["b", "a", "ab"]);
}

#[test]
fn waiters_are_listed_in_the_order_of_their_waits() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let names = ["b", "a", "ab"];
    let waits: Vec<thread::JoinHandle<_>> = names
        .map(|name| {
            clock.advance(secs(1));
            waiting(&queue.tube(name).unwrap(), |tube| tube.take().unwrap().ack().unwrap())
        })
        .into();
    let waiters = queue.waiters().unwrap();
    assert_eq!(waiters.iter().map(|wait| &*wait.tube).collect::<Vec<_>>(), names);
    names.iter().for_each(|name| _ = queue.tube(name).unwrap().put(b"").unwrap());
    waits.into_iter().for_each(|wait| wait.join().unwrap());
}

#[test]
fn leases_are_resumed_by_id() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let ids: Vec<_> = (0..3).map(|at| tube.task(b"x").priority(-at).put().unwrap()).collect();
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    tube.by(&ada).take_many(3).unwrap().into_iter().for_each(|task| _ = task.detach());
    drop(ada);
    let ada = queue.consumer("ada").unwrap();
    let resumed: Vec<_> = ada.resume(&tube).map(|task| task.unwrap()).collect();
    assert_eq!(resumed.iter().map(|task| task.id()).collect::<Vec<_>>(), ids);
}
