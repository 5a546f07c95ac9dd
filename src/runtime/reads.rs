//! Reads of tasks that hold the engine's lock for one bounded step. What is long or on the disk is
//! read from a snapshot, without the lock; the rows of one task may be of different snapshots.

use crate::engine::context::sound;
use crate::engine::dependencies::FoundTasks;
use crate::engine::description::{self, TaskDescription};
use crate::engine::explain;
use crate::engine::history;
use crate::engine::lines;
use crate::engine::payload::{Payload, StoredPayload};
use crate::engine::pieces::Assembly;
use crate::engine::query;
use crate::engine::take::ReadTaken;
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Key, Range};
use crate::format::{Met, Tag, Value, View};
use crate::runtime::commit::EngineState;
use crate::runtime::shared::Shared;
use crate::store::Snapshot;
use crate::words::clock::Now;
use crate::words::durability::Durability;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::explain::Explanation;
use crate::words::history::History;
use crate::words::limits::{PAGE_BYTES, PAGE_TASKS, PIECES_OF_STEP, READS_MAX, TUBES_OF_STEP};
use crate::words::sync::Ordering;
use crate::words::task::{TaskId, TaskInfo, TaskSummary, Ticket};
use crate::words::task_gates::TaskGates;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

impl Shared {
    /// Reads a snapshot that is taken under the engine's lock, without it.
    pub(crate) fn read_snapshot<T, R>(
        &self,
        take: impl Fn(&EngineState, Now) -> Result<(Snapshot, T)>,
        read: impl Fn(&Snapshot, T) -> Result<R>,
    ) -> Result<R> {
        loop {
            let (snapshot, context) = self.look_at(&take)?;
            let opening = snapshot.opening();
            let read = read(&snapshot, context);
            drop(snapshot);
            let Err(error) = read else { return read };
            let mut state = self.state.lock();
            if state.store.refuses_reads(&error) {
                drop(state);
                self.await_reopening();
            } else if let Some(error) = state.store.failed_read(&opening, error) {
                state.reopen_after(&error);
                return Err(error);
            }
        }
    }

    /// Reads rows that are lacking: at least one, and no more after a page's worth of bytes.
    pub(crate) fn gather(&self, rows: &mut Gathered) -> Result<()> {
        let keys: Vec<_> = rows.lacking.take().into_iter().collect();
        let read = self.read_snapshot(
            |state, _| state.store.snapshot_rows(&keys),
            |snapshot, count| {
                let (mut read, mut bytes) = (Vec::new(), 0);
                for key in keys.iter().take(count) {
                    if bytes >= PAGE_BYTES {
                        break;
                    }
                    let row = match snapshot.get(key) {
                        Err(error) if error.kind() == ErrorKind::Damaged => Err(()),
                        row => Ok(row?),
                    };
                    bytes += row.as_ref().ok().and_then(Option::as_ref).map_or(0, |row| row.len());
                    read.push((key::copy(key), row));
                }
                Ok(read)
            },
        )?;
        rows.found.extend(read);
        Ok(())
    }

    /// What `find` finds in a tube, with its payload.
    pub(crate) fn peek(
        &self,
        number: u32,
        find: impl Fn(&dyn View, &TubeEntry, Now) -> Result<Option<TaskDescription>>,
    ) -> Result<Option<TaskInfo>> {
        let found = self.with_payload(number, |view, tube, now| {
            let Some(found) = find(view, tube, now)? else { return Ok(None) };
            let payload = found.payload(view, tube)?;
            Ok(Some((found, payload)))
        })?;
        Ok(found.map(|(found, payload)| found.with(payload)))
    }

