//! The walk over the tasks of an index by the time of their ends, backwards and page by page. The
//! engine's lock is held for one bounded step at a time.

use crate::engine::context::sound;
use crate::engine::description;
use crate::format::key::{self, Key, Run};
use crate::format::{Range, Tag, View};
use crate::runtime::commit::EngineState;
use crate::runtime::failed::TubesByRun;
use crate::runtime::shared::Shared;
use crate::words::error::Result;
use crate::words::task::TaskSummary;
use smallvec::{SmallVec, smallvec};
use std::collections::VecDeque;

/// Keys that all pages of a walk have together, unless its indexes are so many that each has only
/// the least number.
const KEYS_MAX: usize = 4096;
const KEYS_LEAST: usize = 4;

/// Which tasks a walk is over.
pub(crate) enum EndIndex {
    /// The buried ones of a failure group.
    Failed(String),
    /// The buried ones.
    Buried,
    /// The finished ones.
    Finished,
    /// Those in the trash.
    Trashed,
}

/// A walk over tasks that have ended, the last one first.
pub(crate) struct EndedWalk {
    /// None before the first task is asked for.
    lanes: Option<SmallVec<[IndexWalk; 2]>>,
    /// The tube; none for a walk over all tubes.
    number: Option<u32>,
    which: EndIndex,
    /// The tubes of a walk over all tubes, as of its beginning.
    runs: Option<TubesByRun>,
    /// The end of the key of the last row that it passed by: in order in all lanes.
    place: Option<Key>,
}

/// A walk over index rows, backwards and page by page.
struct IndexWalk {
    start: Key,
    /// Where the rows that were not read yet end; none once all were read.
    end: Option<Key>,
    page: VecDeque<Key>,
    /// Keys of a page.
    most: usize,
}

impl IndexWalk {
    /// One of so many that are walked over side by side, whose pages are in memory together.
    fn over(prefix: Key, lanes: usize) -> Self {
        let most = (KEYS_MAX / lanes.max(1)).max(KEYS_LEAST);
        Self { end: Some(key::end_of(&prefix)), start: prefix, page: VecDeque::new(), most }
    }

    /// Leaves out the rows up to the one whose key ends so.
    fn go_on_after(&mut self, place: &Key) {
        let mut end = key::copy(&self.start);
        end.extend_from_slice(place);
        self.end = Some(end);
    }

    /// The next key.
    fn peek(&mut self, core: &Shared) -> Result<Option<&Key>> {
        while self.page.is_empty() {
            let Some(end) = self.end.take() else { return Ok(None) };
            let (page, from) = core.read_snapshot(
                |state, _| Ok((state.store.snapshot_range_back(&self.start, &end)?, ())),
                |snapshot, ()| snapshot.keys_back(self.most),
            )?;
            self.page = page;
            self.end = (from > self.start).then_some(from);
        }
        Ok(self.page.front())
    }
}

impl EndIndex {
    /// The beginning of the keys of the index, of one tube.
    fn in_run(&self, run: Run) -> Key {
        match self {
            Self::Failed(group) => key::buried_group_of(run, group),
            Self::Buried => Range::in_run(Tag::BuriedTime, run).start(),
            Self::Finished => Range::in_run(Tag::DoneTime, run).start(),
            Self::Trashed => Range::in_run(Tag::TrashedTime, run).start(),
        }
    }

    /// The same of all tubes, which have these runs. Only failed tasks have an index of all tubes:
    /// the indexes of the others are walked over side by side.
    fn in_queue(&self, runs: &TubesByRun) -> SmallVec<[IndexWalk; 2]> {
        match self {
            Self::Failed(group) => {
                Run::BOTH.map(|run| IndexWalk::over(key::failed_of(run, group), 2)).into()
            }
            _ => {
                let held = |run: &Run| match self {
                    Self::Finished => Some(Range::in_run(Tag::HeldTime, *run).start()),
                    _ => None,
                };
                let starts = runs
                    .keys()
                    .flat_map(|run| [Some(self.in_run(*run)), held(run)].into_iter().flatten());
                let starts: Vec<_> = starts.collect();
                let lanes = starts.len();
                starts.into_iter().map(|start| IndexWalk::over(start, lanes)).collect()
            }
        }
    }

