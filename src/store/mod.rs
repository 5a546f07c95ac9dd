//! The only folder that names redb. It makes lists of row writes durable and visible, and answers
//! what the rows are now; what the rows mean it does not know.
//!
//! One record of the journal a list, then the overlay; a checkpoint moves the overlay into the
//! base. Nothing here starts a thread or takes a lock that is held over a call of another's.

pub(crate) mod disk;
mod io_counters;
mod shield;
mod features;
mod head;
mod record;
mod tables;
mod range_cache;
mod paced_io;
mod scratch;
mod reserve;
mod base;
mod counts;
mod carry;
mod journal;
mod journal_reader;
mod view;
mod snapshot;
mod merge;
mod checkpoint;
mod app_tables;
mod marks;
mod folder;
mod progress;
mod create;
mod open;
mod health;
mod heal;
mod full;
mod check;
mod compact;
mod space;
#[cfg(test)]
mod tests;

use crate::format::key::{Run, is_temporary};
use crate::format::layer::Layer;
use crate::format::{Met, Range, Value, View};
use crate::words::clock::Boot;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{CHECKPOINT_AT_DIVISOR, QUIET_CHECKPOINT_DIVISOR, READ_AHEAD_DIVISOR};
use crate::words::sync::Arc;
pub(crate) use app_tables::{AppReader, AppTransaction, AppWriter, is_app_table};
use base::{Base, is_corruption_panic};
use carry::{Burden, Load};
pub(crate) use checkpoint::{Checkpoint, Renewed};
pub(crate) use disk::Disk;
use features::Feature;
pub(crate) use features::KNOWN;
pub(crate) use folder::Folder;
pub(crate) use health::Health;
use io_counters::IoCounters;
pub(crate) use journal::Journal;
use journal::{Ring, WriteFault};
pub(crate) use open::{Clocks, Opened};
pub(crate) use paced_io::IoPacer;
pub use progress::{Progress, Stage};
pub(crate) use record::MetaDelta;
use record::RecordMeta;
pub(crate) use snapshot::Snapshot;
pub use space::{BaseSpace, Space};
use view::Rows;

/// Reads the bytes as a head and as a record. For fuzzing.
pub(crate) fn probe(bytes: &[u8]) {
    head::probe(bytes);
    record::probe(bytes);
}

/// How a store is to be.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Bytes of the journal's ring; counts when the queue is born. In memory, bytes that come
    /// before a checkpoint.
    pub(crate) journal_bytes: u64,
    /// Bytes of redb's cache.
    pub(crate) cache_bytes: usize,
    /// Bytes that all rows of temporary tubes may take.
    pub(crate) temporary_bytes_max: u64,
    /// Open although synced records are missing.
    pub(crate) accept_loss: bool,
    /// The features that this version knows.
    pub(crate) known: &'static [Feature],
}

/// Why a list of row writes was not carried out. In every case nothing of it is visible.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The journal has no room: checkpoint, and try again.
    NoRoom,
    /// The journal will never have room: commit with guests instead.
    TooLarge,
    /// Refused, and nothing happened.
    Refused(Error),
    /// The store has stopped.
    Broken(Error),
}

/// What a checkpoint has made superfluous. A layer of many rows takes as long to drop as thousands
/// of verbs, so it is for the caller to do so without the store's lock.
#[must_use = "to be dropped without the store's lock"]
pub(crate) struct Retired {
    base: Option<Base>,
    frozen: Option<Arc<Layer>>,
    /// Most bytes that are read ahead.
    ahead: u64,
}

impl Retired {
    /// Drops it, but reads before what those who read in order will want until the next checkpoint,
    /// while it may: they need not wait for the disk then. The old snapshot knows how far they have
    /// come, and nearly all its pages are the new one's.
    ///
    /// # Errors
    /// As for any read; the store is to be healed behind them.
    pub(crate) fn read_ahead(self, may_go_on: &dyn Fn() -> bool) -> Result<()> {
        drop(self.frozen);
        self.base.map_or(Ok(()), |base| base.read_ahead(self.ahead, may_go_on))
    }
}

