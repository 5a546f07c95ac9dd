//! Openings over a disk that refuses a call, at every call. The error must name the real failure:
//! damage is only what is damaged on the medium, and a full disk means only missing space. The next
//! opening finds everything.

use crate::beside::Beside;
use crate::disk::{Fault, SimDisk};
use crate::step::At;
use crate::trust::{numbers, open, open_on, put};
use crate::world::kind_of;
use std::io;
use tubewell::testing::FileName;
use tubewell::{Durability, ErrorKind, HistoryLimits, Queue, Tube, TubeOptions};

const TASKS: u64 = 240;

/// A new queue with a tube whose tasks have no history. Entries would fill the overlay, and not
/// only the ring, and the first of them enters a feature, which makes a checkpoint.
fn without_history(disk: &SimDisk) -> (Queue, Tube) {
    let queue = open_on(disk.lend(), Durability::Durable).unwrap();
    let options = TubeOptions::default().history(HistoryLimits::none());
    let tube = queue.create_tube("t", options).unwrap();
    (queue, tube)
}

/// The files after a kill, to be opened again and again.
struct Left {
    disk: SimDisk,
    files: [(FileName, Vec<u8>); 2],
}

impl Left {
    /// Most of its rows are in the base, some in the journal; some tasks are held, which an opening
    /// ends.
    fn new() -> Self {
        let disk = SimDisk::new(1);
        let (queue, tube) = without_history(&disk);
        (0..200).for_each(|number| put(&tube, number).unwrap());
        queue.checkpoint().unwrap();
        (200..TASKS).for_each(|number| put(&tube, number).unwrap());
        for task in tube.take_many(20).unwrap() {
            task.detach();
        }
        Self::of(disk)
    }

    /// The ring is full after a checkpoint that did not finish, and openings have used the space
    /// that is kept free for them, so that the next one has to make space; and a task is held.
    fn with_a_full_ring() -> Self {
        let disk = SimDisk::new(1);
        let (queue, tube) = without_history(&disk);
        (0..TASKS).for_each(|number| put(&tube, number).unwrap());
        tube.take().unwrap().detach();
        let beside = Beside::begin(&queue, &disk, At::Sync(1)).ok().unwrap();
        let left = |queue: &Queue| {
            let space = queue.space().unwrap();
            space.journal_bytes - space.journal_used
        };
        for _ in 0..1000 {
            if left(&queue) >= 12 << 10 {
                tube.take().unwrap().release().unwrap();
            }
        }
        assert!(left(&queue) < 12 << 10);
        disk.kill();
        assert!(beside.end().is_err());
        drop((queue, tube));
        let openings = (0..100).take_while(|_| {
            let (queue, _) = open(&disk, Durability::Durable);
            let left = left(&queue);
            disk.kill();
            drop(queue);
            left >= 6 << 10
        });
        assert!(openings.count() > 10);
        Self::of(disk)
    }

    fn of(disk: SimDisk) -> Self {
        disk.kill();
        let files = FileName::ALL.map(|name| (name, disk.bytes(name)));
        Self { disk, files }
    }

    fn restore(&self) {
        for (name, bytes) in &self.files {
            self.disk.set_bytes(*name, bytes.clone());
        }
    }

    /// The error of an opening under this fault, and whether the fault struck. Without an error
    /// everything is there.
    fn opened(&self, fault: Fault) -> (Option<ErrorKind>, bool) {
        self.restore();
        self.disk.plan(fault);
        let opened = open_on(self.disk.lend(), Durability::Durable);
        let was_struck = self.disk.strikes() > 0;
        self.disk.plan(Fault::None);
        let reported = kind_of(&opened);
        self.disk.kill();
        drop(opened);
        let queue = open_on(self.disk.lend(), Durability::Durable).unwrap();
        assert_eq!(numbers(&queue), (0..TASKS).collect::<Vec<_>>(), "{fault:?}");
        self.disk.kill();
        assert!(was_struck || reported.is_none(), "{fault:?}");
        (reported, was_struck)
    }

    /// The calls of an opening that change something: whether each is a sync. And the number of its
    /// checkpoints.
    fn calls(&self) -> (Vec<bool>, u64) {
        self.restore();
        self.disk.plan(Fault::None);
        let queue = open_on(self.disk.lend(), Durability::Durable).unwrap();
        let calls = self.disk.syncs();
        let checkpoints = queue.space().unwrap().checkpoints;
        self.disk.kill();
        (calls, checkpoints)
    }
}

#[test]
fn s1_s2_i2_a_read_that_fails_in_an_opening_is_reported_and_loses_nothing() {
    for (left, checkpoints) in [(Left::new(), 0), (Left::with_a_full_ring(), 0)] {
        assert_eq!(left.calls().1, checkpoints);
        for fault in [Fault::ReadOnce, Fault::ReadSticky] {
            let mut at = 1;
            loop {
                let (reported, was_struck) = left.opened(fault(at));
                if !was_struck {
                    break;
                }
                assert_eq!(reported, Some(ErrorKind::Io), "{:?}", fault(at));
                at += 1;
            }
            assert!(at > 10, "{at} reads");
        }
    }
}

/// Damage is only what is damaged on the medium, never a refused call. After a failed sync on a
/// full disk the queue does not go on, as it does after a failed write.
#[test]
fn s6_i2_a_failure_in_an_opening_is_reported_as_what_it_is() {
    for left in [Left::new(), Left::with_a_full_ring()] {
        let (calls, _) = left.calls();
        for why in [io::ErrorKind::Other, io::ErrorKind::StorageFull] {
            left.disk.refuse_with(why);
            let refused =
                if why == io::ErrorKind::Other { ErrorKind::Io } else { ErrorKind::DiskFull };
            let (mut writes, mut syncs) = (0, 0);
            // The first is the folder's, which contains no task.
            for (at, is_sync) in (1..).zip(&calls).skip(1) {
                for fault in [Fault::Once(at), Fault::Sticky(at), Fault::LoseSync(at)] {
                    let (Some(kind), _) = left.opened(fault) else { continue };
                    let is_sync = *is_sync || matches!(fault, Fault::LoseSync(_));
                    let expected = if is_sync { ErrorKind::Io } else { refused };
                    // After the store has stopped, the error may only say that.
                    assert!([expected, ErrorKind::Broken].contains(&kind), "{fault:?}: {kind:?}");
                    writes += usize::from(!is_sync && kind == expected);
                    syncs += usize::from(is_sync && kind == expected);
                }
            }
            assert!(writes >= 8 && syncs >= 20, "{why}: {writes} writes and {syncs} syncs");
        }
    }
}

/// If the opening makes space in the ring, redb may find damage in pages that nothing else reads.
#[test]
fn i2_a_spoilt_page_under_an_opening_that_makes_room_is_damage() {
    let left = Left::with_a_full_ring();
    let (_, base) = left.files.iter().find(|(name, _)| *name == FileName::Base).unwrap();
    let mut damaged = 0;
    for page in 1..base.len() / 4096 {
        for byte in [0, 2, 8] {
            left.restore();
            let mut spoilt = base.clone();
            spoilt[page * 4096 + byte] ^= 0xff;
            left.disk.set_bytes(FileName::Base, spoilt);
            left.disk.plan(Fault::None);
            let opened = open_on(left.disk.lend(), Durability::Durable);
            let reported = kind_of(&opened);
            left.disk.kill();
            drop(opened);
            assert!(
                matches!(reported, None | Some(ErrorKind::Damaged)),
                "page {page}: {reported:?}"
            );
            damaged += usize::from(reported.is_some());
        }
    }
    assert!(damaged > 0);
}
