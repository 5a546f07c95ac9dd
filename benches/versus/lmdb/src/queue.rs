//! A queue in two databases: what is ready, by priority and id, and what is taken, by id. With
//! delays there is a third.

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, FlagSetMode, WithTls};
use std::ops::Bound;
use versus_common::{Delayed, Delays, Done, Engine, Folder, Op, Promoted};

type Rows = Database<'static, Bytes, Bytes>;

pub struct Lmdb {
    env: &'static Env<WithTls>,
    ready: Rows,
    taken: Rows,
    /// What is not due, by due instant and id, once there is any.
    delayed: Option<Rows>,
    durable: bool,
    /// Whether the next commit would be synced as the environment stands.
    synced: bool,
    next: u64,
}

/// Bytes of a key in `ready`: a priority and an id. Behind them in `taken`: the priority.
const KEY: usize = 9;

fn key(priority: u8, id: u64) -> [u8; KEY] {
    let mut key = [priority; KEY];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

fn within((first, last): &([u8; KEY], [u8; KEY])) -> Range<'_> {
    (Bound::Included(first), Bound::Included(last))
}

/// The same with what is written going straight into the mapped file.
pub struct Mapped(Lmdb);

impl Engine for Mapped {
    fn open(folder: &Folder, durable: bool) -> Self {
        Self(Lmdb::open_with(folder, durable, EnvFlags::WRITE_MAP))
    }

    fn run(&mut self, ops: &[Op], done: &mut Vec<Done>) {
        self.0.run(ops, done);
    }
}

impl Lmdb {
    fn open_with(folder: &Folder, durable: bool, flags: EnvFlags) -> Self {
        let mut options = EnvOpenOptions::new();
        options.map_size(64 << 30).max_dbs(3);
        // No other code has this environment open.
        let env = unsafe {
            options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_MEM_INIT | flags);
            options.open(folder).unwrap()
        };
        // It stays open until the process ends: there is nothing to do at its end, and what is
        // committed is in the file.
        let env: &'static Env<WithTls> = Box::leak(Box::new(env));
        let creating = env.write_txn().unwrap();
        let (ready, taken): (Rows, Rows) = env
            .create_databases_and_commit(creating, |opener, writing| {
                let ready = opener.create_database(writing, Some("ready"))?;
                let taken = opener.create_database(writing, Some("taken"))?;
                heed::Result::Ok(CommitOrAbort::<_, ()>::Commit((ready, taken)))
            })
            .unwrap()
            .unwrap_commit();
        let reading = env.read_txn().unwrap();
        let id = |key: &[u8]| u64::from_be_bytes(key[key.len() - 8..].try_into().unwrap());
        let last = |priority: u8| {
            let all = (key(priority, 0), key(priority, u64::MAX));
            let last = ready.rev_range(&reading, &within(&all)).unwrap().next()?;
            Some(id(last.unwrap().0))
        };
        let highest = (0..=u8::MAX).filter_map(last).max().unwrap_or(0);
        let highest = highest.max(taken.last(&reading).unwrap().map_or(0, |last| id(last.0)));
        drop(reading);
        Self { env, ready, taken, delayed: None, durable, synced: false, next: highest + 1 }
    }

    /// Says whether the next commit is synced.
    fn sync(&mut self, synced: bool) {
        if synced != self.synced {
            let mode = if synced { FlagSetMode::Disable } else { FlagSetMode::Enable };
            // Only this thread has it now.
            unsafe { self.env.set_flags(EnvFlags::NO_SYNC, mode).unwrap() };
            self.synced = synced;
        }
    }
}

impl Engine for Lmdb {
    fn open(folder: &Folder, durable: bool) -> Self {
        Self::open_with(folder, durable, EnvFlags::empty())
    }

