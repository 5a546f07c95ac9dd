//! The real disk: a folder, how it is found, made and locked. A queue appears as a whole or not at
//! all: both files are made in a folder beside, `.NAME.birth-PID-N`, which is renamed when
//! everything in it is on the medium. Nothing but that folder and our two files is ever touched.

use super::disk::{Disk, DiskFile, FileName, Found, Nursery, OsFile};
use crate::sync::plain::AtomicU64;
use crate::sync::{Arc, Mutex, Ordering};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// How often a birth begins anew when its folder is cleared away beneath it.
const TRIES: usize = 8;

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

    /// Makes sure of the rename that ended the birth.
    fn keep_name(&self) -> io::Result<()> {
        let (parent, _) = self.place()?;
        match sync_folder(&parent) {
            // Whoever may not read the folder above could not have made a queue in it either.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            kept => kept,
        }
    }

    /// The folder's own name and the one that it stands in, with links followed, so that a rename
    /// goes where a link points.
    fn place(&self) -> io::Result<(PathBuf, String)> {
        let full = match self.path.canonicalize() {
            Ok(full) => full,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = match self.path.parent() {
                    Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
                    Some(parent) => parent,
                    None => return Err(error),
                };
                match self.path.file_name() {
                    Some(name) => parent.canonicalize()?.join(name),
                    None => return Err(error),
                }
            }
            Err(error) => return Err(error),
        };
        match (full.parent(), full.file_name()) {
            (Some(parent), Some(name)) => {
                Ok((parent.to_owned(), name.to_string_lossy().into_owned()))
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "a queue needs a folder's name")),
        }
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
        let has = |name| match fs::metadata(self.file(name)) {
            Ok(metadata) => Ok(metadata.is_file()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        };
        match (has(FileName::Base)?, has(FileName::Journal)?) {
            (true, true) => Ok(Found::Whole),
            (true, false) => Ok(Found::Missing(FileName::Journal)),
            (false, true) => Ok(Found::Missing(FileName::Base)),
            (false, false) => match fs::read_dir(&self.path)?.next() {
                None => Ok(Found::Nothing),
                Some(entry) => {
                    let name = entry?.file_name();
                    Ok(Found::Foreign(format!("it holds {}", name.to_string_lossy())))
                }
            },
        }
    }

    fn birth(&self) -> io::Result<Box<dyn Nursery>> {
        static BIRTHS: AtomicU64 = AtomicU64::new(0);
        let (parent, name) = self.place()?;
        clear_leftovers(&parent, &name);
        let mut last = None;
        for _ in 0..TRIES {
            let number = BIRTHS.fetch_add(1, Ordering::Relaxed);
            let cradle = parent.join(format!(".{name}.birth-{}-{number}", std::process::id()));
            // Another opening may clear the folder away in the moment before the journal in it is
            // locked; then the next name is tried.
            match Cradle::new(cradle, parent.join(&name)) {
                Ok(cradle) => return Ok(Box::new(cradle)),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound
                            | io::ErrorKind::AlreadyExists
                            | io::ErrorKind::WouldBlock
                    ) =>
                {
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn open_journal(&self) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let file = OpenOptions::new().read(true).write(true).open(self.file(FileName::Journal))?;
        // The file that is locked is the file that is used: on Windows a lock keeps out every
        // other handle, also one of this process.
        match file.try_lock() {
            Ok(()) => {
                self.keep_name()?;
                Ok(Some(Arc::new(OsFile(file))))
            }
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn open_base(&self) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(self.file(FileName::Base))?;
        Ok(Arc::new(OsFile(file)))
    }
}

/// A folder beside the place, with the two files in the making. Its journal is locked as long as
/// it lives, which tells it from one that a crash has left.
#[derive(Debug)]
struct Cradle {
    path: PathBuf,
    place: PathBuf,
    journal: Mutex<Option<Arc<OsFile>>>,
    settled: bool,
}

impl Cradle {
    fn new(path: PathBuf, place: PathBuf) -> io::Result<Self> {
        fs::create_dir(&path)?;
        let cradle = Self { path, place, journal: Mutex::default(), settled: false };
        let journal = cradle.make(FileName::Journal)?;
        match journal.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        *cradle.journal.lock() = Some(Arc::new(OsFile(journal)));
        Ok(cradle)
    }

    fn make(&self, name: FileName) -> io::Result<File> {
        let path = self.path.join(name.as_str());
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }
}

impl Nursery for Cradle {
    fn create(&self, name: FileName) -> io::Result<Arc<dyn DiskFile>> {
        match name {
            FileName::Base => Ok(Arc::new(OsFile(self.make(name)?))),
            FileName::Journal => match &*self.journal.lock() {
                Some(journal) => Ok(journal.clone()),
                None => Err(io::ErrorKind::NotFound.into()),
            },
        }
    }

    fn settle(mut self: Box<Self>) -> io::Result<bool> {
        for name in FileName::ALL {
            // The journal's own handle is the one that may be used, see `open_journal`.
            let locked = self.journal.lock().clone();
            match (name, locked) {
                (FileName::Journal, Some(journal)) => journal.0.sync_all()?,
                _ => OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(self.path.join(name.as_str()))?
                    .sync_all()?,
            }
        }
        sync_folder(&self.path)?;
        if cfg!(windows) {
            // No open file may stand in a folder that is renamed, and none is renamed over.
            self.journal.lock().take();
            let _ = fs::remove_dir(&self.place);
        }
        match fs::rename(&self.path, &self.place) {
            Ok(()) => self.settled = true,
            Err(error) => {
                // Whoever came first has filled the place.
                let taken =
                    fs::read_dir(&self.place).is_ok_and(|mut entries| entries.next().is_some());
                return if taken { Ok(false) } else { Err(error) };
            }
        }
        sync_folder(self.place.parent().unwrap_or(Path::new(".")))?;
        Ok(true)
    }
}

impl Drop for Cradle {
    fn drop(&mut self) {
        if !self.settled {
            clear(&self.path);
        }
    }
}

/// Without it a power cut may forget the names of files whose bytes are safe. Windows writes its
/// folders through and has no such call.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(windows) { Ok(()) } else { File::open(path)?.sync_all() }
}

/// Removes our two files and the folder, and nothing else: a folder with more in it stays.
fn clear(path: &Path) {
    for name in FileName::ALL {
        let _ = fs::remove_file(path.join(name.as_str()));
    }
    let _ = fs::remove_dir(path);
}

/// Removes what a crash in a birth has left. Best effort: what cannot be removed harms nobody.
fn clear_leftovers(parent: &Path, name: &str) {
    let prefix = format!(".{name}.birth-");
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let own = entry.file_name().to_str().is_some_and(|found| is_cradle(found, &prefix));
        if !own || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let journal = entry.path().join(FileName::Journal.as_str());
        match OpenOptions::new().read(true).write(true).open(journal) {
            Ok(journal) => {
                if journal.try_lock().is_ok() {
                    clear(&entry.path());
                }
            }
            // Not even a journal: only an empty folder goes.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let _ = fs::remove_dir(entry.path());
            }
            Err(_) => {}
        }
    }
}

