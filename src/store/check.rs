//! Walks everything that is kept and reports every disagreement. It mends nothing, save what redb
//! mends in its own file when asked to verify it.

use super::Store;
use super::base::{Base, Fault, fenced};
use super::head::Head;
use super::reader::Reader;
use super::record::Preamble;
use crate::bytes::Value;
use crate::bytes::key::is_temporary;
use crate::bytes::key::{Key, Range};
use crate::bytes::pack::Unpacker;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Arc;
use std::collections::BTreeMap;

type Report<'a> = &'a mut dyn FnMut(String);

fn hex(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Store {
    /// Reports what is wrong, in words; nothing is reported of a store in order. Takes as long as
    /// reading everything does.
    ///
    /// # Errors
    /// `Io` or `Broken` if the check could not be made.
    pub(crate) fn check(&mut self, report: Report<'_>) -> Result<()> {
        self.stopped()?;
        self.check_journal(report)?;
        self.check_rows(report)?;
        self.check_base(report)
    }

    /// The chain as the file shows it, from the base's anchor to the last record written.
    fn check_journal(&self, report: Report<'_>) -> Result<()> {
        let Some(ring) = &self.ring else { return Ok(()) };
        let anchor = self.base()?.anchor();
        let head = Head { queue: anchor.queue, ring: ring.size() };
        let mut reader = Reader::new(ring.file(), &head);
        let mut last = anchor.span;
        let mut stamp = Some(anchor.stamp);
        while last.link.number < ring.last().link.number {
            match reader.next(last).map_err(Error::io)? {
                Some((header, span, body)) => {
                    last = span;
                    let preamble = Preamble::read(header.kind, &mut Unpacker::new(body));
                    stamp = preamble.zip(stamp).map(|(preamble, stamp)| preamble.behind(stamp));
                }
                None => {
                    let number = last.link.number + 1;
                    report(format!("journal: record {number} is missing or damaged"));
                    return Ok(());
                }
            }
        }
        if last != ring.last() {
            report("journal: its end is not where it was written".into());
        }
        let (told, kept) = (stamp.map(|stamp| stamp.durable_bytes), self.stamp.durable_bytes);
        if told != Some(kept) {
            report(format!("journal: its end tells of {told:?} payload bytes, not of {kept}"));
        }
        Ok(())
    }

    /// The row as the layers and the base have it; a damaged one is none.
    fn kept(&self, key: &Key) -> Result<Option<Value>> {
        match self.rows.entry(key) {
            Some(entry) => Ok(entry.value.clone()),
            None => match self.base()?.get(key) {
                Err(error) if error.kind() == ErrorKind::Damaged => Ok(None),
                kept => kept,
            },
        }
    }

    fn check_rows(&self, report: Report<'_>) -> Result<()> {
        let base = self.base()?;
        let mut counted: BTreeMap<Range, u64> = BTreeMap::new();
        let mut mirrored = 0;
        let mut skipped = self.rows.skipped();
        skipped.sort();
        let mut lives = |key: &[u8], report: &mut dyn FnMut(String)| {
            let Some(range) = Range::holding(key) else {
                report(format!("the row {} has no tag or no run", hex(key)));
                return;
            };
            *counted.entry(range).or_default() += 1;
            mirrored += usize::from(range.run.is_none());
            let before = skipped.partition_point(|(start, _)| start.as_slice() <= key);
            let around = before.checked_sub(1).and_then(|at| skipped.get(at));
            if around.is_some_and(|(_, end)| key < end.as_slice()) && !is_temporary(key) {
                report(format!("the row {} is skipped over", hex(key)));
            }
        };
        base.each(&[], &[u8::MAX; 8], |key, value| {
            if is_temporary(key) {
                report(format!("the row {} of a temporary tube is in the base", hex(key)));
            }
            if self.rows.entry(key).is_some() {
                return;
            }
            if value.is_none() {
                report(format!("the row {} is damaged", hex(key)));
            }
            lives(key, report);
        })?;
        for (key, upper) in self.layers() {
            if upper {
                lives(&key, report);
            }
        }
        for key in self.rows.beside() {
            lives(key, report);
        }
        for (key, value) in self.rows.mirrored() {
            if value != self.kept(key)?.as_ref() {
                report(format!("the row {} in memory is not the one that is kept", hex(key)));
            }
        }
        if mirrored != self.rows.mirrored().count() {
            report("rows kept in memory are missing or too many".into());
        }
        let runs = self.rows.counted_runs();
        let stale = runs.into_iter().flat_map(|run| {
            let tags = crate::bytes::Tag::ALL.into_iter().filter(|tag| tag.in_run());
            tags.map(move |tag| Range::in_run(tag, run))
        });
        for range in stale {
            counted.entry(range).or_default();
        }
        for (range, count) in counted {
            // The counts of tags without runs are one number a tag, as here.
            let kept = self.rows.counted(range);
            if kept != count {
                report(format!("{range:?} counts {kept} rows and has {count}"));
            }
        }
        Ok(())
    }

    /// Every key of the layers, and whether its upper entry lives.
    fn layers(&self) -> impl Iterator<Item = (Key, bool)> {
        let mut keys: BTreeMap<Key, bool> = BTreeMap::new();
        if let Some(frozen) = &self.rows.frozen {
            keys.extend(frozen.behind(None).map(|(key, row)| (key.clone(), row.value.is_some())));
        }
        let active = self.rows.active.behind(None);
        keys.extend(active.map(|(key, row)| (key.clone(), row.value.is_some())));
        keys.into_iter()
    }

    /// Has redb verify every page. Not while anybody else reads or writes the base.
    fn check_base(&mut self, report: Report<'_>) -> Result<()> {
        let sound = match self.alone(|db| Ok(db.check_integrity()?)) {
            Err(error) if error.kind() == ErrorKind::Damaged => {
                report(format!("base.redb did not pass redb's own check: {error}"));
                return Ok(());
            }
            sound => sound?,
        };
        match sound {
            Some(false) => {
                report("base.redb did not pass redb's own check and was repaired".into())
            }
            Some(true) => {}
            None => report("base.redb was not verified, because it is in use".into()),
        }
        Ok(())
    }

    /// Gives unused space of the base back to the system. Stops everything else meanwhile. Whether
    /// the file is smaller now; it stays as it is while a checkpoint, a reader or a writer is under
    /// way.
    ///
    /// # Errors
    /// `Io`, `DiskFull` or `Broken`; the store goes on after the first two.
    pub(crate) fn compact(&mut self) -> Result<bool> {
        self.checkpoint()?;
        let before = self.base()?.opening().bytes();
        let done = self.alone(|db| {
            while db.compact()? {}
            Ok(())
        });
        // Compaction leaves no record of what is free, and an unclean end would walk the file.
        let done = done.and_then(|done| done.map_or(Ok(()), |()| self.touch_base()));
        match done {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Broken => return Err(self.stop(error)),
            Err(error) => {
                self.heal()?;
                return Err(self.named(error));
            }
        }
        Ok(self.base()?.opening().bytes() < before)
    }

    fn touch_base(&self) -> Result<()> {
        let opening = self.base()?.opening();
        let txn = opening.begin_write()?;
        fenced(&opening.fate, || Ok(txn.commit()?))
    }

    /// Runs something that redb allows only without a snapshot. `None` if others have one.
    fn alone<T>(
        &mut self,
        work: impl FnOnce(&mut redb::Database) -> std::result::Result<T, redb::Error>,
    ) -> Result<Option<T>> {
        self.heal()?;
        if self.rows.frozen.is_some() {
            return Ok(None);
        }
        let Some(mut opening) = self.base.take().map(Base::into_opening) else { return Ok(None) };
        let done = match Arc::get_mut(&mut opening) {
            Some(own) => {
                let fate = own.fate.clone();
                match fenced(&fate, || Ok(work(own.db_mut()?))) {
                    Ok(Err(redb::Error::TransactionInProgress)) => Ok(None),
                    Ok(done) => fenced(&fate, || done).map(Some),
                    Err(error) => Err(error),
                }
            }
            None => Ok(None),
        };
        let fate = opening.fate.clone();
        match Base::over(opening) {
            Ok(base) => self.base = Some(base),
            Err(error) if fate.fault() == Some(Fault::Sync) => return Err(self.stop(error)),
            // Whatever the work has left behind, a new opening repairs.
            Err(_) => self.reopen()?,
        }
        done
    }
}

#[cfg(test)]
mod tests;