/// The rows of one queue, and the two files that keep them.
pub(crate) struct Store {
    /// `None` in memory.
    disk: Option<Arc<dyn Disk>>,
    traffic: Arc<IoCounters>,
    config: Config,
    /// `None` in memory.
    ring: Option<Ring>,
    /// `None` only between two openings of its file, and when that failed.
    base: Option<Base>,
    rows: Rows,
    /// Runs whose counts the checkpoint under way writes.
    frozen_runs: Vec<Run>,
    /// The stamp behind everything that was carried out or replayed. A list that failed leaves no
    /// trace here, or its bytes would be counted again when it comes again.
    stamp: RecordMeta,
    /// The start of the machine that this run belongs to.
    boot: Option<Boot>,
    /// Records so far, in memory.
    number: u64,
    /// Since the opening.
    checkpoints_done: u64,
    /// Whether puts are refused until the base has its reserve again.
    full: bool,
    /// The last record when a full disk was last met, and the bytes of the ring from which on a
    /// checkpoint is tried again.
    stuck: (u64, u64),
    /// Bytes of the temporary tubes at which a list was last refused for them.
    refused_at: Option<u64>,
    pub(crate) health: Arc<Health>,
}

impl Store {
    /// Writes rows as a whole: one record, then all are visible. On success the layer is empty, on
    /// failure unchanged. `adds` if they may add more than they remove. Returns the number of the
    /// record, or of the last one if none was written.
    #[inline(always)]
    pub(crate) fn append(
        &mut self,
        writes: &mut Layer,
        advance: MetaDelta,
        adds: bool,
    ) -> Result<u64, Failure> {
        self.stopped().map_err(Failure::Broken)?;
        #[cfg(canary_skip_dropped)]
        self.rows.learn_from_unwritten(writes);
        if writes.has_durable() {
            let stamp = self.stamp.moved(advance);
            let armed = self.health.arm();
            let written = match &mut self.ring {
                Some(ring) => {
                    let burden = if adds { Burden::Adds } else { Burden::of(writes) };
                    let carried = self.rows.carry_bytes(self.frozen_runs.len());
                    let load = Load::of(carried, ring.size(), burden);
                    let durable = writes.iter().filter(|(key, _)| !is_temporary(key));
                    let reserves = stamp.reserved != self.stamp.reserved;
                    ring.append(&stamp, reserves, durable, load)
                }
                None => Ok(self.number + 1),
            };
            armed.disarm();
            match written {
                // What no record carries is not reserved.
                Ok(number) => (self.number, self.stamp) = (number, stamp),
                Err(fault) => return Err(self.write_failed(fault)),
            }
        }
        let armed = self.health.arm();
        writes.drain_into(|key, op| self.rows.apply(key, op));
        armed.disarm();
        Ok(self.number)
    }

    /// Whether there is room for what these writes add to the temporary tubes.
    ///
    /// # Errors
    /// `Full` if they would go over their limit.
    pub(crate) fn admit_temporary(&mut self, writes: &Layer) -> Result<()> {
        let growth = self.rows.temporary_growth(writes);
        let before = self.rows.temporary_bytes();
        let after = before.saturating_add_signed(growth);
        if growth > 0 && after > self.config.temporary_bytes_max {
            self.refused_at = self.refused_at.max(Some(before));
            return Err(Error::new(ErrorKind::Full).because("the temporary tubes' byte limit"));
        }
        Ok(())
    }

    /// Whether the temporary tubes hold less than when a list was refused for their bytes. Says so
    /// once.
    #[inline]
    pub(crate) fn has_relief(&mut self) -> bool {
        let bytes = self.rows.temporary_bytes();
        self.refused_at.take_if(|refused| bytes < *refused).is_some()
    }

    fn write_failed(&self, fault: WriteFault) -> Failure {
        match fault {
            // Nothing came since a checkpoint has done all that it could.
            WriteFault::NoRoom if self.full && self.stuck.0 == self.number => {
                Failure::Refused(self.named(Error::new(ErrorKind::DiskFull)))
            }
            WriteFault::NoRoom => Failure::NoRoom,
            WriteFault::TooLarge => Failure::TooLarge,
            WriteFault::Undone(error) => Failure::Refused(self.named(Error::io(error))),
            WriteFault::Stuck(error) => Failure::Broken(self.stop(
                Error::io(error).because("a write to the journal failed and was not undone"),
            )),
        }
    }

