//! The real disk: how a folder is found, made and locked. A queue appears as a whole or not at all.
//! If there is nothing, both files are made in a folder beside it, `.NAME.creating-PID-N`, which is
//! renamed after everything in it is on the medium. An empty folder is kept: the files are made in
//! it as `.base.redb.creating` and `.journal.creating`, and the journal is renamed last. Only these
//! names are ever changed.

use super::disk::{Disk, DiskFile, FileName, Found, OsFile, Staging};
use crate::words::sync::plain::AtomicU64;
use crate::words::sync::{Arc, Mutex, Ordering};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions, TryLockError};
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
        match (self.path.canonicalize(), self.path.parent(), self.path.file_name()) {
            (Err(error), Some(parent), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
                let here = parent.as_os_str().is_empty();
                Ok(if here { Path::new(".") } else { parent }.canonicalize()?.join(name))
            }
            (place, ..) => place,
        }
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
        let kind = match fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(error),
        };
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
        static BIRTHS: AtomicU64 = AtomicU64::new(0);
        let place = self.place()?;
        let mut last = None;
        for _ in 0..TRIES {
            let spot = match (place.parent(), place.file_name()) {
                (Some(parent), Some(name)) if !place.is_dir() => {
                    clear_leftovers(parent, name);
                    let number = BIRTHS.fetch_add(1, Ordering::Relaxed);
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
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists
                    ) =>
                {
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::WouldBlock.into()))
    }

    fn open_journal(&self) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let file = options().open(self.file(FileName::Journal))?;
        // The locked handle is the one that is used: on Windows a lock excludes every other handle,
        // also one of this process.
        if !lock(&file)? {
            return Ok(None);
        }
        self.keep_names()?;
        let place = self.place()?;
        if let (Some(parent), Some(name)) = (place.parent(), place.file_name()) {
            clear_leftovers(parent, name);
        }
        Spot { path: place, is_within: true }.clear_if_dead();
        Ok(Some(Arc::new(OsFile(file))))
    }

    fn open_base(&self) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(OsFile(options().open(self.file(FileName::Base))?)))
    }
}

/// Where the two files are while they are made: in a folder beside the place, or under other names
/// in it.
#[derive(Debug)]
struct Spot {
    path: PathBuf,
    is_within: bool,
}

impl Spot {
    fn file(&self, name: FileName) -> PathBuf {
        if self.is_within { self.path.join(staged(name)) } else { self.path.join(name.as_str()) }
    }

    /// Removes the two files and the folder beside the place, and nothing else: a folder with other
    /// content stays. The journal is removed last, because its lock shows whether its process is
    /// alive. It is not removed if the base was renamed already: a base without a journal would
    /// look like a queue whose journal is lost. What cannot be removed does no harm.
    fn clear(&self) {
        let is_waited_for = || {
            let there = |name: FileName| is_file(&self.path.join(name.as_str())).unwrap_or(true);
            self.is_within && there(FileName::Base) && !there(FileName::Journal)
        };
        let removed = |name| match fs::remove_file(self.file(name)) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(()) => true,
        };
        let is_clear = removed(FileName::Base) && !is_waited_for() && removed(FileName::Journal);
        if is_clear && !self.is_within {
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Removes the leftovers of a crash. As in a creation, it first takes the journal's lock.
    fn clear_if_dead(&self) {
        let is_there = |name| is_file(&self.file(name)).unwrap_or(false);
        if self.is_within && !FileName::ALL.into_iter().any(is_there) {
            return;
        }
        let path = self.file(FileName::Journal);
        if let Ok(journal) = options().create(true).truncate(false).open(&path)
            && lock(&journal).is_ok_and(|is_ours| is_ours)
            && is_at(&journal, &path).is_ok_and(|is_there| is_there)
        {
            self.clear();
        }
    }
}

/// The two files while they are made. Their journal is locked as long as this exists. The lock
/// keeps every other creation out, and distinguishes it from the leftovers of a crash.
#[derive(Debug)]
struct StagingFolder {
    spot: Spot,
    place: PathBuf,
    journal: Mutex<Option<Arc<OsFile>>>,
    /// Whether the two files are in place, or what is left is for the next creation.
    settled: bool,
}

impl StagingFolder {
    /// `None` if another opening removed it at once. `WouldBlock` if another one makes the queue
    /// there.
    fn new(spot: Spot, place: &Path) -> io::Result<Option<Self>> {
        let path = spot.file(FileName::Journal);
        let mut options = options();
        if spot.is_within {
            options.create(true).truncate(false);
        } else {
            create_folder(&spot.path)?;
            options.create_new(true);
        }
        let journal = options.open(&path)?;
        match lock(&journal)? {
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
fn staged(name: FileName) -> &'static str {
    match name {
        FileName::Base => ".base.redb.creating",
        FileName::Journal => ".journal.creating",
    }
}

/// Files that only their owner may read, because they contain payloads.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn create_folder(path: &Path) -> io::Result<()> {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn is_file(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_file()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// `false` while another holds the lock.
fn lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether an open file still has this name: the last holder of its lock may have renamed or
/// removed it.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let open = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Without inodes only the name can be checked.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> io::Result<bool> {
    is_file(path)
}

/// Without it a power cut may lose the names of files whose bytes are safe. Windows writes
/// directories through and has no such call.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(windows) { Ok(()) } else { File::open(path)?.sync_all() }
}

/// Removes what crashed creations have left beside a folder of this name.
fn clear_leftovers(parent: &Path, name: &OsStr) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let prefix = staging_prefix(name);
    for entry in entries.flatten() {
        let is_folder = || entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_staging(&entry.file_name(), &prefix) && is_folder() {
            Spot { path: entry.path(), is_within: false }.clear_if_dead();
        }
    }
}

fn staging_prefix(name: &OsStr) -> OsString {
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
        let held = folder.open_journal().unwrap();
        assert!(held.is_some());
        assert!(folder.open_journal().unwrap().is_none(), "also within this process");
        drop(held);
        assert!(folder.open_journal().unwrap().is_some());
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
        assert!(folder.open_journal().unwrap().is_none());
        drop(OsFile(file));
        assert!(folder.open_journal().unwrap().is_some());
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

    /// Regression: a kill between two removals left a base that was not recognised as a leftover.
    #[test]
    fn a_leftover_is_cleared_base_first_and_journal_last() {
        let home = tempfile::tempdir().unwrap();
        for is_within in [false, true] {
            let spot = Spot { path: home.path().join(format!("{is_within}")), is_within };
            fs::create_dir(&spot.path).unwrap();
            fs::write(spot.file(FileName::Journal), b"x").unwrap();
            // A directory cannot be removed as a file, as if a kill had come there.
            fs::create_dir(spot.file(FileName::Base)).unwrap();
            spot.clear_if_dead();
            assert!(spot.file(FileName::Journal).exists());
            fs::remove_dir(spot.file(FileName::Base)).unwrap();
            spot.clear_if_dead();
            assert!(!spot.file(FileName::Journal).exists());
            assert_eq!(spot.path.exists(), is_within);
        }
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
