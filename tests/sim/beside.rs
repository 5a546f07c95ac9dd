//! A checkpoint that stands still. It runs in a thread of its own, which the disk stops in the
//! middle of a sync, so that a script can go on beside it; never do the two run at once, so a seed
//! stays a seed.

use crate::disk::SimDisk;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use tubewell::{Queue, Result};

/// A checkpoint in the middle of a sync.
pub struct Beside {
    thread: JoinHandle<Result<()>>,
    go_on: Sender<()>,
}

/// Where the disk stops whoever syncs.
pub struct Stop {
    /// The sync that is stopped; 1 is the next.
    pub at: u8,
    /// Hears `true` when somebody has come to it.
    pub stopped: Sender<bool>,
    pub go_on: Receiver<()>,
}

impl Beside {
    /// Runs up to this sync. `Err` with the checkpoint's answer if it ended before.
    pub fn begin(queue: &Queue, disk: &SimDisk, at: u8) -> std::result::Result<Self, Result<()>> {
        let (stopped, word) = channel();
        let (go_on, may_go_on) = channel();
        let ended = stopped.clone();
        disk.stop_at(Stop { at, stopped, go_on: may_go_on });
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

    /// Lets it go on to its end.
    pub fn end(self) -> Result<()> {
        drop(self.go_on);
        self.thread.join().expect("a checkpoint does not panic")
    }
}
