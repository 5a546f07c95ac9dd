//! A disk in memory that can fail in every way a disk may, and in none that it may not.
//!
//! What is written stands in the page cache at once, and in a list until the file is synced. A
//! *kill* leaves the page cache. A *power cut* leaves what was synced, and of the list each write
//! is kept, lost or torn at sectors of 512 bytes, one apart from the other, so that any order in
//! which they might have gone out is among the outcomes; changes of a file's length come out in
//! their order, but apart from the data. Names that were given or taken since the last sync of
//! their folder are each kept or lost, so a birth lasts once that sync is through. What redb
//! assumes of a disk stays true: a byte is written whole, a sync that returned is on the medium,
//! and a write changes no byte outside its range.

mod file;
#[cfg(test)]
mod tests;

use crate::beside::Stop;
use crate::script::Rng;
use file::{BLOCK, File, Pending, SECTOR, put};
use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tubewell::testing;
use tubewell::testing::{FileName, Found};

/// What goes wrong, and at which call. Calls that change something are counted from 1: writes,
/// changes of length, syncs, and the steps of a birth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    None,
    /// From this call on everything fails, as if the process were gone. Whether the call itself
    /// came through is drawn.
    Die(u64),
    /// This call fails and changes nothing.
    Once(u64),
    /// This call and all after it fail.
    Sticky(u64),
    /// The first sync from this call on fails, and what it was to write never reaches the medium,
    /// while reads still see it.
    LoseSync(u64),
    /// This read fails. Reads are counted for themselves, from 1.
    ReadOnce(u64),
    /// This read and all after it fail.
    ReadSticky(u64),
}

/// Which file is the base, which the journal, and which has the name that a base, a journal has
/// until a birth in a folder that was there is over.
type Names = [Option<usize>; 4];

fn slot(name: FileName) -> usize {
    usize::from(name == FileName::Journal)
}

fn staged(name: FileName) -> usize {
    2 + slot(name)
}

struct State {
    files: Vec<File>,
    /// The folder by its name, as the page cache and as the medium have it.
    names: Names,
    names_kept: Names,
    /// What came since the folder was synced, each change a whole.
    renames: Vec<Vec<(usize, Option<usize>)>>,
    /// Whether the folder was there before the queue, and so the files are made within it.
    is_within: bool,
    /// TicketHandle while a birth within is under way.
    birth: Option<Arc<()>>,
    rng: Rng,
    fault: Fault,
    calls: u64,
    is_dead: bool,
    has_lost_a_sync: bool,
    /// Calls that the fault has met.
    strikes: u64,
    /// Blocks of 4 KiB that the disk has.
    quota: usize,
    /// The process that the disk is lent to; an older one gets nothing any more.
    process: u64,
    lock: Option<Arc<()>>,
    syncs: Vec<bool>,
    reads: u64,
    stop: Option<Stop>,
    /// What a call is told that fails.
    why: ErrorKind,
}

/// The disk as the test holds it. [`SimDisk::lend`] gives it to a process.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

fn gone() -> Error {
    Error::other("simulated: the process is gone")
}

