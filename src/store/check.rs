//! Reads everything that is stored and reports every disagreement. It changes nothing: the base is
//! read through a separate opening whose writes stay in memory. When redb finds damage it panics,
//! repairs, or drops its list of free pages, and the opening in use must not be affected.

use super::Store;
use super::base::{Base, hex};
use super::head::JournalHead;
use super::journal_reader::RingReader;
use super::record::Preamble;
use super::redb_errors::{corruption_as_damage, fenced};
use super::whole_snapshot::stray_in_base;
use crate::format::key::{Key, Range, TagScope, is_temporary};
use crate::format::layer::Layer;
use crate::format::pack::Unpacker;
use crate::format::{Met, Value, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::Arc;
use std::collections::BTreeMap;

type Report<'a> = &'a mut dyn FnMut(String);

const UNSOUND: &str = "base.redb fails redb's own check";

impl Store {
    /// Reports each fault as text; of a sound store it reports nothing. `audit` checks the meaning
    /// of the rows. Takes as long as reading everything. No other thread may write to the base
    /// during the call.
    ///
    /// # Errors
    /// `Io` or `Broken` if the check could not run.
    pub(crate) fn check(
        &mut self,
        report: Report<'_>,
        audit: impl FnOnce(&dyn View, Report<'_>) -> Result<()>,
    ) -> Result<()> {
        self.reopen_if_failed()?;
        self.write_days()?;
        self.check_journal(report)?;
        let Some(file) = &self.base()?.opening().file else {
            let checked = Checked { store: self, base: self.base()? };
            return checked.check_rows(report).and_then(|()| audit(&checked, report));
        };
        let opened = Base::open_scratch(file.file.clone(), self.config.cache_bytes);
        let Some(scratch) = undamaged(opened, UNSOUND, report)? else { return Ok(()) };
        // Dead ranges found in the copy are not valid for the opening in use.
        let dead = self.rows.dead.borrow().clone();
        let checked = Checked { store: self, base: &scratch };
        let looked = checked.check_rows(report).and_then(|()| audit(&checked, report));
        self.rows.dead.replace(dead);
        undamaged(looked, "base.redb cannot be read", report)
            .map_err(|error| self.with_folder(error))?;
        check_base(scratch, report)
    }

    /// Checks the chain of records in the file, from where an opening begins to the last record
    /// written.
    fn check_journal(&self, report: Report<'_>) -> Result<()> {
        let Some(ring) = &self.ring else { return Ok(()) };
        let anchor = &self.base()?.anchor;
        let head = JournalHead { queue: anchor.queue, ring: ring.size };
        let mut reader = RingReader::new(&*ring.file, &head, ring.carried_upto);
        let mut last = ring.floor;
        let mut meta = Some(anchor.meta);
        while last.link.number < ring.last.link.number {
            let Some((header, span, body)) = reader.next(last).map_err(Error::io)? else {
                let number = last.link.number + 1;
                report(format!("journal: record {number} is missing or damaged"));
                return Ok(());
            };
            last = span;
            let preamble = Preamble::read(header.kind, &mut Unpacker::new(body));
            meta = preamble.zip(meta).map(|(preamble, meta)| preamble.meta_after(meta));
        }
        if last != ring.last {
            report("journal: its last record is not at the expected place".into());
        }
        let (found, kept) = (meta.map(|meta| meta.durable_bytes), self.meta.durable_bytes);
        if found != Some(kept) {
            let found = found.map_or_else(|| "no".to_owned(), |found| found.to_string());
            report(format!(
                "journal: its last record states {found} payload bytes, expected {kept}"
            ));
        }
        Ok(())
    }
}

/// The rows of a store over another opening of its base.
struct Checked<'a> {
    store: &'a Store,
    base: &'a Base,
}

impl Checked<'_> {
    /// The row in the layers and the base; a damaged row counts as missing.
    fn kept(&self, key: &Key) -> Result<Option<Value>> {
        match self.store.rows.entry(key) {
            Some(op) => Ok(op.value().cloned()),
            None => match self.base.get(key) {
                Err(error) if error.kind() == ErrorKind::Damaged => Ok(None),
                kept => kept,
            },
        }
    }

    fn check_rows(&self, report: Report<'_>) -> Result<()> {
        let mut counted: BTreeMap<Range, u64> = BTreeMap::new();
        let mut mirrored = 0;
        let mut skipped = self.store.rows.dead.borrow().all();
        skipped.sort();
        let mut lives = |key: &[u8], report: &mut dyn FnMut(String)| {
            let Some(range) = Range::holding(key) else { return };
            *counted.entry(range).or_default() += 1;
            mirrored += usize::from(range.tag.scope() == TagScope::Mirrored);
            let before = skipped.partition_point(|(start, _)| start.as_slice() <= key);
            let around = before.checked_sub(1).and_then(|at| skipped.get(at));
            if around.is_some_and(|(_, end)| key < end.as_slice()) && !is_temporary(key) {
                report(format!("the row {} is inside a dead range", hex(key)));
            }
        };
        self.base.each(&[], &[u8::MAX; 8], |key, value| {
            if let Some(stray) = stray_in_base(key) {
                report(stray);
            }
            if self.store.rows.entry(key).is_some() {
                return;
            }
            if value.is_none() {
                report(format!("the row {} is damaged", hex(key)));
            }
            lives(key, report);
        })?;
        for (key, upper) in self.layers() {
            if upper {
                lives(key, report);
            }
        }
        for (key, _) in self.store.rows.temporary.iter() {
            lives(key, report);
        }
        for (key, value) in &self.store.rows.mirror {
            if *value != self.kept(key)? {
                report(format!("the row {} in memory differs from the stored one", hex(key)));
            }
        }
        if mirrored != self.store.rows.mirror.len() {
            report("the rows kept in memory are not those stored".into());
        }
        for range in self.store.rows.counts.ranges() {
            counted.entry(range).or_default();
        }
        for (range, count) in counted {
            // Tags without runs have one count for each tag, as here.
            let kept = self.store.rows.counts.of(range);
            if kept != count {
                report(format!("{range:?} counts {kept} rows and has {count}"));
            }
        }
        Ok(())
    }

    /// Every key of the layers, and whether its upper entry is a live row.
    fn layers(&self) -> BTreeMap<&Key, bool> {
        let rows = &self.store.rows;
        let upper_last = [rows.frozen.as_deref(), Some(&rows.active)].into_iter().flatten();
        upper_last.flat_map(Layer::iter).map(|(key, op)| (key, !op.is_remove())).collect()
    }
}

impl View for Checked<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.store.rows.get(self.base, key)
    }

    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        self.store.rows.first(self.base, from, to)
    }

    fn count(&self, range: Range) -> u64 {
        self.store.count(range)
    }

    fn durable_bytes(&self) -> u64 {
        self.store.durable_bytes()
    }
}

/// Reports damage of the base, and passes every other result on. `None` after damage.
fn undamaged<T>(result: Result<T>, what: &str, report: Report<'_>) -> Result<Option<T>> {
    match result.map_err(corruption_as_damage) {
        Err(error) if error.kind() == ErrorKind::Damaged => {
            report(format!("{what}: {error}"));
            Ok(None)
        }
        result => result.map(Some),
    }
}

/// Lets redb verify every page, and repair in memory what it finds.
fn check_base(scratch: Base, report: Report<'_>) -> Result<()> {
    let mut opening = scratch.into_opening();
    let health = opening.health.clone();
    let verified = fenced(&health, || match Arc::get_mut(&mut opening) {
        Some(own) => Ok(own.db_mut()?.check_integrity()?),
        None => Err(redb::Error::TransactionInProgress),
    });
    if undamaged(verified, UNSOUND, report)? == Some(false) {
        report(format!("{UNSOUND} and is to be repaired"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
