//! A blocked checkpoint. It runs in its own thread, which the disk stops in the middle of a call,
//! so that a script can go on in the meantime. The two never run at once, so a seed replays the
//! same run.

use crate::disk::SimDisk;
use crate::step::At;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use tubewell::{Queue, Result};

/// A checkpoint in the middle of a call.
pub struct Beside {
    thread: JoinHandle<Result<()>>,
    go_on: Sender<()>,
}

/// Where the disk stops a thread.
pub struct Stop {
    pub at: At,
    /// Only the thread of this name is stopped, and only its calls count.
    pub thread: Option<&'static str>,
    /// Gets `true` when a thread has reached it.
    pub stopped: Sender<bool>,
    pub go_on: Receiver<()>,
}

impl Stop {
    /// Counts a call. Returns whether it is the one.
    pub fn comes(&mut self, is_sync: bool, grows: bool) -> bool {
        let of_another = self.thread.is_some() && self.thread != std::thread::current().name();
        if of_another || grows != (self.at == At::Growth) {
            return false;
        }
        let left = match &mut self.at {
            At::Sync(_) if !is_sync => return false,
            At::Growth => return is_sync,
            At::Sync(left) | At::Call(left) => left,
        };
        *left -= 1;
        *left == 0
    }
}

impl Beside {
    /// Runs up to this call. `Err` with the checkpoint's result if it ended before.
    pub fn begin(queue: &Queue, disk: &SimDisk, at: At) -> std::result::Result<Self, Result<()>> {
        let (stopped, word) = channel();
        let (go_on, may_go_on) = channel();
        let ended = stopped.clone();
        disk.stop_at(Stop { at, thread: None, stopped, go_on: may_go_on });
        let queue = queue.clone();
        let thread = std::thread::spawn(move || {
            let done = queue.checkpoint();
            let _ = ended.send(false);
            done
        });
        if word.recv() != Ok(true) {
            disk.forget_stop();
            return Err(thread.join().expect("a checkpoint does not panic"));
        }
        Ok(Self { thread, go_on })
    }

    /// Lets it run to its end.
    pub fn end(self) -> Result<()> {
        drop(self.go_on);
        self.thread.join().expect("a checkpoint does not panic")
    }
}

#[cfg(test)]
mod tests {
    use crate::beside::Beside;
    use crate::disk::SimDisk;
    use crate::seeds::seeds;
    use crate::step::At;
    use crate::trust::{numbers, open, put};
    use std::sync::mpsc::channel;
    use std::thread::{spawn, yield_now};
    use std::time::Duration;
    use tubewell::{Durability, Result};

    /// Regression: redb blocks a new reader while the file grows. The reader held the engine's
    /// lock, so every verb waited.
    #[test]
    fn a_reader_that_waits_for_a_growing_base_blocks_no_verb() {
        let disk = SimDisk::new(1);
        let (queue, tube) = open(&disk, Durability::Durable);
        // Little enough that no put checkpoints by itself.
        let grows = (0..1000).find_map(|_| {
            tube.put(&[7; 2 << 10]).unwrap();
            Beside::begin(&queue, &disk, At::Growth).map_err(Result::unwrap).ok()
        });
        let beside = grows.expect("the base grows");
        let (begins, has_begun) = channel();
        let reader = spawn({
            let queue = queue.clone();
            move || {
                begins.send(()).unwrap();
                queue.read(|_| -> Result<()> { Ok(()) })
            }
        });
        has_begun.recv().unwrap();
        let (ends, has_ended) = channel();
        // Often enough for the reader to reach the point where it waits.
        let verbs = move || {
            for _ in 0..10_000 {
                assert!(tube.len().unwrap() > 0);
                yield_now();
            }
            ends.send(()).unwrap();
        };
        spawn(verbs);
        has_ended.recv_timeout(Duration::from_secs(60)).expect("a verb waits for the reader");
        assert!(!reader.is_finished(), "redb did not block the reader");
        beside.end().unwrap();
        reader.join().unwrap().unwrap();
        assert!(queue.check().unwrap().is_empty());
    }

    /// Only space after a commit that returned is written again: while a checkpoint runs, its rows
    /// are in the journal only.
    #[test]
    fn s1_a_full_journal_beside_a_checkpoint_that_never_ends() {
        for sync in 1..=2 {
            let disk = SimDisk::new(u64::from(sync));
            let (queue, tube) = open(&disk, Durability::Durable);
            (0..100).for_each(|number| put(&tube, number).unwrap());
            let beside = Beside::begin(&queue, &disk, At::Sync(sync)).ok().unwrap();
            let mut count = 100;
            while {
                let space = queue.space().unwrap();
                // Beyond it a put waits: what is not in the base must fit in once more.
                space.journal_used < space.journal_bytes / 5 * 2 && count < 1000
            } {
                put(&tube, count).unwrap();
                count += 1;
            }
            assert!(count > 150, "{count}");
            disk.cut_power();
            assert!(beside.end().is_err());
            drop((queue, tube));
            let (queue, _) = open(&disk, Durability::Durable);
            assert_eq!(numbers(&queue), (0..count).collect::<Vec<_>>(), "sync {sync}");
        }
    }

    /// The file has its new length, the new pages have no content yet, and verbs go on.
    #[test]
    fn s1_a_crash_while_the_base_grows_beside_verbs() {
        for seed in seeds(40) {
            let disk = SimDisk::new(seed);
            let (queue, tube) = open(&disk, Durability::Durable);
            let filler = queue.tube("filler").unwrap();
            let mut count = 0;
            let grows = (0..1000).find_map(|_| {
                filler.put(&[7; 4 << 10]).unwrap();
                put(&tube, count).unwrap();
                count += 1;
                Beside::begin(&queue, &disk, At::Growth).map_err(Result::unwrap).ok()
            });
            let beside = grows.expect("the base grows");
            for _ in 0..seed % 4 {
                put(&tube, count).unwrap();
                count += 1;
            }
            if seed % 2 == 0 {
                disk.kill()
            } else {
                disk.cut_power()
            }
            assert!(beside.end().is_err());
            drop((queue, tube, filler));
            let (queue, _) = open(&disk, Durability::Durable);
            assert_eq!(numbers(&queue), (0..count).collect::<Vec<_>>(), "seed {seed}");
        }
    }
}
