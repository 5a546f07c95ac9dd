//! tubewell as it comes: the builder's defaults, one tube.

use std::hint::black_box;
use std::time::SystemTime;
use tubewell::{Durability, Queue, Task, Tube};
use versus_common::{Folder, Has};

const GROUPS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

pub struct Tubewell {
    tube: Tube,
    _queue: Queue,
}

impl Tubewell {
    pub fn open(folder: &Folder, durable: bool) -> Self {
        let level = if durable { Durability::Durable } else { Durability::Relaxed };
        let queue = Queue::builder().durability(level).open(folder.join("queue")).unwrap();
        Self { tube: queue.tube("versus").unwrap(), _queue: queue }
    }
}

impl versus_common::Queue for Tubewell {
    type Task = Task;

    const HAS: Has = Has { groups: true, delays: true, ..Has::USUAL };

    fn put(&self, task: &[u8], priority: u8) {
        // A task without anything special is put as one would.
        match priority {
            0 => self.tube.put(task).unwrap(),
            _ => self.tube.task(task).priority(priority.into()).put().unwrap(),
        };
    }

    fn put_many(&self, tasks: &[Vec<u8>]) {
        self.tube.put_many(tasks.iter().map(|task| &task[..])).unwrap();
    }

    fn fill(&self, tasks: &[(u8, Vec<u8>)]) {
        if tasks.iter().all(|(priority, _)| *priority == 0) {
            self.tube.put_many(tasks.iter().map(|(_, task)| &task[..])).unwrap();
        } else {
            tasks.iter().for_each(|(priority, task)| self.put(task, *priority));
        }
    }

    fn take(&self) -> Option<Task> {
        let task = self.tube.try_take().unwrap();
        black_box(task.as_ref().map(|task| task.len()));
        task
    }

    fn wait(&self) -> Task {
        self.tube.take().unwrap()
    }

    fn ack(&self, task: Task) {
        task.ack().unwrap();
    }

    fn take_many(&self, most: usize) -> Vec<Task> {
        self.tube.take_many(most).unwrap()
    }

    fn ack_many(&self, tasks: Vec<Task>) {
        self.tube.ack_many(tasks).unwrap();
    }

    fn put_in(&self, group: u8, task: &[u8]) {
        self.tube.task(task).group(GROUPS[usize::from(group)]).put().unwrap();
    }

    fn put_due(&self, timers: &[(u64, SystemTime)]) -> Vec<SystemTime> {
        let put = |&(number, due): &(u64, SystemTime)| {
            let delay = due.duration_since(SystemTime::now()).unwrap_or_default();
            let id = self.tube.task(&number.to_le_bytes()).delay(delay).put().unwrap();
            // The put may have waited for a checkpoint, and the delay begins behind that.
            self.tube.peek(id).unwrap().due.unwrap()
        };
        timers.iter().map(put).collect()
    }

    fn wait_due(&self) -> u64 {
        let task = self.tube.take().unwrap();
        let number = u64::from_le_bytes(task[..].try_into().unwrap());
        task.detach();
        number
    }
}
