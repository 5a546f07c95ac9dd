//! Bad input gets a clear error and loses nothing: cases without a module of their own.

use crate::{counts, drain, home, is_gone, kind, lone, lone_with, open, secs, state, still};
use std::fs;
use std::time::{Duration, SystemTime};
use tubewell::{
    Backoff, Conflict, Error, ErrorKind, PutOutcome, Queue, Release, Result, Retention, State,
    Task, TicketHandle, Tube, TubeOptions,
};

const LONG: Duration = Duration::from_secs(500 * 365 * 86_400);

#[test]
fn payloads_at_their_limit() {
    const LIMIT: usize = 10_000;
    let (_home, path) = home();
    let queue = still().0.payload_bytes_max(LIMIT).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put(&[1; LIMIT - 1]).unwrap();
    tube.put(&[2; LIMIT]).unwrap();
    let written = queue.space().unwrap();
    let refused = tube.put(&[3; LIMIT + 1]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    assert!(refused.to_string().contains("10001 bytes, the limit is 10000"), "{refused}");
    assert_eq!(format!("{:?}", queue.space().unwrap()), format!("{written:?}"), "before any I/O");
    assert_eq!(tube.take_many(9).unwrap().len(), 2);
}

#[test]
fn every_way_to_put_knows_the_limit_of_payloads() {
    for temporary in [false, true] {
        let (_home, path) = home();
        let queue = still().0.payload_bytes_max(100).open(&path).unwrap();
        let options = TubeOptions::default().temporary(temporary);
        let tube = queue.create_tube("t", options).unwrap();
        let kept = tube.task(b"kept").key("k").put().unwrap();
        let journal = || fs::read(path.join("journal")).unwrap();
        let (written, before) = (queue.space().unwrap(), journal());
        let long = vec![3; 101];
        let batch = || [b"short".to_vec(), long.clone()];
        let replace = || tube.task(&long).key("k").on_conflict(Conflict::Replace);
        let refused = [
            kind(tube.put(&long)),
            kind(tube.put_front(&long)),
            kind(tube.put_many(batch())),
            kind(tube.put_receipt(&long)),
            kind(replace().put_outcome()),
            kind(replace().put_receipt()),
            kind(tube.task(&long).delay(secs(1)).put()),
            kind(tube.task(&long).wait_for_room(secs(1)).put()),
        ];
        assert_eq!(refused, [ErrorKind::TooLarge; 8]);
        let undone = queue.transact(|tx| {
            let refused = [
                kind(tube.put_in(tx, &long)),
                kind(tx.put(&tube, &long)),
                kind(tube.batch(batch()).put_in(tx)),
                kind(replace().put_in(tx)),
            ];
            assert_eq!(refused, [ErrorKind::TooLarge; 4]);
            Err::<(), _>("no")
        });
        assert_eq!(kind(undone), ErrorKind::Rejected);
        assert_eq!(queue.space().unwrap(), written, "before any I/O");
        assert!(journal() == before);
        let again = tube.task(b"again").key("k").put_outcome().unwrap();
        assert_eq!((again.id, again.outcome), (kept, PutOutcome::Existing));
        assert_eq!(drain(&tube), "kept");
    }
}

#[test]
fn the_default_limit_of_payloads() {
    let (tube, _) = lone();
    let mut payload = vec![7; 16 << 20];
    tube.put(&payload).unwrap();
    payload.push(7);
    assert_eq!(kind(tube.put(&payload)), ErrorKind::TooLarge);
    payload.pop();
    assert!(*tube.take().unwrap() == *payload);
}

#[test]
fn a_payload_larger_than_the_journal() {
    let (_home, path) = home();
    let queue = still().0.journal_bytes(64 << 10).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let payload = vec![9; 1 << 20];
    tube.put(&payload).unwrap();
    crate::close_sound(queue);
    drop(tube);
    assert!(*open(&path).tube("t").unwrap().take().unwrap() == *payload);
}

/// Regression: a time below a microsecond counted as more than zero, was stored as zero, and the
/// task was removed.
#[test]
fn a_ttl_or_ttr_of_less_than_a_microsecond_is_refused() {
    let (tube, _) = lone();
    for nothing in [Duration::ZERO, Duration::from_nanos(999)] {
        assert_eq!(kind(tube.task(b"x").ttl(nothing).put()), ErrorKind::Invalid);
        assert_eq!(kind(tube.task(b"x").ttr(nothing).put()), ErrorKind::Invalid);
        for options in [TubeOptions::default().ttl(nothing), TubeOptions::default().ttr(nothing)] {
            let queue = Queue::in_memory().unwrap();
            assert_eq!(kind(queue.create_tube("t", options)), ErrorKind::Invalid);
        }
    }
    tube.put(b"x").unwrap();
    let released = tube.take().unwrap().release_with(Release::new().ttl(Duration::ZERO));
    assert_eq!(kind(released), ErrorKind::Invalid);
    assert_eq!(drain(&tube), "x", "a verdict that did not happen is a drop");
}

#[test]
fn times_of_500_years_and_of_max_are_long_and_nothing_else() {
    for long in [LONG, Duration::MAX] {
        let (tube, clock) = lone();
        let lives = tube.task(b"a").ttl(long).ttr(long).put().unwrap();
        let waits = tube.task(b"b").delay(long).ttl(long).put().unwrap();
        let task = tube.take().unwrap();
        task.touch(long).unwrap();
        task.renew().unwrap();
        task.renew_for(long).unwrap();
        clock.advance(LONG - secs(1));
        assert_eq!(task.id(), lives);
        assert_eq!(counts(&tube), [0, 1, 1, 0]);
        task.release_with(Release::new().delay(long).ttl(long)).unwrap();
        assert_eq!(counts(&tube), [0, 2, 0, 0]);
        assert_eq!(tube.peek(waits).unwrap().state, State::Delayed);
    }
}

#[test]
fn a_wait_of_zero_is_none_and_one_of_500_years_is_long() {
    let waits: [fn(&Tube, Duration); 3] = [
        |tube, wait| drop(tube.batch([*b"x"]).delay(wait).put().unwrap()),
        |tube, wait| {
            tube.put(b"x").unwrap();
            tube.take().unwrap().release_with(Release::new().delay(wait)).unwrap();
        },
        |tube, wait| {
            tube.put(b"x").unwrap();
            tube.take().unwrap().retry_after("no", wait).unwrap();
        },
    ];
    for (no, wait) in waits.into_iter().enumerate() {
        let (tube, clock) = lone();
        wait(&tube, Duration::ZERO);
        assert_eq!(counts(&tube), [1, 0, 0, 0], "{no}");
        assert_eq!(drain(&tube), "x");
        for long in [LONG, Duration::MAX] {
            wait(&tube, long);
        }
        clock.advance(LONG - secs(1));
        assert_eq!(counts(&tube), [0, 2, 0, 0], "{no}");
        clock.advance(secs(1));
        assert_eq!(counts(&tube), [1, 1, 0, 0], "{no}");
    }
}

#[test]
fn a_tubes_times_of_500_years_and_of_max_are_long_and_nothing_else() {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
    for long in [LONG, Duration::MAX] {
        let ever = long == Duration::MAX;
        let options = TubeOptions::default;
        for options in [
            options().ttl(long),
            options().ttr(long),
            options().backoff(Backoff::constant(long)),
            options().backoff(Backoff::doubling(long).factor(u32::MAX).at_most(long)),
            options().ttl(long).ttr(long).backoff(Backoff::constant(long)),
        ] {
            let (tube, clock) = lone_with(options.clone());
            let id = tube.put(b"a").unwrap();
            let backs_off = options.get_backoff().get_first() == long;
            clock.advance(CENTURY);
            assert_eq!(state(&tube, id), State::Ready, "{options:?}");
            let task = tube.take().unwrap();
            clock.advance(CENTURY);
            let bounds = [options.get_ttl().map(|_| 2), options.get_ttr().map(|_| 1)];
            let passed = bounds.into_iter().flatten().max().filter(|_| !ever);
            assert_eq!(task.time_left().unwrap(), passed.map(|passed| long - CENTURY * passed));
            task.ack().unwrap();
            assert!(is_gone(&tube, id), "{options:?}");

            let id = tube.put(b"b").unwrap();
            tube.take().unwrap().retry("no").unwrap();
            clock.advance(CENTURY);
            let found = if backs_off { State::Delayed } else { State::Ready };
            assert_eq!(state(&tube, id), found, "{options:?}");
            tube.bury(id, "no").unwrap();
            clock.advance(CENTURY);
            assert_eq!(tube.kick(1).unwrap().kicked, 1);
            assert_eq!(drain(&tube), "b", "{options:?}");
        }
    }
}

#[test]
fn a_grace_of_500_years_and_of_max_is_long_and_nothing_else() {
    for long in [LONG, Duration::MAX] {
        let (builder, clock) = still();
        let queue = builder.session_grace(long).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        tube.put(b"a").unwrap();
        tube.by(&queue.consumer("ada").unwrap()).take().unwrap().detach();
        clock.advance(LONG - secs(1));
        queue.tick().unwrap();
        assert_eq!(counts(&tube), [0, 0, 1, 0]);
        let mut tasks = queue.consumer("ada").unwrap().resume(&tube);
        tasks.next().unwrap().unwrap().ack().unwrap();
        assert!(tube.is_empty().unwrap());
    }
}

#[test]
fn the_farthest_times_of_day() {
    let (tube, _) = lone();
    tube.task(b"past").run_at(SystemTime::UNIX_EPOCH - LONG).put().unwrap();
    let far = SystemTime::UNIX_EPOCH + Duration::from_secs(i64::MAX as u64 / 2);
    let id = tube.task(b"far").run_at(far).put().unwrap();
    assert_eq!(tube.peek(id).unwrap().state, State::Delayed);
    assert_eq!(drain(&tube), "past");
}

#[test]
fn reasons_of_any_length_are_kept_up_to_4096_bytes() {
    let (tube, _) = lone();
    let id = tube.put(b"x").unwrap();
    tube.take().unwrap().bury("é".repeat(5000)).unwrap();
    let reason = tube.peek(id).unwrap().summary.reason.unwrap().to_string();
    assert_eq!(reason, "é".repeat(2048));
    tube.kick(1).unwrap();
    tube.take().unwrap().retry("").unwrap();
}

/// Something that happens to a taken task, and then the result of its lease.
fn lost_after(expected: ErrorKind, happen: impl FnOnce(&Queue, &Tube, &Task)) {
    let queue = still().0.in_memory().unwrap();
    let options = TubeOptions::default().keep_finished(Retention::new());
    let tube = queue.create_tube("t", options).unwrap();
    tube.put(b"x").unwrap();
    let task = tube.take().unwrap();
    happen(&queue, &tube, &task);
    let stats = tube.stats();
    let ticket = || tube.ticket(task.ticket());
    let verdicts = verdicts!(TicketHandle).map(|verdict| verdict(ticket(), &tube));
    for refused in verdicts.into_iter().chain(readings!(ticket())) {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), expected, "{error}");
    }
    drop(task);
    assert_eq!(stats.is_ok(), tube.stats().is_ok());
    if let Ok(stats) = stats {
        assert_eq!(tube.stats().unwrap(), stats, "and nothing moved");
    }
}