impl SimDisk {
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            files: Vec::new(),
            names: Names::default(),
            names_kept: Names::default(),
            renames: Vec::new(),
            is_within: false,
            birth: None,
            rng: Rng::new(seed ^ 0xd15c),
            fault: Fault::None,
            calls: 0,
            is_dead: false,
            has_lost_a_sync: false,
            strikes: 0,
            quota: usize::MAX,
            process: 0,
            lock: None,
            syncs: Vec::new(),
            reads: 0,
            stop: None,
            why: ErrorKind::Other,
        })))
    }

    /// With an empty folder in the queue's place.
    pub fn with_a_folder(seed: u64) -> Self {
        let disk = Self::new(seed);
        disk.state().is_within = true;
        disk
    }

    pub fn is_within(&self) -> bool {
        self.state().is_within
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process: whoever had the disk before is dead.
    pub fn lend(&self) -> Arc<dyn testing::Disk> {
        let mut state = self.state();
        state.process += 1;
        (state.is_dead, state.lock, state.birth) = (false, None, None);
        Arc::new(Lent { disk: self.clone(), process: state.process })
    }

    /// A second process while the first one lives.
    pub fn lend_beside(&self) -> Arc<dyn testing::Disk> {
        Arc::new(Lent { disk: self.clone(), process: self.state().process })
    }

    /// Plans a fault; calls are counted from here.
    pub fn plan(&self, fault: Fault) {
        let mut state = self.state();
        (state.fault, state.calls, state.has_lost_a_sync) = (fault, 0, false);
        (state.reads, state.strikes) = (0, 0);
        state.syncs.clear();
    }

    /// The calls that changed something since the plan: whether each was a sync.
    pub fn syncs(&self) -> Vec<bool> {
        self.state().syncs.clone()
    }

    /// Stops the thread that comes to a call.
    pub fn stop_at(&self, stop: Stop) {
        self.state().stop = Some(stop);
    }

    /// Nobody came to it.
    pub fn forget_stop(&self) {
        self.state().stop = None;
    }

    /// What a call that fails says from now on.
    pub fn refuse_with(&self, why: ErrorKind) {
        self.state().why = why;
    }

    pub fn is_planned(&self) -> bool {
        self.state().fault != Fault::None
    }

    /// How many calls have met the planned fault.
    pub fn strikes(&self) -> u64 {
        self.state().strikes
    }

    pub fn has_lost_a_sync(&self) -> bool {
        self.state().has_lost_a_sync
    }

    /// Whether the planned death has come.
    pub fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    pub fn set_quota(&self, blocks: usize) {
        self.state().quota = blocks;
    }

    pub fn blocks(&self) -> usize {
        self.state().files.iter().map(|file| file.blocks.len()).sum()
    }

    /// The process dies. The page cache stays.
    pub fn kill(&self) {
        let mut state = self.state();
        (state.is_dead, state.lock) = (true, None);
    }

    /// The machine loses power.
    pub fn cut_power(&self) {
        let mut state = self.state();
        (state.is_dead, state.lock) = (true, None);
        let State { files, rng, names, names_kept, renames, .. } = &mut *state;
        // A rename whose folder was not synced may have come through, or not.
        // Drawn once also where there is none, so that a seed stands for the same story as ever.
        let mut comes = rng.one_in(2);
        for (at, rename) in renames.drain(..).enumerate() {
            comes = if at == 0 { comes } else { rng.one_in(2) };
            if comes {
                rename.into_iter().for_each(|(slot, file)| names_kept[slot] = file);
            }
        }
        *names = *names_kept;
        files.iter_mut().for_each(|file| file.cut(rng));
    }

    /// How many openings of a file there are that nobody has let go.
    pub fn openings(&self, name: FileName) -> usize {
        let state = self.state();
        state.names[slot(name)].map_or(0, |file| Arc::strong_count(&state.files[file].openings) - 1)
    }

    /// The bytes of a file as reads see them.
    pub fn bytes(&self, name: FileName) -> Vec<u8> {
        let state = self.state();
        state.names[slot(name)].map_or(Vec::new(), |file| state.files[file].cache.clone())
    }

    /// Replaces a file's bytes, on the medium as well.
    pub fn set_bytes(&self, name: FileName, bytes: Vec<u8>) {
        let mut state = self.state();
        let Some(file) = state.names[slot(name)] else { return };
        let file = &mut state.files[file];
        file.pending.clear();
        (file.cache, file.medium) = (bytes.clone(), bytes);
    }

    /// Forgets a file, as a careless copy would.
    pub fn remove(&self, name: FileName) {
        let mut state = self.state();
        (state.names[slot(name)], state.names_kept[slot(name)]) = (None, None);
    }
}

#[derive(PartialEq, Eq)]
enum Luck {
    /// The call does its work and answers.
    Good,
    /// It does its work, and the process dies before the answer.
    Last,
    /// It does nothing.
    Bad,
    /// It forgets what it was to sync.
    Lost,
}

impl State {
    fn alive(&self, process: u64) -> Result<()> {
        if self.is_dead || process != self.process { Err(gone()) } else { Ok(()) }
    }

