//! The real disk: how a queue's folder is found, created and locked. A queue appears as a whole or
//! not at all: both files are made under other names, and renamed after everything is on the
//! medium. A new folder is renamed as a whole; in an existing one the journal is renamed last.

use super::disk::{Access, Disk, DiskFile, FileName, Found, OsFile, Staging};
use super::file_system::{if_there, is_file, lock, options, sync_folder};
use super::staging_folder::{Spot, StagingFolder, clear_leftovers, staged, staging_prefix};
use crate::words::sync::plain::AtomicU64;
use crate::words::sync::{Arc, Ordering};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How often a creation starts again after another opening has removed its files.
const TRIES: usize = 8;

/// A directory that file systems make in their root. A folder with nothing else counts as empty.
const OF_THE_FILE_SYSTEM: &str = "lost+found";

/// A queue's folder on a real disk.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    fn file(&self, name: FileName) -> PathBuf {
        self.path.join(name.as_str())
    }

    fn open(&self, name: FileName, access: Access) -> io::Result<OsFile> {
        options().write(access == Access::Write).open(self.file(name)).map(OsFile)
    }

    fn has(&self, name: FileName) -> io::Result<bool> {
        is_file(&self.file(name))
    }

    /// Syncs the renames that finished the creation.
    fn keep_names(&self) -> io::Result<()> {
        let place = self.place()?;
        for folder in [Some(&*place), place.parent()].into_iter().flatten() {
            match sync_folder(folder) {
                // A process that may not read a folder could not have made a queue in it.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                kept => kept?,
            }
        }
        Ok(())
    }

    /// The path of the folder, with links followed, so that a rename goes to the target of a link.
    fn place(&self) -> io::Result<PathBuf> {
        if let Some(place) = if_there(self.path.canonicalize())? {
            return Ok(place);
        }
        let (Some(parent), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let here = parent.as_os_str().is_empty();
        Ok(if here { Path::new(".") } else { parent }.canonicalize()?.join(name))
    }

    /// What is in a folder without the two files.
    fn contents(&self) -> io::Result<Found> {
        let ours = |name: &OsStr| {
            FileName::ALL.iter().any(|ours| name == ours.as_str() || *name == *staged(*ours))
        };
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            // Names of staged files come from another process that makes the queue now; its lock
            // will show that.
            if !ours(&name) && name != OF_THE_FILE_SYSTEM {
                return Ok(Found::Foreign(format!("it contains {}", name.to_string_lossy())));
            }
        }
        Ok(Found::Nothing)
    }
}

impl Disk for Folder {
    fn folder(&self) -> &Path {
        &self.path
    }

    fn found(&self) -> io::Result<Found> {
        let Some(kind) = if_there(fs::metadata(&self.path))? else { return Ok(Found::Nothing) };
        if !kind.is_dir() {
            return Ok(Found::Foreign("it is a file".into()));
        }
        // In this order, because another process may be renaming them: the base, then the journal.
        match (self.has(FileName::Journal)?, self.has(FileName::Base)?) {
            (true, true) => Ok(Found::Whole),
            (true, false) => Ok(Found::Missing(FileName::Base)),
            (false, false) => self.contents(),
            (false, true) if is_file(&self.path.join(staged(FileName::Journal)))? => {
                Ok(Found::Unfinished)
            }
            (false, true) if self.has(FileName::Journal)? => Ok(Found::Whole),
            (false, true) => Ok(Found::Missing(FileName::Journal)),
        }
    }

    fn stage(&self) -> io::Result<Box<dyn Staging>> {
        use io::ErrorKind::{AlreadyExists, NotFound};
        static CREATIONS: AtomicU64 = AtomicU64::new(0);
        let place = self.place()?;
        let mut last = None;
        for _ in 0..TRIES {
            let spot = match (place.parent(), place.file_name()) {
                (Some(parent), Some(name)) if !place.is_dir() => {
                    clear_leftovers(&place);
                    let number = CREATIONS.fetch_add(1, Ordering::Relaxed);
                    let mut own = staging_prefix(name);
                    own.push(format!("{}-{number}", std::process::id()));
                    Spot { path: parent.join(own), is_within: false }
                }
                _ => Spot { path: place.clone(), is_within: true },
            };
            // Another opening may remove it in the moment before its journal is locked.
            match StagingFolder::new(spot, &place) {
                Ok(Some(staging)) => return Ok(Box::new(staging)),
                Ok(None) => {}
                Err(error) if [NotFound, AlreadyExists].contains(&error.kind()) => {
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::WouldBlock.into()))
    }

    fn open_journal(&self, access: Access) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let file = self.open(FileName::Journal, access)?;
        // The locked handle is the one that is used: on Windows a lock excludes every other handle,
        // also one of this process.
        if !lock(&file.0, access)? {
            return Ok(None);
        }
        if access == Access::Write {
            self.keep_names()?;
            let place = self.place()?;
            clear_leftovers(&place);
            Spot { path: place, is_within: true }.clear_if_dead();
        }
        Ok(Some(Arc::new(file)))
    }

