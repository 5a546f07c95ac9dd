//! A disk in memory that loses power: unsynced writes are lost, kept or torn at sectors. A failed
//! sync drops its pages while reads still show them.

use crate::store::disk::{Access, Disk, DiskFile, FileName, Found, Staging};
use crate::words::sync::{Arc, Mutex, Weak};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// A small generator, so that a seed replays a run.
#[derive(Clone, Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.roll() % limit.max(1)
    }

    pub(super) fn one_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }
}

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Len(u64),
}

fn change(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(at, data) => {
            let end = *at as usize + data.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*at as usize..end].copy_from_slice(data);
        }
        Change::Len(len) => bytes.resize(*len as usize, 0),
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Stored {
    /// On the medium.
    pub(super) medium: Vec<u8>,
    /// As reads show it.
    pub(super) shown: Vec<u8>,
    pending: Vec<Change>,
    /// Allocated blocks: a length alone makes a hole.
    blocks: BTreeSet<u64>,
}

/// What goes wrong at the call of this number, counted over writes, lengths and syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// The process ends during the call.
    Crash,
    /// The call fails; a write may have been done in part.
    FailOnce,
    /// This call and all after it fail.
    FailOn,
    /// The call fails as on a full disk.
    FullOnce,
    /// The call fails if it is a sync.
    FailSync,
}

#[derive(Debug, Default)]
struct State {
    exists: bool,
    files: [Stored; 2],
    staging: [Stored; 2],
    generation: u64,
    locked: Option<Weak<SimFile>>,
    calls: u64,
    reads: u64,
    plan: Option<(u64, Plan)>,
    crashed: bool,
    sync_failed: bool,
    dice: u64,
    /// Blocks that both files may have together.
    quota: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct SimDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    generation: u64,
    name: FileName,
    staging: bool,
}

fn index(name: FileName) -> usize {
    match name {
        FileName::Base => 0,
        FileName::Journal => 1,
    }
}

impl SimDisk {
    pub(super) fn new(seed: u64) -> Self {
        let disk = Self::default();
        disk.0.lock().dice = seed;
        disk
    }

    pub(super) fn plan(&self, from_now: u64, plan: Plan) {
        let mut state = self.0.lock();
        let at = state.calls + from_now;
        state.plan = Some((at, plan));
    }

    pub(super) fn no_plan(&self) {
        self.0.lock().plan = None;
    }

    pub(super) fn quota(&self, quota: Option<u64>) {
        self.0.lock().quota = quota;
    }

    pub(super) fn blocks(&self) -> u64 {
        self.0.lock().files.iter().map(|file| file.blocks.len() as u64).sum()
    }

    pub(super) fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    pub(super) fn reads(&self) -> u64 {
        self.0.lock().reads
    }

    pub(super) fn sync_failed(&self) -> bool {
        self.0.lock().sync_failed
    }

    /// The process ends; its writes are still visible.
    pub(super) fn kill(&self) {
        let mut state = self.0.lock();
        state.generation += 1;
        state.locked = None;
        state.crashed = false;
        state.plan = None;
        state.staging = Default::default();
    }

    /// The machine loses power.
    pub(super) fn power_cut(&self) {
        self.kill();
        let mut state = self.0.lock();
        let mut dice = Dice(state.dice);
        for file in &mut state.files {
            let all = dice.below(4);
            for pending in std::mem::take(&mut file.pending) {
                match pending {
                    // None of them, all of them, or each at random.
                    _ if all == 0 => {}
                    Change::Write(at, data) if all > 1 => {
                        let mut done = 0;
                        while done < data.len() {
                            let sector = 512 - (at as usize + done) % 512;
                            let part = sector.min(data.len() - done);
                            if dice.one_in(2) {
                                let data = data[done..done + part].to_vec();
                                change(&mut file.medium, &Change::Write(at + done as u64, data));
                            }
                            done += part;
                        }
                    }
                    Change::Len(_) if all > 1 && dice.one_in(2) => {}
                    whole => change(&mut file.medium, &whole),
                }
            }
            file.shown = file.medium.clone();
        }
        state.dice = dice.roll();
    }

    /// Copies the files of another disk.
    pub(super) fn copy(&self, other: &Self) {
        let (files, exists) = {
            let other = other.0.lock();
            (other.files.clone(), other.exists)
        };
        let mut state = self.0.lock();
        (state.files, state.exists) = (files, exists);
    }

    pub(super) fn file(&self, name: FileName) -> Stored {
        self.0.lock().files[index(name)].clone()
    }

    /// The last write that no sync has covered yet, and its offset.
    pub(super) fn last_write(&self, name: FileName) -> Option<(u64, Vec<u8>)> {
        match self.0.lock().files[index(name)].pending.last()? {
            Change::Write(at, data) => Some((*at, data.clone())),
            Change::Len(_) => None,
        }
    }

    pub(super) fn set_file(&self, name: FileName, file: Stored) {
        self.0.lock().files[index(name)] = file;
    }

    /// Changes bytes on the medium directly.
    pub(super) fn poke(&self, name: FileName, poke: impl FnOnce(&mut Vec<u8>)) {
        let file = &mut self.0.lock().files[index(name)];
        poke(&mut file.shown);
        file.medium = file.shown.clone();
        file.pending.clear();
    }
}

impl SimFile {
    fn stored<T>(&self, with: impl FnOnce(&mut Stored) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.0.lock();
        if state.generation != self.generation || state.crashed {
            return Err(io::Error::other("this process has ended"));
        }
        let files = if self.staging { &mut state.staging } else { &mut state.files };
        with(&mut files[index(self.name)])
    }

