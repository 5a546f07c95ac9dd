//! A disk in memory that can fail in every way a disk may, and in no other.
//!
//! A write is visible in the page cache at once, and is pending until the file is synced. A *kill*
//! keeps the page cache. A *power cut* keeps what was synced, and each pending write is kept, lost
//! or torn at sectors of 512 bytes, independently of the others, so that every order in which they
//! could reach the medium is possible; changes of a file's length are kept in their order, but
//! independently of the data. Renames since the last sync of their folder are each kept or lost, so
//! a creation lasts after that sync. What redb assumes of a disk holds: a byte is written whole, a
//! sync that returned is on the medium, and a write changes no byte outside its range.

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
use tubewell::testing::{Access, FileName, Found};

/// The fault, and the call at which it strikes. Calls that change something are counted from 1:
/// writes, changes of length, syncs, and the steps of a creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    None,
    /// From this call on everything fails, as if the process had ended. Whether the call itself was
    /// done is random.
    Die(u64),
    /// This call fails and changes nothing.
    Once(u64),
    /// This call and all after it fail.
    Sticky(u64),
    /// The first sync from this call on fails, and its writes never reach the medium, while reads
    /// still show them.
    LoseSync(u64),
    /// This read fails. Reads have their own count, from 1.
    ReadOnce(u64),
    /// This read and all after it fail.
    ReadSticky(u64),
}

/// The files with the names of the base and the journal, and with the two staged names, which are
/// in use until a creation in an existing folder has finished.
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
    /// The renames since the folder was synced, each atomic.
    renames: Vec<Vec<(usize, Option<usize>)>>,
    /// Whether the folder existed before the queue, so that the files are made in it.
    is_within: bool,
    /// Held while a creation in the folder runs.
    creating: Option<Arc<()>>,
    rng: Rng,
    fault: Fault,
    calls: u64,
    is_dead: bool,
    has_lost_a_sync: bool,
    /// Calls that the fault has struck.
    strikes: u64,
    /// Blocks of 4 KiB that the disk has.
    quota: usize,
    /// The process that has the disk; the calls of an older one fail.
    process: u64,
    lock: Option<(Access, Arc<()>)>,
    syncs: Vec<bool>,
    reads: u64,
    stop: Option<Stop>,
    /// The error of a failing call.
    why: ErrorKind,
}

/// The disk for the test. [`SimDisk::lend`] gives it to a process.
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
            creating: None,
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

    /// With an empty folder at the queue's path.
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

    /// Starts a process: an older one has ended.
    pub fn lend(&self) -> Arc<dyn testing::Disk> {
        let mut state = self.state();
        state.process += 1;
        (state.is_dead, state.lock, state.creating) = (false, None, None);
        Arc::new(Lent { disk: self.clone(), process: state.process })
    }

    /// A second process while the first one runs.
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

    /// Removes the stop; no thread has reached it.
    pub fn forget_stop(&self) {
        self.state().stop = None;
    }

    /// The error of failing calls from now on.
    pub fn refuse_with(&self, why: ErrorKind) {
        self.state().why = why;
    }

    pub fn is_planned(&self) -> bool {
        self.state().fault != Fault::None
    }

    /// How many calls the planned fault has struck.
    pub fn strikes(&self) -> u64 {
        self.state().strikes
    }

    pub fn has_lost_a_sync(&self) -> bool {
        self.state().has_lost_a_sync
    }

    /// Whether the planned end of the process has come.
    pub fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    pub fn set_quota(&self, blocks: usize) {
        self.state().quota = blocks;
    }

    pub fn blocks(&self) -> usize {
        self.state().files.iter().map(|file| file.blocks.len()).sum()
    }

    /// The process ends. The page cache stays.
    pub fn kill(&self) {
        let mut state = self.state();
        (state.is_dead, state.lock) = (true, None);
    }

    /// The machine loses power.
    pub fn cut_power(&self) {
        let mut state = self.state();
        (state.is_dead, state.lock) = (true, None);
        let State { files, rng, names, names_kept, renames, .. } = &mut *state;
        // A rename whose folder was not synced may be kept or lost. Drawn once also without a
        // rename, so that a seed replays the same run.
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

    /// How many openings of a file are not dropped.
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

    /// Removes a file, as a careless copy would.
    pub fn remove(&self, name: FileName) {
        let mut state = self.state();
        (state.names[slot(name)], state.names_kept[slot(name)]) = (None, None);
    }
}

#[derive(PartialEq, Eq)]
enum CallOutcome {
    /// The call is done and returns.
    Good,
    /// It is done, and the process ends before it returns.
    Last,
    /// It is not done.
    Bad,
    /// It drops the writes that it had to sync.
    Lost,
}

impl State {
    fn alive(&self, process: u64) -> Result<()> {
        if self.is_dead || process != self.process { Err(gone()) } else { Ok(()) }
    }

