//! What is synced before a call returns: as set for the queue, the handle, or the call.

use crate::disk::{Event, Recorder};
use crate::{home, still};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tubewell::Durability::{self, Durable, Relaxed};
use tubewell::{Clock, Queue, Release, Task, Tube};

/// The queue's setting, and the setting of a handle or a call that replaces it.
const PAIRS: [(Durability, Durability); 2] = [(Durable, Relaxed), (Relaxed, Durable)];

fn queue(durability: Durability) -> (TempDir, Queue, Tube) {
    let (home, path) = home();
    let queue = still().0.durability(durability).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    // The first failure enters a feature, with a sync of its own.
    let failed = tube.put(b"x").unwrap();
    tube.fail_by_id(failed, "g", "no").unwrap();
    tube.delete(failed).unwrap();
    (home, queue, tube)
}

/// Checks that the call syncs exactly if `durability` is durable.
fn is_synced_as(durability: Durability, queue: &Queue, call: &str, work: impl FnOnce()) {
    let syncs = || queue.space().unwrap().syncs;
    let before = syncs();
    work();
    let wanted = u64::from(durability == Durable);
    assert_eq!(syncs() - before, wanted, "{call}, {durability:?}");
}

fn taken(tube: &Tube) -> Task {
    tube.durability(Relaxed).put(b"x").unwrap();
    tube.take().unwrap()
}

#[test]
fn a_put_is_as_durable_as_its_handle_or_else_the_queue() {
    for (own, other) in PAIRS {
        let (_home, queue, tube) = queue(own);
        let ada = queue.consumer("ada").unwrap();
        for (durability, tube) in [
            (own, tube.clone()),
            (other, tube.durability(other)),
            (other, tube.durability(other).clone()),
            (other, tube.durability(other).by(&ada)),
            (own, tube.durability(other).durability(own)),
        ] {
            let said = |call, work: &dyn Fn()| is_synced_as(durability, &queue, call, work);
            said("put", &|| _ = tube.put(b"x").unwrap());
            said("put_front", &|| _ = tube.put_front(b"x").unwrap());
            said("put_many", &|| drop(tube.put_many([b"x".to_vec()]).unwrap()));
            said("put_outcome", &|| _ = tube.task(b"x").put_outcome().unwrap());
        }
    }
}

#[test]
fn a_put_may_say_its_own_durability() {
    for (own, other) in PAIRS {
        let (_home, queue, tube) = queue(own);
        let said = |durability, tube: &Tube| {
            is_synced_as(durability, &queue, "put", || {
                tube.task(b"x").durability(durability).put().unwrap();
            });
            is_synced_as(durability, &queue, "batch", || {
                tube.batch([b"x".to_vec()]).durability(durability).put().unwrap();
            });
        };
        said(other, &tube);
        said(own, &tube.durability(other));
        is_synced_as(own, &queue, "the next put", || _ = tube.put(b"x").unwrap());
    }
}

#[test]
fn a_verdict_is_as_durable_as_the_handle_that_took() {
    for (own, other) in PAIRS {
        let (_home, queue, tube) = queue(own);
        for (durability, tube) in [(own, tube.clone()), (other, tube.durability(other))] {
            let said = |call, verdict: fn(Task) -> tubewell::Result<()>| {
                let task = taken(&tube);
                is_synced_as(durability, &queue, call, || verdict(task).unwrap());
                tube.truncate().unwrap();
            };
            said("ack", |task| task.ack());
            said("release_with", |task| task.release_with(Release::new().to_back()));
            said("retry", |task| task.retry("no"));
            said("bury", |task| task.bury("no"));
            said("fail", |task| task.fail("g", "no"));
            let tasks = [taken(&tube), taken(&tube)];
            is_synced_as(durability, &queue, "ack_many", || tube.ack_many(tasks).unwrap());
        }
    }
}

#[test]
fn a_tickets_verdict_is_as_durable_as_the_handle_that_redeems_it() {
    for (own, other) in PAIRS {
        let (_home, queue, tube) = queue(own);
        for (durability, by) in [(own, tube.clone()), (other, tube.durability(other))] {
            for taker in [&tube, &tube.durability(other)] {
                let ticket = taken(taker).detach();
                is_synced_as(durability, &queue, "ack", || by.ticket(ticket).ack().unwrap());
            }
        }
    }
}

#[test]
fn verbs_by_id_are_as_durable_as_their_handle() {
    for (own, other) in PAIRS {
        let (_home, queue, tube) = queue(own);
        for (durability, tube) in [(own, tube.clone()), (other, tube.durability(other))] {
            let said = |call, work: &dyn Fn()| is_synced_as(durability, &queue, call, work);
            let id = tube.put(b"x").unwrap();
            said("bury", &|| tube.bury(id, "no").unwrap());
            said("kick_task", &|| tube.kick_task(id).unwrap());
            tube.bury(id, "no").unwrap();
            said("kick", &|| assert_eq!(tube.kick(1).unwrap().kicked, 1));
            said("delete", &|| tube.delete(id).unwrap());
            said("pause", &|| tube.pause().unwrap());
            said("resume", &|| tube.resume().unwrap());
            tube.put(b"x").unwrap();
            said("truncate", &|| assert_eq!(tube.truncate().unwrap(), 1));
        }
    }
}

