//! What the store writes besides rows: reserved numbers, the note that all is synced, features in
//! use, and the anchor, which contains all of these.

use super::features::Features;
use super::record::{MetaDelta, RecordMeta};
use super::ring::WriteFault;
use super::tables::CheckpointPosition;
use super::{Store, StoreFailure};
use crate::format::feature::{Feature, Needs};
use crate::words::clock::ClockMarks;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::numbers::Numbers;

impl Store {
    /// Writes a record without rows, for the numbers that it reserves.
    pub(crate) fn note(&mut self, advance: MetaDelta) -> Result<u64, StoreFailure> {
        self.ensure_running().map_err(StoreFailure::Broken)?;
        let meta = self.meta.advanced(advance);
        if let Some(ring) = &mut self.ring {
            let noted = ring.note(&meta);
            self.number = noted.map_err(|fault| self.write_failed(fault))?;
        }
        (self.meta, self.reserved_at) = (meta, self.number);
        Ok(self.number)
    }

    /// The numbers below which all are reserved once this record is synced, and its number.
    pub(crate) fn reserved(&self) -> (Numbers, u64) {
        (self.meta.reserved, self.reserved_at)
    }

    /// Writes once, after the last record, that all of them are synced. Returns false if one is not
    /// synced yet. If the journal has no space, it is not written.
    pub(crate) fn idle(&mut self) -> Result<bool, StoreFailure> {
        self.ensure_running().map_err(StoreFailure::Broken)?;
        let Some(ring) = &mut self.ring else { return Ok(true) };
        let written = ring.idle(&self.meta);
        self.number = ring.last.link.number;
        match written {
            Err(WriteFault::NoRoom) => Ok(true),
            written => written.map_err(|fault| self.write_failed(fault)),
        }
    }

    /// Before the last checkpoint of a clean close: numbers from `unused` on are returned, and the
    /// clock's marks are set.
    pub(crate) fn settle(&mut self, unused: Numbers, marks: ClockMarks) {
        (self.meta.reserved, self.meta.marks) = (unused, marks);
    }

    /// Enters features in the journal's head before the first byte that needs them: one write and
    /// one sync, the first time in the folder's life that they are needed.
    ///
    /// # Errors
    /// As [`write_features`](Self::write_features); `Broken` if it could not be synced.
    #[cold]
    pub(crate) fn enter(&mut self, needs: Needs) -> Result<()> {
        let missing = needs.without(self.entered);
        if missing.is_empty() {
            return Ok(());
        }
        self.ensure_running()?;
        if let Some(features) = self.head_with(missing.features())? {
            self.use_features(features)?;
        }
        self.entered = self.entered.with(missing);
        Ok(())
    }

    /// Writes in the journal's head the features that are not in use yet. Returns the number of
    /// that write: it is to be synced before the first byte that needs them, without the store's
    /// lock, and passed to [`head_synced`](Self::head_synced); then this is called again. `None` if
    /// all are in use.
    ///
    /// # Errors
    /// `Full` if the head has no space for them, `Invalid` for too long a name; `Io` or `DiskFull`
    /// if it could not be written.
    #[cold]
    pub(crate) fn write_features(&mut self, needs: Needs) -> Result<Option<u64>> {
        let missing = needs.without(self.entered);
        if missing.is_empty() {
            return Ok(None);
        }
        self.ensure_running()?;
        if let Some(features) = self.head_with(missing.features())?
            && let Some(ring) = &mut self.ring
        {
            let written = ring.write_slot(features);
            return written.map(Some).map_err(|fault| self.head_fault(fault));
        }
        self.entered = self.entered.with(missing);
        Ok(None)
    }

    /// The features of the head with these; `None` if it has them all, or there is no journal.
    pub(super) fn head_with<'a>(
        &self,
        features: impl Iterator<Item = &'a Feature>,
    ) -> Result<Option<Features>> {
        let Some(ring) = &self.ring else { return Ok(None) };
        let head = &ring.slot.features;
        let mut new = features.filter(|feature| !head.has(feature.number)).peekable();
        if new.peek().is_none() {
            return Ok(None);
        }
        new.try_fold(head.clone(), |all, feature| all.with(feature)).map(Some)
    }

    /// The journal was synced after this write of its head, or could not be.
    ///
    /// # Errors
    /// `Broken` if it could not be synced.
    pub(crate) fn head_synced(&mut self, write: u64, synced: Result<()>) -> Result<()> {
        synced.map_err(|error| match error.kind() {
            // The queue was closed, and no record needs the slot.
            ErrorKind::Closed => error,
            _ => self.stop(error),
        })?;
        if let Some(ring) = &mut self.ring {
            ring.slot_synced(write);
        }
        Ok(())
    }

    pub(super) fn use_features(&mut self, features: Features) -> Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        ring.use_features(features).map_err(|fault| self.head_fault(fault))
    }

    fn head_fault(&self, fault: WriteFault) -> Error {
        match fault {
            WriteFault::Fatal(error) => self.stop(Error::not_synced("the journal's head", error)),
            WriteFault::Undone(error) => self.with_folder(Error::io(error)),
            WriteFault::NoRoom | WriteFault::TooLarge => Error::new(ErrorKind::Full),
        }
    }

    /// The anchor of a base that holds everything up to the last record.
    pub(super) fn next_anchor(
        &self,
        before: &CheckpointPosition,
        meta: RecordMeta,
    ) -> CheckpointPosition {
        match &self.ring {
            Some(ring) => before.at(ring.last, meta, self.boot, &ring.slot.features),
            None => before.at(before.span, meta, self.boot, &Features::default()),
        }
    }
}
