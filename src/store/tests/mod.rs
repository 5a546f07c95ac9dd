//! The store compared with a map, over a disk that fails.

mod calls;
mod carry;
mod clean_end;
mod days;
mod disk;
mod failing;
mod features;
mod marks;
mod model;
mod pages;
mod promises;
#[cfg(unix)]
mod renamed;
mod ring;
#[path = "../../../tests/seeds/mod.rs"]
mod seeds;

use super::head::HEAD_BYTES;
use super::record::MetaDelta;
use super::{
    Access, BaseTransaction, Clocks, Config, IoPacer, Opened, Progress, Store, StoreFailure,
};
use crate::format::key::Key;
use crate::format::key::{Run, is_temporary};
use crate::format::layer::{Layer, WriteSet};
use crate::format::{RowOp, Value, View};
use crate::words::clock::{ClockMarks, ManualClock};
use crate::words::error::{Error, Result};
use crate::words::limits::JOURNAL_BYTES_MIN;
use crate::words::numbers::Numbers;
use crate::words::sync::{Arc, Ordering};
use disk::SimDisk;
use seeds::seeds;
use std::io;
use std::ops::ControlFlow;

/// For the tests of other rooms.
impl Store {
    /// Bytes read from the disk so far.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.disk.as_ref().unwrap().counters.read.load(Ordering::Relaxed)
    }

    /// What a snapshot of a range copies, and how far it goes.
    pub(crate) fn copied_range(&self, from: &[u8], to: &[u8]) -> (Layer, Key) {
        let (copied, _, to) = self.rows.copy_range(from, to);
        (copied, to)
    }
}

/// A table of the application.
const APP_ROWS: redb::TableDefinition<'static, u64, u64> = redb::TableDefinition::new("app rows");

fn config() -> Config {
    Config {
        journal_bytes: JOURNAL_BYTES_MIN,
        cache_bytes: 1 << 20,
        accept_loss: false,
        access: Access::Write,
        known: &[],
    }
}

fn open(disk: &SimDisk) -> Result<Store> {
    open_with(disk, config())
}

fn open_with(disk: &SimDisk, config: Config) -> Result<Store> {
    opened(disk, config, &mut |_| ControlFlow::Continue(())).map(|opened| opened.store)
}

