//! The folder where the two files of a new queue are made: `.NAME.creating-PID-N` next to the
//! queue's folder, or the queue's folder itself if it exists, where the files are
//! `.base.redb.creating` and `.journal.creating` for now. Only these names are ever removed. The
//! journal's lock shows whether the creation is running.

use super::disk::{Access, DiskFile, FileName, OsFile, Staging};
use super::file_system::{create_folder, if_there, is_at, is_file, lock, options, sync_folder};
use crate::words::sync::{Arc, Mutex};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the two files are while they are made.
#[derive(Debug)]
pub(super) struct Spot {
    pub(super) path: PathBuf,
    /// Whether it is the queue's folder, where the files have other names for now. Otherwise it is
    /// a folder next to it.
    pub(super) is_within: bool,
}

impl Spot {
    pub(super) fn file(&self, name: FileName) -> PathBuf {
        if self.is_within { self.path.join(staged(name)) } else { self.path.join(name.as_str()) }
    }

    /// Removes the two files and the folder next to the queue's, and nothing else: a folder with
    /// other content stays. The journal is removed last, because its lock shows whether its process
    /// is alive. It is not removed if the base was renamed already: a base without a journal would
    /// look like a queue whose journal is lost. What cannot be removed does no harm.
    fn clear(&self) {
        let is_waited_for = || {
            let there = |name: FileName| is_file(&self.path.join(name.as_str())).unwrap_or(true);
            self.is_within && there(FileName::Base) && !there(FileName::Journal)
        };
        let removed = |name| if_there(fs::remove_file(self.file(name))).is_ok();
        let is_clear = removed(FileName::Base) && !is_waited_for() && removed(FileName::Journal);
        if is_clear && !self.is_within {
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Removes the leftovers of a crash. As in a creation, it first takes the journal's lock.
    pub(super) fn clear_if_dead(&self) {
        let is_there = |name| is_file(&self.file(name)).unwrap_or(false);
        if self.is_within && !FileName::ALL.into_iter().any(is_there) {
            return;
        }
        let path = self.file(FileName::Journal);
        if let Ok(journal) = options().create(true).truncate(false).open(&path)
            && lock(&journal, Access::Write).is_ok_and(|is_ours| is_ours)
            && is_at(&journal, &path).is_ok_and(|is_there| is_there)
        {
            self.clear();
        }
    }
}

/// The two files while they are made. Their journal is locked as long as this exists. The lock
/// keeps every other creation out, and distinguishes it from the leftovers of a crash.
#[derive(Debug)]
pub(super) struct StagingFolder {
    spot: Spot,
    place: PathBuf,
    journal: Mutex<Option<Arc<OsFile>>>,
    /// Whether the drop leaves the files: they are in place, or the next creation removes them.
    settled: bool,
}

impl StagingFolder {
    /// `None` if another opening removed it at once. `WouldBlock` if another one makes the queue
    /// there.
    pub(super) fn new(spot: Spot, place: &Path) -> io::Result<Option<Self>> {
        let path = spot.file(FileName::Journal);
        let mut options = options();
        if spot.is_within {
            options.create(true).truncate(false);
        } else {
            create_folder(&spot.path)?;
            options.create_new(true);
        }
        let journal = options.open(&path)?;
        match lock(&journal, Access::Write)? {
            true if is_at(&journal, &path)? => {}
            false if spot.is_within => return Err(io::ErrorKind::WouldBlock.into()),
            _ => return Ok(None),
        }
        let journal = Mutex::new(Some(Arc::new(OsFile(journal))));
        Ok(Some(Self { spot, place: place.to_owned(), journal, settled: false }))
    }

    /// `false` if another folder is at the place.
    fn rename_folder(&mut self) -> io::Result<bool> {
        if cfg!(windows) {
            // A folder with open files cannot be renamed.
            self.journal.lock().take();
        }
        // A rename would replace an empty folder.
        if self.place.is_dir() {
            return Ok(false);
        }
        match fs::rename(&self.spot.path, &self.place) {
            Ok(()) => self.settled = true,
            Err(_) if self.place.is_dir() => return Ok(false),
            Err(error) => return Err(error),
        }
        sync_folder(self.place.parent().unwrap_or(Path::new(".")))?;
        Ok(true)
    }

    /// The base first, and synced before the journal: a journal never exists without its base.
    fn rename_files(&mut self) -> io::Result<bool> {
        if is_file(&self.place.join(FileName::Journal.as_str()))? {
            return Ok(false);
        }
        // From here on an error leaves the same files as a kill.
        self.settled = true;
        for name in [FileName::Base, FileName::Journal] {
            fs::rename(self.spot.file(name), self.place.join(name.as_str()))?;
            sync_folder(&self.place)?;
        }
        Ok(true)
    }
}

impl Staging for StagingFolder {
    fn create(&self, name: FileName) -> io::Result<Arc<dyn DiskFile>> {
        match (name, &*self.journal.lock()) {
            (FileName::Base, _) => {
                let path = self.spot.file(name);
                // A crash may have left one here; this creation holds the lock.
                let _ = fs::remove_file(&path);
                Ok(Arc::new(OsFile(options().create_new(true).open(path)?)))
            }
            (FileName::Journal, Some(journal)) => {
                journal.set_len(0)?;
                Ok(journal.clone())
            }
            (FileName::Journal, None) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn settle(mut self: Box<Self>) -> io::Result<bool> {
        // Only the journal's own handle can be used, see `open_journal`.
        if let Some(journal) = &*self.journal.lock() {
            journal.0.sync_all()?;
        }
        options().open(self.spot.file(FileName::Base))?.sync_all()?;
        sync_folder(&self.spot.path)?;
        if self.spot.is_within { self.rename_files() } else { self.rename_folder() }
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        if !self.settled {
            self.spot.clear();
        }
    }
}

/// The name of a file in its folder until it is whole.
pub(super) fn staged(name: FileName) -> &'static str {
    match name {
        FileName::Base => ".base.redb.creating",
        FileName::Journal => ".journal.creating",
    }
}

/// Removes what crashed creations have left next to this folder.
pub(super) fn clear_leftovers(place: &Path) {
    let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else { return };
    let Ok(entries) = fs::read_dir(parent) else { return };
    let prefix = staging_prefix(name);
    for entry in entries.flatten() {
        let is_folder = || entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_staging(&entry.file_name(), &prefix) && is_folder() {
            Spot { path: entry.path(), is_within: false }.clear_if_dead();
        }
    }
}

/// How the names of folders begin in which this queue is made.
pub(super) fn staging_prefix(name: &OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".creating-");
    prefix
}

fn is_staging(found: &OsStr, prefix: &OsStr) -> bool {
    let rest = found.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
    let mut parts = rest.unwrap_or_default().split(|byte| *byte == b'-');
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    parts.by_ref().take(2).filter(|part| is_number(part)).count() == 2 && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a kill between two removals left a base that was not recognised as a leftover.
    #[test]
    fn a_leftover_is_cleared_base_first_and_journal_last() {
        let home = tempfile::tempdir().unwrap();
        for is_within in [false, true] {
            let spot = Spot { path: home.path().join(format!("{is_within}")), is_within };
            fs::create_dir(&spot.path).unwrap();
            fs::write(spot.file(FileName::Journal), b"x").unwrap();
            // A directory cannot be removed as a file, like after a kill there.
            fs::create_dir(spot.file(FileName::Base)).unwrap();
            spot.clear_if_dead();
            assert!(spot.file(FileName::Journal).exists());
            fs::remove_dir(spot.file(FileName::Base)).unwrap();
            spot.clear_if_dead();
            assert!(!spot.file(FileName::Journal).exists());
            assert_eq!(spot.path.exists(), is_within);
        }
    }
}
