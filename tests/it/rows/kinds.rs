//! A damaged value in each kind of row of a task: a call that does not need the value works, a verb
//! that needs it returns an error, and `check` reports it always. Other tasks in its tube and in
//! another are served.

use super::{STRAW, faults, flip, flip_value, key, place};
use crate::{counts, drain, home, is_gone, is_mended, killed, kind, listed, open, secs, still};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tubewell::{Clock, Conflict, ErrorKind, ManualClock, PutOutcome, Queue, State, TaskId, Tube};
use tubewell::{HistoryLimits, Phase, Reason, Task, TubeOptions};

const POSITION: u8 = 0x10;
const DELAYED: u8 = 0x16;
const BURIED: u8 = 0x18;
/// The rows of puts: of the fresh tasks, and of the others.
const FRESH: u8 = 0x11;
const TASK: u8 = 0x1e;
const DUE: u8 = 0x19;
const KEY: u8 = 0x1a;
const OWNER_LEASE: u8 = 0x1b;
/// The deadline kinds, as in a key.
const DELAY: u8 = 1;
const TTL: u8 = 4;

/// A closed queue with what `work` did in its first tube, and two tasks in another.
fn closed<R>(work: impl FnOnce(&Queue, &Tube) -> R) -> (TempDir, PathBuf, R) {
    let (home, path) = home();
    let queue = open(&path);
    let done = work(&queue, &queue.tube("t").unwrap());
    queue.tube("good").unwrap().put_many([b"a", b"b"].map(|text| text.to_vec())).unwrap();
    queue.close().unwrap();
    (home, path, done)
}

/// Opens it, checks that the damage is reported and that the other tube is served.
fn damaged(path: &PathBuf, reported: &str) -> (Queue, Tube, ManualClock) {
    let (builder, clock) = still();
    let queue = builder.open(path).unwrap();
    assert!(faults(&queue).contains(reported), "{}", faults(&queue));
    assert_eq!(drain(&queue.tube("good").unwrap()), "a b");
    let tube = queue.tube("t").unwrap();
    (queue, tube, clock)
}

/// So long after the stories begin, as it is stored.
fn after(wait: Duration) -> [u8; 8] {
    let begun = ManualClock::new().wall().duration_since(std::time::UNIX_EPOCH).unwrap();
    ((begun + wait).as_micros() as u64).to_be_bytes()
}

/// The bytes of the straw, which has its own row.
const STRAW_BYTES: [u8; 4] = (STRAW.len() as u32).to_be_bytes();

/// The row of the straw's task: without key and group, of the bytes codec, put at the beginning.
fn straw_row() -> Vec<u8> {
    let hash = xxhash_rust::xxh3::xxh3_64(&STRAW).to_be_bytes();
    let generation = [0, 0, 0, 1];
    [&[4, 0, 0, 0][..], &after(secs(0)), &[0; 4], &STRAW_BYTES, &generation, &hash].concat()
}

/// The row of a delayed task with a payload of so many bytes.
fn delayed_row(flags: u8, wait: Duration, bytes: [u8; 4]) -> Vec<u8> {
    [&[flags][..], &after(wait), &bytes].concat()
}

/// Damages the row of a deadline. That of the end of a delay has a copy of the task's delayed row.
fn flip_due(path: &Path, what: u8, wait: Duration, id: TaskId, row: &[u8]) {
    flip_value(path, &key(DUE, &[&[what], &after(wait), &id.get().to_be_bytes()]), row);
}

fn is_aside(tube: &Tube, id: TaskId) {
    let aside = tube.peek(id).unwrap();
    assert!(matches!(aside.reason, Some(Reason::Undecodable(_))), "{:?}", aside.reason);
    assert_eq!((aside.state, &aside.payload[..]), (State::Buried, &STRAW[..]));
}

