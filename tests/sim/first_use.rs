//! The first use of a feature of the format: it is in the journal's head, synced, before the first
//! byte that needs it. The caller waits for that sync without the engine's lock. It once held the
//! lock meanwhile, and every other caller waited too.

use crate::beside::Stop;
use crate::disk::SimDisk;
use crate::seeds::seeds;
use crate::step::At;
use crate::trust::{open, open_at};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, Builder, JoinHandle};
use tubewell::testing::FileName;
use tubewell::{Durability, ManualClock, Queue, Result, TaskId, Tube};

/// Puts a task with a tag, the first one, in a thread that is held at its first sync until the
/// sender is dropped. Returns once it is there.
fn held_at_its_sync(disk: &SimDisk, tube: &Tube) -> (JoinHandle<Result<TaskId>>, Sender<()>) {
    const NAME: &str = "first use";
    let ((stopped, came), (go_on, may_go_on)) = (channel(), channel());
    disk.stop_at(Stop { at: At::Sync(1), thread: Some(NAME), stopped, go_on: may_go_on });
    let tube = tube.clone();
    let put = move || tube.task(b"tagged").tag("a").put();
    let thread = Builder::new().name(NAME.into()).spawn(put).unwrap();
    came.recv().unwrap();
    (thread, go_on)
}

/// Whether one slot of the head has the names of all these features.
fn in_a_slot(disk: &SimDisk, names: &[&str]) -> bool {
    let bytes = disk.bytes(FileName::Journal);
    let has = |slot: &[u8], name: &str| slot.windows(name.len()).any(|it| it == name.as_bytes());
    let mut slots = bytes[4096..12_288].chunks(4096);
    slots.any(|slot| names.iter().all(|name| has(slot, name)))
}

fn tagged(queue: &Queue) -> usize {
    queue.tagged("a").count()
}

#[test]
fn others_go_on_while_a_first_use_waits_for_its_sync() {
    for seed in seeds(10) {
        let disk = SimDisk::new(seed);
        // On a clock that stands still no write is too old to wait for a sync.
        let (queue, tube) = open_at(&disk, Durability::Relaxed, &ManualClock::new());
        let (first, go_on) = held_at_its_sync(&disk, &tube);
        // None of these needs more than the engine's lock.
        let plain = [b"one", b"two"].map(|payload| tube.put(payload).unwrap());
        tube.take().unwrap().ack().unwrap();
        assert_eq!((tube.peek(plain[1]).unwrap().id, tagged(&queue)), (plain[1], 0));
        drop(go_on);
        assert!(!plain.contains(&first.join().unwrap().unwrap()));
        assert_eq!((tagged(&queue), tube.len().unwrap()), (1, 2));
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    }
}

/// Makes another first use while one is held at its sync, which goes on once the other has come so
/// far. Both end, and the power is cut. Returns the queue and the tube as they are then.
fn beside_a_first_use(
    disk: &SimDisk,
    second: fn(&Queue, &Tube, TaskId) -> Result<()>,
    has_come: fn(&SimDisk) -> bool,
) -> (Queue, Tube) {
    let (queue, tube) = open(disk, Durability::Durable);
    let plain = tube.put(b"plain").unwrap();
    let (first, go_on) = held_at_its_sync(disk, &tube);
    let second = thread::spawn({
        let (queue, tube) = (queue.clone(), tube.clone());
        move || second(&queue, &tube, plain)
    });
    while !has_come(disk) {
        thread::yield_now();
    }
    drop(go_on);
    first.join().unwrap().unwrap();
    second.join().unwrap().unwrap();
    disk.cut_power();
    drop((queue, tube));
    let (queue, tube) = open(disk, Durability::Durable);
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    (queue, tube)
}

/// While the slot of one waits for its sync the other slot is all that is on the medium: a second
/// first use waits for that sync, and is entered after it. It may also come only later, which
/// nothing shows.
#[test]
fn two_first_uses_at_a_time_are_entered_one_after_the_other() {
    for seed in seeds(10) {
        let disk = SimDisk::new(seed);
        let track = |queue: &Queue, _: &Tube, plain| queue.track(plain).map(drop);
        let (queue, _tube) = beside_a_first_use(&disk, track, |_| true);
        assert!(in_a_slot(&disk, &["tags", "tracking"]), "seed {seed}");
        assert_eq!((tagged(&queue), queue.tracked().count()), (1, 1), "seed {seed}");
    }
}

/// A transaction syncs the first use of its own verbs before it goes on, and overwrites the slot of
/// one that waits for its sync. That one enters its feature again.
#[test]
fn a_transaction_overwrites_the_slot_of_a_first_use_that_waits() {
    for seed in seeds(10) {
        let disk = SimDisk::new(seed);
        let depends = |queue: &Queue, tube: &Tube, plain| {
            let later = tube.task(b"dependent").after([plain]);
            queue.transact(|tx| later.put_in(tx)).map(drop)
        };
        // It has written its slot, and waits for the sync before its own.
        let has_written = |disk: &SimDisk| in_a_slot(disk, &["dependencies"]);
        let (queue, tube) = beside_a_first_use(&disk, depends, has_written);
        assert!(in_a_slot(&disk, &["tags", "dependencies"]), "seed {seed}");
        assert_eq!((tagged(&queue), tube.len().unwrap()), (1, 3), "seed {seed}");
    }
}

/// A power cut before that sync leaves nothing that needs the feature.
#[test]
fn a_power_cut_before_the_sync_of_a_first_use_leaves_none_of_it() {
    for seed in seeds(40) {
        let disk = SimDisk::new(seed);
        let (queue, tube) = open(&disk, Durability::Durable);
        let plain = tube.put(b"plain").unwrap();
        let (first, go_on) = held_at_its_sync(&disk, &tube);
        disk.cut_power();
        drop(go_on);
        assert!(first.join().unwrap().is_err());
        drop((queue, tube));
        let (queue, tube) = open(&disk, Durability::Durable);
        assert_eq!((tagged(&queue), tube.len().unwrap()), (0, 1), "seed {seed}");
        assert_eq!(tube.take().unwrap().id(), plain);
        tube.task(b"tagged").tag("a").put().unwrap();
        assert_eq!(tagged(&queue), 1);
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    }
}