    /// Counts a call that changes something, and tells what becomes of it.
    fn luck(&mut self, process: u64, is_sync: bool) -> Result<Luck> {
        self.alive(process)?;
        self.calls += 1;
        self.syncs.push(is_sync);
        let luck = match self.fault {
            Fault::Die(at) if self.calls >= at => {
                (self.is_dead, self.lock) = (true, None);
                if self.rng.one_in(2) { Luck::Last } else { Luck::Bad }
            }
            Fault::Once(at) if self.calls == at => Luck::Bad,
            Fault::Sticky(at) if self.calls >= at => Luck::Bad,
            Fault::LoseSync(at) if is_sync && self.calls >= at && !self.has_lost_a_sync => {
                self.has_lost_a_sync = true;
                Luck::Lost
            }
            _ => Luck::Good,
        };
        if luck != Luck::Good {
            self.strikes += 1;
            // What comes now is a mending, and others wait for that.
            self.stop = None;
        }
        Ok(luck)
    }

    /// Counts a read, and tells whether it fails.
    fn read(&mut self, process: u64) -> Result<()> {
        self.alive(process)?;
        self.reads += 1;
        let fails = match self.fault {
            Fault::ReadOnce(at) => self.reads == at,
            Fault::ReadSticky(at) => self.reads >= at,
            _ => false,
        };
        if !fails {
            return Ok(());
        }
        self.strikes += 1;
        // As after a call that changes something.
        self.stop = None;
        Err(self.refusal())
    }

    fn answer<T>(&self, luck: &Luck, value: T) -> Result<T> {
        match luck {
            Luck::Good => Ok(value),
            Luck::Last => Err(gone()),
            Luck::Bad | Luck::Lost => Err(self.refusal()),
        }
    }

    fn refusal(&self) -> Error {
        Error::new(self.why, "simulated: i/o error")
    }

    /// Takes the blocks that a write needs; answers how many of its bytes have room.
    fn claim(&mut self, file: usize, at: usize, len: usize) -> usize {
        let used: usize = self.files.iter().map(|file| file.blocks.len()).sum();
        let mut left = self.quota.saturating_sub(used);
        let blocks = &mut self.files[file].blocks;
        for block in at / BLOCK..(at + len).div_ceil(BLOCK) {
            if !blocks.contains(&block) {
                if left == 0 {
                    return (block * BLOCK).saturating_sub(at);
                }
                left -= 1;
                blocks.insert(block);
            }
        }
        len
    }

    fn sync_folder(&mut self, process: u64) -> Result<()> {
        let luck = self.luck(process, true)?;
        if matches!(luck, Luck::Good | Luck::Last) {
            self.names_kept = self.names;
            self.renames.clear();
        }
        self.answer(&luck, ())
    }

    /// Gives and takes names at once. What has none any more takes no room.
    fn rename(&mut self, change: Vec<(usize, Option<usize>)>) {
        let before = self.names;
        change.iter().for_each(|(slot, file)| self.names[*slot] = *file);
        self.renames.push(change);
        for file in before.into_iter().flatten().filter(|file| !self.names.contains(&Some(*file))) {
            self.files[file].blocks.clear();
        }
    }

    /// Takes the names of a birth within that is over, or dead. The journal keeps its own while a
    /// base waits for it.
    fn clear_staged(&mut self) {
        let journal = staged(FileName::Journal);
        let is_waited_for = self.names[0].is_some() && self.names[1].is_none();
        let gone = [staged(FileName::Base), journal].into_iter();
        let gone = gone.filter(|slot| *slot != journal || !is_waited_for);
        for slot in gone.filter(|slot| self.names[*slot].is_some()).collect::<Vec<_>>() {
            self.rename(vec![(slot, None)]);
        }
    }

    /// Makes sure of what was written to a file before `to`.
    fn sync(&mut self, process: u64, file: usize, to: u64) -> Result<()> {
        let luck = self.luck(process, true)?;
        let file = &mut self.files[file];
        match luck {
            Luck::Good | Luck::Last => file.settle(to),
            // The pages count as clean, and no later sync writes them.
            Luck::Lost => {
                file.settled = file.written();
                file.pending.clear();
            }
            Luck::Bad => {}
        }
        self.answer(&luck, ())
    }
}

/// The disk in the hands of one process.
struct Lent {
    disk: SimDisk,
    process: u64,
}

impl std::fmt::Debug for Lent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimDisk of process {}", self.process)
    }
}

impl Lent {
    fn file(&self, name: FileName, lock: Option<Arc<()>>) -> Result<Arc<dyn testing::DiskFile>> {
        let state = self.disk.state();
        state.alive(self.process)?;
        let file = state.names[slot(name)].ok_or(ErrorKind::NotFound)?;
        let (opening, process) = (state.files[file].openings.clone(), self.process);
        drop(state);
        Ok(Arc::new(Open {
            disk: self.disk.clone(),
            process,
            file,
            _opening: opening,
            _lock: lock,
        }))
    }
}

