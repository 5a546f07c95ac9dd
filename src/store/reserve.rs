//! The base's file: the part that redb sees, and after it a reserve. Every block of both is
//! allocated before redb sees it, so only growing the file can fail on a full disk, and never the
//! write of a page. The reserve is for the checkpoint that meets a full disk: its blocks belong to
//! the file, so no other program can take them. The next opening shows them to redb as free pages.
//!
//! The file's length gives the size of the reserve. redb's part is a multiple of a page, and each
//! unit of the reserve is two bytes longer than a multiple. The size cannot be read from redb's
//! first block: redb writes there that it shrinks before the shrinking commit is valid.
//!
//! The lowest bit of the length has no meaning. Every opening changes it, so that the next sync
//! writes the length. After a failed sync the system may show a length that is not on the medium.
//! redb would then write pages that after a power cut are part of the reserve.

use super::disk::DiskFile;
use crate::words::sync::Arc;
use crate::words::sync::plain::Mutex;
use std::io;

/// Bytes of a page of redb.
const PAGE: u64 = 4096;
/// Bytes of a unit of the reserve. The smallest commit writes about 20 pages.
const UNIT: u64 = 128 << 10;
/// Bytes by which a unit makes the file longer than whole pages.
const UNIT_MARK: u64 = 2;
/// Units of the smallest reserve, and of the largest of a file of one region.
const LEAST: u64 = 2;
const MOST: u64 = 32;
/// The reserve is the file's size divided by this, between `LEAST` and `MOST` units.
const PART: u64 = 16;
/// Bytes of a region of redb. Every commit writes a map of the free pages of each region.
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
            // Not a base; redb reports that.
            _ => Self { seen: len, units: 0 },
        }
    }

    fn len(self) -> u64 {
        self.seen + self.units * (UNIT + UNIT_MARK)
    }
}

/// Units that the reserve of a file of this size should have.
fn wanted(seen: u64) -> u64 {
    let units = (seen / PART / UNIT).clamp(LEAST, MOST);
    (units + seen / REGION * MAP_UNITS).min(PAGE / UNIT_MARK - 1)
}

/// Changes the lowest bit of the length, so that the next sync writes the length. This allocates no
/// block: redb sees only whole pages, and the last, partial page is no part of a unit.
pub(super) fn touch_len(file: &dyn DiskFile) -> io::Result<()> {
    file.set_len(file.len()? ^ 1)
}

/// The base's file with its reserve.
#[derive(Debug)]
pub(crate) struct BaseFile {
    pub(super) file: Arc<dyn DiskFile>,
    /// Locked while the length changes.
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

    /// Bytes that the reserve should have. `None` if it has them.
    pub(super) fn reserve_wanted(&self) -> Option<u64> {
        let extent = self.extent.lock();
        let units = wanted(extent.seen);
        (extent.units < units).then_some(units * UNIT)
    }

    /// Changes the part that redb sees. If it shrinks, the reserve gets the free blocks first.
    ///
    /// # Errors
    /// The disk's error; the file is then unchanged.
    pub(super) fn set_seen(&self, seen: u64) -> io::Result<()> {
        let mut extent = self.extent.lock();
        let mut next = Extent { seen, units: wanted(seen) };
        if seen <= extent.seen {
            next.units = next.units.min((extent.len() - seen) / (UNIT + UNIT_MARK));
        }
        self.resize(&mut extent, next)
    }

    /// Makes the reserve as large as it should be.
    ///
    /// # Errors
    /// The disk's error; the file is then unchanged.
    pub(super) fn restore(&self) -> io::Result<()> {
        let mut extent = self.extent.lock();
        let next = Extent { units: wanted(extent.seen).max(extent.units), ..*extent };
        self.resize(&mut extent, next)
    }

    /// Shows redb so many bytes more, which the next opening uses as free pages. Must be called
    /// between two openings.
    ///
    /// # Errors
    /// The disk's error; the file is then unchanged.
    pub(super) fn extend(&self, bytes: u64) -> io::Result<()> {
        let seen = self.seen() + bytes.next_multiple_of(PAGE);
        self.set_seen(seen)
    }

    /// Shows redb the reserve, which the next opening uses as free pages. Must be called between
    /// two openings.
    pub(super) fn reveal(&self) -> io::Result<()> {
        let mut extent = self.extent.lock();
        let next = Extent { seen: extent.seen + extent.units * UNIT, units: 0 };
        self.resize(&mut extent, next)
    }

    fn resize(&self, extent: &mut Extent, next: Extent) -> io::Result<()> {
        if next == *extent {
            return Ok(());
        }
        let (from, to) = (extent.len(), next.len());
        let resized = if to > from { self.file.allocate(from, to) } else { self.file.set_len(to) };
        match resized {
            Ok(()) => *extent = next,
            // Frees what was allocated.
            Err(_) => self.file.set_len(from)?,
        }
        resized
    }
}
