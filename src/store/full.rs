//! What happens on a full disk. The base grows by the space that the disk still has. If that is too
//! little, puts are refused. The overlay is carried in the journal, so that the ring has space
//! again. As many rows as fit are written to the base: removals first, because they free space for
//! the rest.

use super::Store;
use super::base::Base;
use super::base_transaction::BaseTransaction;
use super::carry::{Burden, KEPT_PART, Load};
use super::checkpoint::sync_up_to;
use super::database::Opening;
use super::record::set_boot;
use super::redb_errors::Fault;
use super::ring::{Ring, WriteFault};
use crate::format::RowOp;
use crate::format::extension::Extension;
use crate::format::key::{Key, Tag};
use crate::format::layer::Layer;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::SLICE_ROWS;
use crate::words::sync::Arc;

/// How often the base grows, by a smaller step than redb's, before the overlay is carried.
const STEPS: usize = 4;
/// Bytes by which the base grows in addition to those of the rows.
const STEP_BYTES: u64 = 1 << 20;
/// The first step that is tried is at least the base's file divided by this.
const STEP_PART: u64 = 16;
/// Bytes of the smallest step that is tried.
const STEP_MIN: u64 = 16 << 10;
/// Rows of the smallest slice that is tried for rows that are not removals.
const ADDS_MIN: usize = 16;

impl Store {
    #[inline]
    pub(super) fn load(&self, ring: &Ring, burden: Burden) -> Load {
        Load::of(self.rows.carry_bytes(), ring.size, burden)
    }

    /// Whether due tasks may be moved, which needs space. On a full disk they can wait: a take
    /// still gets the ready tasks, and their acks free space.
    pub(crate) fn promotes(&self) -> bool {
        let room = |ring: &Ring| ring.left(self.load(ring, Burden::Adds)) >= ring.size / 16;
        !self.full || self.ring.as_ref().is_none_or(room)
    }

    /// Continues after this error of a checkpoint that was taken back. `Ok` if the checkpoint is
    /// done after all.
    ///
    /// # Errors
    /// The error; `DiskFull` if rows of the overlay do not fit into the base: the journal has them.
    /// `Broken` if the store cannot continue.
    pub(super) fn continue_after(&mut self, mut error: Error) -> Result<()> {
        let mut steps = 0;
        while error.kind() == ErrorKind::DiskFull && steps < STEPS && self.reopen_larger()? {
            match self.try_checkpoint()? {
                None => return Ok(()),
                Some(failed) => error = failed,
            }
            steps += 1;
        }
        if error.kind() != ErrorKind::DiskFull {
            self.reopen()?;
            return Err(self.with_folder(error));
        }
        self.full = true;
        // The last commit may have taken place: the carry says which base it is made for.
        self.reopen_after(|file| file.reveal().map_err(Error::io))?;
        let carried = self.carry()?;
        if !carried {
            // The base must not have rows of records that are not on the medium.
            let synced = sync_up_to(self.journal().as_deref(), self.number);
            synced.map_err(|error| self.stop(error))?;
        }
        self.write_what_fits(carried)?;
        let used = self.ring.as_ref().map_or(0, |ring| ring.used() + ring.size / KEPT_PART);
        (self.number_when_full, self.retry_at) = (self.number, used);
        Err(self.with_folder(error))
    }

    /// Opens the base again with more free pages. redb would double its file, and later grow it by
    /// gigabytes, for which the disk may have no space. Returns whether the file has grown.
    pub(super) fn reopen_larger(&mut self) -> Result<bool> {
        let rows = self.rows.carry_bytes();
        let mut grown = false;
        self.reopen_after(|file| {
            let mut step = (rows * 2 + STEP_BYTES).max(file.seen() / STEP_PART);
            while !grown && step >= STEP_MIN {
                grown = file.extend(step).is_ok();
                step /= 2;
            }
            Ok(())
        })?;
        Ok(grown)
    }

    /// Opens the base again if a transaction that was given up has failed at it. If it found the
    /// disk full, the base grows by less than redb asks for at once, as after a commit that failed:
    /// the next one may fit.
    ///
    /// # Errors
    /// `Broken` if that is not possible.
    pub(crate) fn transaction_ended(&mut self) -> Result<()> {
        self.ensure_reading()?;
        match self.base()?.opening().health.fault() {
            Some(Fault::Retryable { full: true }) if self.rows.frozen.is_none() => {
                self.reopen_larger().map(drop)
            }
            _ => self.reopen_if_failed(),
        }
    }

    /// Writes the overlay to the journal once more, which frees the ring without the base. Returns
    /// `false` if that fails, and nothing has changed: the ring stays as full as it was.
    ///
    /// # Errors
    /// `Broken` if the store cannot continue.
    fn carry(&mut self) -> Result<bool> {
        if self.write_days().is_err() {
            return Ok(false);
        }
        let serial = self.base()?.anchor.serial;
        let counts = self.rows.counts.moved();
        let Some(ring) = &mut self.ring else { return Ok(false) };
        let mut extension = Extension::default();
        set_boot(&mut extension, self.boot);
        match ring.carry(serial, (&self.meta, &extension), &self.rows.active, &counts) {
            Ok(()) => {
                self.number = ring.last.link.number;
                Ok(true)
            }
            Err(WriteFault::NoRoom | WriteFault::TooLarge | WriteFault::Undone(_)) => Ok(false),
            Err(WriteFault::Fatal(error)) => Err(self.stop(Error::io(error))),
        }
    }