    /// The tag of the tasks, by which tubes without any are left out.
    fn tag(&self) -> Tag {
        match self {
            Self::Failed(_) | Self::Buried => Tag::Buried,
            Self::Finished => Tag::Done,
            Self::Trashed => Tag::Trashed,
        }
    }

    /// The run of the tube in a key of all tubes.
    fn run_of(&self, key: &[u8]) -> Option<Run> {
        match self {
            Self::Failed(_) => key::run_of_failed(key),
            _ => Range::holding(key).and_then(|range| range.run),
        }
    }
}

impl EndedWalk {
    /// Over those of one tube, or of all.
    pub(crate) fn new(number: Option<u32>, which: EndIndex) -> Self {
        Self { lanes: None, number, which, runs: None, place: None }
    }

    /// The same, from where another walk over the same index has come to.
    pub(crate) fn after(self, place: Key) -> Self {
        Self { place: Some(place), lanes: None, ..self }
    }

    /// Where it has come to; none at the beginning.
    pub(crate) fn place(&self) -> Option<&Key> {
        self.place.as_ref()
    }

    /// The next task.
    pub(crate) fn next(&mut self, core: &Shared) -> Result<Option<TaskSummary>> {
        if self.lanes.is_none() {
            // After an error there are none, and the walk is over.
            self.lanes = Some(SmallVec::new());
            let mut lanes = self.begin(core)?;
            if let Some(place) = &self.place {
                lanes.iter_mut().for_each(|lane| lane.go_on_after(place));
            }
            self.lanes = Some(lanes);
        }
        loop {
            let Some((place, number, key)) = self.pop(core)? else { return Ok(None) };
            let Some(number) = number else {
                self.place = Some(place);
                continue;
            };
            let look = |state: &EngineState, now| {
                // It may have left the index since its page was read.
                let (Some(id), Some(_)) = (key::id_of(&key), state.store.row(&key)?) else {
                    return Ok(None);
                };
                let tube = state.tube(number)?;
                sound(description::info(&state.store, &tube, id, now))
                    .map(|it| it.map(|it| it.summary))
            };
            let found = match core.catch_up(number).and_then(|()| core.look_at(look)) {
                Err(error) if error.is_not_found() => None,
                // After an error a cursor stands before it.
                found => found?,
            };
            self.place = Some(place);
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    fn begin(&mut self, core: &Shared) -> Result<SmallVec<[IndexWalk; 2]>> {
        Ok(match self.number {
            Some(number) => {
                let run = core.look_at(|state, _| Ok(state.tube(number)?.run()))?;
                match self.which {
                    EndIndex::Finished => {
                        let held = Range::in_run(Tag::HeldTime, run).start();
                        smallvec![
                            IndexWalk::over(self.which.in_run(run), 2),
                            IndexWalk::over(held, 2)
                        ]
                    }
                    _ => smallvec![IndexWalk::over(self.which.in_run(run), 1)],
                }
            }
            None => {
                let runs = self.runs.insert(core.tubes_with(self.which.tag())?);
                self.which.in_queue(runs)
            }
        })
    }

    /// The next index row: the end of its key, its tube, if that exists, and its key.
    fn pop(&mut self, core: &Shared) -> Result<Option<(Key, Option<u32>, Key)>> {
        let mut best: Option<(Key, &mut IndexWalk)> = None;
        for lane in self.lanes.iter_mut().flatten() {
            let prefix = lane.start.len();
            let Some(key) = lane.peek(core)? else { continue };
            let rank = Key::from_slice(key.get(prefix..).unwrap_or_default());
            if best.as_ref().is_none_or(|(best, _)| *best < rank) {
                best = Some((rank, lane));
            }
        }
        let Some((rank, lane)) = best else { return Ok(None) };
        let Some(key) = lane.page.pop_front() else { return Ok(None) };
        let number = match &self.runs {
            None => self.number,
            Some(runs) => self.which.run_of(&key).and_then(|run| runs.get(&run).copied()),
        };
        Ok(Some((rank, number, key)))
    }
}