    /// What `find` finds in a tube, with the payload that it had then.
    pub(crate) fn with_payload<R>(
        &self,
        number: u32,
        find: impl Fn(&dyn View, &TubeEntry, Now) -> Result<Option<(R, StoredPayload)>>,
    ) -> Result<Option<(R, Payload)>> {
        self.catch_up(number)?;
        let look = |state: &EngineState, now: Now| {
            let tube = state.tube(number)?;
            find(&state.store, &tube, now)
        };
        for _ in 0..READS_MAX {
            let Some((found, payload)) = self.look_at(look)? else { return Ok(None) };
            if let Some(payload) = sound(self.read_payload(payload))? {
                return Ok(Some((found, payload)));
            }
        }
        // Each time its payload may have been replaced after it was found. Under the lock, where
        // all calls wait for a long payload, that cannot happen.
        self.look_at(|state, now| {
            let Some((found, payload)) = look(state, now)? else { return Ok(None) };
            Ok(Some((found, payload.read(&state.store)?)))
        })
    }

    /// A task of any tube, with its payload.
    pub(crate) fn find(&self, id: TaskId) -> Result<Option<TaskInfo>> {
        loop {
            let Some(number) = self.tube_with(id)? else { return Ok(None) };
            match self
                .peek(number, |view, tube, now| description::info(view, tube, id, now).map(Some))
            {
                Err(error) if error.is_not_found() => {
                    if !self.has_moved(id)? {
                        return Ok(None);
                    }
                }
                found => return found,
            }
        }
    }

    /// Where these tasks are, of which each may be in any tube.
    pub(crate) fn find_all(&self, ids: &[TaskId]) -> Result<FoundTasks> {
        let mut found = FoundTasks::before(u64::MAX);
        for some in ids.chunks(TUBES_OF_STEP) {
            let last = self.last_found();
            let (next, known) = self.look_at(|state, _| {
                let look = |id: &TaskId| match state.was_given(*id) {
                    true => look_where_known(state, *id, last),
                    false => Ok(None),
                };
                let known = some.iter().map(look).collect::<Result<SmallVec<[_; 1]>>>()?;
                Ok((state.next_id(), known))
            })?;
            found.next = found.next.min(next);
            for (id, known) in some.iter().zip(known) {
                let number = match known {
                    None if (1..next).contains(&id.get()) => self.tube_with(*id)?,
                    known => known,
                };
                if let Some(number) = number {
                    self.note_found(number);
                    found.tubes.insert(*id, number);
                }
            }
        }
        Ok(found)
    }

    /// Whether a gate of its own keeps a task from being taken now.
    pub(crate) fn is_stopped(&self, task: &TaskSummary) -> Result<bool> {
        let required = task.requires.iter().map(String::as_str).collect();
        let throttles = task.throttles.iter().map(String::as_str).collect();
        let gates = TaskGates { required, throttles };
        if gates.is_empty() {
            return Ok(false);
        }
        let is_closed = |view: &dyn View, now: Now| {
            let gates = gates.line();
            Ok(lines::gates_of(view, &gates, now)?.iter().any(|gate| gate.free == 0))
        };
        self.look(is_closed)
    }

    /// The history of a task of any tube; `None` if no tube has the task.
    pub(crate) fn history(&self, id: TaskId) -> Result<Option<History>> {
        loop {
            let Some(number) = self.tube_with(id)? else { return Ok(None) };
            self.catch_up(number)?;
            let read = |state: &EngineState, now| {
                let tube = state.tube(number)?;
                history::read(&state.store, &tube, id, now).map(Some)
            };
            match self.look_at(read) {
                Err(error) if error.is_not_found() => {
                    if !self.has_moved(id)? {
                        return Ok(None);
                    }
                }
                found => return found,
            }
        }
    }

    /// Whether a row says that a task came from another tube. One that is not found where it was
    /// may then be in a third.
    pub(crate) fn has_moved(&self, id: TaskId) -> Result<bool> {
        self.look(|view, _| Ok(query::moved_to(view, id)?.is_some()))
    }

    /// The tube that has this task. Looks first where the last one was found, by whatever call.
    pub(crate) fn tube_with(&self, id: TaskId) -> Result<Option<u32>> {
        let last = self.last_found();
        let found = self.search_tubes(id, last)?;
        if let Some(number) = found {
            self.note_found(number);
        }
        Ok(found)
    }

    /// Into which tube the next search looks first.
    pub(crate) fn last_found(&self) -> u32 {
        self.last_found.load(Ordering::Relaxed) as u32
    }

