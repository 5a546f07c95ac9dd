//! tubewell as it comes: the builder's defaults, one tube.

use std::hint::black_box;
use tubewell::{Durability, Queue, Task, Tube};
use versus_common::Folder;

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
}
