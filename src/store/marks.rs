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
        self.meta = meta;
        Ok(self.number)
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

    /// Enters a feature in the journal's head, synced, before the first byte that needs it.
    ///
    /// # Errors
    /// `Full` if the head has no space for it, `Invalid` for too long a name; `Io` or `DiskFull` if
    /// it could not be written; `Broken` if it could not be synced.
    pub(crate) fn use_feature(&mut self, feature: &Feature) -> Result<()> {
        self.ensure_running()?;
        match &self.ring {
            Some(ring) if !ring.slot.features.has(feature.number) => {
                let features = ring.slot.features.with(feature)?;
                self.use_features(features)
            }
            _ => Ok(()),
        }
    }

    /// Enters features in the journal's head. Each costs a sync, the first time in the folder's
    /// life that it is needed.
    ///
    /// # Errors
    /// As [`use_feature`](Self::use_feature).
    #[cold]
    pub(crate) fn enter(&mut self, needs: Needs) -> Result<()> {
        let missing = needs.without(self.entered);
        if !missing.is_empty() {
            missing.features().try_for_each(|feature| self.use_feature(feature))?;
            self.entered = self.entered.with(missing);
        }
        Ok(())
    }

    pub(super) fn use_features(&mut self, features: Features) -> Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        match ring.use_features(features) {
            Ok(()) => Ok(()),
            Err(WriteFault::Fatal(error)) => {
                Err(self.stop(Error::not_synced("the journal's head", error)))
            }
            Err(WriteFault::Undone(error)) => Err(self.with_folder(Error::io(error))),
            Err(WriteFault::NoRoom | WriteFault::TooLarge) => Err(Error::new(ErrorKind::Full)),
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
