//! Sessions without a name: their leases are in memory, and they leave nothing on the disk.

use crate::{close_sound, counts, home, killed, kind, open, secs, still, until_waiting};
use std::thread;
use std::time::Duration;
use tubewell::{ErrorKind, ManualClock, Queue, State, Tube};

fn queue() -> (Queue, Tube, ManualClock) {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    (queue, tube, clock)
}

#[test]
fn the_end_of_its_last_handle_returns_what_it_holds_and_the_attempts_count() {
    let (queue, tube, _) = queue();
    let other = queue.tube("other").unwrap();
    let ids = tube.put_many([*b"a", *b"b", *b"c"]).unwrap();
    let far = other.put(b"d").unwrap();
    let session = queue.session();
    assert_eq!((session.name(), session.is_closed()), (None, false));
    let bound = tube.by(&session);
    bound.take().unwrap().ack().unwrap();
    bound.take().unwrap().detach();
    other.by(&session).claim(far).unwrap().detach();
    let settled = bound.take().unwrap().detach();
    assert_eq!(tube.peek(ids[1]).unwrap().holder, None);
    tube.ticket(settled).release().unwrap();
    drop(session);
    assert_eq!(counts(&tube), [1, 0, 1, 0], "the bound tube keeps the session open");
    drop(bound);
    assert_eq!((counts(&tube), counts(&other)), ([2, 0, 0, 0], [1, 0, 0, 0]));
    let attempts = |tube: &Tube, id| tube.peek(id).unwrap().attempts;
    assert_eq!((attempts(&tube, ids[1]), attempts(&other, far)), (1, 1));
    assert_eq!(attempts(&tube, ids[2]), 0, "it was released before");
}

#[test]
fn a_guard_keeps_it_open() {
    let (queue, tube, _) = queue();
    tube.put_many([*b"a", *b"b"]).unwrap();
    let session = queue.session();
    let detached = tube.by(&session).take().unwrap().detach();
    let task = tube.by(&session).take().unwrap();
    drop(session);
    assert_eq!(counts(&tube), [0, 0, 2, 0]);
    task.ack().unwrap();
    assert_eq!(counts(&tube), [1, 0, 0, 0]);
    assert!(tube.ticket(detached).ack().unwrap_err().is_lease_lost());
}

#[test]
fn close_takes_its_tasks_from_its_guards_and_ends_its_waits() {
    let (queue, tube, _) = queue();
    let id = tube.put(b"a").unwrap();
    let session = queue.session();
    let bound = tube.by(&session);
    let task = bound.take().unwrap();
    let waiting = thread::spawn({
        let bound = bound.clone();
        move || kind(bound.take())
    });
    until_waiting(&tube, 1);
    session.close().unwrap();
    session.close().unwrap();
    assert!(session.is_closed());
    assert_eq!(waiting.join().unwrap(), ErrorKind::Closed);
    assert_eq!(tube.peek(id).unwrap().state, State::Ready);
    assert!(task.ack().unwrap_err().is_lease_lost());
    for refused in [
        kind(bound.take()),
        kind(bound.try_take()),
        kind(bound.take_timeout(secs(1))),
        kind(bound.take_many(1)),
        kind(bound.claim(id)),
    ] {
        assert_eq!(refused, ErrorKind::Closed);
    }
    let info = tube.peek(id).unwrap();
    assert_eq!((info.state, info.attempts, info.deliveries), (State::Ready, 1, 1));
}

#[test]
fn a_lapsed_lease_that_another_has_taken_stays_with_that_one() {
    let (queue, tube, clock) = queue();
    tube.task(b"a").ttr(secs(1)).put().unwrap();
    let (first, second) = (queue.session(), queue.session());
    tube.by(&first).take().unwrap().detach();
    clock.advance(secs(1));
    let ticket = tube.by(&second).take().unwrap().detach();
    first.close().unwrap();
    tube.ticket(ticket).ack().unwrap();
    assert!(tube.is_empty().unwrap());
}

