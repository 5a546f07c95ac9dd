//! A file whose writes are held back until it is certain that the opening is allowed: redb writes
//! when it opens a file, and a base that is refused afterwards must be unchanged. Reads show the
//! writes that are held back. Nothing changes the other file before [`DeferredFile::release`].

use super::disk::DiskFile;
use super::scratch::ScratchFile;
use crate::words::error::{Error, Result};
use crate::words::sync::plain::{AtomicBool, Mutex};
use crate::words::sync::{Arc, Ordering};
use std::io;

#[derive(Debug)]
pub(crate) struct DeferredFile {
    file: Arc<dyn DiskFile>,
    /// The file as the calls so far would have left it.
    scratch: ScratchFile,
    /// The calls so far. They are repeated in this order, so that a crash during the release leaves
    /// a file that redb can open.
    calls: Mutex<Vec<Deferred>>,
    released: AtomicBool,
}

#[derive(Debug)]
enum Deferred {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Allocate(u64, u64),
    Sync,
}

impl DeferredFile {
    pub(crate) fn over(file: Arc<dyn DiskFile>) -> io::Result<Self> {
        let scratch = ScratchFile::over(file.clone())?;
        Ok(Self { file, scratch, calls: Mutex::default(), released: AtomicBool::new(false) })
    }

    /// Repeats the calls on the other file. From here on calls go directly to it.
    pub(crate) fn release(&self) -> Result<()> {
        for call in std::mem::take(&mut *self.calls.lock()) {
            match call {
                Deferred::Write(at, data) => self.file.write_at(at, &data).map_err(Error::io)?,
                Deferred::SetLen(len) => self.file.set_len(len).map_err(Error::io)?,
                Deferred::Allocate(from, to) => self.file.allocate(from, to).map_err(Error::io)?,
                // A failed sync is not tried again, also not with more space on a full disk.
                Deferred::Sync => {
                    self.file.sync().map_err(|error| Error::not_synced("base.redb", error))?;
                }
            }
        }
        self.released.store(true, Ordering::Release);
        self.scratch.clear();
        Ok(())
    }

    /// The file that reads and writes go to now.
    fn current(&self) -> &dyn DiskFile {
        if self.is_released() { &*self.file } else { &self.scratch }
    }

    fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }

    fn hold(&self, call: impl FnOnce() -> Deferred) {
        if !self.is_released() {
            self.calls.lock().push(call());
        }
    }
}

impl DiskFile for DeferredFile {
    fn len(&self) -> io::Result<u64> {
        self.current().len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.current().read_at(offset, out)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.hold(|| Deferred::Write(offset, data.to_vec()));
        self.current().write_at(offset, data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.hold(|| Deferred::SetLen(len));
        self.current().set_len(len)
    }

    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        self.hold(|| Deferred::Allocate(from, to));
        self.current().allocate(from, to)
    }

    fn sync(&self) -> io::Result<()> {
        self.hold(|| Deferred::Sync);
        self.current().sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Bytes(Mutex<Vec<u8>>);

    impl DiskFile for Bytes {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.lock().len() as u64)
        }

        fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            let from = offset as usize;
            out.copy_from_slice(&self.0.lock()[from..from + out.len()]);
            Ok(())
        }

        fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            let (from, mut bytes) = (offset as usize, self.0.lock());
            let end = bytes.len().max(from + data.len());
            bytes.resize(end, 0);
            bytes[from..from + data.len()].copy_from_slice(data);
            Ok(())
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.lock().resize(len as usize, 0);
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn reads_show_held_writes_and_the_file_changes_only_at_the_release() {
        let file = Arc::new(Bytes(Mutex::new((0..100).collect())));
        let deferred = DeferredFile::over(file.clone()).unwrap();
        let twin = Bytes(Mutex::new((0..100).collect()));
        let both: [&dyn DiskFile; 2] = [&deferred, &twin];
        let steps: [fn(&dyn DiskFile) -> io::Result<()>; 8] = [
            |file| file.write_at(90, &[200; 30]),
            |file| file.write_at(0, &[201; 3]),
            |file| file.set_len(50),
            |file| file.sync(),
            |file| file.write_at(60, &[202; 5]),
            |file| file.set_len(130),
            |file| file.write_at(62, &[203; 1]),
            |file| file.allocate(130, 140),
        ];
        for step in steps {
            both.iter().for_each(|file| step(*file).unwrap());
            let len = twin.len().unwrap();
            assert_eq!(deferred.len().unwrap(), len);
            for (from, to) in [(0, len), (1, 40), (30, len), (len - 2, len), (len, len)] {
                let read = both.map(|file| {
                    let mut out = vec![9; (to - from) as usize];
                    file.read_at(from, &mut out).unwrap();
                    out
                });
                assert_eq!(read[0], read[1], "{from}..{to} of {len}");
            }
            assert!(deferred.read_at(len - 1, &mut [0; 2]).is_err());
        }
        assert_eq!(*file.0.lock(), (0..100).collect::<Vec<u8>>());
        deferred.release().unwrap();
        assert_eq!(*file.0.lock(), *twin.0.lock());
        deferred.write_at(0, &[7]).unwrap();
        assert_eq!(file.0.lock()[0], 7, "after the release it is the file");
    }
}
