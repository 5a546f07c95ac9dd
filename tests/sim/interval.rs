//! The flush interval: relaxed writes are synced within it plus one sync, by the flusher or by a
//! caller.

use crate::beside::Stop;
use crate::disk::SimDisk;
use crate::script::Rng;
use crate::seeds::{are_all, seeds};
use crate::step::At;
use crate::trust::{builder, numbers, open, put};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tubewell::{Durability, ManualClock, Queue, Tube};

/// A queue whose callers sync relaxed writes after each interval: it counts time where there is no
/// clock.
struct Intervals {
    queue: Queue,
    tube: Tube,
}

const INTERVAL: Duration = Duration::from_millis(1);
/// Far more intervals than a thread ever needs.
const INTERVALS_MAX: u32 = 5_000;

impl Intervals {
    fn new() -> Self {
        let builder = Queue::builder().durability(Durability::Relaxed).by_hand(true);
        let queue = builder.disk(SimDisk::new(0).lend()).flush_interval(INTERVAL).open_disk();
        let queue = queue.unwrap();
        let tube = queue.tube("t").unwrap();
        Self { queue, tube }
    }

    fn pass(&self) {
        let syncs = || self.queue.space().unwrap().syncs;
        let before = syncs();
        while syncs() == before {
            self.tube.pause().unwrap();
            self.tube.resume().unwrap();
        }
    }

    /// Waits until it has happened; fails if it never does.
    fn until<T>(&self, what: &str, mut happened: impl FnMut() -> Option<T>) -> T {
        for _ in 0..INTERVALS_MAX {
            if let Some(happened) = happened() {
                return happened;
            }
            self.pass();
        }
        panic!("{what}: not within {INTERVALS_MAX} intervals");
    }
}

/// A queue with threads, on a manual clock: no caller finds an interval over.
fn open_with_threads(disk: &SimDisk, clock: &ManualClock) -> (Queue, Tube) {
    let builder = builder(disk.lend(), Durability::Relaxed).by_hand(false);
    let queue = builder.clock(clock.clone()).flush_interval(INTERVAL).open_disk().unwrap();
    let tube = queue.tube("t").unwrap();
    queue.flush().unwrap();
    (queue, tube)
}

/// Blocks the flusher at its next sync, until the sender is dropped. The receiver reports the
/// block.
fn hold_flusher(disk: &SimDisk) -> (Receiver<bool>, Sender<()>) {
    let ((stopped, word), (go_on, may_go_on)) = (channel(), channel());
    let thread = Some("tubewell-flush");
    disk.stop_at(Stop { at: At::Sync(1), thread, stopped, go_on: may_go_on });
    (word, go_on)
}

/// A write that no caller waits for is synced by a thread of the queue, also after a time without
/// writes.
#[test]
fn relaxed_writes_are_synced_at_any_time() {
    let (disk, intervals) = (SimDisk::new(1), Intervals::new());
    let (queue, tube) = open_with_threads(&disk, &ManualClock::new());
    let syncs = || queue.space().unwrap().syncs;
    for number in 0..20 {
        (0..number % 4).for_each(|_| intervals.pass());
        let before = syncs();
        put(&tube, number).unwrap();
        intervals.until("a sync", || (syncs() > before).then_some(()));
    }
}

#[test]
fn a_power_cut_undoes_at_most_the_writes_since_the_last_sync_began() {
    let intervals = Intervals::new();
    let (mut fewest, mut most) = (u64::MAX, 0);
    for seed in seeds(60) {
        let (disk, mut rng) = (SimDisk::new(seed), Rng::new(seed));
        let (queue, tube) = open_with_threads(&disk, &ManualClock::new());
        let (came, go_on) = hold_flusher(&disk);
        put(&tube, 0).unwrap();
        intervals.until("the first sync", || came.try_recv().ok());
        let during = 2 + rng.below(4);
        (1..during).for_each(|number| put(&tube, number).unwrap());
        let (came, hold) = hold_flusher(&disk);
        drop(go_on);
        intervals.until("the second sync", || came.try_recv().ok());
        let all = during + rng.below(4);
        (during..all).for_each(|number| put(&tube, number).unwrap());
        disk.cut_power();
        drop(hold);
        drop((queue, tube));
        let found = numbers(&open(&disk, Durability::Durable).0);
        assert!(!found.is_empty(), "seed {seed}: the first sync was whole");
        assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>(), "seed {seed}: a prefix");
        let lost = all - found.len() as u64;
        (fewest, most) = (fewest.min(lost), most.max(lost));
    }
    assert!(!are_all() || fewest == 0 && most > 4, "{fewest} to {most} lost");
}

/// A sync may take long. A caller that writes when the oldest write is older than an interval waits
/// for the sync, so that the loss by a power cut stays bounded.
#[test]
fn a_write_past_the_interval_returns_after_the_running_sync() {
    let (intervals, mut all_waited) = (Intervals::new(), 0);
    for seed in seeds(20) {
        let (disk, clock) = (SimDisk::new(seed), ManualClock::new());
        let (queue, tube) = open_with_threads(&disk, &clock);
        let (came, go_on) = hold_flusher(&disk);
        put(&tube, 0).unwrap();
        intervals.until("the sync", || came.try_recv().ok());
        put(&tube, 1).unwrap();
        clock.advance(2 * INTERVAL);
        let (returned, has_returned) = channel();
        let (late, number) = (tube.clone(), 2);
        let writer = std::thread::spawn(move || {
            put(&late, number).unwrap();
            let _ = returned.send(());
        });
        (0..4).for_each(|_| intervals.pass());
        assert!(has_returned.try_recv().is_err(), "seed {seed}: it did not wait");
        let syncs = || disk.syncs().into_iter().filter(|is_sync| *is_sync).count();
        let before = syncs();
        drop(go_on);
        intervals.until("its return", || has_returned.try_recv().ok());
        disk.cut_power();
        // On a busy machine the writer may come to its call only after that sync. Then the flusher
        // has begun the next one, and the writer need not wait for it.
        let waited = syncs() >= before + 2;
        writer.join().unwrap();
        drop((queue, tube));
        let found = numbers(&open(&disk, Durability::Durable).0);
        // The writer's own record may have been written only after the sync that it waited for.
        let least = if waited { 2 } else { 1 };
        assert!((least..=3).contains(&found.len()), "seed {seed}: {found:?}");
        assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>(), "seed {seed}: a prefix");
        all_waited += u64::from(waited);
    }
    assert!(!are_all() || all_waited > 0, "no writer came in time");
}
