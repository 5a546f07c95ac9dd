//! A file that is not changed before its opening was allowed: redb writes as it opens, and a base
//! that is then refused must be as it was. Until [`Shield::release`] writes stay in memory.

use super::disk::DiskFile;
use crate::words::error::{Error, Result};
use crate::words::sync::plain::Mutex;
use crate::words::sync::{Arc, AtomicBool, Ordering};
use std::io;

#[derive(Debug)]
pub(crate) struct Shield {
    file: Arc<dyn DiskFile>,
    released: AtomicBool,
    /// What was asked for so far, in its order: it is carried out in the same.
    held: Mutex<Vec<Patch>>,
}

#[derive(Debug)]
enum Patch {
    Write(u64, Vec<u8>),
    Len(u64),
    Allocate(u64, u64),
    Sync,
}

impl Shield {
    pub(crate) fn over(file: Arc<dyn DiskFile>) -> Self {
        Self { file, released: AtomicBool::new(false), held: Mutex::default() }
    }

    /// Carries out what was held; from here on it is the file.
    pub(crate) fn release(&self) -> Result<()> {
        let mut held = self.held.lock();
        for change in held.drain(..) {
            match change {
                Patch::Write(at, data) => self.file.write_at(at, &data).map_err(Error::io)?,
                Patch::Len(len) => self.file.set_len(len).map_err(Error::io)?,
                Patch::Allocate(from, to) => {
                    self.file.allocate(from, to).map_err(Error::io)?;
                }
                // Never tried again, also not with more room on a disk that was full.
                Patch::Sync => {
                    self.file.sync().map_err(|error| Error::not_synced("base.redb", error))?;
                }
            }
        }
        self.released.store(true, Ordering::Release);
        Ok(())
    }

    fn hold(&self, change: Patch) -> io::Result<()> {
        self.held.lock().push(change);
        Ok(())
    }

    fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }
}

impl DiskFile for Shield {
    fn len(&self) -> io::Result<u64> {
        if self.is_released() {
            return self.file.len();
        }
        let mut len = self.file.len()?;
        for change in self.held.lock().iter() {
            match change {
                Patch::Write(at, data) => len = len.max(at + data.len() as u64),
                Patch::Len(to) | Patch::Allocate(_, to) => len = *to,
                Patch::Sync => {}
            }
        }
        Ok(len)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.is_released() {
            return self.file.read_at(offset, out);
        }
        if offset + out.len() as u64 > self.len()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let there = self.file.len()?.saturating_sub(offset).min(out.len() as u64);
        let (old, new) = out.split_at_mut(there as usize);
        if !old.is_empty() {
            self.file.read_at(offset, old)?;
        }
        new.fill(0);
        for change in self.held.lock().iter() {
            match change {
                Patch::Write(at, data) => copy_over(offset, out, *at, data),
                Patch::Len(len) | Patch::Allocate(len, _) => {
                    let kept = len.saturating_sub(offset).min(out.len() as u64) as usize;
                    out.get_mut(kept..).unwrap_or_default().fill(0);
                }
                Patch::Sync => {}
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.is_released() {
            return self.file.write_at(offset, data);
        }
        self.hold(Patch::Write(offset, data.to_vec()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.is_released() { self.file.set_len(len) } else { self.hold(Patch::Len(len)) }
    }

    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        match self.is_released() {
            true => self.file.allocate(from, to),
            false => self.hold(Patch::Allocate(from, to)),
        }
    }

    fn sync(&self) -> io::Result<()> {
        if self.is_released() { self.file.sync() } else { self.hold(Patch::Sync) }
    }
}

/// Copies what of `data`, which stands at `at`, falls into `out`, which is read at `offset`.
fn copy_over(offset: u64, out: &mut [u8], at: u64, data: &[u8]) {
    let from = at.saturating_sub(offset) as usize;
    let skipped = offset.saturating_sub(at) as usize;
    let to = out.get_mut(from..).unwrap_or_default();
    for (to, byte) in to.iter_mut().zip(data.get(skipped..).unwrap_or_default()) {
        *to = *byte;
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
    fn reads_show_what_is_held_and_the_file_is_as_it_was() {
        let file = Arc::new(Bytes(Mutex::new((0..100).collect())));
        let (shield, twin) = (Shield::over(file.clone()), Bytes(Mutex::new((0..100).collect())));
        let both: [&dyn DiskFile; 2] = [&shield, &twin];
        let steps: [fn(&dyn DiskFile) -> io::Result<()>; 7] = [
            |file| file.write_at(90, &[200; 30]),
            |file| file.write_at(0, &[201; 3]),
            |file| file.set_len(50),
            |file| file.sync(),
            |file| file.write_at(60, &[202; 5]),
            |file| file.set_len(130),
            |file| file.write_at(62, &[203; 1]),
        ];
        for step in steps {
            both.iter().for_each(|file| step(*file).unwrap());
            let len = twin.len().unwrap();
            assert_eq!(shield.len().unwrap(), len);
            for (from, to) in [(0, len), (1, 40), (30, len), (len - 2, len), (len, len)] {
                let read = both.map(|file| {
                    let mut out = vec![9; (to - from) as usize];
                    file.read_at(from, &mut out).unwrap();
                    out
                });
                assert_eq!(read[0], read[1], "{from}..{to} of {len}");
            }
            assert!(shield.read_at(len - 1, &mut [0; 2]).is_err());
        }
        assert_eq!(*file.0.lock(), (0..100).collect::<Vec<u8>>());
        shield.release().unwrap();
        assert_eq!(*file.0.lock(), *twin.0.lock());
        shield.write_at(0, &[7]).unwrap();
        assert_eq!(file.0.lock()[0], 7, "from here on it is the file");
    }
}
