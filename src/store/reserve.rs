//! The base's file: the part that redb sees, and after it a reserve. Every block of both is
//! allocated before redb sees it, so a full disk is met when the file grows and never when a page
//! is written. The reserve is for the checkpoint that meets a full disk: its blocks belong to the
//! file, so no other program can take them, and the next opening shows them to redb as free pages.
//!
//! The file's length states the size of the reserve: redb's part is a multiple of a page, and each
//! unit of the reserve is two bytes longer than a multiple. redb's own first block cannot state it:
//! a commit that shrinks the file is written there before it is valid.
//!
//! The lowest bit of the length means nothing. Every opening changes it, so that the next sync
//! writes the length. After a failed sync the system may show a length that is not on the medium.
//! redb would then write pages that are part of the reserve after a power cut.

use super::disk::DiskFile;
use crate::words::sync::Arc;
use crate::words::sync::plain::Mutex;
use std::io;

/// Bytes of a page of redb.
const PAGE: u64 = 4096;
/// Bytes of a unit of the reserve. The smallest commit takes about 20 pages.
const UNIT: u64 = 128 << 10;
/// Bytes that each unit adds to the length beyond whole pages.
const UNIT_MARK: u64 = 2;
/// Units of the smallest reserve, and of the largest one of a file with one region.
const LEAST: u64 = 2;
const MOST: u64 = 32;
/// 1/PART of the file is reserved.
const PART: u64 = 16;
/// Bytes of a region of redb. Every commit writes a map of the free pages of each.
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
            // Not a file of ours: redb reports that.
            _ => Self { seen: len, units: 0 },
        }
    }

    fn len(self) -> u64 {
        self.seen + self.units * (UNIT + UNIT_MARK)
    }
}

/// The units of reserve of a file of this size.
fn wanted(seen: u64) -> u64 {
    let units = (seen / PART / UNIT).clamp(LEAST, MOST);
    (units + seen / REGION * MAP_UNITS).min(PAGE / UNIT_MARK - 1)
}

/// Changes the lowest bit of the length, so that the next sync writes the length. Takes no block of
/// the disk: the last page after redb's part belongs to no unit.
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

    /// Bytes of reserve that the file needs.
    pub(super) fn reserve_wanted(&self) -> u64 {
        wanted(self.seen()) * UNIT
    }

    /// Whether the reserve has the size that the file needs.
    pub(super) fn has_reserve(&self) -> bool {
        let extent = self.extent.lock();
        extent.units >= wanted(extent.seen)
    }

    /// Sets the bytes that redb sees. If they become fewer, the others fill the reserve first.
    ///
    /// # Errors
    /// Those of the disk; then the file is unchanged.
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

    /// Fills the reserve up to the size that the file needs.
    ///
    /// # Errors
    /// Those of the disk; then the file is unchanged.
    pub(super) fn restore(&self) -> io::Result<()> {
        let mut extent = self.extent.lock();
        let next = Extent { units: wanted(extent.seen).max(extent.units), ..*extent };
        if next == *extent { Ok(()) } else { self.grow(&mut extent, next) }
    }

    /// Makes redb see so many more bytes, which are free pages for its next opening. Called while
    /// redb does not have the file open.
    ///
    /// # Errors
    /// Those of the disk; then the file is unchanged.
    pub(super) fn extend(&self, bytes: u64) -> io::Result<()> {
        let seen = self.seen() + bytes.next_multiple_of(PAGE);
        self.set_seen(seen)
    }

    /// Makes redb see the reserve, as free pages for its next opening. Called while redb does not
    /// have the file open.
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
            // Frees what was allocated.
            Err(_) => self.file.set_len(from)?,
        }
        grown
    }
}
