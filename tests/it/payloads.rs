//! Verbs that bring a new payload: it is there after the verb, the old one is gone, and no reader
//! finds a mixture.

use crate::{close_sound, home, is_gone, kind, ok, secs, still};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use tubewell::{
    Advance, BoxError, Cause, Conflict, Durability, ErrorKind, EventOptions, Queue, Release,
    Result, Retention, Retry, State, Task, Tube, TubeKind, TubeOptions,
};

/// The largest piece.
const PIECE: usize = 65_503;
/// What one turn writes in a large journal.
const TURN: usize = 8 * PIECE;

/// Empty, small, the longest in a row of its own, one piece, two, a turn, more, many.
const LENGTHS: [usize; 8] = [0, 10, 3500, 3501, PIECE + 1, TURN + 1, 2 * TURN + 1, 20 * PIECE];

fn payload(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7 + at / 4093) as u8).collect()
}

/// Rows of the base after a checkpoint.
fn rows(queue: &Queue) -> u64 {
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    queue.checkpoint().unwrap();
    queue.base_space().unwrap().rows
}

fn keeping() -> TubeOptions {
    TubeOptions::default().keep_finished(Retention::new().count(9))
}

/// A verb with a payload, and the state after it.
type Verb = (&'static str, State, fn(&mut Task, &Tube, &[u8]) -> Result<()>);

const VERBS: [Verb; 16] = [
    ("ack", State::Done, |task, _, new| task.with_payload(new).ack()),
    ("ack_with", State::Done, |task, _, new| task.with_payload(new).ack_with(b"r")),
    ("release", State::Ready, |task, _, new| task.with_payload(new).release()),
    ("release_with", State::Delayed, |task, _, new| {
        task.with_payload(new).release_with(Release::new().to_back().delay(secs(1)).priority(3))
    }),
    ("snooze", State::Delayed, |task, _, new| task.with_payload(new).snooze(secs(1))),
    ("retry", State::Delayed, |task, _, new| task.with_payload(new).retry("no")),
    ("retry_after", State::Ready, |task, _, new| task.with_payload(new).retry_after("no", secs(0))),
    ("retry_with", State::Delayed, |task, _, new| {
        task.with_payload(new).retry_with(Retry::new("no").group("g"))
    }),
    ("bury", State::Buried, |task, _, new| task.with_payload(new).bury("no")),
    ("bury_with_priority", State::Buried, |task, _, new| {
        task.with_payload(new).bury_with_priority("no", 4)
    }),
    ("fail", State::Buried, |task, _, new| task.with_payload(new).fail("g", "no")),
    ("trash", State::Buried, |task, _, new| task.with_payload(new).trash("no")),
    ("touch", State::Taken, |task, _, new| task.with_payload(new).touch(secs(0))),
    ("renew", State::Taken, |task, _, new| task.with_payload(new).renew()),
    ("renew_for", State::Taken, |task, _, new| task.with_payload(new).renew_for(secs(9))),
    ("advance", State::Ready, |task, tube, new| {
        task.with_payload(new).advance_with(tube, Advance::new().result(b"r"))
    }),
];

#[test]
fn every_verb_replaces_a_payload_of_every_length_by_one_of_every_length() {
    for ring in [64 << 10, 16 << 20] {
        let (_home, path) = home();
        let open = || still().0.journal_bytes(ring).open(&path).unwrap();
        let mut queue = open();
        queue.create_tube("t", keeping()).unwrap();
        // The first failure, and what leads to the first move.
        let empty = rows(&queue);
        let mut verbs = VERBS.iter().cycle();
        for old in LENGTHS {
            for new in LENGTHS {
                let (name, state, verb) = verbs.next().unwrap();
                let told = format!("{name}: {new} bytes instead of {old}, ring of {ring}");
                let tube = queue.tube("t").unwrap();
                let id = tube.task(&payload(old)).key("k").group("g").kind("a").put().unwrap();
                let mut task = tube.claim(id).unwrap();
                verb(&mut task, &tube, &payload(new)).unwrap();
                if *state == State::Taken {
                    let _ = task.detach();
                } else {
                    assert_eq!(kind(task.ack()), ErrorKind::LeaseLost, "{told}");
                }
                let seen = |tube: &Tube, state: State| {
                    let found = tube.peek(id).unwrap();
                    assert!(found.payload == payload(new), "{told}");
                    let what = (found.state, found.payload_generation, found.payload_bytes);
                    assert_eq!(what, (state, 1, new as u64), "{told}");
                    assert_eq!(found.kind.as_deref(), Some("a"), "{told}");
                    let is_it = |task: &tubewell::TaskInfo| task.id == id;
                    if !matches!(found.reason, Some(tubewell::Reason::Trashed(_))) {
                        let listed = tube.tasks(state).map(|task| task.unwrap()).find(is_it);
                        assert!(listed.unwrap().payload == payload(new), "{told}");
                    }
                    assert!(tube.len().unwrap() <= 1, "{told}");
                };
                seen(&tube, *state);
                assert_eq!(queue.space().unwrap().durable_bytes, new as u64, "{told}");
                drop(tube);
                close_sound(queue);
                queue = open();
                let tube = queue.tube("t").unwrap();
                // A lease ends with its process.
                seen(&tube, if *state == State::Taken { State::Ready } else { *state });
                tube.delete(id).unwrap();
                assert!(is_gone(&tube, id));
                assert_eq!(queue.space().unwrap().durable_bytes, 0, "{told}");
                assert_eq!(rows(&queue), empty, "{told}");
            }
        }
    }
}

/// The pieces of several payloads of one task wait to be removed.
#[test]
fn many_payloads_in_a_row_leave_no_piece() {
    for ring in [64 << 10, 16 << 20] {
        let (_home, path) = home();
        let open = || still().0.journal_bytes(ring).open(&path).unwrap();
        let queue = open();
        let (tube, next) = (queue.tube("t").unwrap(), queue.tube("next").unwrap());
        let empty = rows(&queue);
        let id = tube.put(&payload(3 * TURN)).unwrap();
        let mut task = tube.take().unwrap();
        for length in [3 * TURN + 1, 4 * TURN, 5, 3 * TURN + 2] {
            task.with_payload(&payload(length)).renew().unwrap();
            assert!(tube.peek(id).unwrap().payload == payload(length));
            assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        }
        task.with_payload(&payload(3 * TURN + 3)).advance(&next).unwrap();
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        let mut task = next.take().unwrap();
        assert!(*task == *payload(3 * TURN + 3));
        task.with_payload(&payload(3 * TURN + 4)).release().unwrap();
        assert_eq!(next.peek(id).unwrap().payload_generation, 6);
        close_sound(queue);
        let queue = open();
        let next = queue.tube("next").unwrap();
        let mut task = next.take().unwrap();
        assert!(*task == *payload(3 * TURN + 4));
        task.with_payload(&payload(4 * TURN)).renew().unwrap();
        task.ack().unwrap();
        assert_eq!(rows(&queue), empty, "ring of {ring}");
        close_sound(queue);
    }
}

#[test]
fn a_put_of_its_key_is_the_next_generation() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.task(b"a").key("k").put().unwrap();
    tube.take().unwrap().with_payload(b"b").release().unwrap();
    assert_eq!(tube.peek(id).unwrap().payload_generation, 1);
    tube.task(b"c").key("k").on_conflict(tubewell::Conflict::Replace).put().unwrap();
    assert_eq!(tube.peek(id).unwrap().payload_generation, 2);
}

