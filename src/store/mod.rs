//! Makes sets of row writes durable and visible, and returns the rows as they are now. The only
//! folder that names redb. It does not know what a row means, save that it adds up the statistics
//! of days.
//!
//! Each set of writes becomes one record of the journal and is then applied to the overlay, which
//! is the active and the frozen layer. A checkpoint moves the overlay into the base and commits the
//! *anchor* with it: the position of the last record that the base holds. An opening replays the
//! records after the anchor. On a full disk a *carry* journals the overlay once more, so that the
//! ring is free without the base. The store starts no thread, and holds no lock during a call to
//! code outside it.

pub(crate) mod disk;
mod io_counters;
mod scratch;
mod deferred_file;
mod features;
mod head;
mod record;
mod record_builder;
mod tables;
mod range_cache;
mod paced_io;
mod reserve;
mod redb_errors;
mod database;
mod base;
mod counts;
mod carry;
mod clean_end;
mod journal;
mod ring;
mod journal_reader;
mod day_sums;
mod view;
mod merge;
mod base_transaction;
mod checkpoint;
mod faults;
mod days;
mod marks;
mod snapshot;
mod file_system;
mod staging_folder;
mod folder;
mod progress;
mod create;
mod open_base;
mod health;
mod reopen;
mod whole_snapshot;
mod freeze;
mod full;
mod app_tables;
mod open;
mod check;
mod space;
mod compact;
#[cfg(test)]
mod tests;

use crate::format::feature::{Feature, Needs};
use crate::format::key::{Run, is_temporary};
use crate::format::layer::{Layer, WriteSet};
use crate::format::{Met, Range, Tag, Value, View};
use crate::words::clock::Boot;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{CHECKPOINT_AT_DIVISOR, QUIET_CHECKPOINT_DIVISOR};
#[cfg(test)]
use crate::words::planted::is_planted;
use crate::words::sync::Arc;
pub(crate) use app_tables::is_app_table;
use base::Base;
pub(crate) use base_transaction::BaseTransaction;
pub(crate) use carry::Burden;
use carry::Load;
use checkpoint::CheckpointFailure;
pub(crate) use checkpoint::Retired;
use disk::DiskFile;
pub(crate) use disk::{Access, Disk};
pub(crate) use folder::Folder;
pub(crate) use head::QueueId;
pub(crate) use health::Health;
use io_counters::CountedDisk;
pub(crate) use journal::Journal;
pub(crate) use open::{Clocks, Opened};
pub(crate) use paced_io::IoPacer;
pub use progress::{Progress, Stage};
pub(crate) use record::MetaDelta;
use record::RecordMeta;
use ring::Ring;
pub(crate) use snapshot::Snapshot;
pub use space::{BaseSpace, Space};
use view::Rows;
pub(crate) use whole_snapshot::{WholeSnapshot, WrongCount};

/// Reads the bytes as a head and as a record. For fuzzing.
pub(crate) fn probe(bytes: &[u8]) {
    head::probe(bytes);
    record::probe(bytes);
}

/// The settings of a store.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Bytes of the journal's ring, used when the queue is created. In memory, bytes that are
    /// written between two checkpoints.
    pub(crate) journal_bytes: u64,
    /// Bytes of redb's cache.
    pub(crate) cache_bytes: usize,
    /// Open although synced records are missing.
    pub(crate) accept_loss: bool,
    /// To read only: no byte of the folder changes. Not in memory.
    pub(crate) access: Access,
    /// The features that this version knows.
    pub(crate) known: &'static [Feature],
}

/// Why row writes were not applied. None of them is visible.
#[derive(Debug)]
pub(crate) enum StoreFailure {
    /// The journal has no space. After a checkpoint the caller tries again.
    NoRoom,
    /// The journal will never have space for them. The caller commits them to the base, as with the
    /// application's tables.
    TooLarge,
    /// The writes were refused, and nothing has changed.
    Refused(Error),
    /// The store has stopped.
    Broken(Error),
}

/// How many checkpoints have ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedCheckpoints {
    done: u64,
    failed: u64,
    is_full: bool,
}

impl EndedCheckpoints {
    /// Whether one has ended since then that has done what there is to do for a caller without
    /// room: it has freed space, or has met a full disk that was not known to be full.
    pub(crate) fn are_more_than(self, before: Self) -> bool {
        self.done != before.done || !before.is_full && self.failed != before.failed
    }
}