fn is_cradle(found: &str, prefix: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    found
        .strip_prefix(prefix)
        .and_then(|rest| rest.split_once('-'))
        .is_some_and(|(process, number)| digits(process) && digits(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn born(folder: &Folder) -> bool {
        let nursery = folder.birth().unwrap();
        for name in FileName::ALL {
            nursery.create(name).unwrap().write_at(0, b"x").unwrap();
        }
        nursery.settle().unwrap()
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
        assert!(born(&folder));
        assert_eq!(folder.found().unwrap(), Found::Whole);
        let held = folder.open_journal().unwrap();
        assert!(held.is_some());
        assert!(folder.open_journal().unwrap().is_none(), "also within this process");
        drop(held);
        assert!(folder.open_journal().unwrap().is_some());
        assert_eq!(names(home.path()), ["q"]);
    }

    /// An opening was told `Locked` once in a hundred runs: another thread had begun to start a
    /// process, which for a moment had a copy of every handle, that of the birth's lock too.
    #[test]
    fn a_lock_does_not_outlive_its_owner_in_a_copy_of_the_handle() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(&home.path().join("q"));
        assert!(born(&folder));
        let file = File::options().write(true).open(folder.file(FileName::Journal)).unwrap();
        file.try_lock().unwrap();
        let copy = file.try_clone().unwrap();
        assert!(folder.open_journal().unwrap().is_none());
        drop(OsFile(file));
        assert!(folder.open_journal().unwrap().is_some());
        drop(copy);
    }

    #[test]
    fn the_second_creator_finds_the_first_ones_queue() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(&home.path().join("q"));
        let late = folder.birth().unwrap();
        for name in FileName::ALL {
            late.create(name).unwrap();
        }
        assert!(born(&folder), "a birth under way is not cleared away by another");
        assert!(!late.settle().unwrap());
        assert_eq!(names(home.path()), ["q"], "and the loser leaves nothing");
    }

    #[test]
    fn leftovers_of_a_crash_go_and_strange_things_stay() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::at(&home.path().join("q"));
        for left in [".q.birth-1-2", ".q.birth-1-x", ".p.birth-1-2", ".q.birth-3-4"] {
            fs::create_dir(home.path().join(left)).unwrap();
            fs::write(home.path().join(left).join("journal"), b"x").unwrap();
        }
        fs::write(home.path().join(".q.birth-3-4").join("a letter"), b"x").unwrap();
        assert!(born(&folder));
        let mut left = names(home.path());
        left.sort();
        assert_eq!(left, [".p.birth-1-2", ".q.birth-1-x", ".q.birth-3-4", "q"]);
        assert_eq!(names(&home.path().join(".q.birth-3-4")), ["a letter"]);
    }

    #[test]
    fn what_is_no_queue_is_told_apart() {
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
