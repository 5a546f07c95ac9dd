//! tubewell as it comes: the builder's defaults, one tube.

use std::hint::black_box;
use std::time::SystemTime;
use tubewell::{Durability, Queue, Task, Tube};
use versus_common::{Folder, Has, timer};

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

    fn put_many(&self, tasks: &[(u8, Vec<u8>)]) {
        // As in `put`.
        if tasks.iter().all(|(priority, _)| *priority == 0) {
            self.tube.put_many(tasks.iter().map(|(_, task)| &task[..])).unwrap();
        } else {
            let tasks = tasks.iter().map(|(priority, payload)| {
                self.tube.task(&payload[..]).priority((*priority).into())
            });
            #[cfg(not(batches_have_one_priority))]
            self.tube.batch_of(tasks).put().unwrap();
            // Of a commit without `batch_of`, which `benches/against` sets beside this tree.
            #[cfg(batches_have_one_priority)]
            self._queue
                .transact(|tx| tasks.map(|task| task.put_in(tx)).collect::<Result<Vec<_>, _>>())
                .unwrap();
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

    fn put_due(&self, timers: &[(u64, SystemTime)]) {
        for (number, due) in timers {
            self.tube.task(&timer(*number)).run_at(*due).put().unwrap();
        }
    }

    fn wait_due(&self) {
        let task = self.tube.take().unwrap();
        black_box(&task[..]);
        task.ack().unwrap();
    }
}