    /// Counts a call that changes something. Returns what must happen to it.
    fn called(&self, sync: bool) -> io::Result<Option<Plan>> {
        self.stored(|_| Ok(()))?;
        let mut state = self.disk.0.lock();
        let now = state.calls;
        state.calls += 1;
        let plan = match state.plan {
            Some((_, Plan::FailSync)) if !sync => None,
            Some((at, plan)) if at == now || (plan == Plan::FailOn && now > at) => Some(plan),
            _ => None,
        };
        state.sync_failed |= sync && plan.is_some();
        Ok(plan)
    }

    fn fails(&self, plan: Plan) -> io::Error {
        if plan == Plan::Crash {
            self.disk.0.lock().crashed = true;
        }
        match plan {
            Plan::FullOnce => io::ErrorKind::StorageFull.into(),
            _ => io::Error::other("planned"),
        }
    }

    fn admit(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        let taken: usize = state.files.iter().map(|file| file.blocks.len()).sum();
        let quota = state.quota;
        let files = if self.staging { &mut state.staging } else { &mut state.files };
        let own = &mut files[index(self.name)].blocks;
        let touched = offset / BLOCK..(offset + len).div_ceil(BLOCK);
        let fresh: Vec<u64> = touched.filter(|block| !own.contains(block)).collect();
        if quota.is_some_and(|quota| (taken + fresh.len()) as u64 > quota && !fresh.is_empty()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        own.extend(fresh);
        Ok(())
    }
}

const BLOCK: u64 = 4096;

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.stored(|file| Ok(file.shown.len() as u64))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.0.lock().reads += 1;
        self.stored(|file| {
            let from = offset as usize;
            let bytes = file.shown.get(from..from + out.len());
            out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let plan = self.called(false)?;
        self.admit(offset, data.len() as u64)?;
        let part = match plan {
            None => data.len(),
            Some(Plan::FullOnce) => 0,
            Some(_) => {
                let mut state = self.disk.0.lock();
                let mut dice = Dice(state.dice);
                state.dice = dice.roll();
                // Often all of it: after an error any part may be written.
                if dice.one_in(2) { data.len() } else { dice.below(data.len() as u64) as usize }
            }
        };
        self.stored(|file| {
            let write = Change::Write(offset, data[..part].to_vec());
            change(&mut file.shown, &write);
            file.pending.push(write);
            Ok(())
        })?;
        plan.map_or(Ok(()), |plan| Err(self.fails(plan)))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let plan = self.called(false)?;
        if let Some(plan) = plan {
            return Err(self.fails(plan));
        }
        self.stored(|file| {
            change(&mut file.shown, &Change::Len(len));
            file.pending.push(Change::Len(len));
            file.blocks.retain(|block| *block < len.div_ceil(BLOCK));
            Ok(())
        })
    }

    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        self.admit(from, to - from)?;
        self.set_len(to)
    }

    fn sync(&self) -> io::Result<()> {
        let plan = self.called(true)?;
        let crash = plan == Some(Plan::Crash);
        self.stored(|file| {
            let pending = if crash { Vec::new() } else { std::mem::take(&mut file.pending) };
            if plan.is_none() {
                for pending in pending {
                    change(&mut file.medium, &pending);
                }
            }
            Ok(())
        })?;
        plan.map_or(Ok(()), |plan| Err(self.fails(plan)))
    }
}

impl Disk for SimDisk {
    fn folder(&self) -> &Path {
        Path::new("simulated")
    }

    fn found(&self) -> io::Result<Found> {
        Ok(if self.0.lock().exists { Found::Whole } else { Found::Nothing })
    }

    fn stage(&self) -> io::Result<Box<dyn Staging>> {
        self.0.lock().staging = Default::default();
        Ok(Box::new(StagingFolder(self.clone())))
    }

    fn open_journal(&self, _: Access) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let mut state = self.0.lock();
        if state.locked.as_ref().is_some_and(|held| held.strong_count() > 0) {
            return Ok(None);
        }
        let generation = state.generation;
        let file = Arc::new(SimFile {
            disk: self.clone(),
            generation,
            name: FileName::Journal,
            staging: false,
        });
        state.locked = Some(Arc::downgrade(&file));
        Ok(Some(file))
    }

    fn open_base(&self, _: Access) -> io::Result<Arc<dyn DiskFile>> {
        let generation = self.0.lock().generation;
        Ok(Arc::new(SimFile {
            disk: self.clone(),
            generation,
            name: FileName::Base,
            staging: false,
        }))
    }
}

struct StagingFolder(SimDisk);

impl Staging for StagingFolder {
    fn create(&self, name: FileName) -> io::Result<Arc<dyn DiskFile>> {
        let generation = self.0.0.lock().generation;
        Ok(Arc::new(SimFile { disk: self.0.clone(), generation, name, staging: true }))
    }

    fn settle(self: Box<Self>) -> io::Result<bool> {
        let probe = SimFile {
            disk: self.0.clone(),
            generation: self.0.0.lock().generation,
            name: FileName::Base,
            staging: true,
        };
        if let Some(plan) = probe.called(false)? {
            return Err(probe.fails(plan));
        }
        let mut state = self.0.0.lock();
        let mut files = std::mem::take(&mut state.staging);
        for file in &mut files {
            file.medium = file.shown.clone();
            file.pending.clear();
        }
        state.files = files;
        state.exists = true;
        Ok(true)
    }
}