    fn run(&mut self, ops: &[Op], done: &mut Vec<Done>) {
        self.sync(self.durable && ops.iter().any(Op::must_last));
        let mut writing = self.env.write_txn().unwrap();
        for op in ops {
            done.push(match op {
                Op::Put(priority, task) => {
                    let key = key(*priority, self.next);
                    self.next += 1;
                    self.ready.put(&mut writing, &key, task).unwrap();
                    Done::Nothing
                }
                Op::Take | Op::TakeOf(_) => {
                    let first = match op {
                        Op::TakeOf(priority) => {
                            let all = (key(*priority, 0), key(*priority, u64::MAX));
                            let mut all = self.ready.range(&writing, &within(&all)).unwrap();
                            all.next().transpose().unwrap()
                        }
                        _ => self.ready.first(&writing).unwrap(),
                    };
                    match first
                        .map(|(key, task)| (<[u8; KEY]>::try_from(key).unwrap(), task.to_vec()))
                    {
                        None => Done::Nothing,
                        Some((key, task)) => {
                            self.ready.delete(&mut writing, &key).unwrap();
                            let bytes = 1 + task.len();
                            let id = &key[1..];
                            let row = |space: &mut heed::ReservedSpace<'_>| {
                                use std::io::Write;
                                space.write_all(&key[..1])?;
                                space.write_all(&task)
                            };
                            self.taken.put_reserved(&mut writing, id, bytes, row).unwrap();
                            Done::Took(u64::from_be_bytes(id.try_into().unwrap()), task)
                        }
                    }
                }
                Op::Ack(id) => {
                    self.taken.delete(&mut writing, &id.to_be_bytes()).unwrap();
                    Done::Nothing
                }
            });
        }
        writing.commit().unwrap();
    }
}

/// A key in `delayed`: a due instant and an id.
fn due_key(due: u64, id: u64) -> [u8; 16] {
    (u128::from(due) << 64 | u128::from(id)).to_be_bytes()
}

impl Delays for Mapped {
    fn delay(&mut self, tasks: Vec<Delayed>) {
        self.0.delay(tasks);
    }

    fn promote(&mut self, now: u64, most: usize) -> Promoted {
        self.0.promote(now, most)
    }
}

impl Delays for Lmdb {
    fn delay(&mut self, tasks: Vec<Delayed>) {
        self.sync(self.durable);
        let delayed = *self.delayed.get_or_insert_with(|| {
            let creating = self.env.write_txn().unwrap();
            self.env
                .create_databases_and_commit(creating, |opener, writing| {
                    let delayed = opener.create_database(writing, Some("delayed"))?;
                    heed::Result::Ok(CommitOrAbort::<_, ()>::Commit(delayed))
                })
                .unwrap()
                .unwrap_commit()
        });
        let mut writing = self.env.write_txn().unwrap();
        for Delayed { due, priority, task } in tasks {
            let row = [&[priority], &task[..]].concat();
            delayed.put(&mut writing, &due_key(due, self.next), &row).unwrap();
            self.next += 1;
        }
        writing.commit().unwrap();
    }

    fn promote(&mut self, now: u64, most: usize) -> Promoted {
        let Some(delayed) = self.delayed else { return Promoted { tasks: 0, next: None } };
        self.sync(false);
        let mut writing = self.env.write_txn().unwrap();
        let mut due: Vec<([u8; 16], Vec<u8>)> = Vec::new();
        let mut next = None;
        for row in delayed.iter(&writing).unwrap() {
            let (key, row) = row.unwrap();
            let at = u64::from_be_bytes(key[..8].try_into().unwrap());
            if at > now || due.len() == most {
                next = Some(at);
                break;
            }
            due.push((key.try_into().unwrap(), row.to_vec()));
        }
        for (at, row) in &due {
            let id = u64::from_be_bytes(at[8..].try_into().unwrap());
            self.ready.put(&mut writing, &key(row[0], id), &row[1..]).unwrap();
        }
        if let Some((last, _)) = due.last() {
            let all: Range<'_> = (Bound::Unbounded, Bound::Included(last));
            delayed.delete_range(&mut writing, &all).unwrap();
        }
        writing.commit().unwrap();
        Promoted { tasks: due.len(), next }
    }
}