/// The guard still holds the task after a refusal, and another verb may settle it.
#[test]
fn a_refused_verb_changes_nothing_and_leaves_the_lease() {
    let (builder, _clock) = still();
    let builder = builder.payload_bytes_max(4 * TURN).durable_bytes_max(5 * TURN as u64);
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let full = queue.create_tube("full", TubeOptions::default().capacity(1)).unwrap();
    full.put(b"x").unwrap();
    tube.put(&payload(3 * TURN)).unwrap();
    let id = tube.put(b"small").unwrap();
    let mut task = tube.claim(id).unwrap();
    let before = rows(&queue);
    let (large, huge) = (payload(3 * TURN), payload(4 * TURN + 1));
    for refused in [
        kind(task.with_payload(&huge).release()),
        kind(task.with_payload(&huge).renew()),
        kind(task.with_payload(&huge).advance(&tube)),
    ] {
        assert_eq!(refused, ErrorKind::TooLarge);
    }
    for refused in [
        kind(task.with_payload(&large).retry("no")),
        kind(task.with_payload(&large).advance(&tube)),
        kind(task.with_payload(&payload(2 * TURN)).advance(&full)),
        kind(task.with_payload(b"y").advance(&full)),
    ] {
        assert_eq!(refused, ErrorKind::Full);
    }
    for refused in [
        kind(task.with_payload(b"y").ack()),
        kind(task.with_payload(&payload(2 * TURN)).ack_with(b"r")),
    ] {
        assert_eq!(refused, ErrorKind::Unsupported, "the tube does not keep it");
    }
    assert_eq!(kind(task.with_payload(&payload(2 * TURN)).renew_for(secs(0))), ErrorKind::Invalid);
    assert_eq!(rows(&queue), before);
    let found = tube.peek(id).unwrap();
    assert_eq!((&found.payload[..], found.payload_generation), (&b"small"[..], 0));
    assert!(!task.is_lost().unwrap());
    task.with_payload(b"less").fail("g", "no").unwrap();
    assert_eq!(tube.peek(id).unwrap().payload, b"less");
    // The room of what is replaced is free for what replaces it.
    let mut task = tube.take().unwrap();
    task.with_payload(&payload(4 * TURN)).release().unwrap();
    let bytes = queue.space().unwrap().durable_bytes;
    assert_eq!(bytes, (4 * TURN + b"less".len() + b"x".len()) as u64);
}