/// The rows of one queue, and the two files that contain them.
pub(crate) struct Store {
    /// Which queue it is, of those on the disk or of those in memory.
    pub(crate) queue: QueueId,
    /// `None` in memory.
    disk: Option<CountedDisk>,
    config: Config,
    /// `None` in memory.
    ring: Option<Ring>,
    /// `None` while the file is opened again, after that failed, and after a close.
    base: Option<Base>,
    /// The file of the base. `None` in memory and after a close.
    base_file: Option<Arc<dyn DiskFile>>,
    rows: Rows,
    /// The metadata after all writes that were applied or replayed. Writes that failed do not
    /// change it; otherwise their bytes would be counted twice when the caller tries again.
    meta: RecordMeta,
    /// The number of the record that reserves the numbers of the metadata.
    reserved_at: u64,
    /// The present start of the machine, if the system has a boot clock.
    boot: Option<Boot>,
    /// The number of the last record; in memory, of the last set of writes.
    number: u64,
    /// Checkpoints since the opening.
    checkpoints_done: u64,
    /// Those that have failed.
    checkpoints_failed: u64,
    /// Whether puts are refused until the base has its reserve again.
    full: bool,
    /// The number of the last record when a checkpoint last met a full disk.
    number_when_full: u64,
    /// While the disk is full: how many bytes of the ring are in use when a checkpoint is tried
    /// again.
    retry_at: u64,
    /// Bytes of the temporary tubes when writes were last refused because of their limit.
    refused_at: Option<u64>,
    /// The features that were needed so far. If there is a journal its head has them.
    entered: Needs,
    pub(crate) health: Arc<Health>,
}

impl Store {
    /// Applies all row writes or none: writes one record, then makes them visible. On success their
    /// layer is empty, on failure unchanged. `adds` if they may add more bytes than they remove.
    /// Returns the number of the record, or of the last one if no write goes to the disk.
    #[inline(always)]
    pub(crate) fn append(
        &mut self,
        writes: &mut WriteSet,
        advance: MetaDelta,
        burden: Option<Burden>,
    ) -> Result<u64, StoreFailure> {
        self.ensure_running().map_err(StoreFailure::Broken)?;
        #[cfg(test)]
        if is_planted("skip_dropped") {
            self.rows.learn_from_unwritten(&writes.layer);
        }
        if writes.has_durable {
            let layer = &writes.layer;
            let meta = self.meta.advanced(advance);
            let armed = self.health.arm();
            let reserves = meta.reserved != self.meta.reserved;
            let written = match &mut self.ring {
                Some(ring) => {
                    let burden = burden.unwrap_or_else(|| Burden::of(layer));
                    let carried = self.rows.carry_bytes();
                    let (mut load, mut growth) = (Load::of(carried, ring.size, burden), 0);
                    if !writes.days.is_empty() {
                        // Those of a day together, though the op has changed between tubes.
                        writes.days.sort_by_key(|entry| (entry.run, entry.day));
                        growth = self.rows.days.growth(&writes.days);
                        load.carried += growth;
                    }
                    let durable = layer.iter().filter(|(key, _)| !is_temporary(key));
                    ring.append(&meta, reserves, durable, (&writes.days, growth), load)
                }
                None => Ok(self.number + 1),
            };
            armed.disarm();
            match written {
                // Numbers count as reserved only after a record contains them.
                Ok(number) => (self.number, self.meta) = (number, meta),
                Err(fault) => return Err(self.write_failed(fault)),
            }
            if reserves {
                self.reserved_at = self.number;
            }
        }
        let armed = self.health.arm();
        self.rows.apply(writes);
        armed.disarm();
        if !writes.days.is_empty() {
            self.collect_days(writes);
        }
        Ok(self.number)
    }

    /// Checks that there is space for what these writes add to the temporary tubes, which take
    /// together at most so many bytes.
    ///
    /// # Errors
    /// `Full` if the tubes would exceed their limit.
    pub(crate) fn admit_temporary(&mut self, writes: &Layer, most: u64) -> Result<()> {
        let growth = self.rows.temporary_growth(writes);
        let before = self.rows.temporary.bytes() as u64;
        let after = before.saturating_add_signed(growth);
        if growth > 0 && after > most {
            self.refused_at = self.refused_at.max(Some(before));
            return Err(Error::new(ErrorKind::Full).because("the temporary tubes' byte limit"));
        }
        Ok(())
    }

    /// Whether the temporary tubes have fewer bytes than when writes were refused because of their
    /// limit. Returns true once.
    #[inline]
    pub(crate) fn has_relief(&mut self) -> bool {
        let bytes = self.rows.temporary.bytes() as u64;
        self.refused_at.take_if(|refused| bytes < *refused).is_some()
    }

