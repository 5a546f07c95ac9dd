//! Named sessions that own leases, and the time that these outlive them.

use crate::{close_sound, counts, drain, home, killed, kind, lone, resumed, secs, still};
use std::time::Duration;
use tubewell::{Clock, ErrorKind, ManualClock, Queue, State, Task};

fn queue() -> (Queue, ManualClock) {
    let (builder, clock) = still();
    (builder.in_memory().unwrap(), clock)
}

#[test]
fn the_holder_of_a_task_has_a_name() {
    let (queue, _) = queue();
    let ada = queue.consumer("ada").unwrap();
    let tube = queue.tube("t").unwrap().by(&ada);
    let id = tube.put(b"a").unwrap();
    let _task = tube.take().unwrap();
    assert_eq!(ada.name(), Some("ada"));
    assert_eq!(tube.peek(id).unwrap().holder.as_deref(), Some("ada"));
    assert_eq!(queue.taken().unwrap()[0].holder.as_deref(), Some("ada"));
}

#[test]
fn a_second_call_joins_and_any_of_them_settles_what_another_took() {
    let (queue, _) = queue();
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    let first = queue.consumer("ada").unwrap();
    let second = queue.consumer("ada").unwrap();
    let ticket = tube.by(&first).take().unwrap().detach();
    drop(first);
    assert_eq!(counts(&tube), [0, 0, 1, 0], "the session is still open");
    tube.by(&second).ticket(ticket).ack().unwrap();
}

/// The ticket alone gives the right to settle: a program may store it and settle in another part.
#[test]
fn a_ticket_settles_through_any_consumers_tube() {
    let (queue, _) = queue();
    let tube = queue.tube("t").unwrap();
    let (ada, bob) = (queue.consumer("ada").unwrap(), queue.consumer("bob").unwrap());
    for text in ["a", "b", "c"] {
        tube.put(text.as_bytes()).unwrap();
    }
    let [a, b, c] = [(); 3].map(|()| tube.by(&ada).take().unwrap().detach());
    tube.by(&bob).ticket(a).ack().unwrap();
    assert_eq!(tube.peek(b.id()).unwrap().holder.as_deref(), Some("ada"), "she still holds it");
    tube.by(&bob).ticket(b).release().unwrap();
    tube.ticket(c).bury("no").unwrap();
    assert_eq!((counts(&tube), drain(&tube).as_str()), ([1, 0, 0, 1], "b"));
    let late = tube.by(&ada).ticket(a).ack();
    assert!(late.unwrap_err().is_lease_lost(), "it was settled");
}

#[test]
fn without_grace_the_last_handles_end_returns_its_tasks() {
    let (queue, _) = queue();
    let tube = queue.tube("t").unwrap();
    for text in ["a", "b", "c"] {
        tube.put(text.as_bytes()).unwrap();
    }
    let ada = queue.consumer("ada").unwrap();
    let own = tube.by(&ada);
    for _ in 0..3 {
        own.take().unwrap().detach();
    }
    assert_eq!(counts(&tube), [0, 0, 3, 0]);
    drop(ada);
    assert_eq!(counts(&tube), [0, 0, 3, 0], "the bound tube keeps the session");
    drop(own);
    assert_eq!(drain(&tube), "a b c");
}

#[test]
fn a_guard_keeps_the_session_open() {
    let (queue, _) = queue();
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    tube.put(b"b").unwrap();
    let ada = queue.consumer("ada").unwrap();
    let guard = tube.by(&ada).take().unwrap();
    tube.by(&ada).take().unwrap().detach();
    drop(ada);
    assert_eq!(counts(&tube), [0, 0, 2, 0]);
    guard.ack().unwrap();
    assert_eq!(drain(&tube), "b");
}

#[test]
fn close_ends_the_session_now_for_every_clone() {
    let (queue, _) = queue();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"a").unwrap();
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    let other = ada.clone();
    let task = tube.by(&ada).take().unwrap();
    ada.close().unwrap();
    ada.close().unwrap();
    assert!(task.ack().unwrap_err().is_lease_lost());
    let info = tube.peek(id).unwrap();
    assert_eq!((info.state, info.attempts), (State::Ready, 1));
    assert_eq!(kind(tube.by(&other).try_take()), ErrorKind::Closed);
    assert!(queue.consumer("ada").is_ok(), "the name can be used again");
}

#[test]
fn leases_outlive_the_session_by_its_grace() {
    let (queue, clock) = queue();
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    tube.by(&ada).take().unwrap().detach();
    drop(ada);
    clock.advance(secs(59));
    queue.tick().unwrap();
    assert_eq!(counts(&tube), [0, 0, 1, 0]);
    clock.advance(secs(1));
    queue.tick().unwrap();
    assert_eq!(drain(&tube), "a");
}