#[test]
fn a_lost_lease_replaces_nothing() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(&payload(TURN + 1)).unwrap();
    let mut task = tube.take().unwrap();
    let held = tube.ticket(task.ticket());
    tube.release_all().unwrap();
    let before = rows(&queue);
    for new in [&b"small"[..], &payload(2 * TURN + 1)] {
        assert_eq!(kind(task.with_payload(new).renew()), ErrorKind::LeaseLost);
        assert_eq!(kind(task.with_payload(new).fail("g", "no")), ErrorKind::LeaseLost);
        assert_eq!(kind(task.with_payload(new).advance(&tube)), ErrorKind::LeaseLost);
        assert_eq!(kind(held.with_payload(new).release()), ErrorKind::LeaseLost);
    }
    assert_eq!(rows(&queue), before);
    assert!(tube.peek(id).unwrap().payload == payload(TURN + 1));
    tube.delete(id).unwrap();
    assert_eq!(kind(held.with_payload(&payload(2 * TURN + 1)).renew()), ErrorKind::LeaseLost);
}

#[test]
fn a_kind_refuses_what_it_refuses_without_a_payload() {
    let queue = still().0.in_memory().unwrap();
    let fifo = queue.create_tube("fifo", TubeOptions::new(TubeKind::Fifo)).unwrap();
    let id = fifo.put(b"x").unwrap();
    let mut task = fifo.take().unwrap();
    for refused in [
        task.with_payload(b"y").touch(secs(1)),
        task.with_payload(b"y").renew(),
        task.with_payload(b"y").snooze(secs(1)),
        task.with_payload(b"y").retry_after("no", secs(1)),
        task.with_payload(b"y").bury_with_priority("no", 1),
        task.with_payload(b"y").ack(),
    ] {
        assert_eq!(kind(refused), ErrorKind::Unsupported);
    }
    task.with_payload(b"z").release().unwrap();
    assert_eq!(fifo.peek(id).unwrap().payload, b"z");
}

#[test]
fn a_temporary_tube_replaces_in_memory() {
    let (_home, path) = home();
    let queue = still().0.temporary_bytes_max(4 * TURN as u64).open(&path).unwrap();
    let tube = queue.create_tube("t", keeping().temporary(true)).unwrap();
    let (empty, written) = (rows(&queue), queue.space().unwrap().written_bytes);
    let mut lengths = LENGTHS;
    for old in LENGTHS {
        lengths.rotate_left(3);
        let id = tube.put(&payload(old)).unwrap();
        let mut task = tube.take().unwrap();
        for new in lengths {
            task.with_payload(&payload(new)).renew().unwrap();
            assert!(tube.peek(id).unwrap().payload == payload(new), "{new} instead of {old}");
        }
        let before = queue.space().unwrap().temporary_bytes;
        assert_eq!(kind(task.with_payload(&payload(4 * TURN)).renew()), ErrorKind::Full);
        assert_eq!(queue.space().unwrap().temporary_bytes, before);
        task.with_payload(b"done").ack().unwrap();
        assert_eq!(tube.peek(id).unwrap().payload, b"done");
        tube.delete(id).unwrap();
    }
    assert_eq!((queue.space().unwrap().temporary_bytes, rows(&queue)), (0, empty));
    assert!(queue.space().unwrap().written_bytes - written < TURN as u64, "none reached the disk");
}

