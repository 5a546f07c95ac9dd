//! Payloads of several pieces, written and removed in turns: a crash anywhere leaves no piece that
//! nothing names, and each task that is there has its payload whole. `check` reports a piece that
//! neither a task nor a work row names.

use crate::disk::{Fault, SimDisk};
use crate::seeds::seeds;
use std::time::Duration;
use tubewell::{Conflict, Durability, ErrorKind, ManualClock, Queue, Result, State, Tube};

/// A turn of a ring of 1 MiB is two pieces of 65 503 bytes; one of 64 KiB holds none, and each turn
/// goes to the base.
const RINGS: [u64; 2] = [1 << 20, 64 << 10];
/// Three turns of the larger ring.
const IN_TURNS: usize = 300_000;
/// More pieces than are removed at once.
const MANY: usize = 17 * 65_503;

fn open(disk: &SimDisk, ring: u64) -> Result<Queue> {
    open_with(disk, ring, 1 << 20)
}

fn open_with(disk: &SimDisk, ring: u64, cache_bytes: usize) -> Result<Queue> {
    let builder = Queue::builder().durability(Durability::Durable).journal_bytes(ring);
    let builder = builder.cache_bytes(cache_bytes).by_hand(true).clock(ManualClock::new());
    builder.disk(disk.lend()).open_disk()
}

fn payload(first: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| if at == 0 { first } else { (at / 251) as u8 }).collect()
}

/// Puts and removes large payloads in every way, until the disk fails.
fn story(tube: &Tube, queue: &Queue) -> Result<()> {
    tube.put(&payload(b'a', IN_TURNS))?;
    let keyed = payload(b'b', 70_000);
    tube.task(&keyed).key("k").put()?;
    tube.take()?.ack()?;
    let replaced = payload(b'c', IN_TURNS);
    tube.task(&replaced).key("k").on_conflict(Conflict::Replace).put()?;
    queue.checkpoint()?;
    tube.put_many([payload(b'd', 5_000), payload(b'e', IN_TURNS)])?;
    queue.transact(|tx| tube.put_in(tx, &payload(b'f', 100_000)).map(drop))?;
    let large = tube.put(&payload(b'g', MANY))?;
    tube.delete(large)?;
    queue.tick()?;
    tube.put(&payload(b'h', MANY))?;
    tube.truncate()?;
    queue.tick()
}

/// Replaces a payload by one of another length in every way, until the disk fails.
fn replacing(tube: &Tube, queue: &Queue) -> Result<()> {
    tube.put(&payload(b'a', 10))?;
    tube.take()?.with_payload(&payload(b'b', IN_TURNS)).release()?;
    let mut task = tube.take()?;
    task.with_payload(&payload(b'c', MANY)).renew()?;
    queue.checkpoint()?;
    task.with_payload(&payload(b'd', MANY + 1)).renew()?;
    task.with_payload(&payload(b'e', 70_000)).retry_after("no", Duration::ZERO)?;
    tube.take()?.with_payload(&payload(b'f', IN_TURNS)).advance(tube)?;
    queue.tick()?;
    let task = tube.take()?;
    queue.transact(|tx| tx.with_payload(&task, &payload(b'g', 100_000)).release())?;
    tube.take()?.with_payload(&payload(b'h', 10)).release()?;
    tube.take()?.with_payload(&payload(b'i', MANY)).release()?;
    let id = tube.peek_next(State::Ready)?.map(|task| task.id);
    let id = id.expect("it was put");
    tube.move_to(id, tube).payload(&payload(b'j', IN_TURNS)).apply()?;
    tube.move_to(id, tube).payload(&payload(b'k', MANY)).apply()?;
    tube.truncate()?;
    queue.tick()
}

/// What is there: the first byte of each payload, each of which is whole.
fn found(queue: &Queue) -> String {
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    let Some(tube) = queue.find_tube("t").unwrap() else { return String::new() };
    let tasks = tube.tasks(State::Ready).map(|task| task.unwrap().payload);
    let letter = |found: Vec<u8>| {
        assert_eq!(found, payload(found[0], found.len()));
        char::from(found[0])
    };
    tasks.map(letter).collect()
}

/// All that may be seen behind a crash: what each verb left.
const STATES: [&str; 9] = ["", "a", "ab", "b", "c", "cde", "cdef", "cdefg", "cdefh"];

/// The same of what the verbs with a payload left: it is one task.
const REPLACED: [&str; 12] = ["", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];

type Story = (fn(&Tube, &Queue) -> Result<()>, &'static [&'static str]);

/// Rows of the base behind a checkpoint.
fn rows(queue: &Queue) -> u64 {
    queue.checkpoint().unwrap();
    queue.base_space().unwrap().rows
}

/// Calls of a story that a crash is tried at.
const MOMENTS: u64 = 60;

