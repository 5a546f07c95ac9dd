//! Creation: both files of a new queue are made under other names, and then renamed together.

use super::base::Base;
use super::disk::{Access, Disk, FileName, Found};
use super::head::{JournalHead, PAGE, QueueId};
use super::progress::{ProgressFn, Stage, report};
use super::redb_errors::corruption_as_damage;
use super::ring;
use super::tables::CheckpointPosition;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{JOURNAL_BYTES_MAX, JOURNAL_BYTES_MIN};
use std::io;
#[cfg(unix)]
use std::io::Read;

/// Bytes of redb's cache for an empty base.
const CACHE: usize = 1 << 20;

pub(super) const NO_JOURNAL: &str = "the file journal is missing";

/// Random bytes of the system. Two queues that are made at the same instant do not collide.
#[cfg(unix)]
pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let source = std::fs::File::open("/dev/urandom");
    source.and_then(|mut source| source.read_exact(&mut bytes)).map_err(Error::io)?;
    Ok(bytes)
}

/// The same on systems where the standard library gives random numbers only as the keys of its
/// hasher.
#[cfg(not(unix))]
pub(super) fn random<const N: usize>() -> Result<[u8; N]> {
    use std::hash::{BuildHasher, RandomState};
    let mut bytes = [0; N];
    for (number, part) in bytes.chunks_mut(8).enumerate() {
        let drawn = RandomState::new().hash_one((number, std::process::id()));
        part.copy_from_slice(drawn.to_be_bytes().get(..part.len()).unwrap_or_default());
    }
    Ok(bytes)
}

/// Makes a queue where there is none, or an unfinished one. If another thread or process makes one
/// first, that one is kept.
///
/// # Errors
/// `Locked` while another one makes it; `Damaged` if one of the two files is of a queue that was
/// used.
pub(super) fn create(disk: &dyn Disk, journal_bytes: u64, progress: ProgressFn<'_>) -> Result<()> {
    let bytes = journal_bytes.clamp(JOURNAL_BYTES_MIN, JOURNAL_BYTES_MAX);
    let bytes = bytes.next_multiple_of(PAGE as u64);
    let queue: QueueId = random()?;
    let head = JournalHead { queue, ring: bytes };
    report(progress, Stage::Create, 0, bytes)?;
    let staging = disk.stage().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Error::new(ErrorKind::Locked),
        _ => Error::io(error),
    })?;
    // From here on no other process changes it.
    match disk.found().map_err(Error::io)? {
        Found::Nothing => {}
        Found::Unfinished => is_new(disk)?,
        _ => return Ok(()),
    }
    ring::create(&*staging.create(FileName::Journal).map_err(Error::io)?, &head)
        .map_err(Error::io)?;
    let base = staging.create(FileName::Base).map_err(Error::io)?;
    Base::create(base, &CheckpointPosition::genesis(queue, head.seed()))?;
    staging.settle().map_err(Error::io)?;
    report(progress, Stage::Create, bytes, bytes)
}

/// Checks that nothing was ever written to a base whose journal is missing.
///
/// # Errors
/// `Damaged` if something was written.
fn is_new(disk: &dyn Disk) -> Result<()> {
    let base = Base::open_scratch(disk.open_base(Access::Read).map_err(Error::io)?, CACHE);
    match base.and_then(|base| base.is_new()).map_err(corruption_as_damage) {
        Err(error) if error.kind() != ErrorKind::Damaged => Err(error),
        Ok(true) => Ok(()),
        _ => Err(Error::new(ErrorKind::Damaged).because(NO_JOURNAL)),
    }
}
