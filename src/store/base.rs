//! The base: a redb database and one read snapshot of it, renewed at each checkpoint. It writes
//! nothing after its creation; checkpoints write.

mod read_ahead;

use super::database::Opening;
use super::disk::DiskFile;
use super::range_cache::{CachedRange, RANGE_ROWS, RangeCache};
use super::redb_errors::{FileHealth, fenced};
use super::reserve::BaseFile;
use super::scratch::ScratchFile;
use super::tables::{
    ANCHOR, Bytes, CheckpointPosition, ROWS, STATE, Tally, decode_tally, run_of, seal, unseal,
};
use crate::format::key::{Key, Run, after, copy};
use crate::format::{Met, Value};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::Arc;
use redb::{ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata};
use std::cell::RefCell;

/// The database at one snapshot.
pub(crate) struct Base {
    opening: Arc<Opening>,
    rows: Arc<ReadOnlyTable<Bytes, Bytes>>,
    cache: RefCell<RangeCache>,
    pub(super) anchor: CheckpointPosition,
}

impl Base {
    /// Makes a base that contains only an anchor, and closes it.
    pub(crate) fn create(file: Arc<dyn DiskFile>, anchor: &CheckpointPosition) -> Result<()> {
        let file = BaseFile::new(file).map_err(Error::io)?;
        let opening = Opening::of_file(Arc::new(file), 1 << 20)?;
        initialise(&opening, anchor)
    }

    pub(crate) fn in_memory(cache: usize, anchor: &CheckpointPosition) -> Result<Self> {
        let opening = Opening::in_memory(cache)?;
        initialise(&opening, anchor)?;
        Self::over(Arc::new(opening))
    }

    /// # Errors
    /// `Damaged` if the file is not a base; `Io` or `DiskFull` from the disk; `Broken` if redb
    /// panicked.
    pub(crate) fn open(file: BaseFile, cache: usize) -> Result<Self> {
        // redb would make a new database in an empty file.
        if file.seen() == 0 {
            return Err(Error::new(ErrorKind::Damaged).because("base.redb is empty"));
        }
        Self::over(Arc::new(Opening::of_file(Arc::new(file), cache)?))
    }

    /// Opens a base whose file stays unchanged: what redb writes is kept in memory.
    pub(crate) fn open_scratch(file: Arc<dyn DiskFile>, cache: usize) -> Result<Self> {
        let scratch = ScratchFile::over(file).map_err(Error::io)?;
        Self::open(BaseFile::new(Arc::new(scratch)).map_err(Error::io)?, cache)
    }

    /// Takes a snapshot of what is committed.
    pub(crate) fn over(opening: Arc<Opening>) -> Result<Self> {
        let read = opening.begin_read()?;
        let anchor = read_anchor(&opening.health, || Ok(read.open_table(STATE)?))?;
        let rows = fenced(&opening.health, || Ok(Arc::new(read.open_table(ROWS)?)))?;
        Ok(Self { opening, rows, cache: RefCell::default(), anchor })
    }

    /// The same snapshot for another reader.
    pub(super) fn share(&self) -> Self {
        let (opening, rows, anchor) =
            (self.opening.clone(), self.rows.clone(), self.anchor.clone());
        Self { opening, rows, cache: RefCell::default(), anchor }
    }

    /// Whether nothing was written to it since its creation.
    pub(crate) fn is_new(&self) -> Result<bool> {
        let genesis =
            CheckpointPosition::genesis(self.anchor.queue, self.anchor.span.link.checksum);
        let is_empty = fenced(&self.opening.health, || Ok(self.rows.is_empty()?))?;
        Ok(is_empty && self.anchor == genesis)
    }

    pub(crate) fn opening(&self) -> &Arc<Opening> {
        &self.opening
    }

    /// Drops the snapshot, so that redb may reuse its pages.
    pub(crate) fn into_opening(self) -> Arc<Opening> {
        self.opening
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let end = after(key);
        let sound = |value: &Option<Value>| value.clone().ok_or_else(|| damaged_row(key));
        let read = |met: Option<&Met>| met.map(|(_, value)| sound(value)).transpose();
        let cache = self.cache.borrow();
        if let Some(met) = cache.lookup(key, &end) {
            return read(met);
        }
        // Also that there is no such row: a group's row is looked up at each of its steps.
        if let Some(single) = cache.single(key) {
            return single.map(sound).transpose();
        }
        // Takes look up the rows of tasks in order.
        let next = cache.next_range(key);
        drop(cache);
        if let Some((from, most)) = next {
            let range = self.read_range(&from, most)?;
            if let Some(met) = range.lookup(key, &end) {
                let read = read(met);
                self.cache.borrow_mut().keep(from, range);
                return read;
            }
        }
        let row = fenced(&self.opening.health, || {
            let sealed = self.rows.get(key)?;
            Ok(sealed.map(|sealed| unseal(key, sealed.value()).map(Value::read)))
        })?;
        let read = row.as_ref().map(sound).transpose();
        self.cache.borrow_mut().keep_single(Key::from_slice(key), row);
        read
    }