    /// The number of the last record written.
    pub(crate) fn written(&self) -> u64 {
        self.number
    }

    /// The checkpoints since the opening, including commits with the application's tables.
    pub(crate) fn checkpoints(&self) -> EndedCheckpoints {
        let (done, failed) = (self.checkpoints_done, self.checkpoints_failed);
        EndedCheckpoints { done, failed, is_full: self.full }
    }

    /// Bytes of the journal's ring in use, and the maximum of them; 0 in memory.
    pub(crate) fn ring(&self) -> (u64, u64) {
        let Some(ring) = &self.ring else { return (0, 0) };
        let used = ring.used();
        (used, used + ring.left(self.load(ring, Burden::Adds)))
    }

    /// Whether a checkpoint is running.
    pub(crate) fn is_checkpointing(&self) -> bool {
        self.rows.frozen.is_some()
    }

    /// Whether it is time for a checkpoint.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        if self.rows.frozen.is_some() {
            return false;
        }
        match &self.ring {
            Some(ring) => {
                let retry_at = if self.full { self.retry_at } else { 0 };
                ring.used() >= retry_at.max(ring.size / CHECKPOINT_AT_DIVISOR)
            }
            None => self.rows.active.inserted_bytes() as u64 >= self.config.journal_bytes,
        }
    }

    /// Whether an idle queue should checkpoint, so that its next opening is fast.
    pub(crate) fn wants_quiet_checkpoint(&self) -> bool {
        let worth_it = |ring: &Ring| ring.used() >= ring.size / QUIET_CHECKPOINT_DIVISOR;
        self.ring.as_ref().is_some_and(worth_it) && self.rows.frozen.is_none()
    }

    /// Whether puts must be refused: a checkpoint has met a full disk, and the base does not have
    /// its reserve again yet.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// As if a checkpoint had met a full disk.
    #[cfg(test)]
    pub(crate) fn set_full(&mut self) {
        self.full = true;
    }

    /// Runs a whole checkpoint, with the store's lock held.
    pub(crate) fn checkpoint(&mut self) -> Result<()> {
        let failed = self.try_checkpoint()?;
        failed.map_or(Ok(()), |error| self.continue_after(error))
    }

    /// Takes back a checkpoint that failed. On a full disk it then writes what still fits, see
    /// `store::full`. `Ok` if the checkpoint is done after all.
    ///
    /// # Errors
    /// Why the checkpoint failed, if the store continues without it; `Broken` if it does not.
    pub(crate) fn checkpoint_failed(&mut self, failure: CheckpointFailure) -> Result<()> {
        self.checkpoints_failed += 1;
        let failed = self.take_back(failure)?;
        failed.map_or(Ok(()), |error| self.continue_after(error))
    }

    /// Runs a last checkpoint and closes both files, also after an error.
    pub(crate) fn close(&mut self) -> Result<()> {
        if self.base.is_none() && self.ring.is_none() {
            return Ok(());
        }
        let mut done = Ok(());
        if self.ensure_running().is_ok() {
            // A checkpoint may have begun and never ended.
            self.rows.thaw();
            // On a full disk the journal has all rows.
            done = self.checkpoint().or_else(|error| match error.kind() {
                ErrorKind::DiskFull => Ok(()),
                _ => Err(error),
            });
        }
        let stopped = self.ensure_running().is_err();
        self.base_file = None;
        if let Some(base) = self.base.take() {
            let opening = base.into_opening();
            if stopped {
                // Nothing may be written after a failed sync.
                opening.health.detach();
            }
            let health = opening.health.clone();
            drop(opening);
            // A reader may still have the opening. It must not read after the lock is released.
            health.detach();
        }
        if let Some(ring) = self.ring.take() {
            if !stopped {
                ring.note_clean_end();
            }
            ring.journal.release();
        }
        // A store without a ring would look like one in memory.
        self.health.close();
        done
    }
}

impl View for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let base = self.base()?;
        self.read_result(self.rows.get(base, key))
    }

    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        let base = self.base()?;
        self.read_result(self.rows.first(base, from, to))
    }

    fn count(&self, range: Range) -> u64 {
        self.rows.counts.of(range)
    }

    fn count_all(&self, run: Run, tags: &[Tag]) -> u64 {
        self.rows.counts.of_tags(run, tags)
    }

    fn durable_bytes(&self) -> u64 {
        self.meta.durable_bytes
    }

    fn is_full(&self) -> bool {
        Self::is_full(self)
    }
}
