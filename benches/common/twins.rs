//! What stands beside a figure: the least that a disk allows, and redb by itself.

use super::PAYLOAD;
use redb::{Database, Durability, ReadableTable, TableDefinition};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The limit: a preallocated file that is overwritten in place, from its start again at its end.
pub(crate) struct Limit {
    file: File,
    at: u64,
    bytes: Vec<u8>,
}

/// As many bytes as a journal has by default.
const LIMIT_BYTES: u64 = 16 << 20;

impl Limit {
    pub(crate) fn new(path: &Path) -> Self {
        let mut file = File::create(path).unwrap();
        // In small pieces: in a page cache of large pages each later write would cost more.
        (0..LIMIT_BYTES >> 16).for_each(|_| file.write_all(&[0; 1 << 16]).unwrap());
        file.sync_all().unwrap();
        file.rewind().unwrap();
        Self { file, at: 0, bytes: (0..=255).cycle().take(1 << 20).collect() }
    }

    /// One `write()` call.
    pub(crate) fn write(&mut self, bytes: usize) {
        if self.at + bytes as u64 > LIMIT_BYTES {
            self.file.seek(SeekFrom::Start(0)).unwrap();
            self.at = 0;
        }
        self.file.write_all(&self.bytes[..bytes]).unwrap();
        self.at += bytes as u64;
    }

    pub(crate) fn sync(&self) {
        self.file.sync_data().unwrap();
    }

    /// So many writes, each synced by itself.
    pub(crate) fn synced(&mut self, times: u64, bytes: usize) -> Duration {
        let began = Instant::now();
        for _ in 0..times {
            self.write(bytes);
            self.sync();
        }
        began.elapsed()
    }

    /// So many writes of each of these sizes, not synced.
    pub(crate) fn unsynced(&mut self, times: u64, sizes: &[usize]) -> Duration {
        let began = Instant::now();
        for _ in 0..times {
            for &bytes in sizes {
                self.write(bytes);
            }
        }
        began.elapsed()
    }
}

/// The limit for several threads: one that finds no leader leads, writes what all have brought in
/// one call, syncs, and wakes them.
pub(crate) struct GroupLimit {
    state: Mutex<Group>,
    synced: Condvar,
    limit: Mutex<Limit>,
}

#[derive(Default)]
struct Group {
    brought: u64,
    synced: u64,
    led: bool,
}

impl GroupLimit {
    pub(crate) fn new(path: &Path) -> Self {
        let limit = Mutex::new(Limit::new(path));
        Self { state: Mutex::default(), synced: Condvar::new(), limit }
    }

    fn put(&self) {
        let mut group = self.state.lock().unwrap();
        group.brought += 1;
        let mine = group.brought;
        while group.synced < mine {
            if group.led {
                group = self.synced.wait(group).unwrap();
                continue;
            }
            group.led = true;
            let (from, to) = (group.synced, group.brought);
            drop(group);
            {
                let mut limit = self.limit.lock().unwrap();
                limit.write((to - from) as usize * PAYLOAD);
                limit.sync();
            }
            group = self.state.lock().unwrap();
            group.led = false;
            group.synced = to;
            self.synced.notify_all();
        }
    }

    pub(crate) fn puts(&self, threads: u64, each: u64) -> Duration {
        together(threads, |_| {
            for _ in 0..each {
                self.put();
            }
        })
    }
}

/// Runs the same on so many threads; the time from when all of them are there to when the last is
/// done.
pub(crate) fn together(threads: u64, work: impl Fn(u64) + Sync) -> Duration {
    let barrier = std::sync::Barrier::new(threads as usize + 1);
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                work(number);
                barrier.wait();
            });
        }
        barrier.wait();
        let began = Instant::now();
        barrier.wait();
        began.elapsed()
    })
}

/// Tasks by tube, priority and id.
const TASKS: TableDefinition<'_, &[u8; 20], &[u8]> = TableDefinition::new("tasks");
/// Where a task stands, by id.
const PLACES: TableDefinition<'_, u64, &[u8; 20]> = TableDefinition::new("places");
/// What is taken, by id.
const LEASES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("leases");

/// A queue as one writes it on redb without more ado: put and ack are durable commits, take is one
/// that a crash may take back.
pub(crate) struct BareRedb {
    database: Database,
    next: u64,
}

impl BareRedb {
    /// As much cache as a queue has by default.
    pub(crate) fn open(path: &Path) -> Self {
        let database = Database::builder().set_cache_size(32 << 20).create(path).unwrap();
        Self { database, next: 1 }
    }

    pub(crate) fn new(path: &Path) -> Self {
        let mut made = Self::open(path);
        made.put_many(1);
        let id = made.take();
        made.ack(id);
        made
    }

    pub(crate) fn put_many(&mut self, tasks: u64) {
        let writing = self.database.begin_write().unwrap();
        {
            let mut rows = writing.open_table(TASKS).unwrap();
            let mut places = writing.open_table(PLACES).unwrap();
            writing.open_table(LEASES).unwrap();
            for id in self.next..self.next + tasks {
                let mut place = [0; 20];
                place[12..].copy_from_slice(&id.to_be_bytes());
                rows.insert(&place, &[7; PAYLOAD][..]).unwrap();
                places.insert(id, &place).unwrap();
            }
        }
        writing.commit().unwrap();
        self.next += tasks;
    }

    pub(crate) fn take(&mut self) -> u64 {
        let mut writing = self.database.begin_write().unwrap();
        writing.set_durability(Durability::None).unwrap();
        let id = {
            let mut rows = writing.open_table(TASKS).unwrap();
            let place = *rows.first().unwrap().unwrap().0.value();
            let id = u64::from_be_bytes(place[12..].try_into().unwrap());
            let row = rows.remove(&place).unwrap().unwrap();
            writing.open_table(LEASES).unwrap().insert(id, row.value()).unwrap();
            id
        };
        writing.commit().unwrap();
        id
    }

    pub(crate) fn ack(&mut self, id: u64) {
        let writing = self.database.begin_write().unwrap();
        writing.open_table(LEASES).unwrap().remove(id).unwrap();
        writing.open_table(PLACES).unwrap().remove(id).unwrap();
        writing.commit().unwrap();
    }

    /// Durable puts one by one.
    pub(crate) fn puts(&mut self, times: u64) -> Duration {
        let began = Instant::now();
        for _ in 0..times {
            self.put_many(1);
        }
        began.elapsed()
    }

    /// Durable cycles one by one.
    pub(crate) fn cycles(&mut self, times: u64) -> Duration {
        let began = Instant::now();
        for _ in 0..times {
            self.put_many(1);
            let id = self.take();
            self.ack(id);
        }
        began.elapsed()
    }
}
