//! Finished tasks that are kept without their payloads: no byte of them is left, each read says so,
//! and nothing brings such a task back without a payload.

use crate::{close_sound, home, is_gone, killed, kind, next, open, secs, state, still};
use tubewell::{
    Cause, Conflict, ErrorKind, EventOptions, Filter, Lapse, Queue, Result, Retention, State,
    TaskId, Tube, TubeOptions,
};

/// The largest piece.
const PIECE: usize = 65_503;

/// Empty, small, the longest in a row of its own, some pieces, so many that they go by a work row.
const LENGTHS: [usize; 6] = [0, 10, 3500, 3501, 3 * PIECE, 40 * PIECE];

fn dropping() -> TubeOptions {
    TubeOptions::default().keep_finished(Retention::new()).drop_payloads(true)
}

/// Rows of the base after a checkpoint.
fn rows(queue: &Queue) -> u64 {
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    queue.checkpoint().unwrap();
    queue.base_space().unwrap().rows
}

/// Ends the task of an id, which is ready.
type End = (&'static str, fn(&Queue, &Tube, TaskId) -> Result<()>);

const ENDS: [End; 8] = [
    ("ack", |_, tube, id| tube.claim(id)?.ack()),
    ("ack_with", |_, tube, id| tube.claim(id)?.ack_with(b"r")),
    ("ack of a ticket", |_, tube, id| tube.ticket(tube.claim(id)?.detach()).ack()),
    ("ack in a transaction", |queue, tube, id| {
        let task = tube.claim(id)?;
        queue.transact(|tx| tx.ack(&task))
    }),
    ("complete_by_id, ready", |_, tube, id| tube.complete_by_id(id).map(drop)),
    ("complete_by_id, taken", |_, tube, id| {
        let _task = tube.claim(id)?;
        tube.complete_by_id_with(id, b"r").map(drop)
    }),
    ("complete_by_id, delayed", |_, tube, id| {
        tube.update(id).delay(secs(9)).apply()?;
        tube.complete_by_id_with(id, b"r").map(drop)
    }),
    ("ack after a release with a priority", |_, tube, id| {
        tube.claim(id)?.release_with(tubewell::Release::new().priority(-3))?;
        tube.claim(id)?.ack()
    }),
];

#[test]
fn the_payload_goes_with_the_end_whatever_its_length_and_the_verb() {
    let (_home, path) = home();
    let queue = open(&path);
    let tubes = [
        queue.create_tube("durable", dropping()).unwrap(),
        queue.create_tube("temporary", dropping().temporary(true)).unwrap(),
    ];
    for (number, (name, end)) in ENDS.into_iter().enumerate() {
        for (length, tube) in
            LENGTHS.into_iter().flat_map(|it| tubes.iter().map(move |to| (it, to)))
        {
            let told = format!("{name}: {length} bytes, {}", tube.name());
            let payload = vec![7; length];
            let mut task = tube.task(&payload).key("k").kind("film").ttl(secs(60));
            if number % 2 == 0 {
                task = task.group("g");
            }
            let id = task.put().unwrap();
            end(&queue, tube, id).expect(&told);
            let done = tube.peek(id).unwrap();
            assert_eq!((done.state, done.payload_dropped), (State::Done, true), "{told}");
            assert_eq!((done.payload_bytes, done.payload.len()), (0, 0), "{told}");
            assert_eq!((done.key.as_deref(), done.kind.as_deref()), (Some("k"), Some("film")));
            assert!(queue.find(id).unwrap().payload_dropped);
            assert_eq!(queue.space().unwrap().durable_bytes, 0, "{told}");
            rows(&queue);
            assert!(tube.finished().all(|task| task.unwrap().payload_dropped));
        }
    }
    let durable = &tubes[0];
    let (_copy, copy) = killed(&path);
    let after = open(&copy);
    let found =
        after.tube("durable").unwrap().search(&Filter::new().kind("film"), None, 99).unwrap();
    assert_eq!(found.tasks.len(), ENDS.len() * LENGTHS.len());
    assert!(found.tasks.iter().all(|task| task.payload_dropped));
    close_sound(after);
    durable.truncate().unwrap();
    queue.tick().unwrap();
    let emptied = rows(&queue);
    let id = durable.put(&vec![7; 40 * PIECE]).unwrap();
    next_of(durable);
    durable.delete(id).unwrap();
    assert_eq!(rows(&queue), emptied);
    close_sound(queue);
}

fn next_of(tube: &Tube) {
    tube.take().unwrap().ack().unwrap();
}

#[test]
fn one_without_key_and_one_that_was_stalled_are_kept_without_it() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let lapse = Lapse::new().grace(secs(60));
    let tube = queue.create_tube("t", dropping().ttr(secs(1)).lapse(lapse)).unwrap();
    let ids = [tube.put(b"plain").unwrap(), tube.put(b"stalled").unwrap()];
    next_of(&tube);
    let task = tube.take().unwrap();
    clock.advance(secs(5));
    assert!(tube.peek(ids[1]).unwrap().is_stalled());
    task.ack_with(b"late").unwrap();
    for id in ids {
        assert!(tube.peek(id).unwrap().payload_dropped);
    }
    let stats = tube.stats().unwrap();
    assert_eq!((stats.finished, stats.total), (2, 0));
    assert_eq!(queue.space().unwrap().durable_bytes, 0);
    close_sound(queue);
}