fn opened(
    disk: &SimDisk,
    config: Config,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Opened> {
    let clocks = Clocks { clock: &ManualClock::new(), gap_max: u64::MAX };
    Store::open(Arc::new(disk.clone()), config, &clocks, progress)
}

/// One row write of a list.
#[derive(Clone, Debug)]
struct RowWrite {
    key: Key,
    op: RowOp,
}

/// The writes as one op would make them.
fn written(writes: &[RowWrite]) -> WriteSet {
    let mut set = WriteSet::default();
    writes.iter().for_each(|RowWrite { key, op }| set.write((key.clone(), op.clone())));
    set
}

/// The weight of a row in these tests, so that rows and total must be of the same time. The store
/// does not know what it counts.
fn weight(key: &Key) -> i64 {
    if is_temporary(key) { 0 } else { 1 + i64::from(key[key.len() - 1]) }
}

/// The metadata of a set of writes, written at this time.
fn moving(writes: &[RowWrite], time: u64) -> MetaDelta {
    let moved = writes.iter().map(|write| match write.op {
        RowOp::Add(_) => weight(&write.key),
        RowOp::Change(_) => 0,
        RowOp::Remove => -weight(&write.key),
    });
    let marks = ClockMarks { queue: time, wall: time };
    MetaDelta { marks, reserved: Numbers::default(), durable_bytes: moved.sum() }
}

/// Appends; returns success or failure.
fn append(store: &mut Store, writes: &mut Vec<RowWrite>) -> Result<u64, StoreFailure> {
    let before = store.durable_bytes();
    let advance = moving(writes, 1);
    let mut set = written(writes);
    let rows = set.layer.entries();
    let answer = store.append(&mut set, advance, None);
    if answer.is_err() {
        assert_eq!(store.durable_bytes(), before, "writes that were refused were counted");
    } else {
        writes.clear();
    }
    assert_eq!(set.layer.entries(), if answer.is_err() { rows } else { 0 });
    answer
}

/// Commits writes with the application's tables; returns success or failure.
fn finish(
    store: &mut Store,
    app: BaseTransaction,
    writes: Vec<RowWrite>,
) -> Result<u64, StoreFailure> {
    let advance = moving(&writes, 9);
    store.finish(app, (std::mem::take(&mut written(&writes).layer), &[]), advance)
}

fn key(number: u64) -> Key {
    let mut key = Key::from_slice(&[0x12, 0, 0, 0, 1]);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn add(number: u64, value: &[u8]) -> RowWrite {
    RowWrite { key: key(number), op: RowOp::Add(Value::from(value)) }
}

fn remove(number: u64) -> RowWrite {
    RowWrite { key: key(number), op: RowOp::Remove }
}

/// Appends, with a checkpoint when there is no space.
fn write(store: &mut Store, writes: Vec<RowWrite>) -> Result<u64> {
    let mut writes = writes;
    for _ in 0..2 {
        match append(store, &mut writes) {
            Ok(number) => return Ok(number),
            Err(StoreFailure::NoRoom) => match store.checkpoint() {
                // The ring has room all the same, or the next try says that it has none.
                Err(error) if error.kind() == crate::ErrorKind::DiskFull => {}
                done => done?,
            },
            Err(StoreFailure::TooLarge) => panic!("too large"),
            Err(StoreFailure::Refused(error) | StoreFailure::Broken(error)) => return Err(error),
        }
    }
    panic!("no space after a checkpoint");
}

/// A pacer with pieces of two pages.
struct Short;

impl IoPacer for Short {
    fn yield_cpu(&self) {}

    fn sync_due(&self, unsynced: u64) -> bool {
        unsynced >= 8 << 10
    }

    fn sync_and_pause(&self, sync: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        sync()
    }
}

fn checkpoint_in_pieces(store: &mut Store) -> Result<()> {
    let Some(checkpoint) = store.freeze()? else { return Ok(()) };
    match checkpoint.run(Some(Arc::new(Short))) {
        Ok(renewed) => drop(store.renew(renewed)),
        Err(failure) => store.checkpoint_failed(failure)?,
    }
    Ok(())
}

fn sync(store: &Store) -> Result<u64> {
    store.journal().unwrap().sync()
}

/// Every live row; the stored total must agree with them.
fn all(store: &Store) -> Vec<(Key, Vec<u8>)> {
    let mut rows = Vec::new();
    let mut from = Key::from_slice(&[]);
    while let Some((key, value)) = store.first(&from, &[0xff]).unwrap() {
        rows.push((key.clone(), value.unwrap().to_vec()));
        from = crate::format::key::after(&key);
    }
    let total: i64 = rows.iter().map(|(key, _)| weight(key)).sum();
    assert_eq!(store.durable_bytes(), total as u64, "rows and total are of different times");
    rows
}

/// The numbers of the rows that [`add`] made.
fn numbers(store: &Store) -> Vec<u64> {
    let own = all(store).into_iter().filter(|(key, _)| key.starts_with(&[0x12, 0, 0, 0, 1]));
    own.map(|(key, _)| u64::from_be_bytes(key[5..].try_into().unwrap())).collect()
}

fn checked(store: &mut Store) {
    let mut faults = Vec::new();
    store.check(&mut |fault| faults.push(fault), |_, _| Ok(())).unwrap();
    all(store);
    assert_eq!(faults, Vec::<String>::new());
}

fn refused<T>(opened: Result<T>) -> Error {
    match opened {
        Ok(_) => panic!("it opened"),
        Err(error) => error,
    }
}

fn rows_then_kill(disk: &SimDisk, rows: u64) -> Vec<u64> {
    let mut store = open(disk).unwrap();
    let mut ends = Vec::new();
    for number in 0..rows {
        write(&mut store, vec![add(number, b"value")]).unwrap();
        ends.push(store.ring.as_ref().unwrap().last.start);
        sync(&store).unwrap();
    }
    disk.kill();
    ends
}

/// Fifty rows in a checkpoint, then fifty more and ten removals, all synced.
fn prepared(disk: &SimDisk) {
    let mut store = open(disk).unwrap();
    for number in 0..50 {
        write(&mut store, vec![add(number, &[1; 30])]).unwrap();
    }
    store.checkpoint().unwrap();
    for number in 50..100 {
        write(&mut store, vec![add(number, &[1; 30])]).unwrap();
    }
    write(&mut store, (0..10).map(remove).collect()).unwrap();
    sync(&store).unwrap();
    disk.kill();
}

fn stands(disk: &SimDisk, _done: bool) {
    let mut store = open(disk).unwrap();
    assert_eq!(numbers(&store), (10..100).collect::<Vec<_>>());
    checked(&mut store);
    write(&mut store, vec![add(100, b"on it goes")]).unwrap();
    store.close().unwrap();
    assert_eq!(numbers(&open(disk).unwrap()).len(), 91);
    disk.kill();
}
