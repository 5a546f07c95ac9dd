//! A queue as one writes it on redb without more ado.

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use versus_common::{Delayed, Delays, Done, Engine, Folder, Op, Promoted};

/// Tasks by priority and id.
const READY: TableDefinition<'_, (u8, u64), &[u8]> = TableDefinition::new("ready");
/// What is taken, by id, with its priority.
const TAKEN: TableDefinition<'_, u64, (u8, &[u8])> = TableDefinition::new("taken");
/// What is not due, by due instant and id, with its priority.
const DELAYED: TableDefinition<'_, (u64, u64), (u8, &[u8])> = TableDefinition::new("delayed");

pub struct Redb {
    database: Database,
    durable: bool,
    next: u64,
}

impl Engine for Redb {
    fn open(folder: &Folder, durable: bool) -> Self {
        // As much cache as tubewell has by default.
        let database = Database::builder().set_cache_size(32 << 20).create(folder.join("redb"));
        let database = database.unwrap();
        let writing = database.begin_write().unwrap();
        writing.open_table(READY).unwrap();
        writing.open_table(TAKEN).unwrap();
        writing.commit().unwrap();
        // Ids go on behind the highest of each priority and of what is taken.
        let reading = database.begin_read().unwrap();
        let (ready, taken) =
            (reading.open_table(READY).unwrap(), reading.open_table(TAKEN).unwrap());
        let last = |priority: u8| {
            let last = ready.range((priority, 0)..=(priority, u64::MAX)).unwrap().next_back()?;
            Some(last.unwrap().0.value().1)
        };
        let highest = (0..=u8::MAX).filter_map(last).max().unwrap_or(0);
        let highest = highest.max(taken.last().unwrap().map_or(0, |last| last.0.value()));
        drop((ready, taken, reading));
        Self { database, durable, next: highest + 1 }
    }

    fn run(&mut self, ops: &[Op], done: &mut Vec<Done>) {
        let mut writing = self.database.begin_write().unwrap();
        if !(self.durable && ops.iter().any(Op::must_last)) {
            writing.set_durability(Durability::None).unwrap();
        }
        {
            let mut ready = writing.open_table(READY).unwrap();
            let mut taken = writing.open_table(TAKEN).unwrap();
            for op in ops {
                done.push(match op {
                    Op::Put(priority, task) => {
                        ready.insert((*priority, self.next), &task[..]).unwrap();
                        self.next += 1;
                        Done::Nothing
                    }
                    Op::Take => match ready.pop_first().unwrap() {
                        None => Done::Nothing,
                        Some((key, task)) => {
                            let (priority, id) = key.value();
                            taken.insert(id, (priority, task.value())).unwrap();
                            Done::Took(id, task.value().to_vec())
                        }
                    },
                    Op::TakeOf(priority) => {
                        let mut all = ready.range((*priority, 0)..=(*priority, u64::MAX)).unwrap();
                        let first = all.next().map(|first| first.unwrap().0.value());
                        drop(all);
                        match first.map(|key| (key, ready.remove(key).unwrap().unwrap())) {
                            None => Done::Nothing,
                            Some(((priority, id), task)) => {
                                taken.insert(id, (priority, task.value())).unwrap();
                                Done::Took(id, task.value().to_vec())
                            }
                        }
                    }
                    Op::Ack(id) => {
                        taken.remove(id).unwrap();
                        Done::Nothing
                    }
                });
            }
        }
        writing.commit().unwrap();
    }
}

impl Delays for Redb {
    fn delay(&mut self, tasks: Vec<Delayed>) {
        let mut writing = self.database.begin_write().unwrap();
        if !self.durable {
            writing.set_durability(Durability::None).unwrap();
        }
        let mut delayed = writing.open_table(DELAYED).unwrap();
        for Delayed { due, priority, task } in tasks {
            delayed.insert((due, self.next), (priority, &task[..])).unwrap();
            self.next += 1;
        }
        drop(delayed);
        writing.commit().unwrap();
    }

    fn promote(&mut self, now: u64, most: usize) -> Promoted {
        let mut writing = self.database.begin_write().unwrap();
        writing.set_durability(Durability::None).unwrap();
        let mut delayed = writing.open_table(DELAYED).unwrap();
        let mut ready = writing.open_table(READY).unwrap();
        let due = delayed.extract_from_if(..=(now, u64::MAX), |_, _| true).unwrap();
        let mut tasks = 0;
        for row in due.take(most) {
            let (key, task) = row.unwrap();
            let (priority, task) = task.value();
            ready.insert((priority, key.value().1), task).unwrap();
            tasks += 1;
        }
        let next = delayed.first().unwrap().map(|first| first.0.value().0);
        drop((delayed, ready));
        writing.commit().unwrap();
        Promoted { tasks, next }
    }
}
