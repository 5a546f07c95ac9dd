//! Large payloads: in one row, in pieces, and in pieces that are written and removed in turns.

use crate::{close_sound, home, kind, secs, still};
use tubewell::{Conflict, ErrorKind, PutOutcome, Queue, Reason, Release, State, Tube, TubeOptions};

/// The largest piece.
const PIECE: usize = 65_503;
/// One turn of a put in a large journal.
const TURN: usize = 8 * PIECE;

fn payload(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7 + at / 4093) as u8).collect()
}

/// Rows of the base behind a checkpoint.
fn rows(queue: &Queue) -> u64 {
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    queue.checkpoint().unwrap();
    queue.base_space().unwrap().rows
}

/// Lengths around each bound: inline, the sizes of pieces, a turn of a put, a turn of a removal.
const LENGTHS: [usize; 13] = [
    3500,
    3501,
    4063,
    4064,
    PIECE - 1,
    PIECE,
    PIECE + 1,
    100_000,
    TURN,
    TURN + 1,
    2 * TURN,
    2 * TURN + 1,
    20 * PIECE + 9999,
];

#[test]
fn a_payload_of_every_length_comes_back_and_leaves_nothing() {
    for ring in [64 << 10, 1 << 20, 16 << 20] {
        let (_home, path) = home();
        let open = || still().0.journal_bytes(ring).open(&path).unwrap();
        let queue = open();
        let tube = queue.tube("t").unwrap();
        let empty = rows(&queue);
        for bytes in LENGTHS {
            tube.put(&payload(bytes)).unwrap();
        }
        close_sound(queue);
        let queue = open();
        let tube = queue.tube("t").unwrap();
        for bytes in LENGTHS {
            let task = tube.take().unwrap();
            assert!(*task == *payload(bytes), "{bytes} bytes");
            assert!(tube.peek(task.id()).unwrap().payload == payload(bytes), "{bytes} bytes");
            task.ack().unwrap();
        }
        queue.tick().unwrap();
        assert_eq!(rows(&queue), empty, "ring of {ring}");
        close_sound(queue);
    }
}

/// A batch stands in its order, whichever of its payloads are written before.
#[test]
fn a_batch_keeps_its_order_and_its_ids_are_in_order() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let lengths = [10, TURN + 1, 5000, 2 * TURN, 0];
    let ids = tube.put_many(lengths.map(payload)).unwrap();
    assert!(ids.is_sorted());
    let after = tube.put(b"x").unwrap();
    assert!(after > ids[4]);
    let found: Vec<_> = tube.take_many(9).unwrap().iter().map(|task| task.len()).collect();
    assert_eq!(found, [10, TURN + 1, 5000, 2 * TURN, 0, 1]);
}

#[test]
fn a_temporary_tube_keeps_its_pieces_in_memory() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().temporary(true)).unwrap();
    let (empty, written) = (rows(&queue), queue.space().unwrap().written_bytes);
    let ids = tube.put_many([payload(5000), payload(3 * TURN)]).unwrap();
    assert!(queue.space().unwrap().temporary_bytes > 3 * TURN as u64);
    assert!(*tube.claim(ids[1]).unwrap() == *payload(3 * TURN));
    tube.delete(ids[1]).unwrap();
    assert!(queue.space().unwrap().temporary_bytes < 10_000);
    tube.truncate().unwrap();
    queue.tick().unwrap();
    assert_eq!((queue.space().unwrap().temporary_bytes, rows(&queue)), (0, empty));
    assert!(queue.space().unwrap().written_bytes - written < TURN as u64, "none reached the disk");
}

/// A task that moves, is buried or comes back writes none of its payload again.
#[test]
fn a_payload_is_written_once() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put(&payload(2 * TURN)).unwrap();
    queue.checkpoint().unwrap();
    tube.take().unwrap().release_with(Release::new().priority(-5)).unwrap();
    tube.take().unwrap().release_with(Release::new().to_back()).unwrap();
    let id = tube.take().unwrap().id();
    tube.bury(id, "aside").unwrap();
    tube.kick_task(id).unwrap();
    assert!(queue.space().unwrap().overlay_bytes < 10_000, "{:?}", queue.space());
    assert!(*tube.take().unwrap() == *payload(2 * TURN));
}

