//! Stand-in.
use crate::bytes::{Key, Met, Range, RowOp, RowWrite, Value, View};
use crate::clock::Marks;
use crate::error::{Error, Result};
use crate::sync::Arc;
use std::collections::{BTreeMap, HashMap};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stamp {
    pub(crate) marks: Marks,
    pub(crate) reserved: u64,
}
pub(crate) enum Failure {
    NoRoom,
    TooLarge,
    Refused(Error),
    Broken(Error),
}
pub(crate) enum CheckpointFailure {
    X(Error),
}
pub(crate) struct Journal;
impl Journal {
    pub(crate) fn sync(&self) -> Result<u64> {
        Ok(0)
    }
    pub(crate) fn synced(&self) -> u64 {
        0
    }
}
pub(crate) struct Checkpoint;
impl Checkpoint {
    pub(crate) fn step(&mut self, _rows: usize) -> Result<bool, CheckpointFailure> {
        Ok(false)
    }
    pub(crate) fn commit(self) -> Result<(), CheckpointFailure> {
        Ok(())
    }
}
pub(crate) struct Guests;
#[derive(Default)]
pub(crate) struct Store {
    rows: BTreeMap<Key, Value>,
    counts: HashMap<Range, u64>,
    written: u64,
}
impl Store {
    pub(crate) fn journal(&self) -> Option<Arc<Journal>> {
        None
    }
    pub(crate) fn written(&self) -> u64 {
        self.written
    }
    pub(crate) fn wants_checkpoint(&self) -> bool {
        false
    }
    pub(crate) fn is_quarter_full(&self) -> bool {
        false
    }
    pub(crate) fn note(&mut self, _s: Stamp) -> Result<u64, Failure> {
        Ok(self.written)
    }
    pub(crate) fn append(&mut self, writes: Vec<RowWrite>, _s: Stamp) -> Result<u64, Failure> {
        for w in writes {
            let r = Range::holding(&w.key).unwrap();
            let c = self.counts.entry(r).or_default();
            match w.op {
                RowOp::Add(v) => {
                    *c += 1;
                    assert!(self.rows.insert(w.key, v).is_none());
                }
                RowOp::Change(v) => {
                    assert!(self.rows.insert(w.key, v).is_some());
                }
                RowOp::Remove => {
                    *c -= 1;
                    assert!(self.rows.remove(&w.key).is_some());
                }
            }
        }
        self.written += 1;
        Ok(self.written)
    }
    pub(crate) fn freeze(&mut self, _s: Stamp) -> Result<Option<Checkpoint>> {
        Ok(None)
    }
    pub(crate) fn renew(&mut self, _r: ()) -> Result<()> {
        Ok(())
    }
    pub(crate) fn recover_from(&mut self, f: CheckpointFailure) -> Result<()> {
        match f {
            CheckpointFailure::X(e) => Err(e),
        }
    }
    pub(crate) fn guests(&mut self) -> Result<Guests> {
        Ok(Guests)
    }
    pub(crate) fn finish(&mut self, _g: Guests, writes: Vec<RowWrite>, s: Stamp) -> Result<()> {
        let _ = self.append(writes, s);
        Ok(())
    }
    pub(crate) fn abort(&mut self, _g: Guests) -> Result<()> {
        Ok(())
    }
    pub(crate) fn close(&mut self) -> Result<()> {
        Ok(())
    }
}
impl View for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(self.rows.get(key).cloned())
    }
    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        Ok(self
            .rows
            .range::<[u8], _>((std::ops::Bound::Included(from), std::ops::Bound::Excluded(to)))
            .next()
            .map(|(k, v)| (k.clone(), Some(v.clone()))))
    }
    fn count(&self, range: Range) -> u64 {
        self.counts.get(&range).copied().unwrap_or(0)
    }
}