    /// The first row with `from <= key < to`, from a cached range of rows if possible. The snapshot
    /// does not change, so taking in order costs one seek for many rows.
    #[inline]
    pub(crate) fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        if let Some(met) = self.cache.borrow().lookup(from, to) {
            return Ok(met.map(copied));
        }
        self.first_of_new_range(from, to)
    }

    #[cold]
    fn first_of_new_range(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        let range = self.read_range(from, RANGE_ROWS)?;
        let met = range.lookup(from, to).flatten().map(copied);
        self.cache.borrow_mut().keep(copy(from), range);
        Ok(met)
    }

    fn read_range(&self, from: &[u8], most: usize) -> Result<CachedRange> {
        let tag = from.first().copied().unwrap_or_default();
        fenced(&self.opening.health, || {
            let mut range = CachedRange::default();
            for row in self.rows.range::<&[u8]>(from..)? {
                let (key, sealed) = row?;
                if range.push(tag, key.value(), unseal(key.value(), sealed.value()), most) {
                    return Ok(range);
                }
            }
            range.ends = true;
            Ok(range)
        })
    }

    /// Calls `visit` with every row of the range, in order. A damaged value is `None`.
    pub(crate) fn each(
        &self,
        from: &[u8],
        to: &[u8],
        mut visit: impl FnMut(&[u8], Option<&[u8]>),
    ) -> Result<()> {
        fenced(&self.opening.health, || {
            for row in self.rows.range::<&[u8]>(from..to)? {
                let (key, sealed) = row?;
                visit(key.value(), unseal(key.value(), sealed.value()));
            }
            Ok(())
        })
    }

    /// The last keys with `from <= key < to`, the last one first.
    pub(crate) fn last_keys(&self, from: &[u8], to: &[u8], most: usize) -> Result<Vec<Key>> {
        fenced(&self.opening.health, || {
            let rows = self.rows.range::<&[u8]>(from..to)?.rev().take(most);
            rows.map(|row| Ok(Key::from_slice(row?.0.value()))).collect()
        })
    }

    /// The counts of every run that has rows.
    pub(crate) fn tallies(&self) -> Result<Vec<(Run, Tally)>> {
        let tallies = fenced(&self.opening.health, || {
            let state = self.opening.db()?.begin_read()?.open_table(STATE)?;
            let mut tallies = Some(Vec::new());
            for row in state.range::<&[u8]>(..)? {
                let (key, sealed) = row?;
                let Some(run) = run_of(key.value()) else { continue };
                let tally = unseal(key.value(), sealed.value()).and_then(decode_tally);
                tallies = tallies.zip(tally).map(|(mut tallies, tally)| {
                    tallies.push((run, tally));
                    tallies
                });
            }
            Ok(tallies)
        })?;
        tallies.ok_or_else(|| Error::new(ErrorKind::Damaged).because("the row counts in base.redb"))
    }
}

/// Reads the anchor from the table of one transaction.
pub(super) fn read_anchor<T: ReadableTable<Bytes, Bytes>>(
    health: &FileHealth,
    open: impl FnOnce() -> std::result::Result<T, redb::Error>,
) -> Result<CheckpointPosition> {
    let anchor = fenced(health, || {
        let table = open()?;
        let sealed = table.get(ANCHOR)?;
        Ok(sealed
            .and_then(|sealed| unseal(ANCHOR, sealed.value()).and_then(CheckpointPosition::decode)))
    })?;
    anchor.ok_or_else(|| Error::new(ErrorKind::Damaged).because("base.redb has no anchor"))
}

fn initialise(opening: &Opening, anchor: &CheckpointPosition) -> Result<()> {
    let txn = opening.begin_write()?;
    fenced(&opening.health, || {
        txn.open_table(ROWS)?;
        let mut buffer = Vec::new();
        let sealed = seal(ANCHOR, &anchor.encode(), &mut buffer);
        txn.open_table(STATE)?.insert(ANCHOR, sealed)?;
        Ok(txn.commit()?)
    })
}

/// A key in messages.
pub(super) fn hex(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn damaged_row(key: &[u8]) -> Error {
    Error::new(ErrorKind::Damaged).because(format!("the row {} in base.redb", hex(key)))
}

fn copied((key, value): &Met) -> Met {
    (copy(key), value.clone())
}
