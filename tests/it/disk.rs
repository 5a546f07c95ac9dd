//! A disk in memory that records every change, so that a test can build the files after an end at
//! any moment, and can count reads. It loses nothing, and refuses nothing before it is full.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tubewell::testing::{Access, Disk, DiskFile, FileName, Found, Staging};

/// A change of one of the two files, or a sync.
#[derive(Clone, Debug)]
pub enum Event {
    Write(usize, u64, Vec<u8>),
    SetLen(usize, u64),
    Sync(usize),
}

pub type Files = [Vec<u8>; 2];

impl Event {
    /// The file that it happens to.
    pub fn file(&self) -> usize {
        match self {
            Self::Write(file, ..) | Self::SetLen(file, _) | Self::Sync(file) => *file,
        }
    }

    pub fn carry_out(&self, files: &mut Files) {
        match self {
            Self::Write(file, at, data) => write(&mut files[*file], *at, data),
            Self::SetLen(file, len) => files[*file].resize(*len as usize, 0),
            Self::Sync(_) => {}
        }
    }
}

pub fn write(file: &mut Vec<u8>, at: u64, data: &[u8]) {
    let at = at as usize;
    file.resize(file.len().max(at + data.len()), 0);
    file[at..at + data.len()].copy_from_slice(data);
}

#[derive(Debug, Default)]
struct State {
    files: Files,
    events: Vec<Event>,
    reads: [u64; 2],
    is_full: bool,
}

/// Two files in memory, and the events on them.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<State>>);

#[derive(Debug)]
struct File(Recorder, usize);

impl Recorder {
    pub fn of(files: Files) -> Self {
        Self(Arc::new(Mutex::new(State { files, ..State::default() })))
    }

    /// From here on no file grows.
    pub fn fill(&self) {
        self.0.lock().unwrap().is_full = true;
    }

    /// For the builder's `disk`.
    pub fn lend(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    fn file(&self, name: FileName) -> Arc<dyn DiskFile> {
        Arc::new(File(self.clone(), name as usize))
    }

    fn note(&self, event: Event) {
        let mut state = self.0.lock().unwrap();
        event.carry_out(&mut state.files);
        state.events.push(event);
    }

    /// The files as they are; the recording starts again.
    pub fn begin(&self) -> Files {
        let mut state = self.0.lock().unwrap();
        let files = std::mem::take(&mut state.files);
        *state = State { files: files.clone(), ..State::default() };
        files
    }

    pub fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().events.clone()
    }

    /// How often a file was read.
    pub fn reads(&self, name: FileName) -> u64 {
        self.0.lock().unwrap().reads[name as usize]
    }
}

impl Disk for Recorder {
    fn folder(&self) -> &Path {
        Path::new("in memory")
    }

    fn found(&self) -> io::Result<Found> {
        let is_new = self.0.lock().unwrap().files.iter().any(Vec::is_empty);
        Ok(if is_new { Found::Nothing } else { Found::Whole })
    }

    fn stage(&self) -> io::Result<Box<dyn Staging>> {
        Ok(Box::new(self.clone()))
    }

    fn open_journal(&self, _: Access) -> io::Result<Option<Arc<dyn DiskFile>>> {
        Ok(Some(self.file(FileName::Journal)))
    }

    fn open_base(&self, _: Access) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(FileName::Base))
    }
}

impl Staging for Recorder {
    fn create(&self, name: FileName) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(name))
    }

    fn settle(self: Box<Self>) -> io::Result<bool> {
        Ok(true)
    }
}

impl DiskFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.0.lock().unwrap().files[self.1].len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.0.0.lock().unwrap();
        state.reads[self.1] += 1;
        let found =
            state.files[self.1].get(offset as usize..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.note(Event::Write(self.1, offset, data.to_vec()));
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.note(Event::SetLen(self.1, len));
        Ok(())
    }

    fn allocate(&self, _: u64, to: u64) -> io::Result<()> {
        if self.0.0.lock().unwrap().is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.set_len(to)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.note(Event::Sync(self.1));
        Ok(())
    }
}