impl testing::Disk for Lent {
    fn folder(&self) -> &Path {
        Path::new("simulated.queue")
    }

    fn found(&self) -> Result<Found> {
        let state = self.disk.state();
        state.alive(self.process)?;
        Ok(match state.names {
            [None, None, ..] => Found::Nothing,
            [Some(_), Some(_), ..] => Found::Whole,
            [Some(_), None, _, Some(_)] => Found::Unfinished,
            [Some(_), None, _, None] => Found::Missing(FileName::Journal),
            [None, Some(_), ..] => Found::Missing(FileName::Base),
        })
    }

    fn birth(&self) -> Result<Box<dyn testing::Staging>> {
        let mut state = self.disk.state();
        state.alive(self.process)?;
        let mut lock = None;
        if state.is_within {
            if state.birth.as_ref().is_some_and(|lock| Arc::strong_count(lock) > 1) {
                return Err(ErrorKind::WouldBlock.into());
            }
            lock = Some(Arc::new(()));
            state.birth = lock.clone();
        }
        let (disk, is_within) = (self.disk.clone(), state.is_within);
        let files = Mutex::default();
        Ok(Box::new(Birth { disk, process: self.process, files, is_within, _lock: lock }))
    }

    fn open_journal(&self) -> Result<Option<Arc<dyn testing::DiskFile>>> {
        let mut state = self.disk.state();
        state.alive(self.process)?;
        // TicketHandle for as long as whoever has it keeps the file.
        if state.lock.as_ref().is_some_and(|lock| Arc::strong_count(lock) > 1) {
            return Ok(None);
        }
        let lock = Arc::new(());
        state.lock = Some(lock.clone());
        state.sync_folder(self.process)?;
        state.clear_staged();
        drop(state);
        self.file(FileName::Journal, Some(lock)).map(Some)
    }

    fn open_base(&self) -> Result<Arc<dyn testing::DiskFile>> {
        self.file(FileName::Base, None)
    }
}

struct Birth {
    disk: SimDisk,
    process: u64,
    /// The base and the journal.
    files: Mutex<[Option<usize>; 2]>,
    is_within: bool,
    _lock: Option<Arc<()>>,
}

impl Birth {
    fn files(&self) -> MutexGuard<'_, [Option<usize>; 2]> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Both at once, as the folder that they are in gets its name.
    fn rename_folder(&self, state: &mut State) -> Result<bool> {
        let luck = state.luck(self.process, false)?;
        if state.names != Names::default() {
            return Ok(false);
        }
        if luck != Luck::Bad {
            state.rename(self.files().into_iter().enumerate().collect());
        }
        state.answer(&luck, ())?;
        state.sync_folder(self.process).map(|()| true)
    }

    fn rename_files(&self, state: &mut State) -> Result<bool> {
        state.sync_folder(self.process)?;
        if state.names[slot(FileName::Journal)].is_some() {
            return Ok(false);
        }
        for name in [FileName::Base, FileName::Journal] {
            let luck = state.luck(self.process, false)?;
            if luck != Luck::Bad {
                let file = self.files()[slot(name)];
                state.rename(vec![(staged(name), None), (slot(name), file)]);
            }
            state.answer(&luck, ())?;
            state.sync_folder(self.process)?;
        }
        Ok(true)
    }
}

impl Drop for Birth {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if !self.is_within {
            // The folder beside goes, or the next birth clears it.
            let files = *self.files();
            let nameless = |file: &usize| !state.names.contains(&Some(*file));
            let nameless: Vec<_> = files.into_iter().flatten().filter(nameless).collect();
            nameless.into_iter().for_each(|file| state.files[file].blocks.clear());
        } else if state.alive(self.process).is_ok() {
            state.clear_staged();
        }
    }
}

