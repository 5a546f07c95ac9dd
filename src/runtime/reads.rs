//! Reads of tasks that hold the engine's lock for one bounded step. What is long or on the disk is
//! read from a snapshot, without the lock; the rows of one task may be of different snapshots.

use crate::engine::context::sound;
use crate::engine::description::{self, TaskDescription};
use crate::engine::explain;
use crate::engine::fresh;
use crate::engine::history;
use crate::engine::payload::{Payload, StoredPayload};
use crate::engine::pieces::Assembly;
use crate::engine::query;
use crate::engine::take::ReadTaken;
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Key, RUN_PREFIX, Range};
use crate::format::{Deadline, Met, Tag, Value, View};
use crate::runtime::commit::EngineState;
use crate::runtime::shared::Shared;
use crate::store::Snapshot;
use crate::words::clock::Now;
use crate::words::durability::Durability;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::explain::Explanation;
use crate::words::history::History;
use crate::words::limits::{PAGE_BYTES, PAGE_TASKS, PIECES_OF_STEP, TUBES_OF_STEP};
use crate::words::sync::Ordering;
use crate::words::task::{State, TakenInfo, TaskId, TaskInfo, TaskSummary, Ticket};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
    fn gather(&self, rows: &mut Gathered) -> Result<()> {
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
        let look = |state: &EngineState, now: Now| find(&state.store, &state.tube(number)?, now);
        let Some((found, payload)) = self.look_at(look)? else { return Ok(None) };
        if let Some(payload) = sound(self.read_payload(payload))? {
            return Ok(Some((found, payload)));
        }
        // The task may have gone after it was found. Under the lock that cannot happen.
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
    fn has_moved(&self, id: TaskId) -> Result<bool> {
        self.look(|view, _| Ok(query::moved_to(view, id)?.is_some()))
    }

    /// The tube that has this task. Looks first where the last one was found, by whatever call.
    pub(crate) fn tube_with(&self, id: TaskId) -> Result<Option<u32>> {
        let last = self.last_found.load(Ordering::Relaxed) as u32;
        let found = self.search_tubes(id, last)?;
        if let Some(number) = found.filter(|number| *number != last) {
            self.last_found.store(number as usize, Ordering::Relaxed);
        }
        Ok(found)
    }

    /// Looks into the tube `first`, then into the one that a row names, if the task came from
    /// another one, and then into a few tubes at a time, so that what the engine's lock is held for
    /// does not depend on the number of tubes.
    fn search_tubes(&self, id: TaskId, first: u32) -> Result<Option<u32>> {
        let look_into = |state: &EngineState, numbers: &[u32]| {
            for number in numbers {
                let tube = match state.tube(*number) {
                    Err(error) if error.is_not_found() => continue,
                    tube => sound(tube)?,
                };
                let Some(tube) = tube else { continue };
                if query::tasks(&state.store, &tube) > 0
                    && sound(query::has(&state.store, &tube, id))?.unwrap_or(true)
                {
                    return Ok(Some(*number));
                }
            }
            Ok(None)
        };
        let look_where_known = |state: &EngineState, _| {
            let moved = query::moved_to(&state.store, id)?;
            let known: SmallVec<[u32; 2]> = [first].into_iter().chain(moved).collect();
            look_into(state, &known)
        };
        if let Some(found) = self.look_at(look_where_known)? {
            return Ok(Some(found));
        }
        let mut from = Some(0);
        while let Some(first) = from {
            let (found, next) = self.look_at(|state, _| {
                let (numbers, next) = query::numbers_from(&state.store, first, TUBES_OF_STEP)?;
                Ok((look_into(state, &numbers)?, next))
            })?;
            if found.is_some() {
                return Ok(found);
            }
            from = next;
        }
        // It may have gone meanwhile from a tube that was not looked into to one that was.
        self.look_at(look_where_known)
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
            let found = self
                .catch_up(number)
                .and_then(|()| self.look_at(|state, now| read(state, &state.tube(number)?, now)));
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
    fn read_payload(&self, found: StoredPayload) -> Result<Payload> {
        match found {
            StoredPayload::Read(payload) => Ok(payload),
            StoredPayload::Apart(apart) => self.assemble(Assembly::new(apart.0, apart.1)),
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

/// Rows that were read, and the keys of those that were asked for and are lacking.
#[derive(Default)]
struct Gathered {
    /// A damaged one is an error.
    found: BTreeMap<Key, Result<Option<Value>, ()>>,
    lacking: RefCell<BTreeSet<Key>>,
}

impl Gathered {
    fn lacks_some(&self) -> bool {
        !self.lacking.borrow().is_empty()
    }

    /// Whether it notes no more keys until the noted ones are read.
    fn lacks_many(&self) -> bool {
        self.lacking.borrow().len() >= PAGE_TASKS
    }
}

/// Answers as if the lacking rows did not exist, and notes their keys. Only `get` is used.
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

    fn count(&self, _: Range) -> u64 {
        0
    }

    fn durable_bytes(&self) -> u64 {
        0
    }
}

/// A walk over the tasks of one state: the ready ones in the order of takes, the delayed ones by
/// when they are due, the taken ones by when their leases end. The fresh tasks among the ready ones
/// are a lane of their own, and so are the delayed ones of each clock and those without an end.
pub(crate) struct Listing {
    lanes: SmallVec<[Lane; 2]>,
    /// When it read its first row. The deadlines of two clocks are compared as of then on every
    /// page, so the order does not change when a clock is set.
    begun: Option<Now>,
}

impl Listing {
    pub(crate) fn new(number: u32, state: State) -> Self {
        let due = Deadline::of_state(state).iter().copied().map(Walked::Due);
        let mut walked: SmallVec<[Walked; 3]> = due.collect();
        match state {
            State::Ready => walked.extend([Walked::Of(state), Walked::Rows(Tag::Fresh)]),
            State::Delayed | State::Taken => walked.push(Walked::Endless(state)),
            State::Buried | State::Done => walked.push(Walked::Of(state)),
        }
        Self::over(number, &walked, PAGE_TASKS)
    }

    /// A walk over the taken tasks by id, for [`next_taken`](Self::next_taken).
    pub(crate) fn of_taken(number: u32) -> Self {
        Self::over(number, &[Walked::Of(State::Taken)], PAGE_TASKS)
    }

    /// A walk over the ready tasks that may be taken: those in no group, and of each group that may
    /// be taken from the first. No more than `most` rows are read at a time.
    pub(crate) fn of_takeable(number: u32, most: usize) -> Self {
        let walked = [Tag::Ready, Tag::Fresh, Tag::Turn].map(Walked::Rows);
        Self::over(number, &walked, most)
    }

    fn over(number: u32, walked: &[Walked], most: usize) -> Self {
        let lanes = walked.iter().map(|of| Lane::new(number, *of, most)).collect();
        Self { lanes, begun: None }
    }

    /// The next task, without its payload.
    pub(crate) fn next_summary(&mut self, core: &Shared) -> Result<Option<TaskSummary>> {
        self.next(core, |rows, tube, row, now| {
            Ok(description::listed(rows, tube, row, now)?.summary)
        })
    }

    /// The next task, with its payload.
    pub(crate) fn next_info(&mut self, core: &Shared) -> Result<Option<TaskInfo>> {
        loop {
            let found = self.next(core, |rows, tube, row, now| {
                let found = description::listed(rows, tube, row, now)?;
                let payload = found.payload(rows, tube)?;
                Ok((found, payload))
            })?;
            let Some((found, payload)) = found else { return Ok(None) };
            if let Some(payload) = sound(core.read_payload(payload))? {
                return Ok(Some(found.with(payload)));
            }
            // Its payload may have been replaced, or it is gone. Another one is left out, as in
            // `next`.
            if let Some(found) = self.again(core, &found.summary)? {
                return Ok(Some(found));
            }
        }
    }

    /// A task that was listed, with the payload that it has now. `None` if it is in another state
    /// or place, or damaged.
    #[cold]
    fn again(&self, core: &Shared, listed: &TaskSummary) -> Result<Option<TaskInfo>> {
        let Some(number) = self.lanes.first().map(|lane| lane.number) else { return Ok(None) };
        core.look_at(|state, now| {
            let (view, tube) = (&state.store, state.tube(number)?);
            let found = description::info(view, &tube, listed.id, now).and_then(|found| {
                let payload = found.payload(view, &tube)?.read(view)?;
                Ok(found.with(payload))
            });
            let found = match found {
                Err(error) if error.is_not_found() => None,
                found => sound(found)?,
            };
            Ok(found.filter(|found| found.state == listed.state))
        })
    }

    /// The next taken task of [`of_taken`](Self::of_taken).
    pub(crate) fn next_taken(&mut self, core: &Shared) -> Result<Option<TakenInfo>> {
        self.next(core, |rows, tube, row, now| description::taken(rows, tube, row, now))
    }

    fn next<T>(
        &mut self,
        core: &Shared,
        describe: impl Fn(&Gathered, &TubeEntry, &Met, Now) -> Result<T>,
    ) -> Result<Option<T>> {
        loop {
            let mut best: Option<(&mut Lane, (bool, Key))> = None;
            for lane in &mut self.lanes {
                // They come last, and to find them all tasks of the state are read.
                if best.is_some() && matches!(lane.of, Walked::Endless(_)) {
                    continue;
                }
                if let Some(rank) = lane.rank(core, &mut self.begun)?
                    && best.as_ref().is_none_or(|(_, best)| rank < *best)
                {
                    best = Some((lane, rank));
                }
            }
            let Some((lane, _)) = best else { return Ok(None) };
            if let Some(described) = lane.pop(core, &describe)? {
                return Ok(Some(described));
            }
        }
    }
}

/// Which rows a lane walks over.
#[derive(Clone, Copy)]
enum Walked {
    /// Those that give this state.
    Of(State),
    /// Those of this tag; under [`Tag::Fresh`] only those of fresh tasks.
    Rows(Tag),
    /// The deadlines of one kind.
    Due(Deadline),
    /// Those of the delayed or the taken tasks without an end.
    Endless(State),
}

/// A walk over rows, page by page.
struct Lane {
    number: u32,
    of: Walked,
    /// Rows of a page, at most.
    most: usize,
    /// The tube and the time as of the page; none before the first.
    at: Option<(TubeEntry, Now)>,
    /// What is left of the page.
    page: VecDeque<Met>,
    rows: Gathered,
    /// Where the next page begins; none after the last.
    next: Option<Key>,
}

impl Lane {
    fn new(number: u32, of: Walked, most: usize) -> Self {
        let (at, page, rows, next) = (None, VecDeque::new(), Gathered::default(), Some(Key::new()));
        Self { number, of, most, at, page, rows, next }
    }

    /// What orders the next row among those of other lanes; `None` after the last.
    fn rank(&mut self, core: &Shared, begun: &mut Option<Now>) -> Result<Option<(bool, Key)>> {
        while self.page.is_empty() {
            if !self.read_page(core)? {
                return Ok(None);
            }
        }
        let Some(((key, _), (_, now))) = self.page.front().zip(self.at.as_ref()) else {
            return Ok(None);
        };
        let begun = *begun.get_or_insert(*now);
        let rest = Key::from_slice(key.get(RUN_PREFIX..).unwrap_or_default());
        let is_last = match self.of {
            Walked::Due(what) => {
                let due = key::when_of(key).unwrap_or_default();
                let mut rank =
                    Key::from_slice(&due.saturating_sub(what.time_of(begun)).to_be_bytes());
                rank.push(what as u8);
                rank.extend(key::id_of(key).into_iter().flat_map(|id| id.get().to_be_bytes()));
                return Ok(Some((false, rank)));
            }
            Walked::Endless(_) => true,
            Walked::Of(_) | Walked::Rows(_) => key.first() == Some(&(Tag::Line as u8)),
        };
        Ok(Some((is_last, rest)))
    }

    /// The next task of the page; `None` if it is damaged, or at the page's end.
    fn pop<T>(
        &mut self,
        core: &Shared,
        describe: &impl Fn(&Gathered, &TubeEntry, &Met, Now) -> Result<T>,
    ) -> Result<Option<T>> {
        loop {
            let (Some(row), Some((tube, now))) = (self.page.front(), &self.at) else {
                return Ok(None);
            };
            let described = describe(&self.rows, tube, row, *now);
            if self.rows.lacks_some() {
                // The rows of the whole page are read together.
                for row in self.page.iter().skip(1) {
                    if self.rows.lacks_many() {
                        break;
                    }
                    let _ = describe(&self.rows, tube, row, *now);
                }
                core.gather(&mut self.rows)?;
                continue;
            }
            self.page.pop_front();
            match described {
                // A damaged task is skipped; `check` names it. Or the task is gone.
                Err(error) if error.kind() == ErrorKind::Damaged => return Ok(None),
                described => return described.map(Some),
            }
        }
    }

    /// The keys of the next page; `None` if there are no more rows.
    fn range(&self, view: &dyn View, tube: &TubeEntry, from: &Key) -> Result<Option<(Key, Key)>> {
        let has_rows = |start: &Key| Range::holding(start).is_some_and(|it| view.count(it) > 0);
        let mut rest = self.rest(tube, from);
        // A range without rows is not read: the base would read the rows after it.
        while let Some((_, end)) = rest.take_if(|(start, _)| !has_rows(start)) {
            rest = self.rest(tube, &end);
        }
        let Some((start, end)) = rest else { return Ok(None) };
        let is_fresh = matches!(self.of, Walked::Rows(Tag::Fresh));
        let start = if is_fresh { fresh::known(view, tube)?.max(start) } else { start };
        Ok(Some((start, end)))
    }

    /// The keys from `from` on; `None` if there are none.
    fn rest(&self, tube: &TubeEntry, from: &Key) -> Option<(Key, Key)> {
        let (start, end) = match self.of {
            Walked::Of(state) | Walked::Endless(state) => {
                return query::listed_range(tube, state, from);
            }
            Walked::Rows(tag) => (tube.range(tag).start(), tube.range(tag).end()),
            Walked::Due(what) => {
                let start = key::due_of(tube.run(), what);
                let end = key::end_of(&start);
                (start, end)
            }
        };
        Some((start.max(key::copy(from)), end)).filter(|(start, end)| start < end)
    }

    /// Reads the next rows. False if there are no more.
    fn read_page(&mut self, core: &Shared) -> Result<bool> {
        let Some(from) = self.next.take() else { return Ok(false) };
        core.catch_up(self.number)?;
        let (page, tube, now, next) = core.read_snapshot(
            |state, now| {
                let tube = state.tube(self.number)?;
                let range = self.range(&state.store, &tube, &from)?;
                let is_over = range.is_none();
                let (from, to) = range.unwrap_or_default();
                Ok((state.store.snapshot_range(&from, &to)?, (tube, now, is_over)))
            },
            |snapshot, (tube, now, is_over)| {
                let (page, next) = snapshot.page(self.most)?;
                Ok((page, tube, now, (!is_over).then_some(next)))
            },
        )?;
        self.next = next.and_then(|next| self.rest(&tube, &next)).map(|(next, _)| next);
        (self.page, self.at, self.rows) = (page, Some((tube, now)), Gathered::default());
        if let Walked::Endless(_) = self.of {
            self.page.retain(query::is_endless);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