    /// Counts a call that changes something, and returns what must happen to it.
    fn next_outcome(&mut self, process: u64, is_sync: bool) -> Result<CallOutcome> {
        self.alive(process)?;
        self.calls += 1;
        self.syncs.push(is_sync);
        let outcome = match self.fault {
            Fault::Die(at) if self.calls >= at => {
                (self.is_dead, self.lock) = (true, None);
                if self.rng.one_in(2) { CallOutcome::Last } else { CallOutcome::Bad }
            }
            Fault::Once(at) if self.calls == at => CallOutcome::Bad,
            Fault::Sticky(at) if self.calls >= at => CallOutcome::Bad,
            Fault::LoseSync(at) if is_sync && self.calls >= at && !self.has_lost_a_sync => {
                self.has_lost_a_sync = true;
                CallOutcome::Lost
            }
            _ => CallOutcome::Good,
        };
        if outcome != CallOutcome::Good {
            self.strikes += 1;
            // A repair follows now, and other threads wait for it.
            self.stop = None;
        }
        Ok(outcome)
    }

    /// Counts a read, and returns an error if it must fail.
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

    fn answer<T>(&self, outcome: &CallOutcome, value: T) -> Result<T> {
        match outcome {
            CallOutcome::Good => Ok(value),
            CallOutcome::Last => Err(gone()),
            CallOutcome::Bad | CallOutcome::Lost => Err(self.refusal()),
        }
    }

    fn refusal(&self) -> Error {
        Error::new(self.why, "simulated: i/o error")
    }

    /// Allocates the blocks that a write needs; returns how many of its bytes have space.
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
        let outcome = self.next_outcome(process, true)?;
        if matches!(outcome, CallOutcome::Good | CallOutcome::Last) {
            self.names_kept = self.names;
            self.renames.clear();
        }
        self.answer(&outcome, ())
    }

    /// Adds and removes names at once. A file without a name uses no space.
    fn rename(&mut self, change: Vec<(usize, Option<usize>)>) {
        let before = self.names;
        change.iter().for_each(|(slot, file)| self.names[*slot] = *file);
        self.renames.push(change);
        for file in before.into_iter().flatten().filter(|file| !self.names.contains(&Some(*file))) {
            self.files[file].blocks.clear();
        }
    }

    /// Removes the staged names of a creation that has finished or ended. The journal keeps its
    /// staged name while a base without a journal exists.
    fn clear_staged(&mut self) {
        let journal = staged(FileName::Journal);
        let is_waited_for = self.names[0].is_some() && self.names[1].is_none();
        let gone = [staged(FileName::Base), journal].into_iter();
        let gone = gone.filter(|slot| *slot != journal || !is_waited_for);
        for slot in gone.filter(|slot| self.names[*slot].is_some()).collect::<Vec<_>>() {
            self.rename(vec![(slot, None)]);
        }
    }

    /// Makes writes to a file before `to` durable.
    fn sync(&mut self, process: u64, file: usize, to: u64) -> Result<()> {
        let outcome = self.next_outcome(process, true)?;
        let file = &mut self.files[file];
        match outcome {
            CallOutcome::Good | CallOutcome::Last => file.settle(to),
            // The pages count as clean, and no later sync writes them.
            CallOutcome::Lost => {
                file.settled = file.written();
                file.pending.clear();
            }
            CallOutcome::Bad => {}
        }
        self.answer(&outcome, ())
    }
}

/// The disk as one process has it.
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

    fn stage(&self) -> Result<Box<dyn testing::Staging>> {
        let mut state = self.disk.state();
        state.alive(self.process)?;
        let mut lock = None;
        if state.is_within {
            if state.creating.as_ref().is_some_and(|lock| Arc::strong_count(lock) > 1) {
                return Err(ErrorKind::WouldBlock.into());
            }
            lock = Some(Arc::new(()));
            state.creating = lock.clone();
        }
        let (disk, is_within) = (self.disk.clone(), state.is_within);
        let files = Mutex::default();
        Ok(Box::new(Creation { disk, process: self.process, files, is_within, _lock: lock }))
    }

    fn open_journal(&self, access: Access) -> Result<Option<Arc<dyn testing::DiskFile>>> {
        let mut state = self.disk.state();
        state.alive(self.process)?;
        // Held as long as the file is kept by its opener.
        let held = state.lock.take_if(|(_, lock)| Arc::strong_count(lock) > 1);
        let lock = match held {
            Some((Access::Read, lock)) if access == Access::Read => lock,
            Some(held) => {
                state.lock = Some(held);
                return Ok(None);
            }
            None => Arc::new(()),
        };
        state.lock = Some((access, lock.clone()));
        if access == Access::Write {
            state.sync_folder(self.process)?;
            state.clear_staged();
        }
        drop(state);
        self.file(FileName::Journal, Some(lock)).map(Some)
    }

    fn open_base(&self, _: Access) -> Result<Arc<dyn testing::DiskFile>> {
        self.file(FileName::Base, None)
    }
}