#[test]
fn a_transaction_replaces_with_all_the_rest_or_not() {
    let queue = still().0.in_memory().unwrap();
    let (tube, next) = (queue.tube("t").unwrap(), queue.tube("next").unwrap());
    for length in LENGTHS {
        let id = tube.put(&payload(5000)).unwrap();
        let task = tube.take().unwrap();
        let before = rows(&queue);
        let rejected = queue.transact(|tx| {
            tx.with_payload(&task, &payload(length)).retry("no")?;
            Err::<(), BoxError>("no".into())
        });
        assert_eq!(kind(rejected), ErrorKind::Rejected);
        assert_eq!(rows(&queue), before);
        assert!(tube.peek(id).unwrap().payload == payload(5000));
        let done = queue.transact(|tx| {
            tx.with_payload(&task, &payload(length)).bury("no")?;
            ok(next.put_in(tx, b"and this")?)
        });
        assert_eq!(next.peek(done.unwrap()).unwrap().payload, b"and this");
        assert!(tube.peek(id).unwrap().payload == payload(length));
        tube.delete(id).unwrap();
    }
    rows(&queue);
}

/// A tube whose verbs are durable, and the same one with relaxed verbs.
fn of_both_promises() -> (TempDir, Queue, [Tube; 2]) {
    let (home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.create_tube("t", keeping()).unwrap();
    let relaxed = tube.durability(Durability::Relaxed);
    (home, queue, [tube, relaxed])
}

/// A verb with a payload returns as a put does, also a heartbeat and a plain release.
#[test]
fn a_verb_with_a_payload_is_as_durable_as_a_put() {
    let (_home, queue, [tube, relaxed]) = of_both_promises();
    let syncs = || queue.space().unwrap().syncs;
    // The first replacement enters a feature.
    for round in 0..2 {
        for (name, _, verb) in VERBS {
            for (tube, wanted) in [(&tube, 1), (&relaxed, 0)] {
                let id = relaxed.put(b"x").unwrap();
                let mut task = tube.claim(id).unwrap();
                let before = syncs();
                verb(&mut task, tube, b"y").unwrap();
                assert!(round == 0 || syncs() - before == wanted, "{name}");
                drop(task);
                relaxed.delete(id).unwrap();
            }
        }
    }
}

/// A result is as durable as a put, a line of a log as a take.
#[test]
fn a_result_is_synced_and_a_line_of_the_log_is_not() {
    let (_home, queue, [tube, relaxed]) = of_both_promises();
    let syncs = |verb: &dyn Fn()| {
        let before = queue.space().unwrap().syncs;
        verb();
        queue.space().unwrap().syncs - before
    };
    // The first result and the first line enter a feature.
    for round in 0..2 {
        for (tube, wanted) in [(&tube, 1), (&relaxed, 0)] {
            let ids = relaxed.put_many([[b'x']; 2]).unwrap();
            let logged = syncs(&|| tube.log(ids[0], "a line").unwrap());
            let task = RefCell::new(Some(tube.claim(ids[0]).unwrap()));
            let acked = syncs(&|| task.take().unwrap().ack_with(b"r").unwrap());
            let completed = syncs(&|| assert!(tube.complete_by_id_with(ids[1], b"r").unwrap()));
            assert!(round == 0 || (logged, acked, completed) == (0, wanted, wanted));
        }
    }
}

/// JSON that is another text once it is read and written again.
const JSON: [&str; 7] = [
    "[]",
    "{}",
    " [ ]\t",
    "{ \"b\" : 1.0 ,\r\n \"a\":1e2, \"a\":-0 }\n",
    r#"{"escaped":"\u00e9\/\"\\\n\u0000"}"#,
    "{\"é\":\"é\"}",
    "null",
];

#[test]
fn json_as_text_comes_back_byte_for_byte() {
    let (_home, path) = home();
    let mut queue = still().0.open(&path).unwrap();
    for (at, text) in JSON.iter().enumerate() {
        let text = text.as_bytes();
        let [a, b] = ["a", "b"].map(|name| queue.tube(name).unwrap());
        let id = a.task(text).key("k").put().unwrap();
        assert_eq!(a.peek(id).unwrap().payload, text);
        a.move_to(id, &b).apply().unwrap();
        assert_eq!(b.peek(id).unwrap().payload, text);
        let mut task = b.take().unwrap();
        assert_eq!(&task[..], text);
        task.advance(&a).unwrap();
        assert_eq!(a.peek(id).unwrap().payload, text);
        // Put again with the one before it, and brought by a verb.
        let other = JSON[(at + JSON.len() - 1) % JSON.len()].as_bytes();
        let again = a.task(other).key("k").on_conflict(Conflict::Replace).put().unwrap();
        assert_eq!((again, a.peek(id).unwrap().payload), (id, other.to_vec()));
        let mut task = a.take().unwrap();
        assert_eq!(&task[..], other);
        task.with_payload(text).release().unwrap();
        drop((a, b));
        close_sound(queue);
        queue = still().0.open(&path).unwrap();
        let task = queue.tube("a").unwrap().take().unwrap();
        assert_eq!((task.id(), &task[..]), (id, text));
        task.ack().unwrap();
    }
}

#[test]
fn an_event_has_the_new_payload() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put(b"old").unwrap();
    let mut task = tube.take().unwrap();
    let events = queue.events_with(EventOptions::new().payloads());
    for new in [&b"new"[..], &payload(2 * TURN + 1)] {
        task.with_payload(new).renew().unwrap();
        let event = std::iter::from_fn(|| events.try_recv()).last().unwrap();
        assert_eq!((event.cause, event.to), (Cause::Touch, Some(State::Taken)));
        assert!(event.payload() == Some(new));
    }
}