    fn open_base(&self, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(self.open(FileName::Base, access)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn created(folder: &Folder) -> bool {
        let staging = folder.stage().unwrap();
        for name in FileName::ALL {
            staging.create(name).unwrap().write_at(0, b"x").unwrap();
        }
        staging.settle().unwrap()
    }

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_queue_appears_as_a_whole_and_is_locked_once() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(&home.path().join("q"));
        assert_eq!(folder.found().unwrap(), Found::Nothing);
        fs::create_dir(home.path().join("q")).unwrap();
        assert_eq!(folder.found().unwrap(), Found::Nothing, "an empty folder will do");
        assert!(created(&folder));
        assert_eq!(folder.found().unwrap(), Found::Whole);
        let held = folder.open_journal(Access::Write).unwrap();
        assert!(held.is_some());
        assert!(folder.open_journal(Access::Write).unwrap().is_none(), "also within this process");
        drop(held);
        assert!(folder.open_journal(Access::Write).unwrap().is_some());
        assert_eq!(names(home.path()), ["q"]);
    }

    /// Regression: one in a hundred openings returned `Locked`: another thread was starting a
    /// process, which for a moment had copies of all handles, also of the creation's lock.
    #[test]
    fn a_lock_does_not_outlive_its_owner_in_a_copy_of_the_handle() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(&home.path().join("q"));
        assert!(created(&folder));
        let file = File::options().write(true).open(folder.file(FileName::Journal)).unwrap();
        file.try_lock().unwrap();
        let copy = file.try_clone().unwrap();
        assert!(folder.open_journal(Access::Write).unwrap().is_none());
        drop(OsFile(file));
        assert!(folder.open_journal(Access::Write).unwrap().is_some());
        drop(copy);
    }

    #[test]
    fn the_second_creation_finds_the_first_queue() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(&home.path().join("q"));
        let late = folder.stage().unwrap();
        for name in FileName::ALL {
            late.create(name).unwrap();
        }
        assert!(created(&folder), "a running creation is not removed by another");
        assert!(!late.settle().unwrap());
        assert_eq!(names(home.path()), ["q"], "the second creation leaves nothing");
    }

    #[test]
    fn leftovers_of_a_crash_are_removed_and_other_files_stay() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(&home.path().join("q"));
        for left in [".q.creating-1-2", ".q.creating-1-x", ".p.creating-1-2", ".q.creating-3-4"] {
            fs::create_dir(home.path().join(left)).unwrap();
            fs::write(home.path().join(left).join("journal"), b"x").unwrap();
        }
        fs::write(home.path().join(".q.creating-3-4").join("a letter"), b"x").unwrap();
        assert!(created(&folder));
        let mut left = names(home.path());
        left.sort();
        assert_eq!(left, [".p.creating-1-2", ".q.creating-1-x", ".q.creating-3-4", "q"]);
        assert_eq!(names(&home.path().join(".q.creating-3-4")), ["a letter"]);
    }

    #[test]
    fn one_creation_at_a_time_in_an_existing_folder() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(home.path());
        let first = folder.stage().unwrap();
        let refusal = folder.stage().err().map(|error| error.kind());
        assert_eq!(refusal, Some(io::ErrorKind::WouldBlock));
        Spot { path: home.path().to_owned(), is_within: true }.clear_if_dead();
        for name in FileName::ALL {
            first.create(name).unwrap();
        }
        assert_eq!(folder.found().unwrap(), Found::Nothing);
        assert!(first.settle().unwrap());
        assert_eq!(folder.found().unwrap(), Found::Whole);
        assert_eq!(names(home.path()).len(), 2);
        // A creation that comes later changes nothing.
        assert!(!folder.stage().unwrap().settle().is_ok_and(|was_first| was_first));
        assert_eq!(folder.found().unwrap(), Found::Whole);
        assert_eq!(names(home.path()).len(), 2);
    }

    /// A creation that fails over an unfinished one leaves that unchanged: without its staged
    /// journal, the base would look like the rest of a lost queue.
    #[test]
    fn a_base_never_loses_its_staged_journal() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(home.path());
        fs::write(folder.file(FileName::Base), b"x").unwrap();
        assert_eq!(folder.found().unwrap(), Found::Missing(FileName::Journal));
        fs::write(home.path().join(staged(FileName::Journal)), b"x").unwrap();
        assert_eq!(folder.found().unwrap(), Found::Unfinished);
        let again = folder.stage().unwrap();
        again.create(FileName::Base).unwrap();
        drop(again);
        assert_eq!(folder.found().unwrap(), Found::Unfinished);
        assert_eq!(names(home.path()).len(), 2);
        assert!(created(&folder));
        assert_eq!(folder.found().unwrap(), Found::Whole);
        assert_eq!(names(home.path()).len(), 2);
    }

    #[test]
    fn other_files_are_not_taken_for_a_queue() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("q");
        fs::write(&path, b"x").unwrap();
        assert!(matches!(Folder::at(&path).found().unwrap(), Found::Foreign(_)));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("photo"), b"x").unwrap();
        assert!(matches!(Folder::at(&path).found().unwrap(), Found::Foreign(_)));
        fs::write(path.join("journal"), b"x").unwrap();
        assert_eq!(Folder::at(&path).found().unwrap(), Found::Missing(FileName::Base));
    }
}