impl testing::Staging for Birth {
    fn create(&self, name: FileName) -> Result<Arc<dyn testing::DiskFile>> {
        let mut state = self.disk.state();
        let luck = state.luck(self.process, false)?;
        let file = state.files.len();
        state.files.push(File::default());
        self.files()[slot(name)] = Some(file);
        if self.is_within && luck != Luck::Bad {
            state.rename(vec![(staged(name), Some(file))]);
        }
        let (opening, process) = (state.files[file].openings.clone(), self.process);
        let disk = self.disk.clone();
        let open = Open { disk, process, file, _opening: opening, _lock: None };
        state.answer(&luck, Arc::new(open) as Arc<dyn testing::DiskFile>)
    }

    fn settle(self: Box<Self>) -> Result<bool> {
        let mut state = self.disk.state();
        let files = *self.files();
        for file in files.into_iter().flatten() {
            let to = state.files[file].written();
            state.sync(self.process, file, to)?;
        }
        if self.is_within { self.rename_files(&mut state) } else { self.rename_folder(&mut state) }
    }
}

#[derive(Clone)]
struct Open {
    disk: SimDisk,
    process: u64,
    file: usize,
    _opening: Arc<()>,
    _lock: Option<Arc<()>>,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "simulated file {}", self.file)
    }
}

impl Open {
    /// Stands still, if this is the call to stand still at, until it may go on.
    fn stand(&self, is_sync: bool) {
        let mut state = self.disk.state();
        let grows = matches!(state.files[self.file].pending.last(), Some(Pending::Len(_)));
        // The journal is synced by one at a time, who would keep out all that come beside him.
        let journal = state.names[slot(FileName::Journal)] == Some(self.file);
        let comes =
            |stop: &mut Stop| !(journal && stop.thread.is_none()) && stop.comes(is_sync, grows);
        if !state.stop.as_mut().is_some_and(comes) {
            return;
        }
        let stop = state.stop.take();
        drop(state);
        if let Some(Stop { stopped, go_on, .. }) = stop {
            let _ = stopped.send(true);
            let _ = go_on.recv();
        }
    }
}

impl testing::DiskFile for Open {
    fn len(&self) -> Result<u64> {
        let state = self.disk.state();
        state.alive(self.process)?;
        Ok(state.files[self.file].cache.len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut state = self.disk.state();
        state.read(self.process)?;
        let at = offset as usize;
        let bytes = state.files[self.file].cache.get(at..at + out.len());
        out.copy_from_slice(bytes.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.stand(false);
        let mut state = self.disk.state();
        let (file, at) = (self.file, offset as usize);
        let luck = state.luck(self.process, false)?;
        // After a failure any part of it may be written, and so may all of it.
        let part = state.rng.below(data.len() as u64 + 1) as usize / SECTOR * SECTOR;
        let whole = luck != Luck::Bad || state.rng.one_in(3);
        let part = if whole { data.len() } else { part };
        let room = state.claim(file, at, part);
        if room > 0 {
            let file = &mut state.files[file];
            if at + room > file.cache.len() {
                file.pending.push(Pending::Len(at + room));
            }
            put(&mut file.cache, at, &data[..room]);
            file.pending.push(Pending::Write { at, data: data[..room].to_vec() });
        }
        if room < part {
            return Err(Error::new(ErrorKind::StorageFull, "simulated: the disk is full"));
        }
        state.answer(&luck, ())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut state = self.disk.state();
        let luck = state.luck(self.process, false)?;
        if luck != Luck::Bad {
            let file = &mut state.files[self.file];
            let len = len as usize;
            file.cache.resize(len, 0);
            file.blocks.retain(|block| block * BLOCK < len);
            file.pending.push(Pending::Len(len));
        }
        state.answer(&luck, ())
    }

    /// Takes its blocks at once, or none of them.
    fn allocate(&self, from: u64, to: u64) -> Result<()> {
        let mut state = self.disk.state();
        let luck = state.luck(self.process, false)?;
        let (file, from, to) = (self.file, from as usize, to as usize);
        if luck != Luck::Bad {
            let before = state.files[file].blocks.clone();
            if state.claim(file, from, to - from) < to - from {
                state.files[file].blocks = before;
                return Err(Error::new(ErrorKind::StorageFull, "simulated: the disk is full"));
            }
            let file = &mut state.files[file];
            file.cache.resize(to, 0);
            file.pending.push(Pending::Len(to));
        }
        state.answer(&luck, ())
    }

    fn sync(&self) -> Result<()> {
        let to = self.disk.state().files[self.file].written();
        self.stand(true);
        self.disk.state().sync(self.process, self.file, to)
    }
}