/// The result of a verb by the id of a damaged task.
fn is_refused(tube: &Tube, id: TaskId) {
    assert_eq!(kind(tube.peek(id)), ErrorKind::Damaged);
    assert_eq!(kind(tube.claim(id)), ErrorKind::Damaged);
    assert_eq!(kind(tube.bury(id, "no")), ErrorKind::Damaged);
    assert_eq!(kind(tube.kick_task(id)), ErrorKind::Damaged);
    assert_eq!(kind(tube.delete(id)), ErrorKind::Damaged);
}

/// A take uses the ready rows in order and needs no position row.
#[test]
fn a_damaged_position_refuses_only_verbs_by_id() {
    let (_home, path, id) = closed(|_, tube| {
        tube.task(b"last").priority(7).put().unwrap();
        tube.put(b"second").unwrap();
        tube.task(b"first").priority(-5).put().unwrap()
    });
    let order = (1 << 63 | id.get()).to_be_bytes();
    let value = [&[0][..], &(-5_i64).to_be_bytes(), &order].concat();
    flip_value(&path, &key(POSITION, &[&id.get().to_be_bytes()]), &value);

    let (queue, tube, _) = damaged(&path, "Position: a damaged row");
    is_refused(&tube, id);
    assert_eq!(listed(&tube, State::Ready), "first second last");
    let first = tube.take().unwrap();
    assert_eq!(first.id(), id);
    assert_eq!(tube.peek(id).unwrap().state, State::Taken, "by id, without its position row");
    first.release().unwrap();
    assert_eq!(drain(&tube), "first second last");
    assert_eq!(counts(&tube), [0; 4]);
    is_mended(&queue);
}

/// An opening searches where the fresh tasks begin. A buried task that cannot be found by its id is
/// not among them.
#[test]
fn a_damaged_position_makes_no_buried_task_ready() {
    let (_home, path, id) = closed(|_, tube| {
        let id = tube.task(b"buried").priority(-5).put().unwrap();
        tube.take().unwrap().bury("because").unwrap();
        tube.put(b"ready").unwrap();
        id
    });
    let order = (1 << 63 | id.get()).to_be_bytes();
    let value = [&[0][..], &(-5_i64).to_be_bytes(), &order].concat();
    flip_value(&path, &key(POSITION, &[&id.get().to_be_bytes()]), &value);

    let (queue, tube, _) = damaged(&path, "Position: a damaged row");
    assert_eq!(drain(&tube), "ready");
    assert_eq!(listed(&tube, State::Buried), "buried");
    assert_eq!(counts(&tube), [0, 0, 0, 1]);
    tube.truncate().unwrap();
    queue.tick().unwrap();
    is_mended(&queue);
}

/// Regression: its deadline was removed when it was due, and no later call found the task. With a
/// sound copy of its row it becomes ready, without one it is buried.
#[test]
fn a_damaged_delayed_task_is_found_when_it_is_due() {
    for (by_wall, has_copy) in [(false, true), (false, false), (true, true), (true, false)] {
        let (_home, path, ids) = closed(|_, tube| {
            let noon = ManualClock::new().wall();
            let later = |text: &[u8]| {
                let task = tube.task(text);
                if by_wall { task.run_at(noon + secs(5)) } else { task.delay(secs(5)) }.put()
            };
            let ids = [later(&STRAW).unwrap(), later(b"b").unwrap()];
            tube.put(b"c").unwrap();
            ids
        });
        let row = delayed_row(1 << 4 | u8::from(by_wall), secs(5), STRAW_BYTES);
        flip_value(&path, &key(DELAYED, &[&ids[0].get().to_be_bytes()]), &row);
        if !has_copy {
            flip_due(&path, DELAY + u8::from(by_wall), secs(5), ids[0], &row);
        }

        let (queue, tube, clock) = damaged(&path, "Delayed: a damaged row");
        is_refused(&tube, ids[0]);
        assert_eq!(listed(&tube, State::Delayed), "b");
        clock.advance(secs(5));
        queue.tick().unwrap();
        if has_copy {
            assert_eq!(*tube.peek(ids[0]).unwrap().payload, STRAW[..]);
            assert_eq!(counts(&tube), [3, 0, 0, 0]);
        } else {
            is_aside(&tube, ids[0]);
            assert_eq!(drain(&tube), "b c");
            assert_eq!(counts(&tube), [0, 0, 0, 1]);
        }
        is_mended(&queue);
        tube.delete(ids[0]).unwrap();
        is_mended(&queue);
    }
}

