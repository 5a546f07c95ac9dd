//! The limit: a preallocated file that is overwritten in place, from its start again at its end.
//! Nothing that is synced task by task can be faster.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use versus_common::{Alone, Done, Engine, Folder, Grouped, Has, Op, Queue};

/// As many bytes as a journal of tubewell has by default.
const BYTES: u64 = 16 << 20;
/// What must at least be written of a take or an ack.
const NOTE: usize = 32;

pub struct File {
    file: fs::File,
    at: u64,
    durable: bool,
    bytes: Vec<u8>,
}

impl Engine for File {
    fn open(folder: &Folder, durable: bool) -> Self {
        let mut file = fs::File::create(folder.join("limit")).unwrap();
        // In small pieces: in a page cache of large pages each later write would cost more.
        (0..BYTES >> 16).for_each(|_| file.write_all(&[0; 1 << 16]).unwrap());
        file.sync_all().unwrap();
        file.rewind().unwrap();
        Self { file, at: 0, durable, bytes: Vec::new() }
    }

    fn run(&mut self, ops: &[Op], done: &mut Vec<Done>) {
        self.bytes.clear();
        for op in ops {
            done.push(match op {
                Op::Put(_, task) => {
                    self.bytes.extend_from_slice(task);
                    Done::Nothing
                }
                Op::Take | Op::TakeOf(_) => {
                    self.bytes.extend_from_slice(&[1; NOTE]);
                    Done::Took(0, Vec::new())
                }
                Op::Ack(_) => {
                    self.bytes.extend_from_slice(&[2; NOTE]);
                    Done::Nothing
                }
            });
        }
        if self.at + self.bytes.len() as u64 > BYTES {
            self.file.seek(SeekFrom::Start(0)).unwrap();
            self.at = 0;
        }
        self.file.write_all(&self.bytes).unwrap();
        self.at += self.bytes.len() as u64;
        if self.durable && ops.iter().any(Op::must_last) {
            self.file.sync_data().unwrap();
        }
    }
}

/// What is synced: a put and an ack. A take is not even written.
pub struct Limit<Q>(Q);

impl Limit<Alone<File>> {
    /// One record at a time.
    pub fn alone(folder: &Folder) -> Self {
        Self(Alone::open(folder, true))
    }
}

impl Limit<Grouped<File>> {
    /// Several threads share their syncs.
    pub fn grouped(folder: &Folder) -> Self {
        Self(Grouped::open(folder, true))
    }
}

impl<Q: Queue<Task = u64>> Queue for Limit<Q> {
    type Task = ();

    const HAS: Has = Has { waiting: false, opening: false, ..Q::HAS };

    fn put(&self, task: &[u8], priority: u8) {
        self.0.put(task, priority);
    }

    fn put_many(&self, tasks: &[(u8, Vec<u8>)]) {
        self.0.put_many(tasks);
    }

    fn take(&self) -> Option<()> {
        Some(())
    }

    fn ack(&self, (): ()) {
        self.0.ack(0);
    }

    fn take_many(&self, most: usize) -> Vec<()> {
        vec![(); most]
    }

    fn ack_many(&self, tasks: Vec<()>) {
        self.0.ack_many(vec![0; tasks.len()]);
    }
}
