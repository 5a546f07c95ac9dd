//! A channel in memory: how soon a thread can be woken at all, by another one or by the clock.

use crossbeam_channel::{Receiver, Sender, at, unbounded};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Mutex;
use std::time::{Instant, SystemTime};
use versus_common::{Has, Queue};

pub struct Channel {
    send: Sender<()>,
    receive: Receiver<()>,
    /// Each with its number; the first to be due is on top.
    delayed: Mutex<BinaryHeap<Reverse<Instant>>>,
}

impl Channel {
    pub fn new() -> Self {
        let (send, receive) = unbounded();
        Self { send, receive, delayed: Mutex::default() }
    }
}

impl Queue for Channel {
    type Task = ();

    const HAS: Has = Has {
        batches: false,
        priorities: false,
        takes: false,
        waiting: true,
        opening: false,
        groups: false,
        delays: true,
    };

    fn put(&self, _: &[u8], _: u8) {
        self.send.send(()).unwrap();
    }

    fn take(&self) -> Option<()> {
        self.receive.try_recv().ok()
    }

    fn wait(&self) {
        self.receive.recv().unwrap();
    }

    fn ack(&self, (): ()) {}

    fn put_due(&self, timers: &[(u64, SystemTime)]) {
        for (_, due) in timers {
            let delay = due.duration_since(SystemTime::now()).unwrap_or_default();
            self.delayed.lock().unwrap().push(Reverse(Instant::now() + delay));
        }
    }

    fn wait_due(&self) {
        let Reverse(due) = self.delayed.lock().unwrap().pop().unwrap();
        at(due).recv().unwrap();
    }
}