#[test]
fn a_consumer_opened_in_time_resumes_with_new_tickets() {
    let (queue, clock) = queue();
    let tube = queue.tube("t").unwrap();
    tube.task(b"a").ttr(secs(100)).put().unwrap();
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    let old = tube.by(&ada).take().unwrap().detach();
    drop(ada);
    clock.advance(secs(30));
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    let task = ada.resume(&tube).next().unwrap().unwrap();
    assert_eq!(kind(tube.ticket(old).ack()), ErrorKind::LeaseLost);
    assert_eq!((&task[..], task.attempt()), (&b"a"[..], 1));
    assert_eq!(task.time_left().unwrap(), Some(secs(100)), "its ttr begins again");
    clock.advance(secs(60));
    queue.tick().unwrap();
    task.ack().unwrap();
}

#[test]
fn resume_hands_out_what_has_no_holder_and_nothing_else() {
    let (queue, _) = queue();
    let tube = queue.tube("t").unwrap();
    for text in ["a", "b", "c"] {
        tube.put(text.as_bytes()).unwrap();
    }
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    let bob = queue.consumer_with_grace("bob", secs(60)).unwrap();
    tube.by(&ada).take().unwrap().detach();
    tube.by(&bob).take().unwrap().detach();
    drop((ada, bob));
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    let tasks = resumed(&ada, &tube);
    assert_eq!(tasks.iter().map(|task| task.to_vec()).collect::<Vec<_>>(), [b"a"]);
    assert!(ada.resume(&tube).next().is_none(), "they are in hand");
}

/// `resume` took over all leases before it returned the first, with their payloads in memory.
#[test]
fn resume_takes_over_a_bounded_number_of_bytes_ahead() {
    let (queue, _) = queue();
    let tube = queue.tube("t").unwrap();
    let ids = tube.put_many(vec![vec![7; 300 << 10]; 20]).unwrap();
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    tube.by(&ada).take_many(20).unwrap().into_iter().for_each(|task| _ = task.detach());
    drop(ada);
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    let mut tasks = ada.resume(&tube);
    assert_eq!(tasks.next().unwrap().unwrap().detach().id(), ids[0]);
    drop(tasks);
    // Four of them are more than 1 MiB. The three that were not asked for are back, uncharged.
    assert_eq!(counts(&tube), [3, 0, 17, 0]);
    let info = tube.peek(ids[1]).unwrap();
    assert_eq!((info.attempts, info.releases), (0, 1));
    let rest: Vec<_> = resumed(&ada, &tube).into_iter().map(Task::detach).collect();
    assert_eq!(rest.iter().map(|ticket| ticket.id()).collect::<Vec<_>>(), ids[4..]);
}

#[test]
fn resume_hands_out_more_than_a_page_each_once() {
    let (queue, _) = queue();
    let tube = queue.tube("t").unwrap();
    let ids = tube.put_many((0..600).map(|_| b"x".to_vec())).unwrap();
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    let old: Vec<_> = tube.by(&ada).take_many(600).unwrap().into_iter().map(Task::detach).collect();
    drop(ada);
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    let tasks = resumed(&ada, &tube);
    assert_eq!(tasks.iter().map(Task::id).collect::<Vec<_>>(), ids);
    assert!(ada.resume(&tube).next().is_none());
    assert!(old.into_iter().all(|ticket| kind(tube.ticket(ticket).ack()) == ErrorKind::LeaseLost));
    tube.ack_many(tasks).unwrap();
    assert!(tube.is_empty().unwrap());
}

#[test]
fn a_reopen_within_the_grace_finds_the_tasks_taken() {
    for kill in [false, true] {
        let (_home, path) = home();
        let (builder, clock) = still();
        let queue = builder.open(&path).unwrap();
        let tube = queue.tube("t").unwrap();
        let named = tube.put(b"named").unwrap();
        tube.put(b"nameless").unwrap();
        let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
        let _task = tube.by(&ada).take().unwrap();
        let _other = tube.take().unwrap();
        let (_copy, path) = if kill { killed(&path) } else { (tempfile::tempdir().unwrap(), path) };
        queue.close().unwrap();

        clock.advance(secs(30));
        let queue = still().0.clock(clock.clone()).open(&path).unwrap();
        let tube = queue.tube("t").unwrap();
        assert_eq!(counts(&tube), [1, 0, 1, 0], "kill: {kill}");
        let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
        let tasks = resumed(&ada, &tube);
        assert_eq!(tasks.iter().map(Task::id).collect::<Vec<_>>(), [named]);
    }
}