#[test]
fn a_crash_anywhere_leaves_no_piece_that_nothing_names() {
    let stories: [Story; 2] = [(story, &STATES), (replacing, &REPLACED)];
    for (ring, (story, states)) in RINGS.into_iter().flat_map(|ring| stories.map(|it| (ring, it))) {
        let (calls, empty) = {
            let disk = SimDisk::new(1);
            let queue = open(&disk, ring).unwrap();
            let tube = queue.tube("t").unwrap();
            disk.plan(Fault::None);
            story(&tube, &queue).unwrap();
            assert_eq!(found(&queue), "");
            (disk.syncs().len() as u64, rows(&queue))
        };
        assert!(calls > MOMENTS, "{calls}");
        for moment in seeds(MOMENTS) {
            // A longer run goes round once more, at other calls.
            let at = 1 + moment * (calls - 1) / MOMENTS % calls;
            for end in [SimDisk::kill, SimDisk::cut_power] {
                let disk = SimDisk::new(at);
                let queue = open(&disk, ring).unwrap();
                let tube = queue.tube("t").unwrap();
                disk.plan(Fault::Die(at));
                assert!(story(&tube, &queue).is_err(), "call {at} of {calls}");
                end(&disk);
                drop((tube, queue));
                disk.plan(Fault::None);
                let queue = open(&disk, ring).unwrap();
                let before = found(&queue);
                assert!(states.contains(&&*before), "call {at}: {before}");
                queue.tick().unwrap();
                assert_eq!(found(&queue), before, "call {at}");
                queue.find_tube("t").unwrap().unwrap().truncate().unwrap();
                queue.tick().unwrap();
                assert_eq!((found(&queue), rows(&queue)), (String::new(), empty), "call {at}");
            }
        }
    }
}

/// Blocks that a full disk has left, for payloads of 74 blocks.
const BUDGETS: [u64; 10] = [0, 8, 40, 75, 110, 160, 230, 310, 420, 600];

/// A full disk refuses a put in any of its turns, and removes what the turns before wrote.
#[test]
fn a_full_disk_refuses_a_put_in_turns_as_a_whole() {
    for (ring, budget) in RINGS.into_iter().flat_map(|ring| BUDGETS.map(|budget| (ring, budget))) {
        let disk = SimDisk::new(budget);
        let queue = open(&disk, ring).unwrap();
        let tube = queue.tube("t").unwrap();
        let empty = rows(&queue);
        disk.set_quota(disk.blocks() + budget as usize);
        let mut put = String::new();
        for first in (b'a'..=b'z').cycle() {
            match tube.put(&payload(first, IN_TURNS)) {
                Ok(_) => put.push(first.into()),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::DiskFull, "{ring} {budget}: {error}");
                    break;
                }
            }
        }
        assert_eq!(found(&queue), put, "{ring} {budget}");
        queue.tick().unwrap();
        for first in put.chars() {
            let task = tube.try_take().unwrap().unwrap();
            assert_eq!(*task, *payload(first as u8, IN_TURNS), "{ring} {budget}");
            task.ack().unwrap_or_else(|error| panic!("{ring} {budget}: {error}"));
        }
        queue.tick().unwrap();
        disk.set_quota(usize::MAX);
        assert_eq!((found(&queue), rows(&queue)), (String::new(), empty), "{ring} {budget}");
        tube.put(&payload(b'z', IN_TURNS)).unwrap();
        assert_eq!(found(&queue), "z", "{ring} {budget}");
    }
}

/// A long payload is read after the op that takes its task. If that read fails, the task comes
/// back; it is neither lost, nor buried as damaged, nor handed out in part.
#[test]
fn a_read_that_fails_after_a_take_loses_nothing() {
    let faults: [fn(u64) -> Fault; 2] = [Fault::ReadOnce, Fault::ReadSticky];
    for fault in faults {
        let (mut failed, mut reads) = (0, 0);
        for at in 1.. {
            let disk = SimDisk::new(at);
            let queue = open(&disk, RINGS[0]).unwrap();
            queue.tube("t").unwrap().put(&payload(b'a', MANY)).unwrap();
            queue.close().unwrap();
            let queue = open_with(&disk, RINGS[0], 0).unwrap();
            let tube = queue.tube("t").unwrap();
            disk.plan(fault(at));
            match tube.try_take() {
                Ok(task) => assert_eq!(*task.unwrap(), *payload(b'a', MANY), "read {at}"),
                Err(error) => {
                    assert!([ErrorKind::Io, ErrorKind::Broken].contains(&error.kind()), "{error}");
                    failed += 1;
                }
            }
            let struck = disk.strikes() > 0;
            disk.plan(Fault::None);
            drop((tube, queue));
            let queue = open(&disk, RINGS[0]).unwrap();
            assert_eq!(found(&queue), "a", "read {at}");
            if !struck {
                break;
            }
            reads = at;
        }
        assert!(failed > 0 && reads > 15, "{failed} of {reads} reads of 17 pieces");
    }
}
