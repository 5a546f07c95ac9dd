//! What a checkpoint does that meets a full disk. First the base grows by the space that the disk
//! still has. If that is too little, puts are refused and the overlay is carried: the journal gets
//! its rows once more, which frees the ring. Then as many rows as fit are written to the base,
//! removals first, because they free pages for the others.

use super::Store;
use super::base::{Base, Opening, fenced};
use super::carry::{Burden, KEPT_PART, Load};
use super::checkpoint::{abort, keep_reserve, write_rows};
use super::journal::{Ring, WriteFault};
use super::record::set_boot;
use crate::format::extension::Extension;
use crate::format::key::Key;
use crate::format::layer::Layer;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::SLICE_ROWS;

/// How often the base grows by a smaller step than redb's before the overlay is carried.
const STEPS: usize = 4;
/// Bytes by which the base grows in addition to those of the rows.
const STEP_BYTES: u64 = 1 << 20;
/// The first step is at least 1/STEP_PART of the base's file.
const STEP_PART: u64 = 16;
/// Bytes of the smallest step.
const STEP_MIN: u64 = 16 << 10;
/// Rows of the smallest slice that adds rows.
const ADDS_MIN: usize = 16;

impl Store {
    #[inline]
    pub(super) fn load(&self, ring: &Ring, burden: Burden) -> Load {
        Load::of(self.rows.carry_bytes(self.frozen_runs.len()), ring.size(), burden)
    }

    /// Whether due tasks may be moved on a full disk. They can wait: a take hands out ready tasks,
    /// and their acks free space.
    pub(crate) fn promotes(&self) -> bool {
        let room = |ring: &Ring| ring.left(self.load(ring, Burden::Adds)) >= ring.size() / 16;
        !self.full || self.ring.as_ref().is_none_or(room)
    }

    /// Continues after a checkpoint that met a full disk. `Ok` if a second try has succeeded.
    ///
    /// # Errors
    /// `DiskFull` if the base has no space for some rows of the overlay: the journal keeps them.
    /// `Broken` if the store cannot continue.
    pub(super) fn make_do(&mut self, error: Error) -> Result<()> {
        let mut error = error;
        for _ in 0..STEPS {
            if !self.reopen_larger()? {
                break;
            }
            match self.try_again()? {
                None => return Ok(()),
                Some(failed) => error = failed,
            }
            if error.kind() != ErrorKind::DiskFull {
                self.reopen()?;
                return Err(self.named(error));
            }
        }
        self.full = true;
        self.carry()?;
        self.reopen_behind(|file| file.reveal().map_err(Error::io))?;
        self.write_what_fits()?;
        let used = self.ring.as_ref().map_or(0, |ring| ring.used() + ring.size() / KEPT_PART);
        self.stuck = (self.number, used);
        Err(self.named(error))
    }

    /// Runs a whole checkpoint. Returns its error, if there was one after which the store can
    /// continue.
    fn try_again(&mut self) -> Result<Option<Error>> {
        let Some(checkpoint) = self.freeze()? else { return Ok(None) };
        match checkpoint.run() {
            Ok(renewed) => {
                drop(self.renew(renewed));
                Ok(None)
            }
            Err(failure) => self.take_back(failure),
        }
    }

    /// Opens the base again with a larger file. redb itself doubles the file, and later adds
    /// gigabytes, for which the disk may have no space. Returns whether the file has grown.
    pub(super) fn reopen_larger(&mut self) -> Result<bool> {
        let rows = self.rows.carry_bytes(0);
        let mut grown = false;
        self.reopen_behind(|file| {
            let mut step = (rows * 2 + STEP_BYTES).max(file.seen() / STEP_PART);
            while !grown && step >= STEP_MIN {
                grown = file.extend(step).is_ok();
                step /= 2;
            }
            Ok(())
        })?;
        Ok(grown)
    }