#[test]
fn taking_and_giving_back_are_never_synced() {
    for (own, _) in PAIRS {
        let (_home, queue, tube) = queue(own);
        let said = |call, work: &dyn Fn()| is_synced_as(Relaxed, &queue, call, work);
        tube.put(b"x").unwrap();
        said("take and release", &|| tube.take().unwrap().release().unwrap());
        said("take and drop", &|| drop(tube.take().unwrap()));
        said("take_many", &|| drop(tube.take_many(9).unwrap()));
        said("renew_for", &|| tube.take().unwrap().renew_for(crate::secs(9)).unwrap());
    }
}

/// They have no handle that could override the queue's durability.
#[test]
fn tubes_come_and_go_as_durably_as_the_queue_says() {
    for (own, _) in PAIRS {
        let (_home, queue, _tube) = queue(own);
        let said = |call, work: &dyn Fn()| is_synced_as(own, &queue, call, work);
        said("tube", &|| drop(queue.tube("u").unwrap()));
        said("drop_tube", &|| queue.drop_tube("u").unwrap());
    }
}

/// A clock that stands still. A checkpoint slows down only for so long: on a busy machine the
/// pauses took longer than that, and the rest was written at once.
struct Still;

impl Clock for Still {
    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

/// A queue whose checkpoint has just begun while a caller syncs.
fn beside_a_checkpoint() -> (Recorder, Queue) {
    let disk = Recorder::default();
    let queue = Queue::builder().disk(disk.lend()).clock(Still).open_disk().unwrap();
    let tube = queue.tube("t").unwrap();
    disk.begin();
    // An eighth of the journal.
    (0..1030).for_each(|_| _ = tube.put(&[1; 4 << 10]).unwrap());
    (disk, queue)
}

/// How often the base was synced, and the most bytes that were written to it in between.
fn pieces(disk: &Recorder) -> (usize, usize) {
    let (mut unsynced, mut most, mut syncs) = (0, 0, 0);
    for event in disk.events() {
        match event {
            Event::Write(0, _, data) => unsynced += data.len(),
            Event::Sync(0) => (unsynced, syncs) = (0, syncs + 1),
            _ => {}
        }
        most = most.max(unsynced);
    }
    (syncs, most)
}

/// Regression: a caller that synced during a checkpoint waited for all its writes: 11 ms for 6 MB.
#[test]
fn a_checkpoint_beside_callers_that_sync_is_written_in_pieces() {
    let (disk, queue) = beside_a_checkpoint();
    while queue.space().unwrap().checkpoints == 0 {
        std::thread::yield_now();
    }
    let (syncs, most) = pieces(&disk);
    assert!((128 << 10..256 << 10).contains(&most), "{most} bytes at once");
    assert!(syncs > 20, "{syncs} syncs");
}

#[test]
fn a_checkpoint_that_a_caller_waits_for_hurries() {
    let (disk, queue) = beside_a_checkpoint();
    while pieces(&disk).0 < 3 {
        std::thread::yield_now();
    }
    queue.transact(|_| Ok::<_, tubewell::Error>(())).unwrap();
    let (syncs, most) = pieces(&disk);
    assert!(most > 1 << 20, "{most} bytes at once");
    assert!(syncs < 20, "{syncs} syncs");
}

/// Regression: a take, a heartbeat and a retry each wrote the payload again.
#[test]
fn a_payload_is_written_to_the_journal_once() {
    let (_home, path) = home();
    let (builder, clock) = crate::still();
    let queue = builder.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let needles = [&b"a needle that is nowhere else"[..], b"another one, of a task of a group"];
    tube.task(needles[0]).ttr(crate::secs(60)).put().unwrap();
    tube.task(needles[1]).ttr(crate::secs(60)).group("g").put().unwrap();
    for _ in needles {
        let task = tube.take().unwrap();
        task.touch(crate::secs(1)).unwrap();
        task.renew().unwrap();
        task.renew_for(crate::secs(90)).unwrap();
        task.retry_after("not now", crate::secs(5)).unwrap();
    }
    clock.advance(crate::secs(5));
    for _ in needles {
        tube.take().unwrap().release().unwrap();
        tube.take().unwrap().ack().unwrap();
    }
    assert!(tube.is_empty().unwrap());
    let journal = std::fs::read(path.join("journal")).unwrap();
    let found =
        |needle: &[u8]| journal.windows(needle.len()).filter(|bytes| *bytes == needle).count();
    assert_eq!(needles.map(found), [1, 1]);
}