#[test]
#[cfg(feature = "bincode")]
fn a_value_is_encoded_as_a_put_encodes_it() {
    let queue = still().0.in_memory().unwrap();
    let sums = queue.tube("sums").unwrap().typed::<(u32, String)>();
    sums.put(&(1, "one".into())).unwrap();
    let mut task = sums.take().unwrap();
    let new = sums.encode(&(2, "two".into())).unwrap();
    task.with_payload(&new).release().unwrap();
    let mut task = sums.take().unwrap();
    assert_eq!(*task, (2, "two".into()));
    // Bytes are of no codec: the next take would not find a value in them.
    let refused = task.with_payload(b"three").release();
    assert_eq!(kind(refused), ErrorKind::Invalid);
    let inside = queue
        .transact(|tx| Ok::<_, tubewell::Error>(kind(tx.with_payload(&task, b"three").release())));
    assert_eq!(inside.unwrap(), ErrorKind::Invalid);
    task.release().unwrap();
    assert_eq!(*sums.take().unwrap(), (2, "two".into()));
}

/// A peek or a listing that meets the switch reads again: it finds the task each time, with one of
/// its payloads as a whole.
#[test]
fn a_read_beside_finds_one_whole_payload() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap().durability(Durability::Relaxed);
    let id = tube.put(&[0; TURN]).unwrap();
    let mut task = tube.take().unwrap();
    let is_over = AtomicBool::new(false);
    let is_one = |payload: &[u8]| {
        assert!(payload.len() >= PIECE, "{} bytes", payload.len());
        assert!(payload.iter().all(|byte| *byte == payload[0]));
    };
    std::thread::scope(|scope| {
        for is_listing in [false, true] {
            let (tube, is_over) = (tube.clone(), &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    if is_listing {
                        let listed: Vec<_> = tube.tasks(State::Taken).collect();
                        assert_eq!(listed.len(), 1);
                        listed.iter().for_each(|task| is_one(&task.as_ref().unwrap().payload));
                    } else {
                        is_one(&tube.peek(id).unwrap().payload);
                    }
                }
            });
        }
        for round in 0..200_usize {
            let new = vec![round as u8; PIECE + round % 9 * 2 * PIECE];
            task.with_payload(&new).renew().unwrap();
            if round % 20 == 0 {
                queue.checkpoint().unwrap();
                queue.tick().unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    drop(task);
    assert_eq!(tube.take().unwrap()[0], 199);
    rows(&queue);
}
