//! A file over another one: reads show the other file, writes stay in memory. The user of it sees
//! its own writes and changes nothing in the other file, which must not be written in the meantime.

use super::disk::DiskFile;
use crate::words::sync::Arc;
use crate::words::sync::plain::Mutex;
use std::collections::BTreeMap;
use std::io;

const PAGE: u64 = 4096;

#[derive(Debug)]
pub(crate) struct ScratchFile {
    file: Arc<dyn DiskFile>,
    written: Mutex<Patches>,
}

#[derive(Debug)]
struct Patches {
    len: u64,
    /// Bytes of the other file that are still visible: a cut made it shorter.
    shown: u64,
    /// The written pages, by their numbers.
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl ScratchFile {
    pub(crate) fn over(file: Arc<dyn DiskFile>) -> io::Result<Self> {
        let len = file.len()?;
        Ok(Self { file, written: Mutex::new(Patches { len, shown: len, pages: BTreeMap::new() }) })
    }

    /// How many pages were written.
    #[cfg(test)]
    pub(crate) fn pages(&self) -> usize {
        self.written.lock().pages.len()
    }

    /// Forgets the written pages and frees their memory. The file must not be read after this.
    pub(crate) fn clear(&self) {
        self.written.lock().pages.clear();
    }
}

impl Patches {
    fn read(&self, file: &dyn DiskFile, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset + out.len() as u64;
        let shown = self.shown.saturating_sub(offset).min(out.len() as u64);
        let (shown, zeros) = out.split_at_mut(shown as usize);
        if !shown.is_empty() {
            file.read_at(offset, shown)?;
        }
        zeros.fill(0);
        for (page, bytes) in self.pages.range(offset / PAGE..end.div_ceil(PAGE)) {
            copy_shared(bytes, page * PAGE, out, offset);
        }
        Ok(())
    }
}

/// Copies the overlap of two ranges of one file.
fn copy_shared(from: &[u8], from_at: u64, to: &mut [u8], to_at: u64) {
    let begin = from_at.max(to_at);
    let end = (from_at + from.len() as u64).min(to_at + to.len() as u64);
    if begin >= end {
        return;
    }
    let within = |at: u64| (begin - at) as usize..(end - at) as usize;
    if let (Some(from), Some(to)) = (from.get(within(from_at)), to.get_mut(within(to_at))) {
        to.copy_from_slice(from);
    }
}

impl DiskFile for ScratchFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written.lock().len)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written.lock();
        if offset + out.len() as u64 > written.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        written.read(&*self.file, offset, out)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written.lock();
        let end = offset + data.len() as u64;
        for page in offset / PAGE..end.div_ceil(PAGE) {
            if !written.pages.contains_key(&page) {
                let mut bytes = vec![0; PAGE as usize].into_boxed_slice();
                written.read(&*self.file, page * PAGE, &mut bytes)?;
                written.pages.insert(page, bytes);
            }
            if let Some(bytes) = written.pages.get_mut(&page) {
                copy_shared(data, offset, bytes, page * PAGE);
            }
        }
        written.len = written.len.max(end);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.written.lock();
        if len < written.len {
            written.shown = written.shown.min(len);
            written.pages.split_off(&len.div_ceil(PAGE));
            if let Some(last) = written.pages.get_mut(&(len / PAGE))
                && let Some(cut) = last.get_mut((len % PAGE) as usize..)
            {
                cut.fill(0);
            }
        }
        written.len = len;
        Ok(())
    }

    fn allocate(&self, _: u64, to: u64) -> io::Result<()> {
        self.set_len(to)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that is never written.
    #[derive(Debug)]
    struct Fixed(Vec<u8>);

    impl DiskFile for Fixed {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }

        fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            out.copy_from_slice(&self.0[offset as usize..][..out.len()]);
            Ok(())
        }

        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            unreachable!("it is only read")
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            unreachable!("it is only read")
        }

        fn sync(&self) -> io::Result<()> {
            unreachable!("it is only read")
        }
    }

    /// Compared with a plain vector, at edges of pages and across them.
    #[test]
    fn it_reads_as_a_file_that_was_written() {
        let mut model: Vec<u8> = (0..20_000u32).map(|at| (at % 251) as u8).collect();
        let scratch = ScratchFile::over(Arc::new(Fixed(model.clone()))).unwrap();
        let edges = [0, 1, 511, 4095, 4096, 4097, 8192, 12_000, 16_384, 19_999, 20_000, 24_000];
        let mut fill = 0;
        for cut in edges {
            for from in edges {
                for len in [1, 2, 4096, 9000] {
                    fill += 1;
                    let end = from + len;
                    model.resize(model.len().max(end), 0);
                    model[from..end].fill(fill as u8);
                    scratch.write_at(from as u64, &vec![fill as u8; len]).unwrap();
                }
            }
            model.resize(cut, 0);
            scratch.set_len(cut as u64).unwrap();
            model.resize(30_000, 0);
            scratch.set_len(30_000).unwrap();
            for from in edges {
                let mut out = vec![1; 5000];
                scratch.read_at(from as u64, &mut out).unwrap();
                assert_eq!(out, model[from..from + 5000], "cut {cut}, from {from}");
            }
            assert_eq!(scratch.len().unwrap(), 30_000);
            assert!(scratch.read_at(29_999, &mut [0; 2]).is_err(), "after its end");
        }
        scratch.sync().unwrap();
    }
}