/// A close begins the grace of open sessions; a session that ended before has begun its own.
#[test]
fn a_reopen_after_the_stored_end_of_the_grace_finds_them_ready() {
    for (left, kill) in [(false, false), (true, false), (true, true)] {
        let (_home, path) = home();
        let (builder, clock) = still();
        let queue = builder.open(&path).unwrap();
        let tube = queue.tube("t").unwrap();
        let id = tube.put(b"a").unwrap();
        let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
        tube.by(&ada).take().unwrap().detach();
        let ada = (!left).then_some(ada);
        let (_copy, path) = if kill { killed(&path) } else { (tempfile::tempdir().unwrap(), path) };
        queue.close().unwrap();
        drop(ada);

        // Another process, whose monotonic clock begins again: only the time of day has advanced.
        // An opening in between does not extend the grace.
        for (away, found) in [(30, [0, 0, 1, 0]), (59, [0, 0, 1, 0]), (60, [1, 0, 0, 0])] {
            let clock = ManualClock::at(clock.wall() + secs(away));
            let (_copy, path) = killed(&path);
            let queue = still().0.clock(clock.clone()).open(&path).unwrap();
            let tube = queue.tube("t").unwrap();
            assert_eq!(counts(&tube), found, "left: {left}, kill: {kill}, after {away} s");
            clock.advance(secs(60 - away));
            queue.tick().unwrap();
            let info = tube.peek(id).unwrap();
            assert_eq!(
                (info.state, info.attempts),
                (State::Ready, 1),
                "the consumer was not opened"
            );
            close_sound(queue);
        }
    }
}

#[test]
fn a_close_returns_uncharged_what_no_call_has_returned_since_the_end_of_the_grace() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"a").unwrap();
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    tube.by(&ada).take().unwrap().detach();
    drop(ada);
    clock.advance(secs(60));
    queue.flush().unwrap(); // of no tube, so it returns none
    queue.close().unwrap();
    let queue = still().0.clock(clock).open(&path).unwrap();
    let info = queue.tube("t").unwrap().peek(id).unwrap();
    assert_eq!((info.state, info.attempts), (State::Ready, 0));
}

/// It is unknown when a killed process last ran, so its sessions have the whole grace from the
/// opening on.
#[test]
fn a_grace_that_a_kill_left_unbegun_begins_at_the_opening() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    let _task = tube.by(&ada).take().unwrap();
    let (_copy, copy) = killed(&path);
    clock.advance(secs(3600));
    let queue = still().0.clock(clock.clone()).open(&copy).unwrap();
    let tube = queue.tube("t").unwrap();
    clock.advance(secs(59));
    assert_eq!(counts(&tube), [0, 0, 1, 0]);
    clock.advance(secs(1));
    assert_eq!(drain(&tube), "a");
}

#[test]
fn the_builders_grace_is_every_consumers() {
    let (builder, clock) = still();
    let queue = builder.session_grace(secs(60)).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    tube.by(&queue.consumer("ada").unwrap()).take().unwrap().detach();
    assert_eq!(counts(&tube), [0, 0, 1, 0]);
    clock.advance(secs(60));
    queue.tick().unwrap();
    assert_eq!(counts(&tube), [1, 0, 0, 0]);
}

/// The default is no grace at all: the test would notice the shortest one.
#[test]
fn the_default_grace_is_zero() {
    let shortest = Duration::from_micros(1);
    let (reported, clock) = still();
    let builders = [(Queue::builder(), None), (still().0, None)];
    let reported = (reported.session_grace(shortest), Some(clock));
    for (builder, graced) in builders.into_iter().chain([reported]) {
        let queue = builder.in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        tube.put(b"a").unwrap();
        tube.by(&queue.consumer("ada").unwrap()).take().unwrap().detach();
        if let Some(clock) = graced {
            assert_eq!(counts(&tube), [0, 0, 1, 0]);
            clock.advance(shortest);
        }
        assert_eq!(counts(&tube), [1, 0, 0, 0]);
    }
}

#[test]
fn a_consumer_of_another_queue_is_refused() {
    let (tube, _) = lone();
    let (queue, _) = queue();
    let stranger = queue.consumer("ada").unwrap();
    tube.put(b"a").unwrap();
    assert_eq!(kind(tube.by(&stranger).try_take()), ErrorKind::Invalid);
    assert_eq!(kind(stranger.resume(&tube).next().unwrap()), ErrorKind::Invalid);
}

#[test]
fn a_name_is_checked_like_a_label() {
    let (queue, _) = queue();
    for name in ["", "a\nb", &"n".repeat(256)] {
        assert_eq!(kind(queue.consumer(name)), ErrorKind::Invalid);
    }
    queue.consumer(&"n".repeat(255)).unwrap();
}

#[test]
fn another_consumers_lease_is_its_own() {
    let (queue, _) = queue();
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    let ada = queue.consumer("ada").unwrap();
    let bob = queue.consumer("bob").unwrap();
    let task = tube.by(&ada).take().unwrap();
    assert!(bob.resume(&tube).next().is_none());
    bob.close().unwrap();
    task.ack().unwrap();
}