    /// Frees space in the ring if little is left. Each opening writes a record into the part of the
    /// ring that is kept free, and many failed openings in a row would use that up.
    pub(super) fn make_room_for_opening(&mut self) -> Result<()> {
        let is_short = |store: &Self| {
            store.ring.as_ref().is_some_and(|ring| {
                ring.lacks(store.load(ring, Burden::Frees), ring.size / KEPT_PART / 4)
            })
        };
        if !is_short(self) {
            return Ok(());
        }
        // A replay keeps a tombstone also for a row that was only ever in the journal. Those are
        // dropped here.
        let base = self.base.as_ref();
        let mut failed = Ok(());
        self.rows.active.keep(|key, op| {
            !op.is_remove()
                || match base.map(|base| base.get(key)) {
                    Some(Ok(found)) => found.is_some(),
                    Some(Err(error)) if error.kind() != ErrorKind::Damaged => {
                        failed = Err(error);
                        true
                    }
                    _ => true,
                }
        });
        failed?;
        if is_short(self) { self.carry().map(drop) } else { Ok(()) }
    }

    /// Writes rows to the base in small commits, which do not move its anchor: after any of them a
    /// replay leads to the same rows. Those of days go only if they were carried just before: a
    /// replay then begins with them. Otherwise it would add to them once more.
    fn write_what_fits(&mut self, carried: bool) -> Result<()> {
        let dead = self.write_slices((true, carried), 1)?;
        // redb frees the pages of removed rows in the commit after the one that removes them. If
        // the rows that are left never fit, that commit would never come. Where this one does not
        // fit, the next checkpoint tries again.
        let _ =
            self.commit_to_base(|opening, _| BaseTransaction::begin(opening.clone())?.commit())?;
        let alive = self.write_slices((false, carried), ADDS_MIN)?;
        self.rows.active.keep(|key, op| {
            let written = if op.is_remove() { &dead } else { &alive };
            stays((key, op), carried) || written.as_ref().is_none_or(|written| key > written)
        });
        self.rows.settle_dead();
        Ok(())
    }

    /// Writes the removals, or the other rows, after a carry or without one, until a slice of
    /// `least` rows does not fit. Returns the last key written.
    fn write_slices(&mut self, which: (bool, bool), least: usize) -> Result<Option<Key>> {
        let rows = self.rows.active.iter().filter(|row| is_of_slice(*row, which)).count();
        // A slice that does not fit is not tried again with the same rows.
        let (mut last, mut most) = (None, rows.min(SLICE_ROWS));
        loop {
            let from = last.as_ref();
            let write = |opening: &_, rows: &_| write_slice(opening, rows, which, from, most);
            match self.commit_to_base(write)? {
                Ok(None) => return Ok(last),
                Ok(written) => last = written,
                Err(error) if error.kind() != ErrorKind::DiskFull || most <= least => {
                    return Ok(last);
                }
                Err(_) => most = (most / 4).max(least),
            }
        }
    }

    /// Commits to the base while no snapshot of it keeps redb from using the pages that are free.
    /// If that fails, with the inner result, the base is opened again.
    ///
    /// # Errors
    /// `Broken` if the store cannot continue.
    fn commit_to_base<T>(
        &mut self,
        commit: impl FnOnce(&Arc<Opening>, &Layer) -> Result<T>,
    ) -> Result<Result<T>> {
        let Some(opening) = self.base.take().map(Base::into_opening) else {
            return Ok(Err(Error::new(ErrorKind::Closed)));
        };
        let done = commit(&opening, &self.rows.active)
            .and_then(|done| Ok((done, Base::over(opening.clone())?)));
        let fault = opening.health.fault();
        match done {
            Ok((done, base)) => {
                self.base = Some(base);
                Ok(Ok(done))
            }
            Err(error) => {
                opening.health.detach();
                drop(opening);
                let error = self.recoverable(error, fault)?;
                self.reopen()?;
                Ok(Err(error))
            }
        }
    }
}

/// Whether a row waits for a whole checkpoint or a carry. A replay adds nothing to a row that is
/// removed.
fn stays((key, op): (&Key, &RowOp), carried: bool) -> bool {
    !carried && key.first() == Some(&(Tag::Day as u8)) && !op.is_remove()
}

/// Whether a row goes into the slices of removals, or of the others, after a carry or without one.
fn is_of_slice(row: (&Key, &RowOp), (dead, carried): (bool, bool)) -> bool {
    row.1.is_remove() == dead && !stays(row, carried)
}

/// Writes one slice. Returns the last key written, if there was one to write.
fn write_slice(
    opening: &Arc<Opening>,
    layer: &Layer,
    which: (bool, bool),
    last: Option<&Key>,
    most: usize,
) -> Result<Option<Key>> {
    let rest = layer.after(last).filter(|row| is_of_slice(*row, which));
    let txn = BaseTransaction::begin(opening.clone())?;
    let written = txn.write_rows(rest.take(most))?;
    if written.is_none() {
        return Ok(None);
    }
    // Rows that are added must leave the reserve to removals.
    if !which.0 {
        txn.keep_reserve()?;
    }
    txn.commit()?;
    Ok(written)
}
