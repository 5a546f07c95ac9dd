//! The failures of redb. Every call into redb runs in [`fenced`], which translates errors and turns
//! a panic into `Broken`. [`FileHealth`] keeps the fault of the base's file, because redb's later
//! errors do not say what it was.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::Ordering;
use crate::words::sync::plain::{AtomicBool, Mutex};
use std::io;
use std::iter::successors;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A fault of the base's file. It decides whether the store can continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A read, a write or a change of length failed. The file can be opened again.
    Retryable { full: bool },
    /// A sync failed: what the file shows is no longer what is on the medium.
    Sync,
}

impl Fault {
    pub(super) fn kind(self) -> ErrorKind {
        match self {
            Self::Retryable { full: true } => ErrorKind::DiskFull,
            _ => ErrorKind::Io,
        }
    }
}

/// The state of one opening of the base's file. redb's calls set and read it, inside redb's locks.
#[derive(Debug, Default)]
pub(crate) struct FileHealth {
    /// The first fault, or a failed sync after it, which is worse.
    fault: Mutex<Option<Fault>>,
    /// Set when the file is opened again or the store is closed. A thread that still uses this
    /// opening must not read pages that the next opening has written, and must not write any.
    detached: AtomicBool,
}

impl FileHealth {
    pub(crate) fn fault(&self) -> Option<Fault> {
        *self.fault.lock()
    }

    /// From here on every call of redb to the file is refused.
    pub(crate) fn detach(&self) {
        self.detached.store(true, Ordering::Release);
    }

    pub(super) fn is_detached(&self) -> bool {
        self.detached.load(Ordering::Acquire)
    }

    /// Passes a result on, and keeps its fault.
    pub(super) fn note<T>(&self, result: io::Result<T>, is_sync: bool) -> io::Result<T> {
        if let Err(error) = &result {
            let kind = error.kind();
            let full = matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
            let fault = if is_sync { Fault::Sync } else { Fault::Retryable { full } };
            let mut worst = self.fault.lock();
            if is_sync || worst.is_none() {
                *worst = Some(fault);
            }
        }
        result
    }
}

/// Runs calls into redb.
///
/// # Errors
/// `Broken` if redb panicked; otherwise redb's error, translated.
pub(crate) fn fenced<T>(
    health: &FileHealth,
    work: impl FnOnce() -> std::result::Result<T, redb::Error>,
) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(translated(error, health)),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            let text = format!("redb panicked: {text}");
            // No call of redb has failed or was refused before.
            let is_clean = health.fault().is_none() && !health.is_detached();
            let error = Error::new(ErrorKind::Broken);
            Err(if is_clean { error.caused_by(CorruptionPanic(text)) } else { error.because(text) })
        }
    }
}

/// The cause of a panic of redb before which no call to the file had failed.
#[derive(Clone, Debug)]
struct CorruptionPanic(String);

impl std::error::Error for CorruptionPanic {}

impl std::fmt::Display for CorruptionPanic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; no read, write or sync had failed before", self.0)
    }
}

/// Whether redb panicked because of the bytes that it read.
pub(super) fn is_corruption_panic(error: &Error) -> bool {
    corruption_panic(error).is_some()
}

fn corruption_panic(error: &Error) -> Option<&CorruptionPanic> {
    let mut causes = successors(std::error::Error::source(error), |cause| cause.source());
    causes.find_map(|cause| cause.downcast_ref())
}

/// The error of an opening in which redb panicked: the next opening will read the same bytes.
pub(super) fn unreadable(error: Error) -> Error {
    let unreadable = Error::new(ErrorKind::Damaged).because("base.redb cannot be read");
    match corruption_panic(&error).cloned() {
        Some(panic) => unreadable.caused_by(panic),
        None => unreadable.caused_by(error),
    }
}

/// Changes a panic of redb because of what it read into `Damaged`. Other errors stay.
pub(super) fn corruption_as_damage(error: Error) -> Error {
    if is_corruption_panic(&error) { unreadable(error) } else { error }
}

fn translated(error: redb::Error, health: &FileHealth) -> Error {
    match error {
        redb::Error::Io(error) => Error::io(error),
        redb::Error::PreviousIo => Error::new(health.fault().map_or(ErrorKind::Io, Fault::kind))
            .because("an earlier read or write of base.redb failed"),
        // The queue's own tables. The application gets its errors from redb itself.
        error @ (redb::Error::Corrupted(_)
        | redb::Error::TableDoesNotExist(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TypeDefinitionChanged { .. }) => {
            Error::new(ErrorKind::Damaged).because("base.redb").caused_by(error)
        }
        error => Error::new(ErrorKind::Io).because("a call to base.redb failed").caused_by(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a write failed on a full disk and was kept as the fault, and the failed sync
    /// after it was not. The store opened its files again and continued, with pages that were never
    /// on the medium.
    #[test]
    fn a_failed_sync_replaces_an_earlier_fault() {
        let health = FileHealth::default();
        let full = || io::Result::<()>::Err(io::ErrorKind::StorageFull.into());
        assert!(health.note(full(), false).is_err());
        assert_eq!(health.fault(), Some(Fault::Retryable { full: true }));
        assert!(health.note(full(), true).is_err());
        assert_eq!(health.fault(), Some(Fault::Sync));
        assert!(health.note(full(), false).is_err());
        assert_eq!(health.fault(), Some(Fault::Sync));
    }
}
