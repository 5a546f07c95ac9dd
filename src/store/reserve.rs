//! The base's file: what redb sees of it, and behind that a reserve. Every block of both is
//! allocated before redb learns of it, so a full disk is met where the file grows and never where
//! a page is written. The reserve is for the checkpoint that meets a full disk: its blocks belong
//! to the file, so no other program can take them, and the next opening shows them to redb as free
//! pages.
//!
//! The file's length gives the size of the reserve: redb's part is a multiple of a page, and each
//! unit of the reserve is two bytes longer than a multiple. redb's own first block does not give
//! it: a commit that shrinks the file is written there before it counts.
//!
//! The lowest bit of the length carries nothing. Every opening changes it, and so the length is
//! written by the sync that follows. After a failed sync the system may show a length that is not
//! on the medium. redb would then write pages that a power cut puts into the reserve.

use super::disk::DiskFile;
use crate::words::sync::Arc;
use crate::words::sync::plain::Mutex;
use std::io;

/// Bytes of a page of redb.
const PAGE: u64 = 4096;
/// Bytes of a unit of the reserve; the smallest commit takes some 20 pages.
const UNIT: u64 = 128 << 10;
/// Bytes by which a unit makes the file longer than whole pages.
const UNIT_MARK: u64 = 2;
/// Units of the smallest reserve, and of the largest of a file of one region.
const LEAST: u64 = 2;
const MOST: u64 = 32;
/// One part in so many of the file is reserved.
const PART: u64 = 16;
/// Bytes of a region of redb, for each of which every commit writes a map of what is free.
const REGION: u64 = 4 << 30;
/// Units that are reserved for each such map.
const MAP_UNITS: u64 = 8;

/// Lengths of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// Bytes that redb sees.
    seen: u64,
    /// Units of the reserve.
    units: u64,
}

impl Extent {
    fn of(len: u64) -> Self {
        let units = len % PAGE / UNIT_MARK;
        match (len - len % PAGE).checked_sub(units * UNIT) {
            Some(seen) if seen >= PAGE => Self { seen, units },
            // No file of ours; redb reports that.
            _ => Self { seen: len, units: 0 },
        }
    }

    fn len(self) -> u64 {
        self.seen + self.units * (UNIT + UNIT_MARK)
    }
}

/// Units that a file of this size is to have in reserve.
fn wanted(seen: u64) -> u64 {
    let units = (seen / PART / UNIT).clamp(LEAST, MOST);
    (units + seen / REGION * MAP_UNITS).min(PAGE / UNIT_MARK - 1)
}

/// Changes the length without a change of what it says, so that the next sync writes it. Takes no
/// block of the disk: what redb does not see of the last page is no part of a unit.
pub(super) fn touch_len(file: &dyn DiskFile) -> io::Result<()> {
    file.set_len(file.len()? ^ 1)
}

/// The base's file with its reserve.
#[derive(Debug)]
pub(crate) struct BaseFile {
    pub(super) file: Arc<dyn DiskFile>,
    /// Held while the length changes.
    extent: Mutex<Extent>,
}

impl BaseFile {
    pub(super) fn new(file: Arc<dyn DiskFile>) -> io::Result<Self> {
        let extent = Mutex::new(Extent::of(file.len()?));
        Ok(Self { file, extent })
    }

    /// Bytes that redb sees.
    pub(super) fn seen(&self) -> u64 {
        self.extent.lock().seen
    }

    /// Bytes of the reserve that the file is to have.
    pub(super) fn reserve_wanted(&self) -> u64 {
        wanted(self.seen()) * UNIT
    }

    /// Whether the reserve is as large as it is to be.
    pub(super) fn has_reserve(&self) -> bool {
        let extent = self.extent.lock();
        extent.units >= wanted(extent.seen)
    }

    /// Changes what redb sees. What it gives up goes to the reserve first.
    ///
    /// # Errors
    /// As of the disk, and then the file is as it was.
    pub(super) fn set_seen(&self, seen: u64) -> io::Result<()> {
        let mut extent = self.extent.lock();
        let mut next = Extent { seen, units: wanted(seen) };
        if seen > extent.seen {
            return self.grow(&mut extent, next);
        }
        next.units = next.units.min((extent.len() - seen) / (UNIT + UNIT_MARK));
        self.file.set_len(next.len())?;
        *extent = next;
        Ok(())
    }

    /// Makes the reserve as large as it is to be.
    ///
    /// # Errors
    /// As of the disk, and then the file is as it was.
    pub(super) fn restore(&self) -> io::Result<()> {
        let mut extent = self.extent.lock();
        let next = Extent { units: wanted(extent.seen).max(extent.units), ..*extent };
        if next == *extent { Ok(()) } else { self.grow(&mut extent, next) }
    }

    /// Shows redb so many bytes more, to be free pages of the next opening. Only between two.
    ///
    /// # Errors
    /// As of the disk, and then the file is as it was.
    pub(super) fn extend(&self, bytes: u64) -> io::Result<()> {
        let seen = self.seen() + bytes.next_multiple_of(PAGE);
        self.set_seen(seen)
    }

    /// Shows redb the reserve, to be free pages of the next opening. Only between two.
    pub(super) fn reveal(&self) -> io::Result<()> {
        let mut extent = self.extent.lock();
        let next = Extent { seen: extent.seen + extent.units * UNIT, units: 0 };
        if next != *extent {
            self.file.set_len(next.len())?;
            *extent = next;
        }
        Ok(())
    }

    fn grow(&self, extent: &mut Extent, next: Extent) -> io::Result<()> {
        let (from, to) = (extent.len(), next.len());
        let grown = match to > from {
            true => self.file.allocate(from, to),
            false => self.file.set_len(to),
        };
        match grown {
            Ok(()) => *extent = next,
            // What was allocated is given back.
            Err(_) => self.file.set_len(from)?,
        }
        grown
    }
}
