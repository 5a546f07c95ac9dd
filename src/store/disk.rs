//! What the store needs of a disk: two files that are read, written in place, and synced. Both go
//! through this interface, so that a simulated disk sees every byte. Assumed of a disk: a byte is
//! written whole, after a sync returned its data is on the medium, and a write changes no bytes
//! outside its range. This file does not interpret the bytes.

use crate::words::sync::Arc;
use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::path::Path;

/// One of the two files of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileName {
    /// The target of checkpoints.
    Base,
    /// The records written since the last checkpoint.
    Journal,
}

impl FileName {
    /// Both, in the order in which they are made. They are renamed in the opposite order.
    pub const ALL: [Self; 2] = [Self::Journal, Self::Base];

    /// The name in the folder.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Base => "base.redb",
            Self::Journal => "journal",
        }
    }
}

/// What the files of a queue are opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To change them. No other opening has them.
    Write,
    /// To read them only, beside others that do.
    Read,
}

/// What is at the path of a queue's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing, or an empty folder: a queue can be made here.
    Nothing,
    /// A folder with both files.
    Whole,
    /// A base, and a journal that is not renamed yet: a creation in an existing folder is running,
    /// or did not finish.
    Unfinished,
    /// A folder with one of the two files; this one is missing.
    Missing(FileName),
    /// Something else, described by the text.
    Foreign(String),
}

/// An open file. Calls may come from several threads at once.
#[allow(clippy::len_without_is_empty)]
pub trait DiskFile: Send + Sync + Debug {
    /// How many bytes the file has.
    fn len(&self) -> io::Result<u64>;
    /// Fills `out` from `offset`; an error if the file ends earlier.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Writes all of `data` at `offset`. After a failure any part of it may be written.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Cuts the file, or adds zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Grows the file from `from`, its end, to `to` with zeros. Their blocks exist when this
    /// returns, so that no later write to them meets a full disk. After a failure the file has any
    /// length from `from` on, and the caller cuts it.
    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        self.set_len(to)?;
        write_zeros(self, from, to)
    }
    /// Returns after everything written before the call is on the medium, the length included.
    fn sync(&self) -> io::Result<()>;
}

/// Bytes of zeros written at a time. A system may keep as large a page in its cache as was written
/// at once, and then every record written into it costs more: on Linux 6.18, 0.9 µs up to 64 KiB,
/// 2.4 µs from 1 MiB.
const ZEROS: usize = 64 << 10;

/// Writes zeros from one offset to another.
pub(crate) fn write_zeros(file: &(impl DiskFile + ?Sized), from: u64, to: u64) -> io::Result<()> {
    let chunk = vec![0; ZEROS];
    let mut at = from;
    while at < to {
        let part = chunk.get(..(to - at).min(ZEROS as u64) as usize).unwrap_or_default();
        file.write_at(at, part)?;
        at += part.len() as u64;
    }
    Ok(())
}

/// Bytes that are written again at a time.
const CHUNK: u64 = 1 << 20;

/// Writes the bytes from one offset to another again, as the file shows them: after a kill or a
/// failed sync they may be in the system's memory only, and no sync would write them.
pub(crate) fn write_again(file: &dyn DiskFile, mut at: u64, end: u64) -> io::Result<()> {
    let mut chunk = Vec::new();
    while at < end {
        chunk.resize((end - at).min(CHUNK) as usize, 0);
        file.read_at(at, &mut chunk)?;
        file.write_at(at, &chunk)?;
        at += chunk.len() as u64;
    }
    Ok(())
}

/// A folder with a queue's two files, or the path where it will be.
pub trait Disk: Send + Sync + Debug {
    /// Where it is, for messages.
    fn folder(&self) -> &Path;
    /// Reports what is there, and changes nothing.
    fn found(&self) -> io::Result<Found>;
    /// Begins to make the two files under other names. Called when nothing was found, or an
    /// unfinished creation, which it replaces. `WouldBlock` while another one makes them in this
    /// folder. After it returns, no other creation changes what is there.
    fn stage(&self) -> io::Result<Box<dyn Staging>>;
    /// Opens the journal and locks it: for writing against every other opening, also one in this
    /// process, for reading against those for writing. The lock is held until the last clone of the
    /// file is dropped. `None` while another one holds a lock that excludes this one. An opening
    /// for reading changes nothing. When one for writing returns, the names of the files and of the
    /// folder are on the medium, because the process that made them may have died before its
    /// `settle` returned. Leftovers of such a process are removed.
    fn open_journal(&self, access: Access) -> io::Result<Option<Arc<dyn DiskFile>>>;
    /// Opens the base, for the same. Only the holder of the journal calls it.
    fn open_base(&self, access: Access) -> io::Result<Arc<dyn DiskFile>>;
}

/// The place where the two files are made. If it is dropped before `settle`, it leaves no queue.
pub trait Staging {
    /// Makes an empty file.
    fn create(&self, name: FileName) -> io::Result<Arc<dyn DiskFile>>;
    /// Makes the two files appear at their place, on the medium. A new folder appears as a whole:
    /// the files, the folder, the rename and the parent folder are synced in this order. In an
    /// existing folder the files and the folder are synced, then the base is renamed, then the
    /// journal, and the folder is synced after each. `false` if another queue was there first. The
    /// caller has dropped the files before.
    fn settle(self: Box<Self>) -> io::Result<bool>;
}

/// Repeats a call of the system, which may do a part, until `len` bytes are done. The call gets the
/// number of bytes that are done and returns how many it did; `nothing` is the error if none.
#[inline]
fn in_parts(
    len: usize,
    nothing: io::ErrorKind,
    mut part: impl FnMut(usize) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        match part(done) {
            Ok(0) => return Err(nothing.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A file of the operating system.
#[derive(Debug)]
pub(crate) struct OsFile(pub(crate) File);

impl Drop for OsFile {
    fn drop(&mut self) {
        // A lock lasts as long as any copy of the handle, and a process that is being started has
        // copies of all handles until it runs its own program. So the lock is released explicitly.
        let _ = self.0.unlock();
    }
}

impl DiskFile for OsFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_exact_at(&self.0, out, offset);
        #[cfg(windows)]
        return in_parts(out.len(), io::ErrorKind::UnexpectedEof, |done| {
            let part = out.get_mut(done..).unwrap_or_default();
            std::os::windows::fs::FileExt::seek_read(&self.0, part, offset + done as u64)
        });
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        in_parts(data.len(), io::ErrorKind::WriteZero, |done| {
            let (part, at) = (data.get(done..).unwrap_or_default(), offset + done as u64);
            // Without libc, whose call checks at each write whether its thread was cancelled.
            #[cfg(unix)]
            return Ok(rustix::io::pwrite(&self.0, part, at)?);
            #[cfg(windows)]
            return std::os::windows::fs::FileExt::seek_write(&self.0, part, at);
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    #[cfg(unix)]
    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::{Errno, retry_on_intr};
        let (flags, len) = (FallocateFlags::empty(), to.saturating_sub(from));
        match retry_on_intr(|| fallocate(&self.0, flags, from, len)) {
            // The file system has no such call.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                self.set_len(to)?;
                write_zeros(self, from, to)
            }
            done => Ok(done?),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