/// Whatever refuses a put, before its first piece or after its last, leaves no piece.
#[test]
fn a_refused_put_leaves_nothing() {
    let (builder, clock) = still();
    let builder = builder.payload_bytes_max(4 * TURN).durable_bytes_max(5 * TURN as u64);
    let queue = builder.in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().capacity(3)).unwrap();
    let large = payload(3 * TURN);
    tube.task(b"first").key("k").put().unwrap();
    let before = rows(&queue);
    let keyed = || tube.task(&large).key("k");
    let kept = keyed().put_outcome().unwrap();
    assert_eq!(kept.outcome, PutOutcome::Existing);
    assert_eq!(kind(keyed().on_conflict(Conflict::Reject).put()), ErrorKind::KeyExists);
    assert_eq!(kind(tube.put(&payload(4 * TURN + 1))), ErrorKind::TooLarge);
    assert_eq!(kind(tube.task(&large).group("\n").put()), ErrorKind::Invalid);
    // Each has room by itself; the second is refused when its pieces and the first's are written.
    assert_eq!(kind(tube.put_many([large.clone(), large.clone()])), ErrorKind::Full);
    assert_eq!(
        kind(tube.put_many([&large[..], b"", b"", b""].map(<[u8]>::to_vec))),
        ErrorKind::Full
    );
    let both = queue.transact(|tx| {
        tube.put_in(tx, &large)?;
        Err::<(), tubewell::BoxError>("no".into())
    });
    assert!(both.is_err());
    queue.tick().unwrap();
    assert_eq!((rows(&queue), queue.space().unwrap().durable_bytes), (before, 5));

    let replaced = keyed().on_conflict(Conflict::Replace).put_outcome().unwrap();
    assert_eq!(replaced.outcome, PutOutcome::Replaced);
    let again = keyed().on_conflict(Conflict::Replace).put_outcome().unwrap();
    assert_eq!(again.outcome, PutOutcome::Replaced);
    assert_eq!(kind(tube.put(&large)), ErrorKind::Full, "with the bytes of the other");
    clock.advance(secs(1));
    queue.tick().unwrap();
    tube.delete(again.id).unwrap();
    queue.tick().unwrap();
    assert_eq!(queue.space().unwrap().durable_bytes, 0);
    assert!(rows(&queue) < before, "the first and its key are gone");
}

/// The pieces that wait for room are kept until the wait is over.
#[test]
fn a_large_put_waits_for_room() {
    let (builder, _clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().capacity(1)).unwrap();
    tube.put(b"first").unwrap();
    let before = rows(&queue);
    let refused = tube.task(&payload(2 * TURN)).wait_for_room(secs(0)).put();
    assert_eq!(kind(refused), ErrorKind::Full);
    queue.tick().unwrap();
    assert_eq!(rows(&queue), before);
    std::thread::scope(|scope| {
        let put = scope.spawn(|| tube.task(&payload(2 * TURN)).wait_for_room(secs(99)).put());
        tube.take().unwrap().ack().unwrap();
        put.join().unwrap().unwrap();
    });
    assert_eq!(tube.take().unwrap().len(), 2 * TURN);
}

/// A truncated or dropped tube, and a life that ends: the pieces go.
#[test]
fn sweeps_remove_pieces() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let empty = {
        queue.tube("kept").unwrap();
        rows(&queue)
    };
    let fill = |tube: &Tube| {
        tube.put_many([payload(5000), payload(2 * TURN), payload(3 * TURN)]).unwrap();
        let short = tube.task(&payload(3 * TURN)).ttl(secs(1)).put().unwrap();
        assert_eq!(tube.peek(short).unwrap().state, State::Ready);
    };
    let tube = queue.tube("kept").unwrap();
    fill(&tube);
    clock.advance(secs(2));
    queue.tick().unwrap();
    assert_eq!(tube.len().unwrap(), 3);
    tube.truncate().unwrap();
    fill(&queue.tube("dropped").unwrap());
    queue.drop_tube("dropped").unwrap();
    queue.tick().unwrap();
    assert_eq!(rows(&queue), empty);
}

/// A long payload is read after the op that takes its task. If it is damaged, the task is buried by
/// the same rule as a short one, and the next one is taken.
#[test]
fn a_task_with_a_damaged_long_payload_is_buried() {
    let (_home, path) = home();
    let open = || still().0.open(&path).unwrap();
    let queue = open();
    let tube = queue.tube("t").unwrap();
    let mark = b"This is in the middle of the payload that is damaged.";
    let mut large = payload(40 * PIECE);
    large[20 * PIECE + 100..][..mark.len()].copy_from_slice(mark);
    let ids: Vec<_> = (0..4).map(|_| tube.put(&large).unwrap()).collect();
    let last = tube.put(b"whole").unwrap();
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    let held = tube.by(&ada).claim(ids[3]).unwrap().detach();
    close_sound(queue);
    let base = path.join("base.redb");
    let mut bytes = std::fs::read(&base).unwrap();
    let places: Vec<_> =
        (0..bytes.len() - mark.len()).filter(|at| bytes[*at..].starts_with(mark)).collect();
    assert!(places.len() >= ids.len());
    places.into_iter().for_each(|at| bytes[at] ^= 1);
    std::fs::write(&base, bytes).unwrap();

    let queue = open();
    let tube = queue.tube("t").unwrap();
    let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
    assert_eq!(ada.resume(&tube).count(), 0);
    assert_eq!(kind(tube.peek(ids[0])), ErrorKind::Damaged);
    assert_eq!(tube.tasks(State::Ready).map(|task| task.unwrap().id).collect::<Vec<_>>(), [last]);
    assert_eq!(kind(tube.claim(ids[1])), ErrorKind::LeaseLost);
    let tasks = tube.take_many(9).unwrap();
    assert_eq!(tasks.iter().map(|task| task.id()).collect::<Vec<_>>(), [last]);
    drop(tasks);
    let task = tube.take().unwrap();
    assert_eq!((task.id(), &task[..]), (last, &b"whole"[..]));
    task.ack().unwrap();
    for id in ids {
        let found = tube.summaries(State::Buried).map(|task| task.unwrap()).find(|it| it.id == id);
        let reason = found.and_then(|task| task.reason);
        assert!(matches!(reason, Some(Reason::Undecodable(_))), "task {id}: {reason:?}");
    }
    assert_eq!(kind(tube.ticket(held).ack()), ErrorKind::LeaseLost);
}
