//! Openings over a disk that refuses a call, at every call. What failed is told as what it is:
//! damage is what stands on the medium, and what a full disk refused is only that there is no room.
//! The next opening has everything.

use crate::beside::Beside;
use crate::disk::{Fault, SimDisk};
use crate::step::At;
use crate::trust::{numbers, open, open_on, put};
use crate::world::kind_of;
use std::io;
use tubewell::testing::FileName;
use tubewell::{Durability, ErrorKind};

const TASKS: u64 = 250;

/// What a kill left, to be opened again and again.
struct Left {
    disk: SimDisk,
    files: [(FileName, Vec<u8>); 2],
}

impl Left {
    /// Most of its rows are in the base, some in the journal; some are held, which an opening ends.
    fn new() -> Self {
        let disk = SimDisk::new(1);
        let (queue, tube) = open(&disk, Durability::Durable);
        (0..200).for_each(|number| put(&tube, number).unwrap());
        queue.checkpoint().unwrap();
        (200..TASKS).for_each(|number| put(&tube, number).unwrap());
        for task in tube.take_many(20).unwrap() {
            task.detach();
        }
        Self::of(disk)
    }

    /// The ring is full behind a checkpoint that did not come to its end, so that an opening has to
    /// checkpoint.
    fn with_a_full_ring() -> Self {
        let disk = SimDisk::new(1);
        let (queue, tube) = open(&disk, Durability::Durable);
        (0..TASKS).for_each(|number| put(&tube, number).unwrap());
        let beside = Beside::begin(&queue, &disk, At::Sync(1)).ok().unwrap();
        let left = || {
            let space = queue.space().unwrap();
            space.journal_bytes - space.journal_used
        };
        for _ in 0..1000 {
            if left() >= 300 {
                tube.take().unwrap().release().unwrap();
            }
        }
        assert!(left() < 300);
        disk.kill();
        assert!(beside.end().is_err());
        drop((queue, tube));
        Self::of(disk)
    }

    fn of(disk: SimDisk) -> Self {
        disk.kill();
        let files = FileName::ALL.map(|name| (name, disk.bytes(name)));
        Self { disk, files }
    }

    /// What an opening says under this fault. One without it has everything.
    fn opened(&self, fault: Fault) -> Option<ErrorKind> {
        for (name, bytes) in &self.files {
            self.disk.set_bytes(*name, bytes.clone());
        }
        self.disk.plan(fault);
        let told = kind_of(&open_on(self.disk.lend(), Durability::Durable));
        let was_struck = self.disk.strikes() > 0;
        self.disk.plan(Fault::None);
        let queue = open_on(self.disk.lend(), Durability::Durable).unwrap();
        assert_eq!(numbers(&queue), (0..TASKS).collect::<Vec<_>>(), "{fault:?}");
        self.disk.kill();
        assert!(was_struck || told.is_none(), "{fault:?}");
        told
    }

    /// The calls of an opening that change something: whether each is a sync.
    fn calls(&self) -> Vec<bool> {
        for (name, bytes) in &self.files {
            self.disk.set_bytes(*name, bytes.clone());
        }
        self.disk.plan(Fault::None);
        open_on(self.disk.lend(), Durability::Durable).unwrap();
        let calls = self.disk.syncs();
        self.disk.kill();
        calls
    }
}

#[test]
fn s1_s2_i2_a_read_that_fails_in_an_opening_is_told_and_loses_nothing() {
    let left = Left::new();
    for fault in [Fault::ReadOnce, Fault::ReadSticky] {
        let told = (1..).map_while(|at| left.opened(fault(at)));
        let told: Vec<_> = told.collect();
        assert!(told.iter().all(|kind| *kind == ErrorKind::Io), "{told:?}");
        assert!(told.len() > 10, "{} reads", told.len());
    }
}

/// What a write or a sync refused was once told as damage, and what a sync refused on a full disk
/// as a lack of room, behind which a queue goes on.
#[test]
fn s6_i2_what_fails_in_an_opening_is_told_as_what_it_is() {
    for left in [Left::new(), Left::with_a_full_ring()] {
        let calls = left.calls();
        assert!(calls.len() > 5, "{} calls", calls.len());
        for why in [io::ErrorKind::Other, io::ErrorKind::StorageFull] {
            left.disk.refuse_with(why);
            // The first is the folder's, which holds no task.
            for (at, is_sync) in (1..).zip(&calls).skip(1) {
                for fault in [Fault::Once(at), Fault::Sticky(at), Fault::LoseSync(at)] {
                    let Some(told) = left.opened(fault) else { continue };
                    let sync = *is_sync || matches!(fault, Fault::LoseSync(_));
                    let room = why == io::ErrorKind::StorageFull && !sync;
                    let expected = if room { ErrorKind::DiskFull } else { ErrorKind::Io };
                    let fits = told == expected || told == ErrorKind::Broken;
                    assert!(fits, "{why}, {fault:?}: {told:?}");
                }
            }
        }
    }
}