/// Only the copy says when its delay ends, so that the end is removed with the delay: the task is
/// not made ready a second time.
#[test]
fn a_damaged_delayed_task_without_its_own_row_is_buried_once() {
    let (_home, path, id) = closed(|_, tube| tube.task(&STRAW).delay(secs(5)).put().unwrap());
    let row = delayed_row(1 << 4, secs(5), STRAW_BYTES);
    flip_value(&path, &key(DELAYED, &[&id.get().to_be_bytes()]), &row);
    flip_value(&path, &key(TASK, &[&place(id)]), &straw_row());

    let (queue, tube, clock) = damaged(&path, "Delayed: a damaged row");
    clock.advance(secs(5));
    for _ in 0..2 {
        queue.tick().unwrap();
        is_aside(&tube, id);
        assert_eq!(counts(&tube), [0, 0, 0, 1]);
        is_mended(&queue);
        clock.advance(secs(5));
    }
}

#[test]
fn a_damaged_buried_task_does_not_prevent_kicks() {
    let (_home, path, ids) = closed(|_, tube| {
        let aside = |text: &[u8]| {
            let id = tube.task(text).ttl(secs(50)).put().unwrap();
            tube.bury(id, "because").unwrap();
            id
        };
        let ids = [aside(&STRAW), aside(b"b"), aside(b"c")];
        tube.put(b"d").unwrap();
        ids
    });
    let head = [&[67][..], &[0; 15], &[1], &after(secs(50))].concat();
    // Its history: the first entry is 0, the next one 1, and so many bytes.
    let bytes = 1 + 8 + 4 + 8 + 1 + 2 + 2 + 7;
    let history = [0, 16, 0, 5, 0, 12, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, bytes];
    let row = [&after(secs(0))[..], &[1, 0, 7], b"because", &head, &history].concat();
    flip_value(&path, &key(BURIED, &[&place(ids[0])]), &row);

    let (queue, tube, clock) = damaged(&path, "Buried: a damaged row");
    is_refused(&tube, ids[0]);
    assert_eq!(listed(&tube, State::Buried), "b c");
    assert_eq!(tube.kick(1).unwrap().kicked, 1);
    assert_eq!(drain(&tube), "b d");
    clock.advance(secs(50));
    queue.tick().unwrap();
    assert!(is_gone(&tube, ids[2]), "its ttl is over");
    assert_eq!(tube.kick(9).unwrap().kicked, 0);
    assert_eq!(counts(&tube), [0, 0, 0, 1]);
    assert!(faults(&queue).contains("Buried: a damaged row"), "{}", faults(&queue));
    tube.truncate().unwrap();
    queue.tick().unwrap();
    is_mended(&queue);
}