    /// Writes the overlay to the journal once more, which frees the ring without the base.
    ///
    /// # Errors
    /// `Broken` if the store cannot continue.
    fn carry(&mut self) -> Result<()> {
        let serial = self.base()?.anchor().serial;
        let counts = self.rows.counts.moved();
        let Some(ring) = &mut self.ring else { return Ok(()) };
        let mut extension = Extension::default();
        if let Some(boot) = self.boot {
            set_boot(&mut extension, boot);
        }
        match ring.carry(serial, (&self.stamp, &extension), &self.rows.active, &counts) {
            Ok(()) => {
                self.number = ring.last().link.number;
                Ok(())
            }
            // The ring stays as full as it was.
            Err(WriteFault::NoRoom | WriteFault::TooLarge | WriteFault::Undone(_)) => Ok(()),
            Err(WriteFault::Stuck(error)) => Err(self.stop(Error::io(error))),
        }
    }

    /// Carries the overlay if the free part of the ring is nearly used up. Each opening writes a
    /// record there, and a long row of openings that fail would fill it.
    pub(super) fn make_room_for_opening(&mut self) -> Result<()> {
        let is_short = |store: &Self| {
            store.ring.as_ref().is_some_and(|ring| {
                ring.lacks(store.load(ring, Burden::Frees), ring.size() / KEPT_PART / 4)
            })
        };
        if !is_short(self) {
            return Ok(());
        }
        // A replay does not know which removed rows were made in the journal.
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
        if is_short(self) { self.carry() } else { Ok(()) }
    }

    /// Writes rows to the base in small commits. They do not change its anchor: a replay over any of
    /// them gives the same rows.
    fn write_what_fits(&mut self) -> Result<()> {
        let dead = self.write_slices(true, 1)?;
        let alive = self.write_slices(false, ADDS_MIN)?;
        self.rows.active.keep(|key, op| {
            let written = if op.is_remove() { &dead } else { &alive };
            written.as_ref().is_none_or(|written| key > written)
        });
        self.rows.settle_dead();
        Ok(())
    }

    /// Writes the removals, or the other rows, until there is no space for a slice of `least` rows.
    /// Returns the last key written.
    fn write_slices(&mut self, dead: bool, least: usize) -> Result<Option<Key>> {
        let (mut last, mut most) = (None, SLICE_ROWS);
        loop {
            let Some(opening) = self.base.take().map(Base::into_opening) else { return Ok(last) };
            let written = write_slice(&opening, &self.rows.active, dead, last.as_ref(), most)
                .and_then(|written| Ok((written, Base::over(opening.clone())?)));
            let fault = opening.fate.fault();
            match written {
                Ok((written, base)) => {
                    self.base = Some(base);
                    if written.is_none() {
                        return Ok(last);
                    }
                    last = written;
                }
                Err(error) => {
                    opening.fate.cut();
                    drop(opening);
                    let error = self.recoverable(error, fault)?;
                    self.reopen()?;
                    if error.kind() != ErrorKind::DiskFull || most <= least {
                        return Ok(last);
                    }
                    most = (most / 4).max(least);
                }
            }
        }
    }
}

/// Writes the next slice of at most `most` rows. Returns the last key written, if there was one.
fn write_slice(
    opening: &Opening,
    layer: &Layer,
    dead: bool,
    last: Option<&Key>,
    most: usize,
) -> Result<Option<Key>> {
    let rest = layer.after(last).filter(|(_, op)| op.is_remove() == dead);
    let txn = opening.begin_write()?;
    let written = write_rows(&txn, opening, rest.take(most)).and_then(|written| {
        // Added rows must not use the reserve, which removals need.
        if !dead && written.is_some() {
            keep_reserve(&txn, opening)?;
        }
        Ok(written)
    });
    match written {
        Ok(Some(written)) => {
            fenced(&opening.fate, || Ok(txn.commit()?))?;
            Ok(Some(written))
        }
        nothing => {
            abort(txn, opening);
            nothing
        }
    }
}
