//! A queue in two keyspaces: what is ready, by priority and id, and what is taken, by id. Deleted
//! rows leave tombstones until they are compacted, and a scan from the front would walk over all of
//! them: so the queue keeps in memory, for each priority, from where on there can be tasks.

use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode};
use std::collections::BTreeMap;
use versus_common::{Delayed, Delays, Done, Engine, Folder, Op, Promoted};

pub struct Fjall {
    database: Database,
    ready: Keyspace,
    taken: Keyspace,
    /// What is not due, by due instant and id, once there is any.
    delayed: Option<Keyspace>,
    durable: bool,
    next: u64,
    /// The priorities that may have tasks, each with an id below which it has none.
    low: BTreeMap<u8, u64>,
    /// Nothing of what is not due lies before it.
    low_due: [u8; DUE_KEY],
}

const KEY: usize = 9;
const DUE_KEY: usize = 16;

fn key(priority: u8, id: u64) -> [u8; KEY] {
    let mut key = [priority; KEY];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

fn id(key: &[u8]) -> u64 {
    u64::from_be_bytes(key[key.len() - 8..].try_into().unwrap())
}

impl Engine for Fjall {
    fn open(folder: &Folder, durable: bool) -> Self {
        // Its cache is 32 MiB by default, as is ours.
        let database = Database::builder(folder.join("fjall")).open().unwrap();
        let ready = database.keyspace("ready", KeyspaceCreateOptions::default).unwrap();
        let taken = database.keyspace("taken", KeyspaceCreateOptions::default).unwrap();
        let mut next = taken.last_key_value().map_or(0, |last| id(&last.key().unwrap())) + 1;
        let mut low = BTreeMap::new();
        // From each priority's first task to the next priority's.
        let mut from = key(0, 0);
        while let Some(first) = ready.range(from..).next() {
            let first = first.key().unwrap();
            let priority = first[0];
            low.insert(priority, id(&first));
            let last = ready.range(key(priority, 0)..=key(priority, u64::MAX)).next_back();
            next = next.max(last.map_or(0, |last| id(&last.key().unwrap())) + 1);
            let Some(behind) = priority.checked_add(1) else { break };
            from = key(behind, 0);
        }
        Self {
            database,
            ready,
            taken,
            delayed: None,
            durable,
            next,
            low,
            low_due: [u8::MAX; DUE_KEY],
        }
    }

    fn run(&mut self, ops: &[Op], done: &mut Vec<Done>) {
        // A batch sees only what is committed: a take does not find what is put beside it, which
        // has not returned either.
        let mut put = Vec::new();
        let synced = self.durable && ops.iter().any(Op::must_last);
        let mode = if synced { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = self.database.batch().durability(Some(mode));
        for op in ops {
            done.push(match op {
                Op::Put(priority, task) => {
                    batch.insert(&self.ready, key(*priority, self.next), &task[..]);
                    put.push((*priority, self.next));
                    self.next += 1;
                    Done::Nothing
                }
                Op::Take => {
                    let first = self.first();
                    self.take(&mut batch, first)
                }
                Op::TakeOf(priority) => {
                    let first = self.first_of(*priority);
                    self.take(&mut batch, first)
                }
                Op::Ack(id) => {
                    batch.remove_weak(&self.taken, id.to_be_bytes());
                    Done::Nothing
                }
            });
        }
        batch.commit().unwrap();
        for (priority, id) in put {
            self.low.entry(priority).or_insert(id);
        }
    }
}

impl Fjall {
    fn take(&self, batch: &mut OwnedWriteBatch, first: Option<([u8; KEY], Vec<u8>)>) -> Done {
        let Some((key, task)) = first else { return Done::Nothing };
        batch.remove_weak(&self.ready, key);
        batch.insert(&self.taken, &key[1..], [&key[..1], &task].concat());
        Done::Took(id(&key), task)
    }

    /// The next task; the next call returns the one after it.
    fn first(&mut self) -> Option<([u8; KEY], Vec<u8>)> {
        loop {
            let (&priority, _) = self.low.first_key_value()?;
            let first = self.first_of(priority);
            if first.is_some() {
                return first;
            }
        }
    }

    fn first_of(&mut self, priority: u8) -> Option<([u8; KEY], Vec<u8>)> {
        let low = *self.low.get(&priority)?;
        let Some(first) = self.ready.range(key(priority, low)..=key(priority, u64::MAX)).next()
        else {
            self.low.remove(&priority);
            return None;
        };
        let (key, task) = first.into_inner().unwrap();
        self.low.insert(priority, id(&key) + 1);
        Some((key[..].try_into().unwrap(), task.to_vec()))
    }
}

fn due_key(due: u64, id: u64) -> [u8; DUE_KEY] {
    (u128::from(due) << 64 | u128::from(id)).to_be_bytes()
}

impl Delays for Fjall {
    fn delay(&mut self, tasks: Vec<Delayed>) {
        let make = || self.database.keyspace("delayed", KeyspaceCreateOptions::default).unwrap();
        let delayed = self.delayed.get_or_insert_with(make);
        let mode = if self.durable { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = self.database.batch().durability(Some(mode));
        for Delayed { due, priority, task } in tasks {
            let key = due_key(due, self.next);
            self.next += 1;
            self.low_due = self.low_due.min(key);
            batch.insert(delayed, key, [&[priority], &task[..]].concat());
        }
        batch.commit().unwrap();
    }

    fn promote(&mut self, now: u64, most: usize) -> Promoted {
        let Some(delayed) = &self.delayed else { return Promoted { tasks: 0, next: None } };
        let mut batch = self.database.batch().durability(Some(PersistMode::Buffer));
        let mut due = Vec::new();
        let mut next = None;
        for row in delayed.range(self.low_due..) {
            let (key, row) = row.into_inner().unwrap();
            let at = u64::from_be_bytes(key[..8].try_into().unwrap());
            self.low_due = key[..].try_into().unwrap();
            if at > now || due.len() == most {
                next = Some(at);
                break;
            }
            let (priority, id) = (row[0], id(&key));
            batch.insert(&self.ready, self::key(priority, id), &row[1..]);
            batch.remove_weak(delayed, key);
            due.push((priority, id));
        }
        batch.commit().unwrap();
        for &(priority, id) in &due {
            let low = self.low.entry(priority).or_insert(id);
            *low = id.min(*low);
        }
        Promoted { tasks: due.len(), next }
    }
}