struct Creation {
    disk: SimDisk,
    process: u64,
    /// The base and the journal.
    files: Mutex<[Option<usize>; 2]>,
    is_within: bool,
    _lock: Option<Arc<()>>,
}

impl Creation {
    fn files(&self) -> MutexGuard<'_, [Option<usize>; 2]> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Both at once, when their folder is renamed.
    fn rename_folder(&self, state: &mut State) -> Result<bool> {
        let outcome = state.next_outcome(self.process, false)?;
        if state.names != Names::default() {
            return Ok(false);
        }
        if outcome != CallOutcome::Bad {
            state.rename(self.files().into_iter().enumerate().collect());
        }
        state.answer(&outcome, ())?;
        state.sync_folder(self.process).map(|()| true)
    }

    fn rename_files(&self, state: &mut State) -> Result<bool> {
        state.sync_folder(self.process)?;
        if state.names[slot(FileName::Journal)].is_some() {
            return Ok(false);
        }
        for name in [FileName::Base, FileName::Journal] {
            let outcome = state.next_outcome(self.process, false)?;
            if outcome != CallOutcome::Bad {
                let file = self.files()[slot(name)];
                state.rename(vec![(staged(name), None), (slot(name), file)]);
            }
            state.answer(&outcome, ())?;
            state.sync_folder(self.process)?;
        }
        Ok(true)
    }
}

impl Drop for Creation {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if !self.is_within {
            // The folder beside the place is removed, or the next creation removes it.
            let files = *self.files();
            let nameless = |file: &usize| !state.names.contains(&Some(*file));
            let nameless: Vec<_> = files.into_iter().flatten().filter(nameless).collect();
            nameless.into_iter().for_each(|file| state.files[file].blocks.clear());
        } else if state.alive(self.process).is_ok() {
            state.clear_staged();
        }
    }
}

impl testing::Staging for Creation {
    fn create(&self, name: FileName) -> Result<Arc<dyn testing::DiskFile>> {
        let mut state = self.disk.state();
        let outcome = state.next_outcome(self.process, false)?;
        let file = state.files.len();
        state.files.push(File::default());
        self.files()[slot(name)] = Some(file);
        if self.is_within && outcome != CallOutcome::Bad {
            state.rename(vec![(staged(name), Some(file))]);
        }
        let (opening, process) = (state.files[file].openings.clone(), self.process);
        let disk = self.disk.clone();
        let open = Open { disk, process, file, _opening: opening, _lock: None };
        state.answer(&outcome, Arc::new(open) as Arc<dyn testing::DiskFile>)
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
    /// Blocks at the call of the stop, until it may continue.
    fn stand(&self, is_sync: bool) {
        let mut state = self.disk.state();
        let grows = matches!(state.files[self.file].pending.last(), Some(Pending::Len(_)));
        // The journal is synced by one thread at a time, which would block all others.
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
        let outcome = state.next_outcome(self.process, false)?;
        // After a failure any part of it may be written, and so may all of it.
        let part = state.rng.below(data.len() as u64 + 1) as usize / SECTOR * SECTOR;
        let whole = outcome != CallOutcome::Bad || state.rng.one_in(3);
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
        state.answer(&outcome, ())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut state = self.disk.state();
        let outcome = state.next_outcome(self.process, false)?;
        if outcome != CallOutcome::Bad {
            let file = &mut state.files[self.file];
            let len = len as usize;
            file.cache.resize(len, 0);
            file.blocks.retain(|block| block * BLOCK < len);
            file.pending.push(Pending::Len(len));
        }
        state.answer(&outcome, ())
    }

    /// Takes its blocks at once, or none of them.
    fn allocate(&self, from: u64, to: u64) -> Result<()> {
        let mut state = self.disk.state();
        let outcome = state.next_outcome(self.process, false)?;
        let (file, from, to) = (self.file, from as usize, to as usize);
        if outcome != CallOutcome::Bad {
            let before = state.files[file].blocks.clone();
            if state.claim(file, from, to - from) < to - from {
                state.files[file].blocks = before;
                return Err(Error::new(ErrorKind::StorageFull, "simulated: the disk is full"));
            }
            let file = &mut state.files[file];
            file.cache.resize(to, 0);
            file.pending.push(Pending::Len(to));
        }
        state.answer(&outcome, ())
    }

    fn sync(&self) -> Result<()> {
        let to = self.disk.state().files[self.file].written();
        self.stand(true);
        self.disk.state().sync(self.process, self.file, to)
    }
}