    /// The next search looks into this tube first.
    fn note_found(&self, number: u32) {
        if self.last_found.load(Ordering::Relaxed) != number as usize {
            self.last_found.store(number as usize, Ordering::Relaxed);
        }
    }

    /// Looks into the tube `first`, then into the one that a row names, if the task came from
    /// another one, and then into a few tubes at a time, so that what the engine's lock is held for
    /// does not depend on the number of tubes.
    ///
    /// # Errors
    /// `Damaged` if no tube has it, and one could not be read.
    fn search_tubes(&self, id: TaskId, first: u32) -> Result<Option<u32>> {
        let look_where_known = |state: &EngineState, _| look_where_known(state, id, first);
        let look =
            |state: &EngineState, now| Ok((look_where_known(state, now)?, state.was_given(id)));
        let (found, was_given) = self.look_at(look)?;
        if found.is_some() || !was_given {
            return Ok(found);
        }
        let (mut from, mut damage) = (Some(0), None);
        while let Some(first) = from {
            let (looked, next) = self.look_at(|state, _| {
                let (numbers, next) = query::numbers_from(&state.store, first, TUBES_OF_STEP)?;
                Ok((look_into(state, id, &numbers)?, next))
            })?;
            match looked {
                InTubes::Found(number) => return Ok(Some(number)),
                InTubes::NotFound => {}
                InTubes::Unread(error) => damage = Some(error),
            }
            from = next;
        }
        // It may have gone meanwhile from a tube that was not looked into to one that was.
        match (self.look_at(look_where_known)?, damage) {
            (None, Some(error)) => Err(error),
            (found, _) => Ok(found),
        }
    }

    /// Why a task of any tube is not running.
    pub(crate) fn explain(&self, id: TaskId) -> Result<Option<Explanation>> {
        self.in_its_tube(id, |state, tube, now| explain::explain(&state.store, tube, id, now))
    }

    /// The name of the tube that has this task.
    pub(crate) fn name_of_tube_with(&self, id: TaskId) -> Result<Option<String>> {
        self.in_its_tube(id, |state, tube, _| {
            let missing = || Error::new(ErrorKind::TaskNotFound);
            let has_it = sound(query::has(&state.store, tube, id))?.unwrap_or(true);
            has_it.then(|| tube.row.name.clone()).ok_or_else(missing)
        })
    }

    /// What is read of a task of any tube, after all that is due in its tube was handled. `None` if
    /// no tube has it, or if it or its tube has gone meanwhile.
    pub(crate) fn in_its_tube<R>(
        &self,
        id: TaskId,
        read: impl Fn(&EngineState, &TubeEntry, Now) -> Result<R>,
    ) -> Result<Option<R>> {
        loop {
            let Some(number) = self.tube_with(id)? else { return Ok(None) };
            let look = |state: &EngineState, now: Now| {
                let tube = state.tube(number)?;
                read(state, &tube, now)
            };
            let found = self.catch_up(number).and_then(|()| self.look_at(look));
            match found {
                Err(error) if error.is_not_found() => {
                    if !self.has_moved(id)? {
                        return Ok(None);
                    }
                }
                found => return found.map(Some),
            }
        }
    }

    /// A payload that was found.
    ///
    /// # Errors
    /// `Damaged` if a piece is damaged or missing, also if the task has gone meanwhile.
    pub(crate) fn read_payload(&self, found: StoredPayload) -> Result<Payload> {
        match found {
            StoredPayload::Read(payload) => Ok(payload),
            StoredPayload::Separate(apart) => self.assemble(Assembly::new(apart.0, apart.1)),
        }
    }

    fn assemble(&self, mut payload: Assembly) -> Result<Payload> {
        loop {
            let keys: Vec<_> = payload.lacking().take(PIECES_OF_STEP).collect();
            if keys.is_empty() {
                return payload.finish().map(Payload::Whole);
            }
            let read = self.read_snapshot(
                |state, _| state.store.snapshot_rows(&keys),
                |snapshot, count| {
                    let read = keys.iter().take(count);
                    read.map(|key| Ok(sound(snapshot.get(key))?.flatten()))
                        .collect::<Result<Vec<_>>>()
                },
            )?;
            read.into_iter().try_for_each(|piece| payload.push(piece))?;
        }
    }