/// The row of the put is separate from the state row. In each state, when the task would be handed
/// out, it is buried with its separate payload, and the others are served.
#[test]
fn a_damaged_task_is_buried_in_each_state() {
    type Bring = fn(&Tube, TaskId);
    let states: [(State, Bring); 4] = [
        (State::Ready, |_, _| {}),
        (State::Delayed, |tube, _| tube.take().unwrap().retry_after("no", secs(5)).unwrap()),
        (State::Taken, |tube, _| _ = tube.take().unwrap().detach()),
        (State::Buried, |tube, id| tube.bury(id, "because").unwrap()),
    ];
    for (state, bring) in states {
        let (own, named) = match state {
            State::Buried => (TASK, "Task"),
            _ => (FRESH, "Fresh"),
        };
        let (_home, path, id) = closed(|_, tube| {
            let id = tube.put(&STRAW).unwrap();
            tube.put(b"b").unwrap();
            bring(tube, id);
            id
        });
        flip_value(&path, &key(own, &[&place(id)]), &straw_row());

        let (queue, tube, clock) = damaged(&path, &format!("{named}: a damaged row"));
        assert_eq!(kind(tube.peek(id)), ErrorKind::Damaged, "{state:?}");
        clock.advance(secs(5));
        queue.tick().unwrap();
        assert_eq!(drain(&tube), "b", "{state:?}");
        if state == State::Buried {
            // Its own state is sound, and holds more than a replacement would.
            assert_eq!(tube.kick(9).unwrap().kicked, 0);
            assert_eq!(counts(&tube), [0, 0, 0, 1]);
            tube.truncate().unwrap();
            queue.tick().unwrap();
        } else {
            is_aside(&tube, id);
            tube.kick_task(id).unwrap();
            assert_eq!(*tube.take().unwrap(), STRAW[..]);
            tube.delete(id).unwrap();
        }
        is_mended(&queue);
    }
}

/// An ack of a plain task reads only its lease.
#[test]
fn a_damaged_task_is_acked_by_its_holder() {
    let (_home, path) = home();
    let queue = still().0.cache_bytes(0).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(b"plain").unwrap();
    // More than the one page of rows that is always in memory.
    queue.tube("u").unwrap().put_many(vec![&b"u"[..]; 500]).unwrap();
    let held = tube.take().unwrap();
    queue.checkpoint().unwrap();
    let row = [&[0; 4][..], &after(secs(0)), b"plain"].concat();
    flip_value(&path, &key(FRESH, &[&place(id)]), &row);
    held.ack().unwrap();
    assert_eq!(counts(&tube), [0; 4]);
    is_mended(&queue);
}

/// All that is needed of a deadline is in its key.
#[test]
fn a_damaged_deadline_becomes_due() {
    let (_home, path, ids) = closed(|_, tube| {
        let later = tube.task(b"later").delay(secs(5)).put().unwrap();
        let short = tube.task(b"short").ttl(secs(5)).put().unwrap();
        tube.put(b"b").unwrap();
        [later, short]
    });
    let copy = delayed_row(0, secs(5), [0, 0, 0, 5]);
    flip_due(&path, DELAY, secs(5), ids[0], &copy);
    flip_due(&path, TTL, secs(5), ids[1], b"");

    let (queue, tube, clock) = damaged(&path, "Due: a damaged row");
    assert_eq!(counts(&tube), [2, 1, 0, 0]);
    clock.advance(secs(5));
    queue.tick().unwrap();
    assert_eq!(drain(&tube), "later b");
    is_mended(&queue);
}

#[test]
fn a_damaged_key_refuses_no_verb() {
    let (_home, path, ids) = closed(|_, tube| {
        ["needle", "hay"].map(|text| tube.task(text.as_bytes()).key(text).put().unwrap())
    });
    flip_value(&path, &key(KEY, &[b"\x06needle", &ids[0].get().to_be_bytes()]), &[]);

    let (queue, tube, _) = damaged(&path, "Key: a damaged row");
    let put = |text, conflict| tube.task(b"x").key(text).on_conflict(conflict).put_outcome();
    // The row's own key has the task's id.
    assert_eq!(kind(put("needle", Conflict::Reject)), ErrorKind::KeyExists);
    assert_eq!(put("needle", Conflict::Keep).unwrap().id, ids[0]);
    assert_eq!(put("hay", Conflict::Keep).unwrap().id, ids[1]);
    assert_eq!(tube.peek(ids[0]).unwrap().key.as_deref(), Some("needle"));
    tube.put(b"a").unwrap();
    assert_eq!(drain(&tube), "needle hay a");
    is_mended(&queue);
    assert_eq!(put("needle", Conflict::Reject).unwrap().outcome, PutOutcome::New);
}