#[test]
fn a_lease_after_everything_that_can_happen_to_its_task() {
    let lost = ErrorKind::LeaseLost;
    lost_after(lost, |_, tube, task| tube.ticket(task.ticket()).ack().unwrap());
    lost_after(lost, |_, tube, task| tube.ticket(task.ticket()).release().unwrap());
    lost_after(lost, |_, tube, task| tube.bury(task.id(), "").unwrap());
    lost_after(lost, |_, tube, task| tube.delete(task.id()).unwrap());
    lost_after(lost, |_, tube, _| _ = tube.truncate().unwrap());
    lost_after(lost, |_, tube, _| tube.release_all().unwrap());
    lost_after(ErrorKind::TubeNotFound, |queue, _, _| queue.force_drop_tube("t").unwrap());
}

#[test]
fn a_ticket_after_a_reopen() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"x").unwrap();
    let ticket = tube.take().unwrap().detach();
    crate::close_sound(queue);
    let tube = open(&path).tube("t").unwrap();
    assert_eq!(kind(tube.ticket(ticket).ack()), ErrorKind::LeaseLost);
    let task = tube.take().unwrap();
    assert_eq!(task.id(), id);
    assert_eq!(kind(tube.ticket(ticket).ack()), ErrorKind::LeaseLost, "another taker holds it now");
    task.ack().unwrap();
    assert!(is_gone(&tube, id));
}