    /// The payload of a task that was handed out. If it is damaged, the task is buried.
    ///
    /// # Errors
    /// `LeaseLost` if the task was buried, or was lost before the whole payload was read.
    #[cold]
    pub(crate) fn read_taken(
        &self,
        tube: u32,
        ticket: Ticket,
        found: StoredPayload,
    ) -> Result<Payload> {
        match sound(self.read_payload(found))? {
            Some(payload) => Ok(payload),
            None => self.run(&ReadTaken { tube, ticket }, Durability::Relaxed),
        }
    }
}

/// What a look for a task in some tubes has found.
enum InTubes {
    /// This tube has it.
    Found(u32),
    NotFound,
    /// A tube could not be read, and none of the others has it: it may be there.
    Unread(Error),
}

/// The first of these tubes that has the task.
fn look_into(state: &EngineState, id: TaskId, numbers: &[u32]) -> Result<InTubes> {
    let mut looked = InTubes::NotFound;
    for number in numbers {
        let tube = match state.tube(*number) {
            Err(error) if error.is_not_found() => continue,
            Err(error) if error.kind() == ErrorKind::Damaged => {
                looked = InTubes::Unread(error);
                continue;
            }
            tube => tube?,
        };
        if query::tasks(&state.store, &tube) > 0
            && sound(query::has(&state.store, &tube, id))?.unwrap_or(true)
        {
            return Ok(InTubes::Found(*number));
        }
    }
    Ok(looked)
}

/// The same of the tube `first`, and of the one that a row names, if the task came from another.
fn look_where_known(state: &EngineState, id: TaskId, first: u32) -> Result<Option<u32>> {
    let moved = query::moved_to(&state.store, id)?;
    let known: SmallVec<[u32; 2]> = [first].into_iter().chain(moved).collect();
    Ok(match look_into(state, id, &known)? {
        InTubes::Found(number) => Some(number),
        // The search over all tubes meets it again.
        InTubes::NotFound | InTubes::Unread(_) => None,
    })
}

/// Rows that were read, and the keys of those that were asked for and are lacking.
#[derive(Default)]
pub(crate) struct Gathered {
    /// A damaged one is an error.
    found: BTreeMap<Key, Result<Option<Value>, ()>>,
    lacking: RefCell<BTreeSet<Key>>,
    /// How many ids are tracked.
    tracked: u64,
}

impl Gathered {
    /// Of a queue that tracks so many ids.
    pub(crate) fn with_tracked(tracked: u64) -> Self {
        Self { tracked, ..Self::default() }
    }

    pub(crate) fn lacks_some(&self) -> bool {
        !self.lacking.borrow().is_empty()
    }

    /// Whether it notes no more keys until the noted ones are read.
    pub(crate) fn lacks_many(&self) -> bool {
        self.lacking.borrow().len() >= PAGE_TASKS
    }
}

#[cfg(test)]
impl Gathered {
    /// How many rows were read for it.
    pub(crate) fn asked(&self) -> usize {
        self.found.len()
    }
}

/// Answers as if the lacking rows did not exist, and notes their keys. Only `get` is used, and the
/// count of tracked ids.
impl View for Gathered {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        match self.found.get(key) {
            Some(Ok(row)) => Ok(row.clone()),
            Some(Err(())) => Err(Error::new(ErrorKind::Damaged)),
            None => {
                if !self.lacks_many() {
                    self.lacking.borrow_mut().insert(key::copy(key));
                }
                Ok(None)
            }
        }
    }

    fn first(&self, _: &[u8], _: &[u8]) -> Result<Option<Met>> {
        Ok(None)
    }

    fn count(&self, range: Range) -> u64 {
        if range.tag == Tag::Tracked { self.tracked } else { 0 }
    }

    fn durable_bytes(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests;