/// The holder of a lease is in the key, and also in the task's taken row.
#[test]
fn a_damaged_holder_row_hides_no_lease() {
    for grace in [0, 1000] {
        let (_home, path) = home();
        let queue = open(&path);
        let tube = queue.tube("t").unwrap();
        queue.tube("good").unwrap().put_many([b"a", b"b"].map(|text| text.to_vec())).unwrap();
        let ids = tube.put_many([b"c", b"d"].map(|text| text.to_vec())).unwrap();
        let ada = queue.consumer_with_grace("ada", secs(grace)).unwrap();
        let _held = tube.by(&ada).take_many(2).unwrap();
        queue.checkpoint().unwrap();
        let (_copy, copy) = killed(&path);
        let held = [&1_u32.to_be_bytes()[..], &ids[0].get().to_be_bytes()];
        flip_value(&copy, &key(OWNER_LEASE, &held), b"");

        // Without a grace the opening has returned the lease and removed the row.
        let reported = if grace == 0 { "" } else { "OwnerLease: a damaged row" };
        let (queue, tube, _) = damaged(&copy, reported);
        let ada = queue.consumer_with_grace("ada", secs(grace)).unwrap();
        let back = crate::resumed(&ada, &tube);
        let wanted = if grace == 0 { &[][..] } else { &ids[..] };
        assert_eq!(back.iter().map(Task::id).collect::<Vec<_>>(), wanted);
        tube.ack_many(back).unwrap();
        assert_eq!(drain(&tube), if grace == 0 { "c d" } else { "" });
        is_mended(&queue);
    }
}

/// Regression: two tasks held their group while they were delayed. The row of one could not be
/// read, its deadline was removed, and the group stayed locked.
#[test]
fn a_damaged_delayed_task_holds_its_group_no_longer_than_its_delay() {
    let (_home, path, id) = closed(|queue, _| {
        let options = TubeOptions::default().in_flight(2).hold_group_while_delayed(true);
        let tube = queue.create_tube("held", options).unwrap();
        let id = tube.task(&STRAW).group("needle").put().unwrap();
        for text in ["other", "third", "fourth"] {
            tube.task(text.as_bytes()).group("needle").put().unwrap();
        }
        tube.task(b"late").group("needle").delay(secs(5)).put().unwrap();
        for wait in [5, 50] {
            tube.take().unwrap().retry_after("not now", secs(wait)).unwrap();
        }
        id
    });
    flip(&path, &[b"\x06needle", &(STRAW.len() as u64).to_be_bytes()[..]].concat(), 7);

    let (queue, _, clock) = damaged(&path, "Task: a damaged row");
    let tube = queue.tube("held").unwrap();
    assert!(tube.try_take().unwrap().is_none());
    clock.advance(secs(5));
    queue.tick().unwrap();
    is_aside(&tube, id);
    let third = tube.take().unwrap();
    assert_eq!(&third[..], b"third");
    assert!(tube.try_take().unwrap().is_none(), "the other one still holds it");
    is_mended(&queue);
    third.ack().unwrap();
    clock.advance(secs(45));
    assert_eq!(drain(&tube), "other fourth late");
    is_mended(&queue);
}

/// Each of them ends the take, is set aside in a commit of its own, and the take is tried again.
#[test]
fn one_take_sets_aside_all_damaged_tasks_that_it_meets() {
    let (_home, path, ids) = closed(|_, tube| [0; 5].map(|_| tube.put(&STRAW).unwrap()));
    for id in &ids[..4] {
        flip_value(&path, &key(FRESH, &[&place(*id)]), &straw_row());
    }
    let (queue, tube, _) = damaged(&path, "Fresh: a damaged row");
    let events = queue.events();
    let held = tube.take_many(9).unwrap();
    assert_eq!(held.iter().map(Task::id).collect::<Vec<_>>(), ids[4..]);
    // Four buried, one taken.
    assert_eq!(std::iter::from_fn(|| events.try_recv()).count(), 5);
    ids[..4].iter().for_each(|id| is_aside(&tube, *id));
    assert_eq!(counts(&tube), [0, 0, 1, 4]);
    is_mended(&queue);
}

