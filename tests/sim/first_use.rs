//! The first use of a feature of the format: it is in the journal's head, synced, before the first
//! byte that needs it. The caller waits for that sync without the engine's lock, which it once held
//! in the meantime, so that every other caller waited too.

use crate::beside::Stop;
use crate::disk::SimDisk;
use crate::seeds::seeds;
use crate::step::At;
use crate::trust::{open, open_at};
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use tubewell::testing::FileName;
use tubewell::{Durability, ManualClock, Queue, Result, TaskId};

/// Calls from a thread of this name, whose first sync is held until the sender is dropped.
fn held(
    disk: &SimDisk,
    name: &'static str,
    call: impl FnOnce() -> Result<TaskId> + Send + 'static,
) -> (JoinHandle<Result<TaskId>>, Receiver<bool>, Sender<()>) {
    let ((stopped, came), (go_on, may_go_on)) = (channel(), channel());
    disk.stop_at(Stop { at: At::Sync(1), thread: Some(name), stopped, go_on: may_go_on });
    (Builder::new().name(name.into()).spawn(call).unwrap(), came, go_on)
}

/// The names of features that stand anywhere in the head.
fn named(disk: &SimDisk) -> BTreeSet<&'static str> {
    let bytes = disk.bytes(FileName::Journal);
    let head = String::from_utf8_lossy(&bytes[..16 << 10]).into_owned();
    ["tags", "tracking", "history"].into_iter().filter(|name| head.contains(name)).collect()
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
        let of_thread = tube.clone();
        let put = move || of_thread.task(b"tagged").tag("a").put();
        let (first, came, go_on) = held(&disk, "first use", put);
        came.recv().unwrap();
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

/// While the slot of one waits for its sync the other slot is all that is on the medium: a second
/// first use waits for that sync, and is entered after it.
#[test]
fn two_first_uses_at_a_time_are_entered_one_after_the_other() {
    for seed in seeds(10) {
        let disk = SimDisk::new(seed);
        let (queue, tube) = open(&disk, Durability::Durable);
        let plain = tube.put(b"plain").unwrap();
        let of_thread = tube.clone();
        let put = move || of_thread.task(b"tagged").tag("a").put();
        let (first, came, go_on) = held(&disk, "first use", put);
        came.recv().unwrap();
        let of_thread = queue.clone();
        let second = std::thread::spawn(move || of_thread.track(plain));
        drop(go_on);
        first.join().unwrap().unwrap();
        second.join().unwrap().unwrap();
        assert_eq!(named(&disk), BTreeSet::from(["tags", "tracking"]));
        disk.cut_power();
        drop((queue, tube));
        let (queue, _tube) = open(&disk, Durability::Durable);
        assert_eq!((tagged(&queue), queue.tracked().count()), (1, 1), "seed {seed}");
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    }
}

/// A power cut before that sync leaves nothing that needs the feature.
#[test]
fn a_power_cut_before_the_sync_of_a_first_use_leaves_none_of_it() {
    for seed in seeds(40) {
        let disk = SimDisk::new(seed);
        let (queue, tube) = open(&disk, Durability::Durable);
        let plain = tube.put(b"plain").unwrap();
        let of_thread = tube.clone();
        let put = move || of_thread.task(b"tagged").tag("a").put();
        let (first, came, go_on) = held(&disk, "first use", put);
        came.recv().unwrap();
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