#[test]
fn it_has_nothing_to_resume_and_a_closed_queue_ends_it() {
    let (queue, tube, _) = queue();
    tube.put(b"a").unwrap();
    let session = queue.session();
    tube.by(&session).take().unwrap().detach();
    assert!(session.resume(&tube).next().is_none());
    queue.close().unwrap();
    assert_eq!(kind(session.close()), ErrorKind::Closed);
    assert_eq!(kind(tube.by(&session).take()), ErrorKind::Closed);
}

/// The leases of a killed process return at the next opening, as all that have no named consumer.
#[test]
fn nothing_of_it_outlives_the_process() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"a").unwrap();
    let session = queue.session();
    tube.by(&session).take().unwrap().detach();
    let (_copy, copy) = killed(&path);
    let after = open(&copy);
    let info = after.tube("t").unwrap().peek(id).unwrap();
    assert_eq!((info.state, info.attempts), (State::Ready, 1));
    close_sound(after);
    close_sound(queue);
}

#[test]
fn sixty_thousand_sessions_write_nothing() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    let written = |queue: &Queue| {
        let space = queue.space().unwrap();
        (space.journal_used, space.overlay_rows, space.syncs)
    };
    let before = written(&queue);
    for number in 0..60_000 {
        let session = queue.session();
        let bound = tube.by(&session);
        if number % 1000 == 0 {
            // One that is closed with others open.
            queue.session().close().unwrap();
        }
        drop((session, bound));
    }
    assert_eq!(written(&queue), before);
    close_sound(queue);
}

/// A take and a release in each session write what they write without one, and no session leaves a
/// row, in memory or in the base.
#[test]
fn takes_of_many_sessions_write_what_plain_takes_write() {
    let written = |in_sessions: bool| {
        let (_home, path) = home();
        let queue = open(&path);
        let tube = queue.tube("t").unwrap();
        let id = tube.put(b"a").unwrap();
        for _ in 0..20_000 {
            let session = in_sessions.then(|| queue.session());
            let bound = session.as_ref().map(|session| tube.by(session));
            let task = bound.as_ref().unwrap_or(&tube).take().unwrap();
            task.release().unwrap();
        }
        assert!(queue.consumers().unwrap().is_empty());
        let before = queue.space().unwrap();
        queue.checkpoint().unwrap();
        let rows = queue.base_space().unwrap().rows;
        assert_eq!((tube.peek(id).unwrap().deliveries, tube.len().unwrap()), (20_000, 1));
        close_sound(queue);
        let after = open(&path);
        assert!(after.consumers().unwrap().is_empty());
        close_sound(after);
        (before.journal_used, before.overlay_rows, before.syncs, before.written_bytes, rows)
    };
    assert_eq!(written(true), written(false));
}

/// The leases that ended by another hand were kept for the life of the session.
#[test]
fn a_session_that_lasts_forgets_what_others_have_settled() {
    let (queue, tube, _) = queue();
    let session = queue.session();
    let bound = tube.by(&session);
    let ids = tube.put_many(vec![*b"x"; 5000]).unwrap();
    let kept = bound.take().unwrap().detach();
    for _ in 1..4990 {
        let ticket = bound.take().unwrap().detach();
        tube.ticket(ticket).ack().unwrap();
    }
    let rest: Vec<_> = bound.take_many(9).unwrap().into_iter().map(|task| task.detach()).collect();
    session.close().unwrap();
    assert_eq!(counts(&tube), [11, 0, 0, 0]);
    assert_eq!(tube.peek(ids[0]).unwrap().attempts, 1);
    for ticket in rest.into_iter().chain([kept]) {
        assert!(tube.ticket(ticket).ack().unwrap_err().is_lease_lost());
    }
}

#[test]
fn a_tube_that_was_dropped_does_not_stop_the_end() {
    let (queue, tube, _) = queue();
    let other = queue.tube("zzz").unwrap();
    tube.put(b"a").unwrap();
    other.put(b"b").unwrap();
    let session = queue.session();
    tube.by(&session).take_timeout(Duration::ZERO).unwrap().unwrap().detach();
    other.by(&session).take().unwrap().detach();
    queue.force_drop_tube("t").unwrap();
    session.close().unwrap();
    assert_eq!(counts(&other), [1, 0, 0, 0]);
}