/// What falls due before its first verb in a tube goes in commits before it, later it joins it.
#[test]
fn a_transaction_goes_on_over_damaged_tasks_that_are_due() {
    let (_home, path, ids) = closed(|_, tube| {
        [5, 5, 10, 10].map(|wait| tube.task(&STRAW).delay(secs(wait)).put().unwrap())
    });
    for (id, wait) in ids.iter().zip([5, 5, 10, 10]) {
        let row = delayed_row(1 << 4, secs(wait), STRAW_BYTES);
        flip_value(&path, &key(DELAYED, &[&id.get().to_be_bytes()]), &row);
        flip_due(&path, DELAY, secs(wait), *id, &row);
    }
    let (queue, tube, clock) = damaged(&path, "Delayed: a damaged row");
    clock.advance(secs(5));
    queue
        .transact(|tx| -> tubewell::Result<()> {
            tube.put_in(tx, b"x")?;
            clock.advance(secs(5));
            tube.put_in(tx, b"y").map(drop)
        })
        .unwrap();
    ids.iter().for_each(|id| is_aside(&tube, *id));
    assert_eq!(counts(&tube), [2, 0, 0, 4]);
    is_mended(&queue);
}

/// The reports of a task stand apart from its state, and the repair finds them. What is not known
/// of the task any more does not make the next lease a started one.
#[test]
fn a_damaged_task_keeps_its_reports_and_is_not_started_again() {
    let (_home, path) = home();
    let queue = open(&path);
    let options = TubeOptions::default().history(HistoryLimits::none());
    let tube = queue.create_tube("t", options).unwrap();
    let id = tube.put(&STRAW).unwrap();
    let task = tube.take().unwrap();
    task.start("pid 1").unwrap();
    task.progress(40, "so far").unwrap();
    task.checkpoint(b"from here").unwrap();
    task.retry_after("in a stack of needles", secs(5)).unwrap();
    queue.tube("good").unwrap().put_many([b"a", b"b"].map(|text| text.to_vec())).unwrap();
    drop(tube);
    queue.close().unwrap();
    // Its row, and the copy with the end of its delay.
    flip(&path, b"in a stack of needles", 0);

    let (queue, tube, clock) = damaged(&path, "Delayed: a damaged row");
    clock.advance(secs(5));
    queue.tick().unwrap();
    is_aside(&tube, id);
    assert_eq!(tube.peek(id).unwrap().progress.as_ref().unwrap().percent, 40);
    is_mended(&queue);
    tube.kick_task(id).unwrap();
    let task = tube.take().unwrap();
    assert_eq!(tube.peek(id).unwrap().phase, Some(Phase::Reserved));
    assert_eq!(task.last_checkpoint().unwrap().as_deref(), Some(&b"from here"[..]));
    task.ack().unwrap();
    is_mended(&queue);
}

#[test]
fn a_damaged_checkpoint_is_an_error_until_the_next_one() {
    let (_home, path, id) = closed(|_, tube| {
        let id = tube.put(b"x").unwrap();
        let task = tube.take().unwrap();
        task.progress(40, "a straw in the wind").unwrap();
        task.checkpoint(b"in a stack of needles").unwrap();
        task.release().unwrap();
        id
    });
    flip(&path, b"in a stack of needles", 0);
    flip(&path, b"a straw in the wind", 0);

    let (queue, tube, _clock) = damaged(&path, "Report: a damaged row");
    assert_eq!(tube.peek(id).unwrap().progress, None);
    assert_eq!(kind(tube.last_checkpoint(id)), ErrorKind::Damaged);
    let task = tube.take().unwrap();
    assert_eq!(kind(task.last_checkpoint()), ErrorKind::Damaged);
    task.start("pid 1").unwrap();
    task.checkpoint(b"again").unwrap();
    assert_eq!(task.last_checkpoint().unwrap().as_deref(), Some(&b"again"[..]));
    is_mended(&queue);
}
