//! Calls to the file system for the folder of a queue, with the differences between the systems.

use super::disk::Access;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// Files that only their owner may read, because they contain payloads.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a folder that only its owner may read.
pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    #[cfg_attr(not(unix), allow(unused_mut))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// `None` if there was nothing of the name.
pub(super) fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Whether there is a file of this name.
pub(super) fn is_file(path: &Path) -> io::Result<bool> {
    Ok(if_there(fs::metadata(path))?.is_some_and(|found| found.is_file()))
}

/// Takes the lock of a file, for reading together with others. `false` while another handle has a
/// lock that excludes this one.
pub(super) fn lock(file: &File, access: Access) -> io::Result<bool> {
    let locked = match access {
        Access::Write => file.try_lock(),
        Access::Read => file.try_lock_shared(),
    };
    match locked {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether an open file still has this name: the last holder of its lock may have renamed or
/// removed it.
#[cfg(unix)]
pub(super) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let open = file.metadata()?;
    let is_same = |there: fs::Metadata| (there.dev(), there.ino()) == (open.dev(), open.ino());
    Ok(if_there(fs::metadata(path))?.is_some_and(is_same))
}

/// Without inodes only the name can be checked.
#[cfg(not(unix))]
pub(super) fn is_at(_: &File, path: &Path) -> io::Result<bool> {
    is_file(path)
}

/// Syncs the names in a folder. Without it a power cut may lose the names of files whose bytes are
/// on the medium. Windows writes directories through and has no such call.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(windows) { Ok(()) } else { File::open(path)?.sync_all() }
}
