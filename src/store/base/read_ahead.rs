//! Which rows are read before they are asked for. It keeps none: they come to redb's cache.

use super::Base;
use crate::store::range_cache::SequentialScan;
use crate::store::redb_errors::fenced;
use crate::words::error::Result;

/// Rows that are read ahead between two questions whether to continue: a few pages.
const READ_AHEAD_STEP: usize = 16;

/// Bytes of rows after which a page that is read ahead is read once more. Less than what a page
/// holds that is half full.
/// A full cache of redb evicts pages that were read once before those read twice, and so a page
/// that has just come in, where the older ones beside it are in use.
const TOUCH_BYTES: usize = 1024;

impl Base {
    /// Reads the rows that the sequential scans will reach next, so that they are in redb's cache
    /// and in the system's. Reads twice the bytes that were scanned since the snapshot was taken,
    /// at most `bytes_max`, and only while `may_go_on`. It does not read what a row refers to, such
    /// as a long payload.
    pub(crate) fn read_ahead(&self, bytes_max: u64, may_go_on: &dyn Fn() -> bool) -> Result<()> {
        let scans = self.cache.borrow().sequential_scans();
        // Without this limit, a listing of everything would take nearly all of `bytes_max`.
        let wanted = |scan: &SequentialScan| (scan.bytes as u64 * 2).min(bytes_max);
        let total: u64 = scans.iter().map(wanted).sum();
        let budget = bytes_max.min(total);
        fenced(&self.opening.health, || {
            for scan in scans {
                let share = u128::from(wanted(&scan)) * u128::from(budget);
                let mut left = (share / u128::from(total.max(1))) as u64;
                let rows = self.rows.range::<&[u8]>(scan.from.as_slice()..)?;
                let mut read = 0;
                for (number, row) in rows.enumerate() {
                    let (key, sealed) = row?;
                    let bytes = key.value().len() + sealed.value().len();
                    left = left.saturating_sub(bytes as u64);
                    read += bytes;
                    if read >= TOUCH_BYTES {
                        read = 0;
                        self.rows.get(key.value())?;
                    }
                    if left == 0 || key.value().first() != scan.from.first() {
                        break;
                    }
                    if number % READ_AHEAD_STEP == 0 && !may_go_on() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        })
    }
}
