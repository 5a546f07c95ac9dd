//! The two files of a queue: damaged, taken from two copies, missing, opened twice. Each fault is
//! reported, and no opening serves half of a queue as the whole.

use crate::disk::{Fault, SimDisk};
use crate::trust::{numbers, open, open_on, put};
use crate::world::kind_of;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tubewell::testing::{self, Access, FileName};
use tubewell::{Durability, ErrorKind};

/// A flipped byte in a synced record is damage, not the end of the journal: only what a power cut
/// could have torn may be dropped without an error, and that is the last record.
#[test]
fn i2_a_flip_inside_a_synced_record() {
    let disk = SimDisk::new(1);
    let (queue, tube) = open(&disk, Durability::Durable);
    let empty = disk.bytes(FileName::Journal);
    (0..20).for_each(|number| put(&tube, number).unwrap());
    disk.kill();
    drop((queue, tube));
    let (journal, base) = (disk.bytes(FileName::Journal), disk.bytes(FileName::Base));
    let written: Vec<_> = (0..journal.len()).filter(|at| journal[*at] != empty[*at]).collect();
    let mut refused = 0;
    for at in written {
        let mut flipped = journal.clone();
        flipped[at] ^= 1 << (at % 8);
        disk.set_bytes(FileName::Journal, flipped);
        disk.set_bytes(FileName::Base, base.clone());
        match open_on(disk.lend(), Durability::Durable) {
            Ok(queue) => {
                let found = numbers(&queue);
                assert!(found.len() >= 19, "a flip at {at} left {found:?}");
                assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>());
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Damaged, "a flip at {at}: {error}");
                refused += 1;
            }
        }
        disk.kill();
    }
    assert!(refused > 500, "{refused} flips were noticed");
}

/// A folder with files from two copies. Neither file may be taken for the whole queue.
#[test]
fn an_older_base_beside_a_newer_journal_and_the_other_way_round() {
    let disk = SimDisk::new(1);
    let copy = || (disk.bytes(FileName::Base), disk.bytes(FileName::Journal));
    let mut copies = Vec::new();
    for round in 0..4 {
        let (queue, tube) = open(&disk, Durability::Durable);
        // More than the ring holds, so that checkpoints come between.
        for number in 0..600 {
            put(&tube, round * 600 + number).unwrap();
        }
        disk.kill();
        drop((queue, tube));
        copies.push(copy());
    }
    for (at, (base, _)) in copies.iter().enumerate() {
        for (other, (_, journal)) in copies.iter().enumerate() {
            disk.set_bytes(FileName::Base, base.clone());
            disk.set_bytes(FileName::Journal, journal.clone());
            match open_on(disk.lend(), Durability::Durable) {
                Ok(queue) => {
                    assert_eq!(at, other, "base {at} beside journal {other}");
                    assert_eq!(numbers(&queue), (0..(at as u64 + 1) * 600).collect::<Vec<_>>());
                }
                Err(error) => {
                    assert_ne!(at, other, "{error}");
                    assert_eq!(error.kind(), ErrorKind::Damaged);
                }
            }
            disk.kill();
        }
    }
}

/// Two processes find nothing and both begin to make the queue. One rename succeeds; the other
/// process opens the queue of the first.
#[test]
fn a_second_creation_opens_the_first_queue() {
    #[derive(Debug)]
    struct Late {
        disk: Arc<dyn testing::Disk>,
        other: Arc<dyn testing::Disk>,
    }
    impl testing::Disk for Late {
        fn folder(&self) -> &Path {
            self.disk.folder()
        }
        fn found(&self) -> io::Result<testing::Found> {
            self.disk.found()
        }
        fn stage(&self) -> io::Result<Box<dyn testing::Staging>> {
            let staging = self.disk.stage()?;
            let queue = open_on(self.other.clone(), Durability::Durable).unwrap();
            put(&queue.tube("t").unwrap(), 7).unwrap();
            queue.close().unwrap();
            Ok(staging)
        }
        fn open_journal(&self, access: Access) -> io::Result<Option<Arc<dyn testing::DiskFile>>> {
            self.disk.open_journal(access)
        }
        fn open_base(&self, access: Access) -> io::Result<Arc<dyn testing::DiskFile>> {
            self.disk.open_base(access)
        }
    }
    let disk = SimDisk::new(1);
    let late = Late { disk: disk.lend(), other: disk.lend_beside() };
    let queue = open_on(Arc::new(late), Durability::Durable).unwrap();
    assert_eq!(numbers(&queue), [7]);
}

#[test]
fn r4_a_second_open_is_refused_until_the_first_one_ends() {
    let disk = SimDisk::new(1);
    let (queue, tube) = open(&disk, Durability::Durable);
    let beside = disk.lend_beside();
    let second = open_on(beside.clone(), Durability::Durable);
    assert_eq!(kind_of(&second.map(drop)), Some(ErrorKind::Locked));
    put(&tube, 1).unwrap();
    queue.close().unwrap();
    // Handles that still exist do not keep the files open.
    let second = open_on(beside, Durability::Durable).unwrap();
    assert_eq!(numbers(&second), [1]);
    assert_eq!(kind_of(&put(&tube, 2)), Some(ErrorKind::Closed));
}

/// One of the two files is gone.
#[test]
fn a_missing_half_is_damage() {
    for name in [FileName::Base, FileName::Journal] {
        let disk = SimDisk::new(1);
        let (queue, tube) = open(&disk, Durability::Durable);
        put(&tube, 1).unwrap();
        queue.close().unwrap();
        drop((queue, tube));
        disk.remove(name);
        let refusal = open_on(disk.lend(), Durability::Durable).map(drop);
        assert_eq!(kind_of(&refusal), Some(ErrorKind::Damaged), "{name:?}");
    }
}

/// After a failed write the base is opened again. The earlier opening is dropped: otherwise its
/// cache and its file would be kept with each failure.
#[test]
fn a_base_that_was_opened_again_is_open_once() {
    let mut struck = 0;
    for at in 1..30 {
        let disk = SimDisk::new(at);
        let (queue, tube) = open(&disk, Durability::Durable);
        (0..50).for_each(|number| put(&tube, number).unwrap());
        disk.plan(Fault::Once(at));
        let failed = queue.checkpoint().is_err();
        struck += u64::from(failed);
        disk.plan(Fault::None);
        assert!(disk.openings(FileName::Base) <= 1, "call {at}");
        assert!(disk.openings(FileName::Journal) <= 1, "call {at}");
        let _ = queue.close();
        assert_eq!(disk.openings(FileName::Base), 0, "call {at}");
    }
    assert!(struck > 3, "{struck}");
}