    /// Bytes read from the disk so far.
    #[cfg(test)]
    pub(crate) fn read_bytes(&self) -> u64 {
        self.traffic.read()
    }

    /// The last record written.
    pub(crate) fn written(&self) -> u64 {
        self.number
    }

    /// The journal, to sync it without the store's lock. `None` in memory.
    pub(crate) fn journal(&self) -> Option<Arc<Journal>> {
        self.ring.as_ref().map(|ring| ring.shared().clone())
    }

    /// How many checkpoints there were since the opening, commits with guests among them.
    pub(crate) fn checkpoints(&self) -> u64 {
        self.checkpoints_done
    }

    /// Bytes of the journal's ring in use; 0 in memory.
    #[inline]
    pub(crate) fn ring_used(&self) -> u64 {
        self.ring.as_ref().map_or(0, Ring::used)
    }

    /// The same, and how many that may be.
    pub(crate) fn ring(&self) -> (u64, u64) {
        let Some(ring) = &self.ring else { return (0, 0) };
        let used = ring.used();
        (used, used + ring.left(self.load(ring, Burden::Adds)))
    }

    /// Whether a checkpoint is under way.
    pub(crate) fn is_moving(&self) -> bool {
        self.rows.frozen.is_some()
    }

    /// Whether it is time for a checkpoint.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        if self.rows.frozen.is_some() {
            return false;
        }
        match &self.ring {
            Some(ring) => {
                let again = if self.full { self.stuck.1 } else { 0 };
                ring.used() >= again.max(ring.size() / CHECKPOINT_AT_DIVISOR)
            }
            None => self.rows.active.inserted_bytes() as u64 >= self.config.journal_bytes,
        }
    }

    /// Whether a quiet queue should checkpoint, so that its next opening is quick.
    pub(crate) fn wants_quiet_checkpoint(&self) -> bool {
        let worth_it = |ring: &Ring| ring.used() >= ring.size() / QUIET_CHECKPOINT_DIVISOR;
        self.ring.as_ref().is_some_and(worth_it) && self.rows.frozen.is_none()
    }

    /// Whether puts are to be refused: a checkpoint met a full disk, and the base does not have its
    /// reserve again.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Begins a checkpoint: what is active now is frozen, and written by the steps of the answer,
    /// without the store's lock. `None` while another is under way, or if there is nothing to do.
    pub(crate) fn freeze(&mut self) -> Result<Option<Checkpoint>> {
        self.heal()?;
        let base = self.base()?;
        let before = base.anchor();
        let anchor = self.next_anchor(before, self.stamp);
        if self.rows.frozen.is_some() {
            return Ok(None);
        }
        let stands = anchor.span == before.span && anchor.stamp == before.stamp;
        // Behind a full disk an empty one finds out whether the reserve stands again.
        if stands && self.rows.active.is_empty() && !self.full {
            return Ok(None);
        }
        let opening = base.opening().clone();
        let frozen = Arc::new(std::mem::take(&mut self.rows.active));
        self.rows.frozen = Some(frozen.clone());
        let tallies = self.rows.counts.freeze();
        self.frozen_runs = tallies.iter().map(|(run, _)| *run).collect();
        Ok(Some(Checkpoint {
            frozen,
            journal: self.journal(),
            opening,
            over: anchor.serial - 1,
            anchor,
            tallies,
            txn: None,
            last: None,
        }))
    }

    /// Ends a checkpoint that succeeded: reads go to the new snapshot, and the journal behind its
    /// anchor is free.
    pub(crate) fn renew(&mut self, renewed: Renewed) -> Retired {
        let serial = renewed.base.anchor().serial;
        // A commit with guests may have come between, and holds all this and more.
        if self.base.as_ref().is_some_and(|base| base.anchor().serial >= serial) {
            return Retired { base: Some(renewed.base), frozen: None, ahead: 0 };
        }
        self.adopt(renewed.base)
    }

    /// Goes on over a base that holds the frozen layer.
    fn adopt(&mut self, base: Base) -> Retired {
        if let Some(ring) = &mut self.ring {
            ring.free_before(base.anchor().span);
        }
        self.checkpoints_done += 1;
        let before = self.base.replace(base);
        let frozen = self.rows.frozen.take();
        self.frozen_runs.clear();
        self.rows.settle_dead();
        self.full = false;
        self.refill();
        // In memory there is no disk to wait for.
        let ahead =
            self.disk.as_ref().map_or(0, |_| self.config.cache_bytes / READ_AHEAD_DIVISOR) as u64;
        Retired { base: before, frozen, ahead }
    }

    /// A whole checkpoint, here and now.
    pub(crate) fn checkpoint(&mut self) -> Result<()> {
        let Some(checkpoint) = self.freeze()? else { return Ok(()) };
        match checkpoint.run() {
            Ok(renewed) => {
                drop(self.renew(renewed));
                Ok(())
            }
            Err(failure) => self.mend(failure),
        }
    }

    /// Where a commit with guests begins.
    pub(crate) fn writer(&mut self) -> Result<AppWriter> {
        self.heal()?;
        Ok(AppWriter { opening: self.base()?.opening().clone() })
    }

    /// Where a look at the application's own tables begins.
    pub(crate) fn reader(&self) -> Result<AppReader> {
        self.stopped()?;
        Ok(AppReader { opening: self.base()?.opening().clone() })
    }

    /// A last checkpoint, and both files are let go, whatever happens.
    pub(crate) fn close(&mut self) -> Result<()> {
        if self.base.is_none() && self.ring.is_none() {
            return Ok(());
        }
        let done = match self.stopped() {
            Ok(()) => {
                // A checkpoint that nobody has ended.
                self.thaw();
                match self.checkpoint() {
                    // The journal has it all.
                    Err(error) if error.kind() == ErrorKind::DiskFull => Ok(()),
                    done => done,
                }
            }
            Err(_) => Ok(()),
        };
        let stopped = self.stopped().is_err();
        if let Some(base) = self.base.take() {
            let opening = base.into_opening();
            if stopped {
                // Nothing may be written behind a failed sync.
                opening.fate.cut();
            }
            let fate = opening.fate.clone();
            drop(opening);
            // Whoever still reads has an opening that must not outlive the lock.
            fate.cut();
        }
        if let Some(ring) = self.ring.take() {
            ring.shared().release();
        }
        // Without its ring it would pass for one in memory.
        self.health.close();
        done
    }

    #[inline]
    fn base(&self) -> Result<&Base> {
        self.base.as_ref().ok_or_else(|| Error::new(ErrorKind::Broken).because("no base"))
    }

    /// # Errors
    /// `Broken` if an earlier failure has stopped the store.
    #[inline]
    fn stopped(&self) -> Result<()> {
        if self.ring.as_ref().is_some_and(|ring| ring.shared().has_failed()) {
            return Err(self.stop(Error::new(ErrorKind::Io).because("the journal was not synced")));
        }
        self.health.runs().map_err(|error| self.named(error))
    }

    /// Stops the queue for good. The error, told as the first of its kind.
    #[cold]
    fn stop(&self, error: Error) -> Error {
        self.health.break_down(error.to_string(), is_corruption_panic(&error));
        let kind = if error.is_outcome_unknown() { ErrorKind::Unknown } else { ErrorKind::Broken };
        self.named(Error::new(kind).caused_by(error))
    }

    fn named(&self, error: Error) -> Error {
        match &self.disk {
            Some(disk) => error.at(disk.folder()),
            None => error,
        }
    }

    /// Passes a read's answer on; a panic in it stops the store.
    #[inline]
    fn watched<T>(&self, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| match error.kind() {
            ErrorKind::Broken => self.stop(error),
            _ => self.named(error),
        })
    }
}

impl View for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let base = self.base()?;
        self.watched(self.rows.get(base, key))
    }

    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        let base = self.base()?;
        self.watched(self.rows.first(base, from, to))
    }

    fn count(&self, range: Range) -> u64 {
        self.rows.counted(range)
    }

    fn durable_bytes(&self) -> u64 {
        self.stamp.durable_bytes
    }
}