#[test]
fn only_a_put_of_its_key_brings_it_back_with_the_payload_that_it_gives() {
    for length in LENGTHS {
        let (_home, path) = home();
        let queue = open(&path);
        let tube = queue.create_tube("t", dropping()).unwrap();
        let other = queue.tube("other").unwrap();
        let id = tube.task(b"old").key("k").detail("to", "ada").put().unwrap();
        next_of(&tube);
        let wrong = ErrorKind::WrongState;
        assert_eq!(kind(tube.bury(id, "x")), wrong);
        assert_eq!(kind(tube.trash(id, "x")), wrong);
        assert_eq!(kind(tube.kick_task(id)), wrong);
        assert_eq!(kind(tube.fail_by_id(id, "g", "m")), wrong);
        assert_eq!(kind(tube.update(id).delay(secs(1)).apply()), wrong);
        assert_eq!(kind(tube.move_to(id, &other).apply()), wrong);
        assert_eq!(kind(tube.claim(id)), wrong);
        assert!(tube.restore(id).is_err());

        let payload = vec![9; length];
        let again = tube.task(&payload).key("k").on_conflict(Conflict::Replace).put().unwrap();
        assert!(again > id && is_gone(&tube, id));
        let seen = tube.peek(again).unwrap();
        assert!(seen.payload == payload && !seen.payload_dropped, "{length}");
        assert_eq!((seen.payload_generation, &seen.details["to"][..]), (0, "ada"));
        assert_eq!(queue.space().unwrap().durable_bytes, length as u64);
        rows(&queue);
        let (_copy, copy) = killed(&path);
        let after = open(&copy);
        assert!(after.find(again).unwrap().payload == payload);
        close_sound(after);
        next_of(&tube);
        assert_eq!(state(&tube, again), State::Done);
        assert!(tube.peek(again).unwrap().payload_dropped);
        close_sound(queue);
    }
}

#[test]
fn a_task_whose_payload_was_replaced_keeps_the_count_of_it() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.create_tube("t", dropping()).unwrap();
    let id = tube.put(&vec![1; 3 * PIECE]).unwrap();
    tube.take().unwrap().with_payload(&vec![2; 20 * PIECE]).release().unwrap();
    next_of(&tube);
    let done = tube.peek(id).unwrap();
    assert_eq!((done.payload_dropped, done.payload_generation), (true, 1));
    rows(&queue);
    close_sound(queue);
}

#[test]
fn a_payload_with_the_end_is_refused_and_the_lease_stays() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.create_tube("t", dropping()).unwrap();
    tube.put(b"x").unwrap();
    let mut task = tube.take().unwrap();
    for large in [1, 40 * PIECE] {
        let new = vec![7; large];
        assert_eq!(kind(task.with_payload(&new).ack()), ErrorKind::Unsupported);
        assert_eq!(kind(task.with_payload(&new).ack_with(b"r")), ErrorKind::Unsupported);
    }
    assert!(!task.is_lost().unwrap());
    assert_eq!(&task[..], b"x");
    task.with_payload(b"y").release().unwrap();
    assert_eq!(next(&tube), "y");
    close_sound(queue);
}

/// The setting concerns tasks that finish from then on; the others stay as they are.
#[test]
fn the_setting_is_in_force_for_what_finishes_after_it() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.create_tube("t", dropping().drop_payloads(false)).unwrap();
    let mut ids = Vec::new();
    for drops in [None, Some(true), Some(false), Some(true)] {
        drops.map_or(Ok(()), |drops| tube.set("drop_payloads", drops)).unwrap();
        ids.push(tube.put(b"x").unwrap());
        next_of(&tube);
    }
    assert_eq!(kind(tube.set("drop_payloads", 1)), ErrorKind::Invalid);
    let dropped = ids.iter().map(|id| tube.peek(*id).unwrap().payload_dropped);
    assert_eq!(dropped.collect::<Vec<_>>(), [false, true, false, true]);
    assert!(tube.unset("drop_payloads").unwrap());
    assert!(!tube.info().unwrap().options.get_drop_payloads());
    assert_eq!(queue.space().unwrap().durable_bytes, 2);
    // Without kept tasks there is nothing to drop.
    let plain = queue.create_tube("plain", TubeOptions::default().drop_payloads(true)).unwrap();
    let id = plain.put(b"x").unwrap();
    next_of(&plain);
    assert!(is_gone(&plain, id));
    close_sound(queue);
}

#[test]
fn its_end_is_told_with_the_payload_and_what_comes_later_without() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.create_tube("t", dropping()).unwrap();
    let events = queue.events_with(EventOptions::new().payloads());
    for length in [5, 40 * PIECE] {
        let id = tube.put(&vec![7; length]).unwrap();
        next_of(&tube);
        tube.delete(id).unwrap();
    }
    queue.tick().unwrap();
    let mut told = Vec::new();
    while let Some(event) = events.try_recv() {
        told.push((event.cause, event.payload().map(<[u8]>::len)));
    }
    let of = |length| {
        [Cause::Put, Cause::Take, Cause::Ack]
            .map(|cause| (cause, Some(length)))
            .into_iter()
            .chain([(Cause::Delete, None)])
    };
    assert_eq!(told, of(5).chain(of(40 * PIECE)).collect::<Vec<_>>());
    close_sound(queue);
}

/// Only the results are counted.
#[test]
fn a_retention_by_bytes_counts_what_is_kept() {
    let queue = Queue::in_memory().unwrap();
    let kept = Retention::new().bytes(10);
    let tube = queue.create_tube("t", dropping().keep_finished(kept)).unwrap();
    let finish = |result: &[u8]| {
        let id = tube.put(&[7; 5000]).unwrap();
        tube.take().unwrap().ack_with(result).unwrap();
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        id
    };
    let ids = [finish(b"12345"), finish(b"12345"), finish(b"")];
    assert_eq!(tube.finished().count(), 3);
    let last = finish(b"1");
    assert!(is_gone(&tube, ids[0]) && !is_gone(&tube, ids[1]) && !is_gone(&tube, last));
    close_sound(queue);
}