#[test]
fn a_ticket_in_another_tube() {
    let queue = still().0.in_memory().unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    a.put(b"x").unwrap();
    let ticket = a.take().unwrap().detach();
    assert_eq!(kind(b.ticket(ticket).ack()), ErrorKind::LeaseLost);
    a.ticket(ticket).ack().unwrap();
}

#[test]
fn settings_outside_their_limits() {
    let refused: [Result<Queue, Error>; 5] = [
        Queue::builder().journal_bytes((64 << 10) - 1).in_memory(),
        Queue::builder().journal_bytes((1 << 30) + 1).in_memory(),
        Queue::builder().payload_bytes_max((1 << 30) + 1).in_memory(),
        Queue::builder().placement("", Nowhere).in_memory(),
        Queue::builder().placement("p", Nowhere).placement("p", Nowhere).in_memory(),
    ];
    for opened in refused {
        assert_eq!(kind(opened), ErrorKind::Invalid);
    }
    let (_home, path) = home();
    assert_eq!(kind(Queue::builder().journal_bytes(0).open(&path)), ErrorKind::Invalid);
    assert!(!path.exists());
}

struct Nowhere;

impl tubewell::Placement for Nowhere {
    fn place(&self, _: &tubewell::PutView<'_>) -> tubewell::Place {
        tubewell::Place::new(&[])
    }
}

#[test]
fn no_task_in_flight_is_no_option() {
    let queue = Queue::in_memory().unwrap();
    let refused = queue.create_tube("t", TubeOptions::default().in_flight(0));
    assert_eq!(kind(refused), ErrorKind::Invalid);
}

#[test]
fn the_farthest_numbers() {
    let (tube, _) = lone_with(TubeOptions::default().capacity(u64::MAX).in_flight(u32::MAX));
    tube.task(b"x").group("g").put().unwrap();
    assert_eq!(tube.kick(u64::MAX).unwrap().kicked, 0);
    assert_eq!(tube.take_many(usize::MAX).unwrap().len(), 1);
}

#[test]
fn an_empty_payload_is_a_payload() {
    let (tube, _) = lone();
    tube.put(b"").unwrap();
    assert!(tube.take().unwrap().is_empty());
}

#[test]
fn an_error_says_what_was_tried_on_what_why_and_what_to_do() {
    let (tube, _) = lone_with(TubeOptions::default().capacity(1));
    tube.put(b"x").unwrap();
    let text = tube.put(b"y").unwrap_err().to_string();
    assert!(text.starts_with("put in tube \"lone\": full;"), "{text}");
    assert!(text.contains("its capacity is 1"), "{text}");
}
